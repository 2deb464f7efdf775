//! Parses bytes into commands.

use larder_item::{Direction, StoreMode};

use super::arguments::{Arguments, command};
use super::keys::{Ask, Keys};
use super::plain;
use super::streamed::StreamedKeys;
use crate::command::Command;
use crate::frame::Frame;
use crate::lines::line::{Found, Line, find};
use crate::lines::words::{Words, trim_spaces};
use crate::parsed::{Bad, Parsed};
use crate::response::ClientError;
use crate::{meta, number};

/// Finds the commands in a connection's bytes.
///
/// The caller keeps the bytes. It passes all bytes that are not consumed yet to each call, and the
/// parser stores only its position in them. After [`Parsed::NeedMore`] the caller passes the same
/// bytes with more bytes after them.
///
/// ```
/// use larder_protocol::{Command, Parsed, text::Parser};
///
/// let mut parser = Parser::default();
/// let input = b"get k\r\n";
/// let Parsed::Command { command, consumed, .. } = parser.next(input) else { panic!("a get") };
/// assert_eq!(command, Command::Get { key: b"k", with_cas: false, exptime: None });
/// let Parsed::Command { command, .. } = parser.next(&input[consumed..]) else { panic!("its end") };
/// assert_eq!(command, Command::EndOfKeys);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// The list of keys in progress.
    list: Option<List>,
    /// Bytes at the beginning of the next line that do not contain a newline. Without this number,
    /// each byte of a line that arrives byte by byte would restart the search.
    scanned_bytes: usize,
}

/// A line with keys that is in progress.
#[derive(Clone, Copy, Debug)]
enum List {
    /// The complete line has arrived and is checked.
    Checked(Keys),
    /// A line that is too long to buffer.
    Streamed(StreamedKeys),
}

impl Parser {
    /// Returns the next command of `input`, the bytes that have arrived and are not yet consumed.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Parsed<'a> {
        match &mut self.list {
            None => {}
            Some(List::Checked(keys)) => {
                let parsed = keys.next(input);
                if matches!(parsed, Parsed::Command { command: Command::EndOfKeys, .. }) {
                    self.list = None;
                }
                return parsed;
            }
            Some(List::Streamed(_)) => return self.go_on_streaming(input),
        }
        let line = match find(input, self.scanned_bytes) {
            Found::Line(line) => line,
            Found::Beginning => {
                self.scanned_bytes = input.len();
                return Parsed::NeedMore;
            }
            Found::Long => return self.begin_streaming(input),
        };
        self.scanned_bytes = 0;
        match line.text {
            [b'g', b'e', b't', b' ', names @ ..] => self.begin_keys(&line, names, GET),
            [b's', b'e', b't', b' ', rest @ ..] => match plain::store(rest, StoreMode::Set) {
                Some((store, quiet)) => command(Command::Store(store), quiet, line.bytes),
                None => self.line(&line),
            },
            [b'm', b'g', b' ', rest @ ..] => meta::parse::get(Words::begun(rest), line.bytes),
            [b'm', b's', b' ', rest @ ..] => meta::parse::set(Words::begun(rest), line.bytes),
            _ => self.line(&line),
        }
    }

    /// Parses any line. [`Self::next`] has a fast path for the most frequent lines.
    fn line<'a>(&mut self, line: &Line<'a>) -> Parsed<'a> {
        if line.bytes < LINE_BYTES_MIN {
            return bad_format(line);
        }
        let mut words = Words::new(line.text);
        let name = if line.text.starts_with(b" ") { None } else { words.next() };
        let rest = words.rest();
        let arguments = Arguments { words, consumed: line.bytes };
        match name.unwrap_or_default() {
            b"get" => self.begin_keys(line, rest, GET),
            b"gets" => self.begin_keys(line, rest, Ask::Get { with_cas: true, exptime: None }),
            b"lease-get" => self.begin_keys(line, rest, Ask::Lease),
            b"metaget" => self.begin_keys(line, rest, Ask::Inspect),
            b"gat" => self.begin_touched_keys(line, arguments, false),
            b"gats" => self.begin_touched_keys(line, arguments, true),
            b"set" => arguments.store(StoreMode::Set, false),
            b"add" => arguments.store(StoreMode::Add, false),
            b"replace" => arguments.store(StoreMode::Replace, false),
            b"append" => arguments.store(StoreMode::Append, false),
            b"prepend" => arguments.store(StoreMode::Prepend, false),
            b"cas" => arguments.store(StoreMode::Set, true),
            b"config" => arguments.config(),
            b"lease-set" => arguments.lease_set(),
            b"delete" => arguments.delete(),
            b"incr" => arguments.arithmetic(Direction::Increment),
            b"decr" => arguments.arithmetic(Direction::Decrement),
            b"touch" => arguments.touch(),
            b"flush_all" => arguments.flush_all(),
            b"delete_prefix" => arguments.delete_prefix(),
            b"version" => arguments.answered(Command::Version),
            b"verbosity" => arguments.verbosity(),
            b"stats" => arguments.stats(),
            b"mg" => meta::parse::get(arguments.words, line.bytes),
            b"ms" => meta::parse::set(arguments.words, line.bytes),
            b"md" => meta::parse::delete(arguments.words, line.bytes),
            b"ma" => meta::parse::arithmetic(arguments.words, line.bytes),
            b"me" => meta::parse::inspect(arguments.words, line.bytes),
            b"mn" => arguments.answered(Command::NoOp),
            b"quit" => arguments.answered(Command::Quit),
            b"larder_fetch" => arguments.copied(),
            b"larder_follow" => arguments.follow(),
            b"larder_follower" => arguments.follower(),
            b"larder_kill" => arguments.kill(),
            b"larder_name" => arguments.name_connection(),
            b"larder_region" => arguments.answered(Command::Region),
            b"larder_warm" => arguments.warm(),
            b"larder_read" => arguments.answered(Command::NoteReads { keys: rest }),
            b"refresh_certs" => arguments.answered(Command::RefreshCertificates),
            b"shutdown" => arguments.shutdown(),
            b"cache_memlimit" => arguments.memory_limit(),
            b"slabs" => arguments.slabs(),
            b"lru" => arguments.lru(),
            b"lru_crawler" => arguments.lru_crawler(),
            b"watch" => arguments.watch(),
            b"debugtime" => arguments.debug_time(),
            _ => arguments.unknown(),
        }
    }

    /// `<exptime> <key>+`
    fn begin_touched_keys<'a>(
        &mut self,
        line: &Line<'a>,
        mut arguments: Arguments<'a>,
        with_cas: bool,
    ) -> Parsed<'a> {
        let exptime = arguments.words.next();
        let names = arguments.words.rest();
        match exptime.map(number::exptime) {
            None => bad_format(line),
            Some(_) if names.is_empty() => bad_format(line),
            Some(None) => arguments.refuse(ClientError::BadExptime, false),
            Some(exptime) => self.begin_keys(line, names, Ask::Get { with_cas, exptime }),
        }
    }

    /// `<key>+`
    #[inline]
    fn begin_keys<'a>(&mut self, line: &Line<'a>, names: &'a [u8], ask: Ask) -> Parsed<'a> {
        let names = trim_spaces(names);
        let Some(mut keys) = Keys::of(line, names, ask) else { return bad_format(line) };
        let skipped_bytes = line.text.len() - names.len();
        let first = keys.take_first(names, skipped_bytes);
        self.list = Some(List::Checked(keys));
        first
    }

    /// Handles a line that is too long to buffer: yields its keys as they arrive, or ends the
    /// connection.
    #[cold]
    fn begin_streaming<'a>(&mut self, input: &'a [u8]) -> Parsed<'a> {
        self.scanned_bytes = 0;
        let frame = Frame::default();
        let Some((keys, consumed)) = StreamedKeys::begin(input) else {
            let consumed = input.len();
            return Parsed::Bad(Bad { error: None, frame, consumed, swallow: 0, close: true });
        };
        self.list = Some(List::Streamed(keys));
        if keys.is_refused() {
            let error = Some(ClientError::UnknownCommand.into());
            return Parsed::Bad(Bad { error, frame, consumed, swallow: 0, close: false });
        }
        Parsed::Skipped { consumed }
    }

    /// Ends the current list, if there is one, because the caller has sent an error in place of its
    /// end. The parser skips the rest of the line.
    pub fn end_list(&mut self) {
        self.list = self.list.map(|_| List::Streamed(StreamedKeys::REFUSED));
    }

    /// True if no line with keys is in progress.
    pub fn is_between_commands(&self) -> bool {
        self.list.is_none()
    }

    #[cold]
    fn go_on_streaming<'a>(&mut self, input: &'a [u8]) -> Parsed<'a> {
        let Some(List::Streamed(keys)) = &mut self.list else { return Parsed::NeedMore };
        let (parsed, is_over) = keys.next(input);
        if is_over {
            self.list = None;
        }
        parsed
    }
}

