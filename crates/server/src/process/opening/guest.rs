//! A guest: a connection that is served while the cache opens, before it belongs to a worker.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::exchange::{Exchange, Status, Step};
use crate::net::inbox::{NewConnection, Transport};
use crate::net::terms::ListenerTerms;

/// A connection that does not belong to a worker yet.
#[derive(Debug)]
pub(super) struct Guest {
    socket: OwnedFd,
    transport: Transport,
    terms: ListenerTerms,
    exchange: Exchange,
    out: Vec<u8>,
    /// True if the connection ends once its output is sent.
    closes: bool,
    /// The time until which the next request waits for the cache.
    waits_until: Option<Instant>,
    awaits: Awaits,
}

/// The event that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaits {
    /// More input.
    Input,
    /// The peer must read.
    Output,
    /// The cache must be open, or this time must pass.
    Until(Instant),
    /// Nothing, because the connection has ended.
    Nothing,
}

impl Guest {
    pub(super) fn new(socket: OwnedFd, transport: Transport, terms: ListenerTerms) -> Self {
        let exchange = Exchange::new(terms.protocol);
        let (out, closes, waits_until, awaits) = (Vec::new(), false, None, Awaits::Input);
        Self { socket, transport, terms, exchange, out, closes, waits_until, awaits }
    }

    pub(super) fn awaits(&self) -> Awaits {
        self.awaits
    }

    /// True if a worker can continue the connection, because it is not in the middle of a response.
    pub(super) fn is_between_requests(&self) -> bool {
        !self.closes && self.out.is_empty() && self.exchange.is_between_requests()
    }

    /// Returns the connection in the form that a worker accepts.
    pub(super) fn hand_over(self) -> NewConnection {
        let Self { socket, transport, terms, .. } = self;
        NewConnection { socket, transport, terms }
    }

    /// Answers the requests that have arrived. A request that needs the cache waits for at most
    /// `patience`.
    pub(super) fn serve(&mut self, patience: Duration, status: &Status) {
        self.awaits = match self.turn(patience, status) {
            Ok(awaits) => awaits,
            // The peer has closed the connection, or it is broken.
            Err(_) => Awaits::Nothing,
        };
    }

    fn turn(&mut self, patience: Duration, status: &Status) -> Result<Awaits, Errno> {
        let mut bytes = [0; PEEKED_BYTES];
        // Other connections take their turn after a few requests.
        for _ in 0..STEPS_MAX {
            if !self.send()? {
                return Ok(Awaits::Output);
            }
            if self.closes {
                return Ok(Awaits::Nothing);
            }
            let peeked = match recv(&self.socket, &mut bytes, PEEK) {
                Ok((0, _)) => return Ok(Awaits::Nothing),
                Ok((peeked, _)) => peeked,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(error) => return Err(error),
            };
            let now = Instant::now();
            let refuses = self.waits_until.is_some_and(|until| until <= now);
            match self.exchange.step(&bytes[..peeked], refuses, status, &mut self.out) {
                Step::Consumed(consumed) => {
                    self.take(consumed)?;
                    self.waits_until = None;
                }
                Step::Close(consumed) => {
                    self.take(consumed)?;
                    self.closes = true;
                }
                Step::NeedMore if peeked == 0 => return Ok(Awaits::Input),
                // The peeked bytes keep the socket readable, so readiness does not show when the
                // rest of the line arrives. The connection checks again a little later.
                Step::NeedMore => return Ok(Awaits::Until(now + PART_PAUSE)),
                Step::Wait => {
                    let until = *self.waits_until.get_or_insert(now + patience);
                    return Ok(Awaits::Until(until));
                }
            }
        }
        Ok(Awaits::Until(Instant::now()))
    }

    /// Removes bytes from the socket that were only peeked at.
    fn take(&self, mut count: usize) -> Result<(), Errno> {
        let mut bytes = [0; PEEKED_BYTES];
        while count > 0 {
            let (taken, _) = recv(&self.socket, &mut bytes[..count], RecvFlags::DONTWAIT)?;
            count -= taken;
        }
        Ok(())
    }

    /// Sends output. Returns false if the peer does not read.
    fn send(&mut self) -> Result<bool, Errno> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        while !self.out.is_empty() {
            match send(&self.socket, &self.out, flags) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl AsFd for Guest {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Maximum number of bytes to peek at. A longer line waits for the cache.
const PEEKED_BYTES: usize = 16 * 1024;

const PEEK: RecvFlags = RecvFlags::PEEK.union(RecvFlags::DONTWAIT);

/// How long to wait before an incomplete line is checked again.
const PART_PAUSE: Duration = Duration::from_millis(20);

/// Maximum number of requests that a connection may make in one turn.
const STEPS_MAX: usize = 64;
