//! The parts of clients that use the Rust library.

pub(crate) mod local;
pub(crate) mod ring;
