//! The change streams of a worker that have messages to send.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};

use crate::waker::Waker;

/// The descriptors of connections that another thread has woken.
#[derive(Debug)]
pub(crate) struct Woken {
    descriptors: Mutex<Vec<RawFd>>,
    /// Wakes the worker.
    waker: Arc<Waker>,
}

impl Woken {
    /// Creates an empty list. `waker` wakes the worker that reads it.
    pub(crate) fn new(waker: &Arc<Waker>) -> Self {
        Self { descriptors: Mutex::default(), waker: Arc::clone(waker) }
    }

    /// Adds a connection, and wakes the worker unless it is already awake for another one.
    pub(super) fn wake(&self, descriptor: RawFd) {
        let mut descriptors = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        descriptors.push(descriptor);
        if descriptors.len() == 1 {
            self.waker.wake();
        }
    }

    /// Takes the connections that were woken since the last call.
    pub(crate) fn take(&self) -> Vec<RawFd> {
        std::mem::take(&mut self.descriptors.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
