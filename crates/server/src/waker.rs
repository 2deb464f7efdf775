//! Wakes a thread that waits for descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io;

/// A descriptor that one thread makes readable to wake the threads that wait for it.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map(Self)
    }

    /// Makes the descriptor readable.
    pub(crate) fn wake(&self) {
        // The write fails only if the wake counter is at its limit. The descriptor is readable
        // then.
        let _ = io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable until the next wake.
    pub(crate) fn reset(&self) {
        // The read fails only if the descriptor was not woken.
        let _ = io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A result that another thread produces for a session, which waits without blocking its worker.
#[derive(Debug)]
pub(crate) struct Promise<T> {
    result: OnceLock<T>,
    /// Wakes the worker of the session.
    waker: Arc<Waker>,
}

impl<T: Clone> Promise<T> {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self { result: OnceLock::new(), waker }
    }

    /// Sets the result and wakes the worker. A second result has no effect.
    pub(crate) fn fulfil(&self, result: T) {
        if self.result.set(result).is_ok() {
            self.waker.wake();
        }
    }

    /// Returns the result; `None` while the session must wait.
    pub(crate) fn result(&self) -> Option<T> {
        self.result.get().cloned()
    }
}
