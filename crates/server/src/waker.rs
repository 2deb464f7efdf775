//! Wakes a thread that waits for descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

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
