//! A connection with its pending requests.

use std::io;
use std::time::Duration;

use anyhow::Result;
use rustix::event::epoll;
use std::os::fd::OwnedFd;

use crate::request::ask::Ask;
use crate::wire::channel::Channel;
use crate::wire::pending::Pending;

/// A connection, its pending requests, unsent bytes and the beginning of a reply.
pub(crate) struct Pipeline {
    pub(crate) channel: Channel,
    pub(crate) pending: Pending,
    /// Requests of the batch that are not written yet.
    pub(crate) batch_left: u32,
    /// The time at which the batch began.
    pub(crate) batch_ns: u64,
    /// The time of the last received byte, or of the first request after an idle time.
    pub(crate) heard_ns: u64,
    /// The pause before a lost connection is reopened; zero if it has ever received an answer.
    pub(crate) pause: Duration,
    /// True if the open loop lists the connection as free.
    pub(crate) is_listed: bool,
    /// The received beginning of a reply.
    pub(crate) received: Vec<u8>,
    unsent: Vec<u8>,
    unsent_from: usize,
    waits_to_send: bool,
}

impl Pipeline {
    pub(crate) fn new(channel: Channel, pause: Duration) -> Self {
        Self {
            channel,
            pending: Pending::default(),
            batch_left: 0,
            batch_ns: 0,
            heard_ns: 0,
            pause,
            is_listed: false,
            received: Vec::new(),
            unsent: Vec::new(),
            unsent_from: 0,
            waits_to_send: false,
        }
    }

    /// True if the next request must wait for the socket.
    pub(crate) fn is_blocked(&self) -> bool {
        self.unsent_from < self.unsent.len()
    }

    /// True if an answer is pending.
    pub(crate) fn is_asking(&self) -> bool {
        !self.pending.is_empty() || self.is_blocked()
    }

    /// Writes the rest of the batch as far as the socket takes it. A request is only written once
    /// those before it are sent, so that the memory does not depend on the size of a batch.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn pump(
        &mut self,
        ask: &mut Ask,
        out: &mut Vec<u8>,
        now_ns: u64,
    ) -> Result<(), Ended> {
        while self.batch_left > 0 && !self.is_blocked() {
            out.clear();
            if self.pending.is_empty() {
                self.heard_ns = now_ns;
            }
            while self.batch_left > 0 && out.len() < SENT_BYTES_MIN {
                self.batch_left -= 1;
                if !ask.push(out, &mut self.pending, self.batch_ns)? {
                    self.batch_left = 0;
                }
            }
            self.send(out)?;
        }
        Ok(())
    }

    fn send(&mut self, out: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while sent < out.len() {
            match self.channel.send(&out[sent..])? {
                0 => {
                    self.unsent.extend_from_slice(&out[sent..]);
                    break;
                }
                taken => sent += taken,
            }
        }
        Ok(())
    }

    /// Sends the bytes that the socket refused before.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() {
            self.channel.send(b"")?;
        }
        while self.is_blocked() {
            match self.channel.send(&self.unsent[self.unsent_from..])? {
                0 => return Ok(()),
                taken => self.unsent_from += taken,
            }
        }
        self.unsent.clear();
        self.unsent_from = 0;
        if self.unsent.capacity() > KEPT_BYTES_MAX {
            self.unsent = Vec::new();
        }
        Ok(())
    }

    /// Has epoll report when the socket is writable, while bytes are unsent.
    ///
    /// # Errors
    /// Errors of epoll.
    pub(crate) fn watch(&mut self, epoll: &OwnedFd, number: usize) -> io::Result<()> {
        let waits = self.is_blocked() || self.channel.has_unsent();
        if waits != self.waits_to_send {
            self.waits_to_send = waits;
            let flags = match waits {
                true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
                false => epoll::EventFlags::IN,
            };
            epoll::modify(epoll, &self.channel, epoll::EventData::new_u64(number as u64), flags)?;
        }
        Ok(())
    }

    /// Keeps the unparsed rest of a receive, in no more memory than it needs.
    pub(crate) fn keep(&mut self, mut received: Vec<u8>, used: usize) {
        received.drain(..used);
        if received.is_empty() && received.capacity() > KEPT_BYTES_MAX {
            received = Vec::new();
        }
        self.received = received;
    }
}

/// The reason why a connection is unusable.
#[derive(Debug)]
pub(crate) struct Ended {
    /// A few words by which errors are counted.
    pub(crate) kind: &'static str,
    /// The full reason, without the server's address.
    pub(crate) reason: String,
    /// True if the connection is lost and may be reopened.
    pub(crate) is_loss: bool,
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        match error.kind() {
            UnexpectedEof | ConnectionReset | BrokenPipe | ConnectionAborted => Self::closed(),
            _ => Self { kind: "connection failed", reason: error.to_string(), is_loss: true },
        }
    }
}

impl From<anyhow::Error> for Ended {
    fn from(error: anyhow::Error) -> Self {
        Self { kind: "request cannot be made", reason: format!("{error:#}"), is_loss: false }
    }
}

impl Ended {
    pub(crate) fn closed() -> Self {
        let reason = "the server closed the connection before it answered".to_owned();
        Self { kind: "connection closed", reason, is_loss: true }
    }
}

/// Requests are written up to this many bytes before they are sent.
const SENT_BYTES_MIN: usize = 64 << 10;
/// A larger buffer is freed when it is empty, in bytes.
const KEPT_BYTES_MAX: usize = 16 << 10;
