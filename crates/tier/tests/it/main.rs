//! The integration tests of the disk tier, in one program: each file or folder is a module, and
//! `cargo test -p larder-tier --test it store::` runs the tests of one.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod cache;
mod crashes;
mod directory;
mod disk;
mod flusher;
mod format;
mod model;
mod store;
mod summary;
