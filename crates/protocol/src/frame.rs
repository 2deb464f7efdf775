//! How a peer wants to be answered.

use crate::text::LINE_END;
use crate::{Response, binary, meta};

/// How one command is to be answered. Borrows from the bytes of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// In the classic text protocol.
    Text {
        /// The peer does not want to hear the outcome (`noreply`).
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
    /// Is the peer not told of this outcome? The one rule for `noreply`, the meta flag `q` and the
    /// quiet opcodes of the binary protocol.
    #[inline]
    pub fn hides(&self, response: &Response) -> bool {
        match self {
            Self::Text { quiet } => *quiet,
            Self::Meta(frame) => frame.hides(response),
            Self::Binary(frame) => frame.hides(response),
        }
    }

    /// What stands behind a value, in a request as in an answer.
    #[inline]
    pub fn value_end(&self) -> &'static [u8] {
        match self {
            Self::Text { .. } | Self::Meta(_) => LINE_END,
            Self::Binary(_) => b"",
        }
    }

    /// The value of a request's block; `None` where it does not end as a value does.
    #[inline]
    pub fn value_of<'b>(&self, block: &'b [u8]) -> Option<&'b [u8]> {
        match self {
            Self::Text { .. } | Self::Meta(_) => block.strip_suffix(b"\r\n"),
            Self::Binary(_) => Some(block),
        }
    }

    /// The frame without the bytes of its command, which may go.
    pub fn keep(&self) -> Kept {
        match self {
            Self::Text { quiet } => Kept::Text { quiet: *quiet },
            Self::Meta(frame) => Kept::Meta(frame.keep()),
            Self::Binary(frame) => Kept::Binary(frame.keep()),
        }
    }
}

/// A [`Frame`] that owns what it needs.
#[derive(Clone, Debug)]
pub enum Kept {
    /// Of the classic text protocol.
    Text {
        /// The peer does not want to hear the outcome.
        quiet: bool,
    },
    /// Of the meta protocol.
    Meta(meta::Kept),
    /// Of the binary protocol.
    Binary(binary::Kept),
}

impl Kept {
    /// The frame.
    pub fn frame(&self) -> Frame<'_> {
        match self {
            Self::Text { quiet } => Frame::Text { quiet: *quiet },
            Self::Meta(kept) => Frame::Meta(kept.frame()),
            Self::Binary(kept) => Frame::Binary(kept.frame()),
        }
    }
}
