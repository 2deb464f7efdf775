//! Parses bytes into commands and detects the dialect.

use memchr::memchr2;

use crate::frame::Frame;
use crate::parsed::{Bad, Parsed};
use crate::{binary, text};

/// The dialects that a peer may speak. The meta protocol is part of the text protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialects {
    /// Text or binary; the first byte decides.
    #[default]
    Any,
    /// Text only.
    Text,
    /// Binary only.
    Binary,
}

/// Finds the commands in a connection's bytes. The first byte of a connection selects the dialect
/// for its lifetime.
///
/// The caller keeps the bytes. It passes all bytes that are not consumed yet to each call, and the
/// parser stores only its position in them. After [`Parsed::NeedMore`] the caller passes the same
/// bytes with more bytes after them.
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
    mode: Mode,
    text: text::Parser,
    /// The number of bytes to skip: the rest of the value of a refused login.
    refused_bytes: u64,
}

/// The grammar of the next bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Undecided; the first byte selects the dialect.
    #[default]
    First,
    Text,
    Binary,
    /// Text; only a login is accepted.
    TextLogin,
    /// Binary; only a login and the commands that do not need a login are accepted.
    BinaryLogin,
    /// Undecided; the first byte selects the dialect, in which only a login is accepted.
    FirstLogin,
}

impl Parser {
    /// Returns the parser for a peer that may speak these dialects.
    pub fn new(dialects: Dialects) -> Self {
        let mode = match dialects {
            Dialects::Any => Mode::First,
            Dialects::Text => Mode::Text,
            Dialects::Binary => Mode::Binary,
        };
        Self { mode, ..Self::default() }
    }

    /// Returns the parser for a peer that must log in. Until [`Self::unlock`], it yields only
    /// [`Command::Authenticate`](crate::Command::Authenticate), and in the binary protocol also
    /// [`Command::Mechanisms`](crate::Command::Mechanisms) and
    /// [`Command::Version`](crate::Command::Version).
    pub fn locked(dialects: Dialects) -> Self {
        let mut parser = Self::new(dialects);
        parser.lock();
        parser
    }

    /// Accepts all commands from now on, after a successful login.
    pub fn unlock(&mut self) {
        self.mode = match self.mode {
            Mode::TextLogin => Mode::Text,
            Mode::BinaryLogin => Mode::Binary,
            Mode::FirstLogin => Mode::First,
            open => open,
        };
    }

    /// Accepts only a login from now on, after a failed authentication, even if an earlier one
    /// succeeded.
    pub fn lock(&mut self) {
        self.mode = match self.mode {
            Mode::First | Mode::FirstLogin => Mode::FirstLogin,
            Mode::Text | Mode::TextLogin => Mode::TextLogin,
            Mode::Binary | Mode::BinaryLogin => Mode::BinaryLogin,
        };
    }

