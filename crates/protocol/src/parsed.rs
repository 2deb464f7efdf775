//! The result of parsing the bytes at hand.

use crate::command::Command;
use crate::frame::Frame;
use crate::response::Response;

/// The next element of a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A command, which takes up the first `consumed` bytes. The value of a [`Command::Store`]
    /// follows, with the ending that its [`Frame`] asks for.
    Command {
        /// The request.
        command: Command<'a>,
        /// How to respond.
        frame: Frame<'a>,
        /// Bytes consumed, at least one.
        consumed: usize,
    },
    /// The first `consumed` bytes hold no request: they are part of a long line. The caller calls
    /// again.
    Skipped {
        /// Bytes consumed, at least one.
        consumed: usize,
    },
    /// The bytes are incomplete. The caller calls again with more bytes behind them.
    NeedMore,
    /// The bytes are not a valid command.
    Bad(Bad<'a>),
}

/// Bytes that are not a valid command, and where the next command begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad<'a> {
    /// The error to send; `None`: send nothing. A [`Response::ClientError`], a
    /// [`Response::ServerError`], or [`Response::NotFound`] if the request names something that
    /// does not exist.
    pub error: Option<Response>,
    /// How to write the error.
    pub frame: Frame<'a>,
    /// Bytes consumed, at least one.
    pub consumed: usize,
    /// Bytes to skip after that, the value of a refused store; some may not have arrived. The error
    /// is sent after the last of them.
    pub swallow: u64,
    /// True if the stream cannot be parsed any further: the caller sends the error and closes.
    pub close: bool,
}
