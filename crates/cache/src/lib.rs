//! Larder: a memcached-compatible cache as a library.
//!
//! ```
//! use larder::Cache;
//! use std::time::Duration;
//!
//! let cache = Cache::builder().memory_bytes(64 << 20).open()?;
//! cache.set(b"greeting", b"hello", Some(Duration::from_secs(60)))?;
//! assert_eq!(cache.get(b"greeting").as_deref(), Some(&b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Cache`] is one region of memory with everything in it, index and statistics included: it never takes
//! more than it was given, plus the pages of this library's code and a few hundred bytes a thread. It is
//! `Send + Sync + Clone`; clones are the same cache. No operation starts a thread, reads a file or waits
//! for another reader.
//!
//! **Memory of an item**, in bytes: `8 + key + value`, plus 8 with cas tokens, plus 4 with a TTL, plus 4 with
//! client flags, rounded up to 8; plus 12 to 14 of index. A value larger than an eighth of a segment (a
//! segment is a 256th of the memory, 64 KiB at least, 1 MiB at most) is kept in pieces: 24 bytes more for
//! each.
//!
//! Files in reading order: [`cache`], [`builder`], [`clock`], [`large`], `seats`.
#![forbid(unsafe_code)]

pub mod builder;
pub mod cache;
pub mod clock;
pub mod large;
mod seats;

pub use builder::{Builder, OpenError};
pub use cache::Cache;
pub use clock::Clock;
pub use larder_engine::{
    Arithmetic, Broken, Dumped, Evicted, LimitError, Miss, Report, Request, StoreError, Stored,
};
pub use larder_item::{
    Deadline, Direction, Epoch, KEY_BYTES_MAX, KeyError, Meta, Second, StoreMode,
};
pub use larder_stats::Counter;
pub use large::{LargeValue, Read, Upload};
