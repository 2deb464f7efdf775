//! A blocking connection to a server. Callers read complete replies, or single lines and the values
//! in pieces.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

use anyhow::{Result, anyhow};
use larder_loadgen::address::Address;
use larder_loadgen::connect::ANSWER_SECS_MAX;
use larder_loadgen::connect::dialer::Dialer;
use larder_loadgen::connect::stream::Stream;
use larder_protocol::text::client::{ParsedReply, Reply, read_reply};

/// A connection to a server, and the received bytes that are not parsed yet.
#[derive(Debug)]
pub(crate) struct Connection {
    dialer: Dialer,
    stream: Stream,
    /// True if the server has sent a reply.
    is_answered: bool,
    buffer: Vec<u8>,
    /// The unparsed bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
}

/// The reason why a conversation cannot continue.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The connection ended, or the server does not answer.
    Lost(String),
    /// The server's bytes are not memcached's protocol, or the caller cannot use them.
    Other(anyhow::Error),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(reason) => f.write_str(reason),
            Self::Other(error) => write!(f, "{error:#}"),
        }
    }
}

impl std::error::Error for Broken {}

impl From<anyhow::Error> for Broken {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl Connection {
    /// Connects, trying each of the host's addresses in turn, and logs in.
    ///
    /// # Errors
    /// No address accepts the connection, the TLS handshake fails, or the login is refused. The
    /// message names a remedy.
    pub(crate) fn open(dialer: &Dialer) -> Result<Self> {
        Ok(Self {
            dialer: dialer.clone(),
            stream: dialer.open()?,
            is_answered: false,
            buffer: vec![0; BUFFER_BYTES_MIN],
            start: 0,
            end: 0,
        })
    }

    /// Replaces this connection with a new one to the same server.
    ///
    /// # Errors
    /// Same as [`Self::open`].
    pub(crate) fn reopen(&mut self) -> Result<()> {
        *self = Self::open(&self.dialer)?;
        Ok(())
    }

    /// Returns the address of the server.
    pub(crate) fn address(&self) -> &Address {
        self.dialer.address()
    }

    /// True if the connection has TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.dialer.has_tls()
    }

    /// Sends requests.
    ///
    /// # Errors
    /// The server closed the connection or does not read the requests in time.
    pub(crate) fn send(&mut self, requests: &[u8]) -> Result<(), Broken> {
        let sent = self.stream.write_all(requests).and_then(|()| self.stream.flush());
        let reason = |error: io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!(
                "{} accepts no more bytes for {ANSWER_SECS_MAX} s: it is stopped, or it waits \
                 until its answers are read (send smaller requests)",
                self.address()
            ),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => self.closed(),
            _ => format!("cannot send to {}: {error}", self.address()),
        };
        sent.map_err(|error| Broken::Lost(reason(error)))
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// No reply arrives in time, the connection ends, or the bytes are not the text protocol.
    pub(crate) fn reply(&mut self) -> Result<Reply<'_>, Broken> {
        let reply_bytes = self.receive_reply()?;
        let at = self.start;
        self.start += reply_bytes;
        self.is_answered = true;
        match read_reply(&self.buffer[at..at + reply_bytes]) {
            ParsedReply::Reply { reply, .. } => Ok(reply),
            ParsedReply::NeedMore { .. } | ParsedReply::Bad => {
                unreachable!("receive() has parsed this reply already")
            }
        }
    }

    /// Waits for the next line of any kind, and returns it without its line end.
    ///
    /// # Errors
    /// Same as [`Self::reply`]; also if the line is longer than any line of the protocol.
    pub(crate) fn line(&mut self) -> Result<&[u8], Broken> {
        let mut searched = 0;
        let end = loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = unread[searched..].iter().position(|byte| *byte == b'\n') {
                break self.start + searched + at;
            }
            searched = unread.len();
            if searched > LINE_BYTES_MAX {
                return Err(self.foreign().into());
            }
            self.receive()?;
        };
        let line = &self.buffer[self.start..end];
        self.start = end + 1;
        self.is_answered = true;
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// Reads a value of `value_bytes` and the line end after it. Passes the pieces of the value to
    /// `take`.
    ///
    /// # Errors
    /// Same as [`Self::line`]; also the errors of `take`.
    pub(crate) fn value(
        &mut self,
        value_bytes: u32,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<(), Broken> {
        let mut missing = value_bytes as usize;
        while missing > 0 {
            if self.start == self.end {
                self.receive()?;
            }
            let piece_bytes = missing.min(self.end - self.start);
            take(&self.buffer[self.start..self.start + piece_bytes])?;
            self.start += piece_bytes;
            missing -= piece_bytes;
        }
        match self.line()? {
            b"" => Ok(()),
            _ => Err(self.foreign().into()),
        }
    }

    /// Receives until the buffer contains a complete reply, and returns its length.
    fn receive_reply(&mut self) -> Result<usize, Broken> {
        loop {
            match read_reply(&self.buffer[self.start..self.end]) {
                ParsedReply::Reply { consumed, .. } => return Ok(consumed),
                ParsedReply::NeedMore { bytes_min } if bytes_min <= REPLY_BYTES_MAX => {}
                ParsedReply::NeedMore { bytes_min } => {
                    let error = anyhow!(
                        "{} announces an answer of {bytes_min} bytes, expected at most \
                         {REPLY_BYTES_MAX}: check that it is the address of a memcached",
                        self.address()
                    );
                    return Err(error.into());
                }
                ParsedReply::Bad => return Err(self.foreign().into()),
            }
            self.receive()?;
        }
    }

    /// Makes space after the received bytes. The buffer grows with the bytes that have arrived,
    /// never by an announced length.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end * 2, 0);
        }
    }

    fn receive(&mut self) -> Result<(), Broken> {
        self.make_room();
        let received = loop {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => break Err(ErrorKind::ConnectionReset.into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received,
            }
        };
        let reason = |error: io::Error| match error.kind() {
            ErrorKind::ConnectionReset => self.closed(),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!(
                "no answer from {} within {ANSWER_SECS_MAX} s: it is stopped, overloaded, or not a \
                 memcached",
                self.address()
            ),
            _ => format!("cannot receive from {}: {error}", self.address()),
        };
        self.end += received.map_err(|error| Broken::Lost(reason(error)))?;
        Ok(())
    }

    /// Returns the reason why the server closed the connection.
    fn closed(&self) -> String {
        self.diagnosed().unwrap_or_else(|| {
            format!("{} closed the connection before it answered", self.address())
        })
    }

    /// Returns the error for bytes that are not memcached's text protocol.
    pub(crate) fn foreign(&self) -> anyhow::Error {
        let reason = self.diagnosed().unwrap_or_else(|| {
            format!(
                "{} does not answer in memcached's text protocol: check that it is the address of \
                 a memcached",
                self.address()
            )
        });
        anyhow!(reason)
    }

    /// Finds out which protocol the server speaks, if it has not answered yet. Returns the reason
    /// why it does not answer.
    fn diagnosed(&self) -> Option<String> {
        let reason = (!self.is_answered).then(|| self.dialer.diagnosis()).flatten()?;
        Some(format!("{}: {reason}", self.address()))
    }
}

