//! A conversation: one connection of a transcript. It sends bytes in pieces, and compares the
//! received bytes with the expected ones.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use larder_protocol::binary::{HEADER_BYTES, Header, REQUEST_MAGIC};

use super::packet::{self, Packet};
use super::split::Split;
use super::template::{Numbers, Template};
use crate::{ServerUnderTest, Stream};

/// A connection, and the bytes that it has received but not compared yet.
pub(super) struct Conversation {
    stream: Stream,
    /// The bytes from the thread that receives. It does this while the transcript is still sending,
    /// so that a server that responds early is never blocked.
    incoming: Receiver<Vec<u8>>,
    received: Vec<u8>,
    is_closed: bool,
    /// True if the connection began with a binary request.
    is_binary: bool,
    skips_lines: bool,
}

impl Conversation {
    pub(super) fn open(server: &ServerUnderTest) -> Result<Self> {
        let stream = server.connect()?;
        let mut reader = stream.try_clone()?;
        reader.set_timeout(Duration::from_secs(600))?;
        let (pieces, incoming) = channel();
        thread::spawn(move || {
            let mut piece = vec![0; 64 << 10];
            while let Ok(count @ 1..) = reader.read(&mut piece) {
                if pieces.send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            stream,
            incoming,
            received: Vec::new(),
            is_closed: false,
            is_binary: false,
            skips_lines: false,
        })
    }

    /// Sends in pieces, with a pause after each, so that the server receives them one by one. Drops
    /// bytes that cannot be sent because the server has closed the connection.
    pub(super) fn send(&mut self, bytes: &[u8], split: Split) {
        self.is_binary |= bytes.first() == Some(&REQUEST_MAGIC);
        let mut rest = bytes;
        for length in split.pieces(bytes.len()) {
            let (piece, behind) = rest.split_at(length);
            if self.stream.write_all(piece).is_err() {
                return;
            }
            rest = behind;
            if !rest.is_empty() {
                sleep(PAUSE);
            }
        }
    }

    pub(super) fn send_no_more(&self) -> Result<()> {
        Ok(self.stream.shutdown(Shutdown::Write)?)
    }

    /// Lets the next [`Self::expect`] skip lines that differ.
    pub(super) fn skip_lines(&mut self) {
        self.skips_lines = true;
    }

    /// Receives and removes the bytes that a template describes.
    pub(super) fn expect(&mut self, template: &Template, numbers: &mut Numbers) -> Result<()> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        if std::mem::take(&mut self.skips_lines) {
            return self.expect_line_among_others(template, numbers, deadline);
        }
        let length = match template.exact() {
            Some(exact) => {
                while self.received.len() < exact.len() && exact.starts_with(&self.received) {
                    if !self.receive(deadline) {
                        break;
                    }
                }
                self.received.starts_with(exact).then_some(exact.len())
            }
            None => {
                let line_bytes = self.receive_line(deadline);
                template.matches(&self.received[..line_bytes], numbers).then_some(line_bytes)
            }
        };
        let Some(length) = length else { bail!("{}", self.found()) };
        self.received.drain(..length);
        Ok(())
    }

    fn expect_line_among_others(
        &mut self,
        template: &Template,
        numbers: &mut Numbers,
        deadline: Instant,
    ) -> Result<()> {
        let mut passed = Vec::new();
        loop {
            let line_bytes = self.receive_line(deadline);
            let line: Vec<_> = self.received.drain(..line_bytes).collect();
            if template.matches(&line, numbers) {
                return Ok(());
            }
            if !line.ends_with(b"\r\n") {
                bail!("only {}", passed.escape_ascii());
            }
            passed.extend_from_slice(&line);
        }
    }

    /// True if the connection uses the binary protocol.
    pub(super) fn is_binary(&self) -> bool {
        self.is_binary
    }

    /// Receives and removes a binary response.
    pub(super) fn expect_answer(&mut self, packet: &Packet, numbers: &mut Numbers) -> Result<()> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let skips = std::mem::take(&mut self.skips_lines);
        loop {
            let Some((header, bytes)) = self.receive_answer(deadline) else {
                bail!("{}", self.found());
            };
            let answer: Vec<_> = self.received.drain(..bytes).collect();
            let body = &answer[HEADER_BYTES..];
            if packet.matches(&header, body, numbers) {
                return Ok(());
            }
            if !skips {
                bail!("{}", packet::shown(&header, body));
            }
        }
    }

    /// Receives until a binary response is complete. Returns its header and length.
    fn receive_answer(&mut self, deadline: Instant) -> Option<(Header, usize)> {
        loop {
            match packet::answer_bytes(&self.received) {
                Some((header, bytes)) if self.received.len() >= bytes => {
                    return Some((header, bytes));
                }
                _ if self.receive(deadline) => {}
                _ => return None,
            }
        }
    }

    /// Receives the end of the connection.
    pub(super) fn expect_closed(&mut self) -> Result<()> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        while self.received.is_empty() && self.receive(deadline) {}
        if !(self.is_closed && self.received.is_empty()) {
            bail!("{}", self.found());
        }
        Ok(())
    }

    /// Receives until a line is complete. Returns its length, or the length of all bytes if no line
    /// end arrives.
    fn receive_line(&mut self, deadline: Instant) -> usize {
        loop {
            if let Some(at) = self.received.windows(2).position(|end| end == b"\r\n") {
                return at + 2;
            }
            if !self.receive(deadline) {
                return self.received.len();
            }
        }
    }

    fn receive(&mut self, deadline: Instant) -> bool {
        let timeout = deadline.saturating_duration_since(Instant::now());
        match self.incoming.recv_timeout(timeout) {
            Ok(piece) => {
                self.received.extend_from_slice(&piece);
                true
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.is_closed = true;
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
        }
    }

    /// Describes the bytes that were received instead.
    fn found(&mut self) -> String {
        while self.received.len() < SHOWN_BYTES && self.receive(Instant::now() + LATE) {}
        let shown = &self.received[..self.received.len().min(SHOWN_BYTES)];
        let end = match (self.is_closed, shown.len() < self.received.len()) {
            (_, true) => " …",
            (true, _) => " <closed>",
            (false, _) => " and then nothing",
        };
        format!("{}{end}", shown.escape_ascii())
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // Also ends the receiving thread. An error is harmless: the server has closed the
        // connection.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_micros(20);
const LATE: Duration = Duration::from_millis(50);
const SHOWN_BYTES: usize = 300;
