//! The native module of the package `larder-cache`: the part for Node that uses the Rust library.
//! The TypeScript code in `lib/` wraps it; programs do not load it directly.
//!
//! | file | contents |
//! |---|---|
//! | `cache.rs` | the class `NativeCache` and its operations |
//! | `operations.rs` | the operations that programs call most: get, store, has, delete |
//! | `scratch.rs` | the memory of JavaScript into which a get copies a value |
//! | `place.rs` | opening a cache, closing it, and following a replaced file |
//! | `key.rs`, `value.rs` | keys and values of JavaScript as bytes, and back |
//! | `load.rs` | leases, and loads in progress |
//! | `walk.rs` | iteration over keys |
//! | `client.rs` | reads in a server's memory; the placement of keys on servers |
//! | `errors.rs` | errors of the library as errors of JavaScript |
//! | `floor.rs` | functions without a cache, for measurements |
//!
//! Most functions use napi-rs. `operations.rs`, `key.rs` and `value.rs` call Node-API directly: a
//! get takes about as long as the conversions that napi-rs makes around it.
//!
//! All functions run on the thread of their event loop and wait for nothing but locks of the cache,
//! whose waits are bounded. Only `LocalReader` waits for a server; it does that on a thread of
//! libuv's pool.

#![cfg_attr(test, allow(dead_code, reason = "napi-rs registers no functions in a test program"))]

mod cache;
mod client;
mod errors;
#[cfg(feature = "floor")]
mod floor;
mod key;
mod load;
mod operations;
mod place;
mod scratch;
mod value;
mod walk;
