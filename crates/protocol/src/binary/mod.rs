//! The binary protocol: [`parse`](mod@parse) and [`render`] are the server's side, [`client`] is the other.
//!
//! A request is a header of 24 bytes, which says how long everything is, then extras (numbers of fixed
//! width), key and value; an answer looks the same. Numbers have their highest byte first. What the
//! opcodes are is in [`opcode`], what the answers' statuses are in [`status`].
//!
//! Files in reading order: [`opcode`], [`status`], [`header`], [`parse`](mod@parse), `form`, `login`,
//! [`render`], [`client`].

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

/// The mechanisms by which a peer can authenticate itself, separated by spaces.
pub const MECHANISMS: &str = "PLAIN";

/// The longest name of a mechanism, in bytes.
pub const MECHANISM_BYTES_MAX: usize = 32;

/// The longest proof of who somebody is, in bytes.
pub const CREDENTIALS_BYTES_MAX: usize = 4096;

/// How a binary request is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The opcode, echoed.
    pub opcode: u8,
    /// The peer's own number for the request, echoed.
    pub opaque: u32,
    /// The key, for answers that name it.
    pub key: &'a [u8],
}

impl Frame<'_> {
    /// Of an answer to nothing in particular.
    pub const UNASKED: Self = Self { opcode: opcode::GET, opaque: 0, key: &[] };

    /// Is the peer not told of this outcome? A quiet opcode hides a get's miss and everything else's
    /// success; failures are always told.
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

    /// The frame without the key, which no answer to a store names.
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
    /// The frame.
    pub fn frame(&self) -> Frame<'_> {
        Frame { opcode: self.opcode, opaque: self.opaque, key: &[] }
    }
}
