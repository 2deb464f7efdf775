//! The classic text protocol: [`parse`] and [`render`] are the server's side, [`client`] is the
//! client's.
//!
//! A request is a line of words, beginning with its name; the line ends in a newline with an
//! optional carriage return before it. A value follows the line that announces its length, and must
//! end in [`LINE_END`].
//!
//! Files in reading order: [`parse`], `keys`, `streamed`, `plain`, `arguments`,
//! `login`, `admin`, [`render`], `refusal`, [`dump`], [`watched`], [`client`].

mod admin;
pub(crate) mod arguments;
pub mod client;
pub mod dump;
mod keys;
pub(crate) mod login;
pub mod parse;
mod plain;
mod refusal;
pub mod render;
mod streamed;
pub mod watched;

pub use crate::lines::line::{LINE_END, SHORT_LINE_BYTES_MAX, VALUE_BYTES_MAX};
pub use parse::Parser;
