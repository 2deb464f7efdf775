//! The conversation with one client while the cache opens, without I/O. A few requests are
//! answered. The others wait for the cache, and are refused if it does not open in time.

use larder_options::Protocol;
use larder_protocol::{
    Command, Dialects, Frame, OwnedFrame, Parsed, Parser, Response, ServerError, StatsSection,
    WIRE_VERSION, render,
};

use crate::session::payload::payload_bytes;

/// The state that a server reports while it opens its cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Status {
    pub(super) percent: u8,
    pub(super) uptime_secs: u64,
    pub(super) unix_secs: u64,
    pub(super) connections: usize,
}

/// The caller's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// This number of bytes has been processed. The caller calls again with the rest.
    Consumed(usize),
    /// The bytes are incomplete.
    NeedMore,
    /// The next request waits for the cache.
    Wait,
    /// This number of bytes has been processed, and the connection ends once its output is sent.
    Close(usize),
}

/// The state of the conversation with one peer.
#[derive(Debug)]
pub(super) struct Exchange {
    parser: Parser,
    /// The number of bytes of a refused value that have not arrived yet.
    passing_bytes: u64,
    /// The response to send after these bytes.
    owed: Option<(Response, OwnedFrame)>,
}

impl Exchange {
    pub(super) fn new(protocol: Protocol) -> Self {
        let parser = Parser::new(match protocol {
            Protocol::Auto => Dialects::Any,
            Protocol::Ascii => Dialects::Text,
            Protocol::Binary => Dialects::Binary,
        });
        Self { parser, passing_bytes: 0, owed: None }
    }

    /// True if the next byte begins a request, so that a worker can continue the connection.
    pub(super) fn is_between_requests(&self) -> bool {
        self.passing_bytes == 0 && self.owed.is_none() && self.parser.is_between_commands()
    }

    /// Processes the bytes that have arrived. If `refuses` is true, a request that needs the cache
    /// has waited for its maximum time, and is refused.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        refuses: bool,
        status: &Status,
        out: &mut Vec<u8>,
    ) -> Step {
        if self.passing_bytes > 0 || self.owed.is_some() {
            return self.pass(input, out);
        }
        if input.is_empty() {
            return Step::NeedMore;
        }
        let mut parser = self.parser.clone();
        match parser.next(input) {
            Parsed::NeedMore => Step::NeedMore,
            Parsed::Skipped { consumed } => {
                self.parser = parser;
                Step::Consumed(consumed)
            }
            // Only a worker can produce the response that the options select.
            Parsed::Bad(_) if !refuses && self.parser.is_between_commands() => Step::Wait,
            Parsed::Bad(bad) => {
                self.parser = parser;
                self.passing_bytes = bad.swallow;
                self.owed = bad.error.map(|error| (error, bad.frame.keep()));
                if bad.close {
                    self.answer_owed(out);
                    return Step::Close(bad.consumed);
                }
                Step::Consumed(bad.consumed)
            }
            Parsed::Command { command: Command::Quit, frame, consumed } => {
                render::response(out, &Response::Close, &frame);
                Step::Close(consumed)
            }
            Parsed::Command { command, frame, consumed } => {
                let shows_progress = refuses || status.uptime_secs >= SHORT_SECS;
                if answer(&command, &frame, status, shows_progress, out) {
                    self.parser = parser;
                    return Step::Consumed(consumed);
                }
                // If one key of a list was refused, the remaining keys of the same line must not
                // wait: the error responds to the whole line.
                if !refuses && self.parser.is_between_commands() {
                    return Step::Wait;
                }
                self.parser = parser;
                if self.parser.is_between_commands() {
                    let error = ServerError::Recovering { percent: status.percent };
                    self.owed = Some((error.into(), frame.keep()));
                }
                if let Command::Store(store) = &command {
                    self.passing_bytes = payload_bytes(store, &frame) as u64;
                }
                Step::Consumed(consumed)
            }
        }
    }

    /// Skips the rest of a refused value, then sends the owed response, because the peer does not
    /// read earlier.
    fn pass(&mut self, input: &[u8], out: &mut Vec<u8>) -> Step {
        let bytes = input.len().min(usize::try_from(self.passing_bytes).unwrap_or(usize::MAX));
        self.passing_bytes -= bytes as u64;
        if self.passing_bytes > 0 && bytes == 0 {
            return Step::NeedMore;
        }
        if self.passing_bytes == 0 {
            self.answer_owed(out);
        }
        Step::Consumed(bytes)
    }

    fn answer_owed(&mut self, out: &mut Vec<u8>) {
        if let Some((response, kept)) = self.owed.take() {
            render::response(out, &response, &kept.frame());
        }
    }
}

/// Answers a request that needs no cache. Returns false if it needs one. Without `shows_progress`,
/// statistics wait for the cache, which has all of their rows.
fn answer(
    command: &Command<'_>,
    frame: &Frame<'_>,
    status: &Status,
    shows_progress: bool,
    out: &mut Vec<u8>,
) -> bool {
    let response = match command {
        Command::Version => Response::Version,
        Command::NoOp => Response::NoOp,
        Command::Stats(StatsSection::General) if shows_progress => {
            render::stat(out, "pid", std::process::id(), frame);
            render::stat(out, "uptime", status.uptime_secs, frame);
            render::stat(out, "time", status.unix_secs, frame);
            render::stat(out, "version", WIRE_VERSION, frame);
            render::stat(out, "curr_connections", status.connections, frame);
            render::stat(out, "recovering_percent", status.percent, frame);
            Response::EndOfStats
        }
        _ => return false,
    };
    render::response(out, &response, frame);
    true
}

