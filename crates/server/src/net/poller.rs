//! Waits for events of descriptors, with epoll or with an io_uring that also receives and sends.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use larder_options::Io;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;

use crate::net::ring::event::Event;
use crate::net::ring::{KEY_MAX, Ring};
use crate::net::token::Token;

/// The event source of a worker.
#[derive(Debug)]
pub(crate) enum Poller {
    Epoll(OwnedFd),
    Ring(Box<Ring>),
}

/// The reason why the system does not allow a ring.
#[derive(Debug)]
pub(crate) struct NoRing(io::Error);

impl Poller {
    /// Creates the poller that the option names. With [`Io::Auto`] this is a ring if the system
    /// allows one. If it does not, also returns the reason.
    ///
    /// # Errors
    /// Fails if the requested poller is not available.
    pub(crate) fn new(io: Io) -> io::Result<(Self, Option<NoRing>)> {
        if io != Io::Epoll {
            match Ring::new() {
                Ok(ring) => return Ok((Self::Ring(Box::new(ring)), None)),
                Err(error) if io == Io::Uring => return Err(error),
                Err(error) => return Ok((Self::epoll()?, Some(NoRing(error)))),
            }
        }
        Ok((Self::epoll()?, None))
    }

    fn epoll() -> io::Result<Self> {
        Ok(Self::Epoll(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Binds the poller to the calling thread, which will wait on it.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub(crate) fn enable(&mut self) -> io::Result<()> {
        match self {
            Self::Epoll(_) => Ok(()),
            Self::Ring(ring) => ring.enable(),
        }
    }

    /// Returns the ring, if the poller is one.
    pub(crate) fn ring(&mut self) -> Option<&mut Ring> {
        match self {
            Self::Epoll(_) => None,
            Self::Ring(ring) => Some(ring),
        }
    }

    /// Waits until a descriptor that is shared with other workers is readable. Each event wakes one
    /// of the waiting workers. `key` distinguishes the descriptor from connections.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub(crate) fn watch(&mut self, descriptor: &impl AsFd, key: u64) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => {
                Ok(epoll::add(epoll, descriptor, epoll::EventData::new_u64(key), SHARED)?)
            }
            Self::Ring(ring) => {
                ring.poll(descriptor.as_fd(), key, SHARED);
                Ok(())
            }
        }
    }

    /// Continues a [`Self::watch`] after an event.
    pub(crate) fn watch_on(&mut self, descriptor: &impl AsFd, key: u64) {
        if let Self::Ring(ring) = self {
            ring.poll(descriptor.as_fd(), key, SHARED);
        }
    }

    /// Ends a [`Self::watch`].
    pub(crate) fn stop_watching(&mut self, descriptor: &impl AsFd, key: u64) {
        match self {
            // The descriptor is registered, so this cannot fail.
            Self::Epoll(epoll) => drop(epoll::delete(epoll, descriptor)),
            Self::Ring(ring) => ring.stop_polling(key),
        }
    }

    /// Waits for an event of a connection. `before` is the event that it waited for so far, empty
    /// at first.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub(crate) fn await_event(
        &mut self,
        connection: &impl AsFd,
        token: Token,
        before: EventFlags,
        event: EventFlags,
    ) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => {
                let data = epoll::EventData::new_u64(token.into());
                if before.is_empty() {
                    epoll::add(epoll, connection, data, event)?;
                } else {
                    epoll::modify(epoll, connection, data, event)?;
                }
            }
            Self::Ring(ring) => {
                if !before.is_empty() {
                    ring.stop_polling(token.into());
                }
                let (descriptor, key) = (connection.as_fd(), token.into());
                match event.contains(EventFlags::ET) {
                    true => ring.poll_on(descriptor, key, event.difference(EventFlags::ET)),
                    false => ring.poll(descriptor, key, event),
                }
            }
        }
        Ok(())
    }

    /// Waits for events, until the timeout if there is one.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        let epoll = match self {
            Self::Ring(ring) => return ring.wait(timeout, events),
            Self::Epoll(epoll) => epoll,
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut ready = [const { std::mem::MaybeUninit::uninit() }; EVENTS_MAX];
        match epoll::wait(&*epoll, &mut ready, timeout.as_ref()) {
            Ok((ready, _)) => {
                events.extend(
                    ready.iter().map(|event| Event::Ready(event.data.u64(), event.flags, false)),
                );
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl fmt::Display for NoRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "io_uring cannot be used ({}); epoll is used instead", self.0)
    }
}

/// The highest key. Tokens are far below it.
pub(crate) const LAST_KEY: u64 = KEY_MAX;

/// The flags with which several workers wait for an event that only one of them handles.
const SHARED: EventFlags = EventFlags::IN.union(EventFlags::EXCLUSIVE);

/// How many connections take a turn before the worker polls again.
const EVENTS_MAX: usize = 256;
