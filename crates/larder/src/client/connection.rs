//! A connection to a server.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use larder_protocol::local::{ANSWER_BYTES_MAX, REQUEST, Region};
use larder_protocol::meta::client::{ParsedReply, Reply, read_reply};
use larder_region::platform::Received;
use larder_region::platform::socket::Socket;

use super::hints::Hints;

/// The memory that a server has passed to the client, and its description.
pub(super) type PassedMemory = (Region, File);

/// A connection, with the received bytes that are not parsed yet.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    received: Vec<u8>,
    /// Length of the parsed part of `received`.
    read_bytes: usize,
    /// Hints that the socket has not accepted yet; they are sent before the next request.
    unsent: Vec<u8>,
    /// True if the server wants hints about reads in its memory.
    hears_hints: bool,
}

impl Connection {
    /// Connects, and requests the server's memory. The connection also works if the server does not
    /// support this request or refuses it.
    pub(super) fn open(path: &Path, timeout: Duration) -> io::Result<(Self, Option<PassedMemory>)> {
        let socket = Socket::connect(path, timeout)?;
        let mut connection = Self {
            socket,
            received: Vec::new(),
            read_bytes: 0,
            unsent: Vec::new(),
            hears_hints: false,
        };
        connection.send(&[REQUEST, b"\r\n"])?;
        let passed = connection.receive_region()?;
        connection.hears_hints = passed.is_some();
        Ok((connection, passed))
    }

    /// True unless the server has closed the connection or has sent unsolicited bytes. After
    /// unsolicited bytes, replies cannot be matched to requests.
    pub(super) fn is_alive(&self) -> bool {
        self.socket.is_quiet() && self.read_bytes == self.received.len()
    }

    /// Sends all parts.
    pub(super) fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        for mut rest in std::iter::once(&unsent[..]).chain(parts.iter().copied()) {
            while !rest.is_empty() {
                rest = &rest[self.socket.send(rest)?..];
            }
        }
        Ok(())
    }

    /// Queues hints to be sent with the next request.
    pub(super) fn take_along(&mut self, hints: &mut Hints) {
        if self.hears_hints && self.unsent.len() < UNSENT_BYTES_MAX {
            hints.move_to(&mut self.unsent);
        }
    }

    /// Sends as many hints as the socket accepts without waiting. Returns false if the server is
    /// gone.
    pub(super) fn send_aside(&mut self, hints: &mut Hints) -> bool {
        self.take_along(hints);
        match self.socket.send_now(&self.unsent) {
            Ok(sent) => {
                self.unsent.drain(..sent);
                true
            }
            Err(_) => false,
        }
    }

    /// Waits for the next reply.
    pub(super) fn reply(&mut self) -> Result<Reply<'_>, ExchangeError> {
        if self.read_bytes == self.received.len() {
            self.received.clear();
            self.received.shrink_to(KEPT_BYTES_MAX);
            self.read_bytes = 0;
        }
        let start = self.read_bytes;
        loop {
            match read_reply(&self.received[start..]) {
                ParsedReply::Reply { consumed, .. } => {
                    self.read_bytes = start + consumed;
                    break;
                }
                ParsedReply::NeedMore { bytes_min } if bytes_min <= REPLY_BYTES_MAX => {}
                ParsedReply::NeedMore { .. } | ParsedReply::Bad => {
                    let shown = self.received[start..].iter().take(80);
                    let shown = shown.copied().collect::<Vec<_>>().escape_ascii().to_string();
                    return Err(ExchangeError::Protocol(shown));
                }
            }
            self.receive()?;
        }
        match read_reply(&self.received[start..]) {
            ParsedReply::Reply { reply, .. } => Ok(reply),
            ParsedReply::NeedMore { .. } | ParsedReply::Bad => {
                unreachable!("the loop above has parsed this reply")
            }
        }
    }

    /// Receives more bytes. The buffer grows with the bytes that arrive, not with the announced
    /// length.
    fn receive(&mut self) -> io::Result<()> {
        self.received.reserve(RECEIVED_BYTES_MIN);
        match self.socket.receive(&mut self.received)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Receives the reply to [`REQUEST`], and the descriptor attached to it.
    fn receive_region(&mut self) -> io::Result<Option<PassedMemory>> {
        let (mut line, mut file) = (Vec::new(), None);
        while !line.ends_with(b"\n") {
            let mut bytes = [0; ANSWER_BYTES_MAX];
            let Received { bytes: received, file: attached } =
                self.socket.receive_file(&mut bytes)?;
            file = attached.or(file);
            if received == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            line.extend_from_slice(&bytes[..received]);
            if line.len() > ANSWER_BYTES_MAX {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "the server does not use memcached's protocol",
                ));
            }
        }
        let line = line.strip_suffix(b"\r\n").unwrap_or(&line);
        Ok(Region::read(line).zip(file))
    }
}

/// The reason why there is no reply.
pub(super) enum ExchangeError {
    Io(io::Error),
    Protocol(String),
}

impl From<io::Error> for ExchangeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Longest reply, in bytes: the largest value that a server can be configured to accept, plus the
/// reply line.
const REPLY_BYTES_MAX: u64 = (1 << 30) + 512;
const RECEIVED_BYTES_MIN: usize = 16 << 10;
/// Largest receive buffer, in bytes, that is kept between replies.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Largest number of bytes of hints kept for a stopped server.
const UNSENT_BYTES_MAX: usize = 64 << 10;
