//! The binary protocol: [`parse`](mod@parse) and [`render`] are the server's side, [`client`] is
//! the client's.
//!
//! A request is a header of 24 bytes with the lengths of all parts, then extras (numbers of fixed
//! width), key and value. A response has the same layout. Numbers are big-endian. [`opcode`] lists
//! the commands, [`status`] the outcomes.
//!
//! Files in reading order: [`opcode`], [`status`], [`header`], [`parse`](mod@parse), `form`,
//! `login`, [`render`], [`client`].

pub mod client;
pub(crate) mod form;
pub mod header;
pub(crate) mod login;
pub mod opcode;
pub mod parse;
pub mod render;
pub mod status;

pub use crate::frame::binary::{Frame, OwnedBinaryFrame};
pub use header::{HEADER_BYTES, Header, REQUEST_MAGIC};
pub use parse::{CREDENTIALS_BYTES_MAX, MECHANISM_BYTES_MAX, parse};
