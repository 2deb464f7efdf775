//! The classic text protocol: [`parse`] and [`render`] are the server's side, [`client`] is the
//! client's.
//!
//! A request is a line of words, beginning with its name; the line ends in a newline with an
//! optional carriage return before it. A value follows the line that announces its length, and must
//! end in [`LINE_END`].
//!
//! Files in reading order: [`parse`], `line`, `words`, `keys`, `streamed`, `plain`, `arguments`,
//! `login`, `admin`, [`render`], `refusal`, [`dump`], [`watched`], [`client`].

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

/// The end of a value, and of every line of a response.
pub const LINE_END: &[u8] = b"\r\n";

/// The maximum length of a line that is parsed as a whole, without its end, in bytes. A longer line
/// ends the connection, unless it is a `get`, `gets`, `gat` or `gats`, whose keys are then yielded
/// as they arrive, in any number.
pub const SHORT_LINE_BYTES_MAX: usize = 2048;

/// The maximum length of a value that a line can announce, in bytes. A cache accepts less.
pub const VALUE_BYTES_MAX: usize = i32::MAX as usize - LINE_END.len();
