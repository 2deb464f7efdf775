//! The form in which the response to a request must be written.

pub(crate) mod binary;
pub(crate) mod meta;

use crate::lines::line::LINE_END;
use crate::response::Response;

/// The form of a response: the dialect, and the parts of the request that the response depends on.
/// Borrows from the bytes of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// In the classic text protocol.
    Text {
        /// True if the peer does not want a response (`noreply`).
        quiet: bool,
    },
    /// In the meta protocol.
    Meta(meta::Frame<'a>),
    /// In the binary protocol.
    Binary(binary::Frame<'a>),
}

impl Default for Frame<'_> {
    fn default() -> Self {
        Self::Text { quiet: false }
    }
}

impl Frame<'_> {
    /// True if the peer does not want this response. Implements `noreply`, the meta flag `q` and
    /// the quiet opcodes of the binary protocol for all callers.
    #[inline]
    pub fn hides(&self, response: &Response) -> bool {
        match self {
            Self::Text { quiet } => *quiet,
            Self::Meta(frame) => frame.hides(response),
            Self::Binary(frame) => frame.hides(response),
        }
    }

    /// Returns the bytes that end a value, in requests and in responses.
    #[inline]
    pub fn value_end(&self) -> &'static [u8] {
        match self {
            Self::Text { .. } | Self::Meta(_) => LINE_END,
            Self::Binary(_) => b"",
        }
    }

    /// Returns the value in the payload of a store, which is the value and the bytes that must end
    /// it. Returns `None` if it does not end with these bytes.
    #[inline]
    pub fn value_of<'b>(&self, block: &'b [u8]) -> Option<&'b [u8]> {
        match self {
            Self::Text { .. } | Self::Meta(_) => block.strip_suffix(b"\r\n"),
            Self::Binary(_) => Some(block),
        }
    }

    /// Returns a copy that outlives the bytes of the command.
    pub fn keep(&self) -> OwnedFrame {
        match self {
            Self::Text { quiet } => OwnedFrame::Text { quiet: *quiet },
            Self::Meta(frame) => OwnedFrame::Meta(frame.keep()),
            Self::Binary(frame) => OwnedFrame::Binary(frame.keep()),
        }
    }
}

/// A [`Frame`] that owns its data.
#[derive(Clone, Debug)]
pub enum OwnedFrame {
    /// The classic text protocol.
    Text {
        /// True if the peer does not want a response (`noreply`).
        quiet: bool,
    },
    /// The meta protocol.
    Meta(meta::OwnedMetaFrame),
    /// The binary protocol.
    Binary(binary::OwnedBinaryFrame),
}

impl OwnedFrame {
    /// Returns the frame.
    pub fn frame(&self) -> Frame<'_> {
        match self {
            Self::Text { quiet } => Frame::Text { quiet: *quiet },
            Self::Meta(kept) => Frame::Meta(kept.frame()),
            Self::Binary(kept) => Frame::Binary(kept.frame()),
        }
    }

    /// Returns the frame for responses that include the key of the item.
    pub fn frame_with<'a>(&'a self, key: &'a [u8]) -> Frame<'a> {
        match self {
            Self::Binary(kept) => Frame::Binary(binary::Frame { key, ..kept.frame() }),
            Self::Text { .. } | Self::Meta(_) => self.frame(),
        }
    }
}
