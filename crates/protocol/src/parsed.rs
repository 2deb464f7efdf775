//! What a parser makes of the bytes at hand.

use crate::{Command, Frame, Response};

/// The next thing in a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A command; its first `consumed` bytes are used up. A [`Command::Store`] is followed by
    /// its value and what ends a value in its [`Frame`].
    Command {
        /// What was asked.
        command: Command<'a>,
        /// How to answer.
        frame: Frame<'a>,
        /// Bytes used up, at least one.
        consumed: usize,
    },
    /// The first `consumed` bytes are used up and ask for nothing: a part of a long line. Ask again.
    Skipped {
        /// Bytes used up, at least one.
        consumed: usize,
    },
    /// The bytes are the beginning of something; ask again when there are more behind them.
    NeedMore,
    /// The bytes are no command.
    Bad(Bad<'a>),
}

/// Bytes that are no command, and where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad<'a> {
    /// What to tell the peer; nothing where `None`. A [`Response::ClientError`], a
    /// [`Response::ServerError`], or [`Response::NotFound`] where what is asked for has a name and
    /// does not exist.
    pub error: Option<Response>,
    /// How to tell it.
    pub frame: Frame<'a>,
    /// Bytes used up, at least one.
    pub consumed: usize,
    /// So many bytes that follow, some of which may not have arrived, are not commands either: the
    /// value of a refused store. The error is told once they have passed.
    pub swallow: u64,
    /// The stream cannot be understood any further: tell the error and close.
    pub close: bool,
}
