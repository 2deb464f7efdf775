//! Wakes a thread that waits for descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{self, Wake};

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

/// The connections of a worker that have received what they wait for, each by its number.
#[derive(Debug)]
pub(crate) struct WakeList {
    numbers: Mutex<Vec<u64>>,
    waker: Arc<Waker>,
}

/// Wakes a worker for one of its connections.
struct ConnectionWaker {
    list: Arc<WakeList>,
    number: u64,
}

impl WakeList {
    /// Creates an empty list. `waker` wakes the worker.
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self { numbers: Mutex::default(), waker }
    }

    /// Takes the connections that were added since the last call.
    pub(crate) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.numbers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns what adds a connection to the list.
    pub(crate) fn waker_of(self: &Arc<Self>, number: u64) -> task::Waker {
        Arc::new(ConnectionWaker { list: Arc::clone(self), number }).into()
    }

    /// Returns what wakes the worker.
    pub(crate) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }
}

impl Wake for ConnectionWaker {
    fn wake(self: Arc<Self>) {
        let mut numbers = self.list.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.push(self.number);
        let is_first = numbers.len() == 1;
        drop(numbers);
        if is_first {
            self.list.waker.wake();
        }
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
