//! Models of protocols between processes, searched exhaustively. Only tests use the crate: those of
//! the disk tier, and those of the near cache, of `larder warm` and of loads, which are here.
//!
//! Cargo optimizes whole crates. The server is not optimized for its tests, and a search would take
//! several times as long there, so the models have their own crate.

#![forbid(unsafe_code)]

pub mod rules;
pub mod search;

#[cfg(test)]
mod load;
#[cfg(test)]
mod near;
#[cfg(test)]
mod warm;

pub use rules::Rules;
