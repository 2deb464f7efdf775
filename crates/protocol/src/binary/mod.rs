//! The binary protocol: [`parse`](mod@parse) and [`render`] are the server's side, [`client`] is
//! the client's.
//!
//! A request is a header of 24 bytes, which holds the lengths of all parts, then extras (numbers of
//! fixed width), key and value; a response has the same layout. Numbers are big-endian. [`opcode`]
//! lists the commands, [`status`] the outcomes.
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

pub use header::{HEADER_BYTES, Header, REQUEST_MAGIC};
pub use parse::parse;

use crate::Response;

/// The authentication mechanisms that a peer can use, separated by spaces.
pub const MECHANISMS: &str = "PLAIN";

/// The maximum length of a mechanism's name, in bytes.
pub const MECHANISM_BYTES_MAX: usize = 32;

/// The maximum length of the credentials, in bytes.
pub const CREDENTIALS_BYTES_MAX: usize = 4096;

/// How to respond to a binary request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The opcode, which the response repeats.
    pub opcode: u8,
    /// The peer's opaque number, which the response repeats.
    pub opaque: u32,
    /// The key, for responses that include it.
    pub key: &'a [u8],
}

impl Frame<'_> {
    /// The frame of a response that answers no request.
    pub const UNASKED: Self = Self { opcode: opcode::GET, opaque: 0, key: &[] };

    /// True if the peer wants no such response. A quiet opcode hides the miss of a get and the
    /// success of everything else; the server always reports failures.
    pub fn hides(&self, response: &Response) -> bool {
        opcode::is_quiet(self.opcode)
            && matches!(
                response,
                Response::Miss
                    | Response::Stored(_)
                    | Response::Deleted
                    | Response::Number(_)
                    | Response::Ok
                    | Response::Close
            )
    }

    /// Returns a copy without the key, which no response to a store includes.
    pub fn keep(&self) -> Kept {
        Kept { opcode: self.opcode, opaque: self.opaque }
    }
}

/// A [`Frame`] without its key.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    opcode: u8,
    opaque: u32,
}

impl Kept {
    /// Returns the frame.
    pub fn frame(&self) -> Frame<'_> {
        Frame { opcode: self.opcode, opaque: self.opaque, key: &[] }
    }
}
