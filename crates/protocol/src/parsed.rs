//! The result of parsing the available bytes.

use crate::command::Command;
use crate::frame::Frame;
use crate::response::Response;

/// The result of parsing the bytes of a connection that are not consumed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A command in the first `consumed` bytes. The value of a [`Command::Store`] follows, with the
    /// ending that its [`Frame`] requires.
    Command {
        /// The request.
        command: Command<'a>,
        /// The form of the response.
        frame: Frame<'a>,
        /// Bytes consumed, at least one.
        consumed: usize,
    },
    /// The first `consumed` bytes belong to a long line, but do not complete a request. The caller
    /// drops them and calls again.
    Skipped {
        /// Bytes consumed, at least one.
        consumed: usize,
    },
    /// The bytes are incomplete. The caller calls again with the same bytes and more bytes after
    /// them.
    NeedMore,
    /// The bytes are not a valid command.
    Bad(Bad<'a>),
}

/// Describes bytes that are not a valid command, and the position of the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad<'a> {
    /// The error to send; `None` to send nothing. A [`Response::ClientError`], a
    /// [`Response::ServerError`], or [`Response::NotFound`] if the request names something that
    /// does not exist.
    pub error: Option<Response>,
    /// The form of the error.
    pub frame: Frame<'a>,
    /// Bytes consumed, at least one.
    pub consumed: usize,
    /// The length of the value of a refused store, which the caller must skip after the consumed
    /// bytes. It may not have arrived yet. The caller sends the error after the last skipped byte.
    pub swallow: u64,
    /// True if the rest of the stream cannot be parsed. The caller sends the error and closes the
    /// connection.
    pub close: bool,
}
