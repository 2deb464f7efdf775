//! The disk tier: items in one log on disk. So far the protocol of the log, as the model in
//! `tests/model`.
#![forbid(unsafe_code)]