/// True if `input` begins with the name of a command, regardless of the rest. False for every
/// response of any dialect.
pub(crate) fn names_command(input: &[u8]) -> bool {
    let is_end = |byte: &u8| matches!(byte, b' ' | b'\r' | b'\n');
    let name = input.split(is_end).next().unwrap_or_default();
    NAMES.contains(&name)
}

#[cold]
fn bad_format<'a>(line: &Line<'a>) -> Parsed<'a> {
    let error = Some(ClientError::BadFormat.into());
    Parsed::Bad(Bad {
        error,
        frame: Frame::default(),
        consumed: line.bytes,
        swallow: 0,
        close: false,
    })
}

/// The names of all commands, sorted.
pub(crate) const NAMES: [&[u8]; 46] = [
    b"add",
    b"append",
    b"cache_memlimit",
    b"cas",
    b"config",
    b"debugtime",
    b"decr",
    b"delete",
    b"delete_prefix",
    b"flush_all",
    b"gat",
    b"gats",
    b"get",
    b"gets",
    b"incr",
    b"larder_fetch",
    b"larder_follow",
    b"larder_follower",
    b"larder_kill",
    b"larder_name",
    b"larder_read",
    b"larder_region",
    b"larder_warm",
    b"lease-get",
    b"lease-set",
    b"lru",
    b"lru_crawler",
    b"ma",
    b"md",
    b"me",
    b"metaget",
    b"mg",
    b"mn",
    b"ms",
    b"prepend",
    b"quit",
    b"refresh_certs",
    b"replace",
    b"set",
    b"shutdown",
    b"slabs",
    b"stats",
    b"touch",
    b"verbosity",
    b"version",
    b"watch",
];

const GET: Ask = Ask::Get { with_cas: false, exptime: None };

/// The minimum length of a line in bytes, including its end. A shorter line is refused.
const LINE_BYTES_MIN: usize = 4;

#[cfg(test)]
mod tests;
