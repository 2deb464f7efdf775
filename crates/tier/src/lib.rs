//! The disk tier: a log on disk that stores items, and the store that is built on it.
//!
//! The *log* is a file to which *records* are appended: the items that were stored, and the
//! removals. Records are written in *units*: groups that reach the disk in one write. The file
//! consists of *extents* of 4 MiB. The part of the log in one extent is a *segment*. When no record
//! of a segment is needed anymore, its extent is free for another segment. The *manifest* is a
//! small file with the identity and the settings of the directory.
//!
//! | module | contents |
//! |---|---|
//! | `store` | a key-value store: the log, a catalog of it in memory, and two threads |
//! | `flusher` | the one writer of the log, and the order of its writes and syncs |
//! | `recovery` | reads the log at a start, unless the last stop was clean and wrote an index |
//! | `tier` | a directory that this process has locked: its manifest, its log and its dictionaries |
//! | `compression` | compressed values, and the dictionaries for them |
//! | `log` | the log's file: segments in extents |
//! | `format` | the bytes on the disk |
//! | `disk` | real files, and a simulated disk for tests that loses power |
//!
//! `tests/it/model` contains a model of the log's protocol.
#![forbid(unsafe_code)]

pub mod compression;
pub mod disk;
pub mod flusher;
pub mod format;
pub mod log;
pub mod recovery;
pub mod store;
mod tier;

pub use tier::{EXTENTS_MIN, Entropy, Lease, LogTime, OpenError, RequestedTier, Tier};
