//! The answer to a passed command. The near thread adds the parts that the origin sends, and the
//! session takes them. A long answer is never whole in memory.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task;

use larder_protocol::ServerError;

/// An answer that arrives in parts.
#[derive(Debug)]
pub(crate) struct Answer {
    state: Mutex<State>,
    waker: task::Waker,
}

#[derive(Debug, Default)]
struct State {
    parts: VecDeque<Vec<u8>>,
    /// The length of the parts.
    bytes: usize,
    /// The end of the answer; `None` while more is expected.
    end: Option<Result<(), ServerError>>,
    /// True if the near thread waits until parts are taken.
    is_paused: bool,
}

/// What a session has taken of an answer.
#[derive(Debug)]
pub(super) struct Taken {
    /// The next part; `None` if it has not arrived.
    pub(super) part: Option<Vec<u8>>,
    /// The end of the answer, once all parts are taken.
    pub(super) end: Option<Result<(), ServerError>>,
    /// True if the near thread waits for this.
    pub(super) wakes: bool,
}

impl Answer {
    pub(super) fn new(waker: task::Waker) -> Self {
        Self { state: Mutex::default(), waker }
    }

    /// Adds a part, and wakes the client. Has no effect after the end.
    pub(super) fn add(&self, part: Vec<u8>, is_last: bool) {
        let mut state = self.lock();
        if state.end.is_some() {
            return;
        }
        let is_first = state.parts.is_empty();
        state.bytes += part.len();
        if !part.is_empty() {
            state.parts.push_back(part);
        }
        state.end = is_last.then_some(Ok(()));
        drop(state);
        // The client takes all parts once it is awake.
        if is_first || is_last {
            self.waker.wake_by_ref();
        }
    }

    /// Ends the answer before it is complete. The client does not receive the parts that it has not
    /// taken. Has no effect after the end.
    pub(super) fn fail(&self, error: ServerError) {
        let mut state = self.lock();
        if state.end.is_none() {
            *state = State { end: Some(Err(error)), ..State::default() };
            drop(state);
            self.waker.wake_by_ref();
        }
    }

    /// True if the client should take parts before more are added. [`Self::take`] then tells when
    /// it has.
    pub(super) fn pause_if_full(&self) -> bool {
        let mut state = self.lock();
        state.is_paused = state.end.is_none() && state.bytes >= WAITING_BYTES_MAX;
        state.is_paused
    }

    /// Takes the next part.
    pub(super) fn take(&self) -> Taken {
        let mut state = self.lock();
        let part = state.parts.pop_front();
        state.bytes -= part.as_ref().map_or(0, Vec::len);
        let wakes = state.is_paused && state.bytes <= WAITING_BYTES_MAX / 2;
        state.is_paused &= !wakes;
        let end = state.end.filter(|_| state.parts.is_empty());
        Taken { part, end, wakes }
    }

    /// Returns the memory that the answer owns, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// With this many bytes that the client has not taken, the near thread stops to receive.
const WAITING_BYTES_MAX: usize = 1024 * 1024;
