//! The classic text protocol.

pub mod parse;
pub mod render;

pub use parse::Parser;
