//! The meta protocol.

pub mod client;
pub mod render;

use crate::Response;

/// How a meta command is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The key as the peer wrote it.
    pub key: &'a [u8],
    /// The flags behind the key, and behind the length of a value.
    pub flags: &'a [u8],
}

impl Frame<'_> {
    /// Is the peer not told of this outcome?
    pub fn hides(&self, _response: &Response) -> bool {
        false
    }

    /// The frame with bytes of its own.
    pub fn keep(&self) -> Kept {
        Kept { key: self.key.into(), flags: self.flags.into() }
    }
}

/// A [`Frame`] with bytes of its own.
#[derive(Clone, Debug)]
pub struct Kept {
    key: Box<[u8]>,
    flags: Box<[u8]>,
}

impl Kept {
    /// The frame.
    pub fn frame(&self) -> Frame<'_> {
        Frame { key: &self.key, flags: &self.flags }
    }
}