    /// Returns the frame of a response that does not belong to a request.
    pub fn unasked(&self) -> Frame<'static> {
        match self.mode {
            Mode::First | Mode::FirstLogin | Mode::Text | Mode::TextLogin => Frame::default(),
            Mode::Binary | Mode::BinaryLogin => Frame::Binary(binary::Frame::UNASKED),
        }
    }

    /// Ends the current list of keys, if there is one, because the caller has sent an error in
    /// place of its end. The parser skips the other keys and does not yield
    /// [`Command::EndOfKeys`](crate::Command::EndOfKeys).
    pub fn end_list(&mut self) {
        self.text.end_list();
    }

    /// True if `input`, which begins a command, begins a line with several keys, or with keys and
    /// without its end.
    pub fn begins_list(&self, input: &[u8]) -> bool {
        const NAMES: [&[u8]; 6] =
            [b"get ", b"gets ", b"gat ", b"gats ", b"lease-get ", b"metaget "];
        if !matches!(self.mode, Mode::First | Mode::Text) || !self.is_between_commands() {
            return false;
        }
        let Some(words) = NAMES.iter().find_map(|name| input.strip_prefix(*name)) else {
            return false;
        };
        // The only word of a complete line is the only key.
        memchr2(b' ', b'\n', words).is_none_or(|at| words.get(at) != Some(&b'\n'))
    }

    /// True if the next byte begins a command: no list of keys and no refused login is in progress.
    pub fn is_between_commands(&self) -> bool {
        self.refused_bytes == 0 && self.text.is_between_commands()
    }

    /// Returns the next command of `input`, the bytes that have arrived and are not yet consumed.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Parsed<'a> {
        match self.mode {
            Mode::Text => self.text.next(input),
            Mode::Binary => binary::parse(input),
            _ => self.next_of_few(input),
        }
    }

    /// Handles the first byte of a connection and logins, which are rare.
    #[cold]
    fn next_of_few<'a>(&mut self, input: &'a [u8]) -> Parsed<'a> {
        match self.mode {
            Mode::TextLogin => return self.next_login(input),
            Mode::BinaryLogin => return binary::login::parse_before_login(input),
            Mode::First | Mode::FirstLogin => {}
            Mode::Text | Mode::Binary => return self.next(input),
        }
        let Some(first) = input.first() else { return Parsed::NeedMore };
        self.mode = match (self.mode, *first == binary::REQUEST_MAGIC) {
            (Mode::FirstLogin, true) => Mode::BinaryLogin,
            (Mode::FirstLogin, false) => Mode::TextLogin,
            (_, true) => Mode::Binary,
            (_, false) => Mode::Text,
        };
        self.next(input)
    }

    /// Refuses a login that is too long as soon as its line has arrived and skips its value later.
    fn next_login<'a>(&mut self, input: &'a [u8]) -> Parsed<'a> {
        if self.refused_bytes > 0 && !input.is_empty() {
            let consumed =
                input.len().min(usize::try_from(self.refused_bytes).unwrap_or(usize::MAX));
            self.refused_bytes -= consumed as u64;
            return Parsed::Skipped { consumed };
        }
        match text::login::parse(input) {
            Parsed::Bad(bad) => {
                self.refused_bytes = bad.swallow;
                Parsed::Bad(Bad { swallow: 0, ..bad })
            }
            parsed => parsed,
        }
    }
}

