//! A connection with what is under way on it.

use std::io;
use std::time::Duration;

use anyhow::Result;
use rustix::event::epoll;
use std::os::fd::OwnedFd;

use crate::request::ask::Ask;
use crate::wire::channel::Channel;
use crate::wire::pending::Pending;

/// A connection, the requests on it that are not answered, and what could not be sent or read whole.
pub(crate) struct Pipeline {
    pub(crate) channel: Channel,
    pub(crate) pending: Pending,
    /// Requests that the batch still lacks.
    pub(crate) batch_left: u32,
    /// When the batch began.
    pub(crate) batch_ns: u64,
    /// When something was last heard, or first asked after a silence.
    pub(crate) heard_ns: u64,
    /// If it is lost: when it is to be opened anew. At once where it has been answered.
    pub(crate) pause: Duration,
    /// Is it among those that may be asked?
    pub(crate) is_listed: bool,
    /// The beginning of a reply.
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

    /// Must what is asked next wait for the socket?
    pub(crate) fn is_blocked(&self) -> bool {
        self.unsent_from < self.unsent.len()
    }

    /// Is an answer awaited?
    pub(crate) fn is_asking(&self) -> bool {
        !self.pending.is_empty() || self.is_blocked()
    }

    /// Asks for what the batch lacks, as far as the socket takes it. Requests are only written once
    /// those before them are sent, so that memory does not depend on how many a batch has.
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

    /// Sends what the socket did not take before.
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

    /// Has the system say when there is room to send, where that is waited for.
    ///
    /// # Errors
    /// Those of the system.
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

    /// Keeps the beginning of a reply, in no more memory than it needs.
    pub(crate) fn keep(&mut self, mut received: Vec<u8>, used: usize) {
        received.drain(..used);
        if received.is_empty() && received.capacity() > KEPT_BYTES_MAX {
            received = Vec::new();
        }
        self.received = received;
    }
}

/// Why a connection is of no more use.
#[derive(Debug)]
pub(crate) struct Ended {
    /// In a few words, to be counted by.
    pub(crate) kind: &'static str,
    /// For people, without the server's address.
    pub(crate) reason: String,
    /// Is it gone, but nothing wrong with it?
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
        let reason = "the server closed the connection before it had answered".to_owned();
        Self { kind: "connection closed", reason, is_loss: true }
    }
}

/// So much is written before it is sent.
const SENT_BYTES_MIN: usize = 64 << 10;
/// So much memory a connection keeps without need.
const KEPT_BYTES_MAX: usize = 16 << 10;
