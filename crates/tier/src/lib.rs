//! The disk tier: items in one log on disk.
//!
//! | module | contents |
//! |---|---|
//! | `store` | a key-value store: the log, a catalog of it in memory, and two threads |
//! | `flusher` | the one writer of the log, and the order of its writes and syncs |
//! | `recovery` | reads the log at a start that has no index from a clean stop |
//! | `tier` | a directory in use: its lock, its manifest and its log |
//! | `log` | the log's file: segments in extents |
//! | `format` | the bytes on the disk |
//! | `disk` | real files, and a simulated disk for tests that loses power |
//!
//! `tests/it/model` contains a model of the log's protocol.
#![forbid(unsafe_code)]

pub mod disk;
pub mod flusher;
pub mod format;
pub mod log;
pub mod recovery;
pub mod store;
mod tier;

pub use tier::{EXTENTS_MIN, Entropy, Lease, LogTime, OpenError, Tier, Wanted};
