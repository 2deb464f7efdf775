//! The disk tier: items in one log on disk.
//!
//! | room | owns |
//! |---|---|
//! | `format` | the bytes on the disk |
//!
//! `tests/model` has the protocol of the log as a model.
#![forbid(unsafe_code)]

pub mod format;
