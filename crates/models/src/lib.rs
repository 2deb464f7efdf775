//! Models of protocols between processes, searched exhaustively. The crate contains only tests.
//!
//! Cargo optimizes whole crates. The server is not optimized for its tests, and a search would take
//! several times as long there, so the models have their own crate.

#![forbid(unsafe_code)]

#[cfg(test)]
mod near;
