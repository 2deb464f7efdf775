//! Bytes to commands, whichever dialect they are in.

use crate::{Parsed, binary, text};

/// The dialects that a peer may speak. The meta protocol is a part of the text protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialects {
    /// Any; the first byte says which.
    #[default]
    Any,
    /// Text alone.
    Text,
    /// Binary alone.
    Binary,
}

/// Finds the commands in a connection's bytes. The first byte of a connection decides for good
/// which dialect it speaks.
///
/// The caller keeps the bytes: each call gets those that are not used up yet, from the first, and
/// the parser remembers only where in them it stands. After [`Parsed::NeedMore`] the same bytes
/// come again with more behind them.
///
/// ```
/// use larder_protocol::{Command, Parsed, Parser};
///
/// let mut parser = Parser::default();
/// let Parsed::Command { command, consumed, .. } = parser.next(b"mn\r\n") else { panic!("a command") };
/// assert_eq!((command, consumed), (Command::NoOp, 4));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Parser {
    dialects: Dialects,
    text: text::Parser,
}

impl Parser {
    /// The parser of a peer that may speak these dialects.
    pub fn new(dialects: Dialects) -> Self {
        Self { dialects, text: text::Parser::default() }
    }

    /// The next command of `input`, the bytes that have arrived and are not used up.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Parsed<'a> {
        match self.dialects {
            Dialects::Text => self.text.next(input),
            Dialects::Binary => binary::parse(input),
            Dialects::Any => self.first(input),
        }
    }

    #[cold]
    fn first<'a>(&mut self, input: &'a [u8]) -> Parsed<'a> {
        self.dialects = match input.first() {
            None => return Parsed::NeedMore,
            Some(&binary::REQUEST_MAGIC) => Dialects::Binary,
            Some(_) => Dialects::Text,
        };
        self.next(input)
    }
}