/// Clients do not notice an opening that takes no longer than this.
const SHORT_SECS: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: Status = Status { percent: 43, uptime_secs: 2, unix_secs: 9, connections: 1 };

    /// Feeds the input in pieces of this length, and refuses requests that wait. Returns the
    /// output, and whether the connection ends.
    fn run(input: &[u8], piece: usize) -> (Vec<u8>, bool) {
        let (mut exchange, mut out) = (Exchange::new(Protocol::Auto), Vec::new());
        let (mut begin, mut end) = (0, 0);
        loop {
            match exchange.step(&input[begin..end], true, &STATUS, &mut out) {
                Step::Consumed(bytes) => begin += bytes,
                Step::NeedMore if end == input.len() => break,
                Step::NeedMore => end = (end + piece).min(input.len()),
                Step::Wait => panic!("what is refused does not wait"),
                Step::Close(_) => return (out, true),
            }
        }
        assert_eq!(begin, input.len(), "all of {} is consumed", input.escape_ascii());
        assert!(exchange.is_between_requests(), "after {}", input.escape_ascii());
        (out, false)
    }

    #[test]
    fn each_request_has_one_answer_however_it_arrives() {
        let refused = "SERVER_ERROR recovering (43 %)\r\n";
        for (input, expected) in [
            ("version\r\n", format!("VERSION {WIRE_VERSION}\r\n")),
            ("mn\r\n", "MN\r\n".to_owned()),
            ("get a\r\n", refused.to_owned()),
            ("get a b c\r\nmn\r\n", format!("{refused}MN\r\n")),
            ("mg a v\r\nmn\r\n", format!("{refused}MN\r\n")),
            ("set a 0 0 5\r\nhello\r\nmn\r\n", format!("{refused}MN\r\n")),
            ("set a 0 0 5 noreply\r\nhello\r\nmn\r\n", "MN\r\n".to_owned()),
            ("ms a 0\r\n\r\nmn\r\n", format!("{refused}MN\r\n")),
            ("delete a\r\nincr a 1\r\ntouch a 1\r\n", refused.repeat(3)),
            ("flush_all\r\n", refused.to_owned()),
            ("nonsense\r\nmn\r\n", "ERROR\r\nMN\r\n".to_owned()),
            ("stats items\r\n", refused.to_owned()),
        ] {
            for piece in [1, 3, input.len()] {
                let (out, is_over) = run(input.as_bytes(), piece);
                assert_eq!(String::from_utf8_lossy(&out), expected, "{input:?} by {piece}");
                assert!(!is_over, "{input:?}");
            }
        }
        assert_eq!(run(b"quit\r\n", 2), (Vec::new(), true));
        let (stats, _) = run(b"stats\r\n", 100);
        let stats = String::from_utf8(stats).unwrap();
        assert!(stats.contains("STAT recovering_percent 43\r\n"), "{stats}");
        assert!(stats.ends_with("END\r\n"), "{stats}");
    }

    #[test]
    fn a_request_that_needs_the_cache_or_is_malformed_waits_whole() {
        let mut out = Vec::new();
        let set = &b"set a 0 0 1\r\nx\r\n"[..];
        for input in [b"get a b\r\n", set, b"delete a\r\n", b"set a\r\n", b"\n"] {
            let mut exchange = Exchange::new(Protocol::Auto);
            assert_eq!(exchange.step(input, false, &STATUS, &mut out), Step::Wait);
            assert!(exchange.is_between_requests(), "nothing is consumed");
        }
        assert_eq!(out, b"");
    }

    #[test]
    fn statistics_wait_for_an_opening_that_is_short() {
        let (mut exchange, mut out) = (Exchange::new(Protocol::Auto), Vec::new());
        let short = Status { uptime_secs: 0, ..STATUS };
        assert_eq!(exchange.step(b"stats\r\n", false, &short, &mut out), Step::Wait);
        assert_eq!(out, b"", "the cache has more rows");
        let done = Step::Consumed("stats\r\n".len());
        assert_eq!(exchange.step(b"stats\r\n", false, &STATUS, &mut out), done);
        assert!(out.ends_with(b"END\r\n"), "an opening of two seconds shows its progress");
    }

    #[test]
    fn binary_requests_are_refused_as_a_temporary_failure() {
        let mut get = vec![0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 7];
        get.resize(24, 0);
        get.push(b'k');
        let (out, _) = run(&get, 5);
        assert_eq!((out[0], &out[6..8], &out[12..16]), (0x81, &[0, 0x86][..], &[0, 0, 0, 7][..]));
        let mut version = vec![0x80, 0x0b];
        version.resize(24, 0);
        let (out, _) = run(&version, 24);
        assert_eq!(&out[24..], WIRE_VERSION.as_bytes());
    }
}
