//! Requests to stop the server, by a signal or by a client's `shutdown`.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use rustix::io;

use crate::waker::Waker;

/// How to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Immediately.
    Now,
    /// Execute the input that has arrived and send the responses, then stop.
    Graceful,
}

/// Holds the request to stop. The first request wins.
#[derive(Debug)]
pub(crate) struct Stop {
    /// `RUN`, or the requested manner of the stop.
    wish: AtomicU8,
    waker: Waker,
}

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { wish: AtomicU8::new(RUN), waker: Waker::new()? })
    }

    /// Requests a stop. The listener waits for [`Stop::waker`] and then wakes the workers.
    pub(crate) fn request(&self, manner: Manner) {
        let wish = match manner {
            Manner::Now => STOP_NOW,
            Manner::Graceful => STOP_GRACEFULLY,
        };
        // Fails if a stop has been requested already.
        let _ = self.wish.compare_exchange(RUN, wish, Relaxed, Relaxed);
        self.waker.wake();
    }

    /// Returns how the server must stop; `None` if no stop was requested.
    pub(crate) fn requested(&self) -> Option<Manner> {
        match self.wish.load(Relaxed) {
            STOP_NOW => Some(Manner::Now),
            STOP_GRACEFULLY => Some(Manner::Graceful),
            _ => None,
        }
    }

    /// Returns the waker that becomes readable when a stop is requested.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
}

const RUN: u8 = 0;
const STOP_NOW: u8 = 1;
const STOP_GRACEFULLY: u8 = 2;
