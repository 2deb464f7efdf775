//! The integration tests of the disk tier, in one program. Each file or folder is a module. `cargo
//! test -p larder-tier --test it store::` runs the tests of one module.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod cache;
mod compression;
mod crashes;
mod directory;
mod disk;
mod flusher;
mod format;
mod model;
mod store;
mod summary;