/// True if `input` begins with the name of an existing command in any dialect, regardless of its
/// arguments. False for every response in any dialect, so that two servers that receive each
/// other's responses stop responding.
pub fn names_command(input: &[u8]) -> bool {
    match input {
        [] => false,
        [binary::REQUEST_MAGIC, opcode, ..] => binary::form::Form::of(*opcode).is_some(),
        _ => text::parse::names_command(input),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::response::ClientError;

    fn get() -> Vec<u8> {
        let mut get = vec![0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
        get.resize(24, 0);
        get.push(b'k');
        get
    }

    #[test]
    fn the_first_byte_selects_the_dialect_unless_only_one_is_allowed() {
        fn is_get(parsed: Parsed<'_>) -> bool {
            matches!(parsed, Parsed::Command { command: Command::Get { key: b"k", .. }, .. })
        }
        assert!(is_get(Parser::default().next(&get())));
        assert!(is_get(Parser::default().next(b"get k\r\n")));
        assert!(is_get(Parser::new(Dialects::Binary).next(&get())));
        assert_eq!(Parser::new(Dialects::Text).next(&get()), Parsed::NeedMore);
        let closed = Parser::new(Dialects::Binary).next(b"get k\r\n");
        assert!(matches!(closed, Parsed::Bad(Bad { error: None, close: true, .. })), "{closed:?}");
        let mut parser = Parser::default();
        assert_eq!(parser.next(b""), Parsed::NeedMore);
        assert!(is_get(parser.next(&get())));
        let closed = parser.next(b"get k\r\n");
        assert!(matches!(closed, Parsed::Bad(Bad { error: None, close: true, .. })), "{closed:?}");
    }

    #[test]
    fn a_list_of_keys_in_progress_is_not_between_commands() {
        let (mut parser, mut input) = (Parser::default(), &b"get a b\r\n"[..]);
        assert!(parser.is_between_commands());
        let mut between = Vec::new();
        while let Parsed::Command { consumed, .. } = parser.next(input) {
            input = &input[consumed..];
            between.push(parser.is_between_commands());
        }
        assert_eq!(between, [false, false, true], "two keys, then the end");
        assert!(matches!(parser.next(b"get a"), Parsed::NeedMore));
        assert!(parser.is_between_commands(), "nothing of the line is consumed");
    }

    #[test]
    fn only_a_line_with_several_keys_or_without_its_end_begins_a_list() {
        for (line, is_list) in [
            ("get a\r\n", false),
            ("get a\n", false),
            ("get a b\r\n", true),
            ("get a \r\n", true),
            ("get a", true),
            ("gat 1 a\r\n", true),
            ("metaget a\r\n", false),
            ("lease-get a b\r\n", true),
            ("getk a b\r\n", false),
            ("mg a b\r\n", false),
            ("set a 0 0 1\r\n", false),
        ] {
            assert_eq!(Parser::default().begins_list(line.as_bytes()), is_list, "{line:?}");
        }
        let mut parser = Parser::default();
        parser.next(b"get a b\r\n");
        assert!(!parser.begins_list(b"get c d\r\n"), "a list is in progress");
    }

    #[test]
    fn a_list_that_an_error_ends_is_skipped_to_the_end_of_its_line() {
        let long = [b"get a b ".as_slice(), &b"c ".repeat(2000), b"\r\nmn\r\n"].concat();
        for input in [&b"get a b c\r\nmn\r\n"[..], b"get a\r\nmn\r\n", b"gats 1 a  \nmn\r\n", &long]
        {
            let (mut parser, mut rest, mut commands) = (Parser::default(), input, Vec::new());
            loop {
                let consumed = match parser.next(rest) {
                    Parsed::Command { command, consumed, .. } => {
                        commands.push(format!("{command:?}"));
                        consumed
                    }
                    Parsed::Skipped { consumed } => consumed,
                    ended => {
                        assert_eq!(ended, Parsed::NeedMore);
                        break;
                    }
                };
                rest = &rest[consumed..];
                if commands.len() == 1 {
                    parser.end_list();
                }
            }
            assert_eq!(commands[1..], ["NoOp"], "{commands:?}");
            assert!(parser.is_between_commands());
        }
        let mut parser = Parser::default();
        parser.end_list();
        assert!(parser.is_between_commands(), "there is no list to end");
    }

    #[test]
    fn a_locked_parser_refuses_a_get_also_when_locked_again() {
        let error = Some(ClientError::Unauthenticated.into());
        for (dialects, get, close) in [
            (Dialects::Text, b"get k\r\n".to_vec(), false),
            (Dialects::Binary, get(), true),
            (Dialects::Any, b"get k\r\n".to_vec(), false),
            (Dialects::Any, get(), true),
        ] {
            let mut parser = Parser::locked(dialects);
            let is_refused = |parsed: Parsed<'_>| match parsed {
                Parsed::Bad(bad) => bad.error == error && bad.close == close,
                _ => false,
            };
            assert!(is_refused(parser.next(&get)), "{dialects:?}");
            parser.unlock();
            assert!(matches!(parser.next(&get), Parsed::Command { .. }), "{dialects:?}");
            parser.lock();
            assert!(is_refused(parser.next(&get)), "{dialects:?}");
        }
    }

    #[test]
    fn a_login_that_is_too_long_is_refused_before_its_value_arrives() {
        let is_refused = |parsed: Parsed<'_>| {
            let error = Some(ClientError::CredentialsTooLong.into());
            matches!(parsed, Parsed::Bad(bad) if bad.error == error && bad.swallow == 0)
        };
        let login = b"set k 0 0 3\r\na b\r\n";
        // A value of plausible length is skipped. A longer value is not skipped: the next login
        // follows the line.
        for (line, value_bytes) in
            [(&b"set k 0 0 16385\r\n"[..], 16387), (b"set k 0 0 2147483646\r\n", 0)]
        {
            let mut parser = Parser::locked(Dialects::Text);
            assert!(is_refused(parser.next(line)), "{}", line.escape_ascii());
            for _ in 0..value_bytes {
                assert_eq!(parser.next(b"x"), Parsed::Skipped { consumed: 1 });
            }
            assert!(matches!(parser.next(login), Parsed::Command { .. }), "{value_bytes}");
        }
    }
}