/// Returns the error for a reply that does not match the request.
pub(crate) fn unexpected(reply: Reply<'_>) -> anyhow::Error {
    match reply {
        Reply::Error(line) => refused(line),
        other => anyhow!(
            "the server sent {}, which does not answer this request: it is not a memcached, or \
             another program shares its connection",
            name(other)
        ),
    }
}

/// Returns the error for an answer that begins with `ERROR`, `CLIENT_ERROR` or `SERVER_ERROR`.
pub(crate) fn refused(line: &[u8]) -> anyhow::Error {
    if line == b"CLIENT_ERROR unauthenticated" {
        return anyhow!("{LOGIN_DEMANDED}");
    }
    let remedy = REMEDIES.iter().find(|(answer, _)| line.starts_with(answer));
    let remedy = remedy.map_or_else(String::new, |(_, remedy)| format!("; {remedy}"));
    anyhow!("the server answered: {}{remedy}", line.escape_ascii())
}

/// The remedies for error responses of larderd and memcached, by their first bytes.
const REMEDIES: &[(&[u8], &str)] = &[
    (
        b"SERVER_ERROR object too large for cache",
        "the item is larger than the option -I of the server: raise it, or store less",
    ),
    (
        b"SERVER_ERROR out of memory",
        "the memory of the server is full: raise its option -m, or start it without -M",
    ),
    (b"ERROR", "it does not support this request; larderd does, other servers may not"),
];

/// Returns the first word of a reply.
fn name(reply: Reply<'_>) -> &'static str {
    match reply {
        Reply::Value(_) => "VALUE",
        Reply::Stat { .. } => "STAT",
        Reply::End => "END",
        Reply::Stored => "STORED",
        Reply::NotStored => "NOT_STORED",
        Reply::Exists => "EXISTS",
        Reply::NotFound => "NOT_FOUND",
        Reply::Deleted => "DELETED",
        Reply::Touched => "TOUCHED",
        Reply::Number(_) => "a number",
        Reply::Ok => "OK",
        Reply::Reset => "RESET",
        Reply::Version(_) => "VERSION",
        Reply::Error(_) => "an error",
    }
}

/// The error for a server that runs with `-Y`.
pub(crate) const LOGIN_DEMANDED: &str =
    "the server requires a login (-Y): give --user NAME and --password-file FILE";

const BUFFER_BYTES_MIN: usize = 64 << 10;
/// The longest line. A line of statistics or of a key list contains at most 750 bytes of key and
/// some numbers.
const LINE_BYTES_MAX: usize = 8 << 10;
/// The largest value that larderd and memcached can be configured to accept, with a line before it,
/// in bytes.
const REPLY_BYTES_MAX: u64 = (1 << 30) + 512;
