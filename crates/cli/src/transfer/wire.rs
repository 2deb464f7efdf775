//! A connection whose replies are read line by line, and whose values are read in pieces.

use std::fmt;
use std::io::{ErrorKind, Read, Write};

use anyhow::{Result, anyhow};
use larder_loadgen::address::Address;
use larder_loadgen::connect::ANSWER_SECS_MAX;
use larder_loadgen::connect::dialer::Dialer;
use larder_loadgen::connect::stream::Stream;
use larder_protocol::base64;

/// A connection to a server, with the bytes that are received and not read.
#[derive(Debug)]
pub(super) struct Wire {
    dialer: Dialer,
    stream: Stream,
    /// True if the server has sent a line.
    is_answered: bool,
    buffer: Box<[u8]>,
    /// The unread bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
}

/// The reason why a conversation cannot go on.
#[derive(Debug)]
pub(super) enum WireError {
    /// The connection has ended, or the server is silent.
    Lost(String),
    /// The server's bytes are not of memcached's protocol, or the caller cannot use them.
    Other(anyhow::Error),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(reason) => f.write_str(reason),
            Self::Other(error) => write!(f, "{error:#}"),
        }
    }
}

impl std::error::Error for WireError {}

impl From<anyhow::Error> for WireError {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl Wire {
    /// Connects and logs in.
    ///
    /// # Errors
    /// No address of the host accepts the connection, TLS cannot be agreed on, or the login is
    /// refused. The message names a remedy.
    pub(super) fn open(dialer: &Dialer) -> Result<Self> {
        let stream = dialer.open()?;
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        let dialer = dialer.clone();
        Ok(Self { dialer, stream, is_answered: false, buffer, start: 0, end: 0 })
    }

    /// Opens a new connection to the same server in place of this one.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub(super) fn reopen(&mut self) -> Result<()> {
        *self = Self::open(&self.dialer)?;
        Ok(())
    }

    /// Returns the address of the server.
    pub(super) fn address(&self) -> &Address {
        self.dialer.address()
    }

    /// True if the server answers all of several requests that arrive together. Over TLS memcached
    /// may leave some of them unread until more bytes arrive; larderd, which has statistics that
    /// memcached does not have, reads them all.
    pub(super) fn takes_batches(&mut self) -> Result<bool, WireError> {
        if !self.dialer.has_tls() {
            return Ok(true);
        }
        self.send(b"stats larder\r\n")?;
        let mut is_larderd = false;
        while self.line()?.starts_with(b"STAT ") {
            is_larderd = true;
        }
        Ok(is_larderd)
    }

    /// Sends bytes.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        let sent = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        sent.map_err(|error| WireError::Lost(self.reason("takes no bytes", &error)))
    }

    /// Waits for the next line and returns it without its end.
    pub(super) fn line(&mut self) -> Result<&[u8], WireError> {
        let mut searched = 0;
        let newline = loop {
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
        let line = &self.buffer[self.start..newline];
        self.start = newline + 1;
        self.is_answered = true;
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// Reads a value of `value_bytes` and the line end behind it. `take` gets its pieces.
    pub(super) fn value(
        &mut self,
        value_bytes: u32,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<(), WireError> {
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

    /// Returns the error for bytes that are not of the protocol.
    pub(super) fn foreign(&self) -> anyhow::Error {
        match self.diagnosis() {
            Some(reason) => anyhow!("{}: {reason}", self.address()),
            None => anyhow!(
                "{} does not answer in memcached's protocol: check that it is the address of a \
                 memcached",
                self.address()
            ),
        }
    }

    /// Asks a server that has not answered so far what it speaks.
    fn diagnosis(&self) -> Option<String> {
        (!self.is_answered).then(|| self.dialer.diagnosis()).flatten()
    }

    fn receive(&mut self) -> Result<(), WireError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let received = loop {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) => break Err(ErrorKind::ConnectionReset.into()),
                received => break received,
            }
        };
        self.end += received.map_err(|error| WireError::Lost(self.reason("is silent", &error)))?;
        Ok(())
    }

    fn reason(&self, state: &str, error: &std::io::Error) -> String {
        let address = self.address();
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!(
                "{address} {state} for {ANSWER_SECS_MAX} s: it is stopped, overloaded, or not a \
                 memcached"
            ),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => match self.diagnosis() {
                Some(reason) => format!("{address}: {reason}"),
                None => format!("{address} closed the connection"),
            },
            _ => format!("the connection to {address} failed: {error}"),
        }
    }
}

/// Appends a key as a meta command takes it, and returns true if it needs the flag `b`: a line
/// cannot hold it, so it is written in base64.
pub(super) fn push_key(out: &mut Vec<u8>, key: &[u8]) -> bool {
    let is_word = key.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    match is_word {
        true => out.extend_from_slice(key),
        false => base64::encode(out, key),
    }
    !is_word
}

/// True if base64 makes the key longer than a key may be. Only the binary protocol has such keys.
pub(super) fn may_be_refused(key: &[u8]) -> bool {
    let mut written = Vec::with_capacity(WRITTEN_BYTES_MAX);
    push_key(&mut written, key) && written.len() > KEY_BYTES_MAX
}

/// Returns a key for a message: bytes outside 0x21 to 0x7e are escaped.
pub(crate) fn escaped(key: &[u8]) -> String {
    let escape = |byte: &u8| match byte {
        b'!'..=b'~' if *byte != b'\\' => char::from(*byte).to_string(),
        b'\\' => "\\\\".to_owned(),
        _ => format!("\\x{byte:02x}"),
    };
    key.iter().map(escape).collect()
}

const BUFFER_BYTES: usize = 64 << 10;
/// A line of a key list has at most 750 bytes of key and some 120 of numbers.
const LINE_BYTES_MAX: usize = 8 << 10;
const KEY_BYTES_MAX: usize = 250;
/// The length of a key of 250 bytes in base64.
const WRITTEN_BYTES_MAX: usize = 336;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_line_can_hold_are_written_in_base64() {
        for (key, written, is_binary) in [
            (&b"plain\xc3\xa9"[..], &b"plain\xc3\xa9"[..], false),
            (b"a b", b"YSBi", true),
            (b"\0", b"AA==", true),
            (b"\x7f", b"fw==", true),
        ] {
            let mut out = Vec::new();
            assert_eq!((push_key(&mut out, key), &out[..]), (is_binary, written));
        }
        assert!(!may_be_refused(&[b'k'; 250]));
        assert!(!may_be_refused(&[b' '; 186]));
        assert!(may_be_refused(&[b' '; 188]));
    }

    #[test]
    fn keys_are_shown_without_control_bytes() {
        assert_eq!(escaped(b"a\x1b]0;x\x07 \xff\\n"), r"a\x1b]0;x\x07\x20\xff\\n");
    }
}
