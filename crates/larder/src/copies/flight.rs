//! A flight: the fetch of one key that is under way, with the readers that wait for it.

use std::sync::{Arc, OnceLock};
use std::task::Waker;

use super::sync::{Mutex, lock};
use super::{NotKept, Place};

/// The fetch of one key.
#[derive(Debug)]
pub struct Flight {
    place: Place,
    key: Box<[u8]>,
    began_ms: u64,
    result: OnceLock<FlightResult>,
    /// The readers; `None` once they are woken.
    waiting: Mutex<Option<Vec<Waker>>>,
}

/// The result of a flight.
#[derive(Clone, Debug)]
pub enum FlightResult {
    /// The item.
    Value(Arc<Fetched>),
    /// The origin has no item of this key.
    Absent {
        /// True if the origin will report if this changes.
        is_noted: bool,
    },
    /// The item must not be copied: the reader asks the origin itself.
    Uncopied,
    /// The fetch failed.
    Failed(FetchFailure),
}

/// The reason why a fetch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchFailure {
    /// The fetch was not sent, because the origin cannot be reached.
    Unreachable,
    /// The fetch was sent, but its answer did not arrive in time, or the connection was lost.
    Unanswered,
}

/// A fetched item.
#[derive(Debug)]
pub struct Fetched {
    /// The value.
    pub value: Vec<u8>,
    /// The client flags.
    pub flags: u32,
    /// The cas token of the item at its origin.
    pub cas: u64,
    /// The milliseconds until the item expires, counted from some moment after the fetch began;
    /// `None`: never.
    pub ttl_ms: Option<u64>,
    /// True if the origin will report changes of the item.
    pub is_noted: bool,
}

impl Fetched {
    /// Returns the moment from which a copy must not be used, `None` if never, for an item whose
    /// fetch began at `began_ms`.
    ///
    /// # Errors
    /// Returns the reason why the item may not be kept.
    pub(super) fn keepable_until_ms(&self, began_ms: u64) -> Result<Option<u64>, NotKept> {
        if !self.is_noted {
            return Err(NotKept::Unnoted);
        }
        match self.ttl_ms {
            None => Ok(None),
            Some(0) => Err(NotKept::Expiring),
            Some(ttl_ms) => Ok(Some(began_ms.saturating_add(ttl_ms))),
        }
    }
}

impl Flight {
    pub(super) fn new(place: Place, key: &[u8], began_ms: u64) -> Self {
        let waiting = Mutex::new(Some(Vec::new()));
        Self { place, key: key.into(), began_ms, result: OnceLock::new(), waiting }
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the bucket of the key, in the subscription in which the flight began.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Returns when the flight began, in milliseconds.
    pub fn began_ms(&self) -> u64 {
        self.began_ms
    }

    /// Returns the result; `None` while the flight is under way.
    pub fn result(&self) -> Option<&FlightResult> {
        self.result.get()
    }

    /// Adds a reader. If the flight has landed, wakes the reader at once.
    pub(super) fn add(&self, waker: &Waker) {
        match &mut *lock(&self.waiting) {
            Some(waiting) => waiting.push(waker.clone()),
            None => waker.wake_by_ref(),
        }
    }

    /// Sets the result, and wakes the readers. A second result has no effect.
    pub(super) fn land(&self, result: FlightResult) {
        if self.result.set(result).is_ok() {
            let waiting = lock(&self.waiting).take();
            waiting.into_iter().flatten().for_each(Waker::wake);
        }
    }
}
