//! The binary protocol.

pub mod render;

use crate::{Bad, Parsed, Response};

/// The first byte of a request.
pub const REQUEST_MAGIC: u8 = 0x80;

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
    /// Is the peer not told of this outcome?
    pub fn hides(&self, _response: &Response) -> bool {
        false
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

/// The request that `input` begins with.
pub fn parse(input: &[u8]) -> Parsed<'_> {
    Parsed::Bad(Bad {
        error: None,
        frame: crate::Frame::default(),
        consumed: input.len(),
        swallow: 0,
        close: true,
    })
}
