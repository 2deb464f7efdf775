//! The classic text protocol: [`parse`] and [`render`] for the server's side, [`client`] for the other.

pub mod client;
pub mod parse;
pub mod render;

pub use parse::Parser;

/// What ends a line and a value.
pub const LINE_END: &[u8] = b"\r\n";
