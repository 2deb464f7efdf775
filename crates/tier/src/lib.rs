//! The disk tier: items in one log on disk.
//!
//! | room | owns |
//! |---|---|
//! | `format` | the bytes on the disk |
//! | `disk` | files, and the disk of the tests that loses power |
//!
//! `tests/model` has the protocol of the log as a model.
#![forbid(unsafe_code)]

pub mod disk;
pub mod format;
