//! Requests to stop.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use rustix::io;

use crate::waker::Waker;

/// How to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// At once.
    Now,
    /// Execute the input that has arrived, and send the responses first.
    Graceful,
}

/// Whether the server is to stop. The first request wins.
#[derive(Debug)]
pub(crate) struct Stop {
    wish: AtomicU8,
    waker: Waker,
}

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { wish: AtomicU8::new(RUN), waker: Waker::new()? })
    }

    /// Requests a stop. The listener, which waits for [`Stop::waker`], wakes the workers.
    pub(crate) fn request(&self, manner: Manner) {
        let wish = match manner {
            Manner::Now => STOP_NOW,
            Manner::Graceful => STOP_GRACEFULLY,
        };
        // Fails if a stop has been requested already.
        let _ = self.wish.compare_exchange(RUN, wish, Relaxed, Relaxed);
        self.waker.wake();
    }

    /// Returns how the server is to stop; `None` if it is not.
    pub(crate) fn requested(&self) -> Option<Manner> {
        match self.wish.load(Relaxed) {
            STOP_NOW => Some(Manner::Now),
            STOP_GRACEFULLY => Some(Manner::Graceful),
            _ => None,
        }
    }

    /// Readable when the server is to stop.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
}

const RUN: u8 = 0;
const STOP_NOW: u8 = 1;
const STOP_GRACEFULLY: u8 = 2;
