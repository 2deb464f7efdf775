//! The classic text protocol: [`parse`] and [`render`] are the server's side, [`client`] is the
//! other.
//!
//! A line of words, its name first, ended by a newline that may have a carriage return before it. A
//! value follows the line that announces its length, and must end in [`LINE_END`].
//!
//! Files in reading order: [`parse`], `line`, `words`, `keys`, `streamed`, `plain`, `arguments`, `login`, `admin`, [`render`],
//! `refusal`, [`dump`], [`watched`], [`client`].

mod admin;
pub(crate) mod arguments;
pub mod client;
pub mod dump;
mod keys;
mod line;
pub(crate) mod login;
pub mod parse;
mod plain;
mod refusal;
pub mod render;
mod streamed;
pub mod watched;
pub(crate) mod words;

pub use parse::Parser;

/// What ends a value, and every line of an answer.
pub const LINE_END: &[u8] = b"\r\n";

/// The longest line, without its end, that is understood as a whole. A longer one ends the
/// connection, unless it is a `get`, `gets`, `gat` or `gats`, whose keys are then handed out as they
/// arrive, however many there are.
pub const SHORT_LINE_BYTES_MAX: usize = 2048;

/// The longest value a line can announce. What a cache takes is less.
pub const VALUE_BYTES_MAX: usize = i32::MAX as usize - LINE_END.len();
