//! The jobs that workers leave for the near thread.

use std::sync::{Arc, OnceLock};
use std::task;

use larder::copies::Flight;
use larder_protocol::ServerError;

use super::request::PassRequest;

/// A job for the near thread.
#[derive(Debug)]
pub(super) enum Job {
    /// Fetch an item.
    Fetch(Arc<Flight>),
    /// Pass a command to the origin.
    Pass(Arc<Pass>),
}

/// A command that is passed to the origin.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(super) request: PassRequest,
    result: OnceLock<PassResult>,
    waker: task::Waker,
}

/// The keys that a command may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Concerned {
    /// One key.
    Key(Box<[u8]>),
    /// All keys.
    All,
}

/// The result of a passed command.
#[derive(Clone, Debug)]
pub(crate) enum PassResult {
    /// The bytes to send to the client; empty if it does not want a response.
    Answer(Arc<[u8]>),
    /// There is no answer.
    Failed(ServerError),
}

impl Pass {
    pub(super) fn new(request: PassRequest, waker: task::Waker) -> Self {
        Self { request, result: OnceLock::new(), waker }
    }

    /// Sets the result, and wakes the client. A second result has no effect.
    pub(super) fn end(&self, result: PassResult) {
        if self.result.set(result).is_ok() {
            self.waker.wake_by_ref();
        }
    }

    /// Returns the memory that the command owns, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.request.held_bytes()
    }

    /// Returns the result; `None` while the client must wait.
    pub(crate) fn result(&self) -> Option<&PassResult> {
        self.result.get()
    }
}
