//! How to respond to a binary request.

use crate::binary::opcode;
use crate::response::Response;

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
    /// The frame of a response that does not belong to a request, such as an error before the
    /// server closes a connection.
    pub const UNASKED: Self = Self { opcode: opcode::GET, opaque: 0, key: &[] };

    /// True if the peer does not want this response. A quiet opcode hides the miss of a get and the
    /// success of every other command. The server always reports failures.
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

    /// Returns a copy without the key, because responses to stores do not include it.
    pub fn keep(&self) -> OwnedBinaryFrame {
        OwnedBinaryFrame { opcode: self.opcode, opaque: self.opaque }
    }
}

/// A [`Frame`] without its key.
#[derive(Clone, Copy, Debug)]
pub struct OwnedBinaryFrame {
    opcode: u8,
    opaque: u32,
}

impl OwnedBinaryFrame {
    /// Returns the frame.
    pub fn frame(&self) -> Frame<'_> {
        Frame { opcode: self.opcode, opaque: self.opaque, key: &[] }
    }
}
