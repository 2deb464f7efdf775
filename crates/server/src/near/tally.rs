//! What a near cache counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use larder::copies::NotKept;

/// An event that a near cache counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A read joined a fetch that was under way.
    Joined,
    /// A fetch was sent.
    Fetched,
    /// A value was kept as a copy, or the absence of one.
    Kept,
    /// The absence of an item was known.
    AbsentHit,
    /// A command was passed to the origin.
    Passed,
    /// A request failed because the origin could not be reached.
    Unreachable,
    /// A request failed because the origin did not answer in time, or the connection was lost.
    Silent,
    /// The origin reported a change.
    Message,
    /// A copy was dropped because its bucket changed.
    Dropped,
    /// The origin reported that everything may have changed.
    Flushed,
    /// The change stream was lost.
    StreamLost,
    /// A value was not kept, because its key may have changed since the fetch began.
    RefusedDetached,
    /// A value was not kept, because the subscription of its fetch had ended.
    RefusedUnsubscribed,
    /// A value was not kept, because the origin does not report its changes.
    RefusedUnnoted,
    /// A value was not kept, because it expires within a second.
    RefusedExpiring,
    /// A value was not kept, because it is too large.
    RefusedTooLarge,
    /// A value was not kept, because memory was short.
    RefusedNoMemory,
    /// A fetch returned no value.
    RefusedFailed,
}

/// The counters of a near cache. All threads share them; only misses and messages change them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: [AtomicU64; EVENTS],
}

impl Tally {
    pub(crate) fn count(&self, event: Event) {
        self.add(event, 1);
    }

    pub(crate) fn add(&self, event: Event, by: u64) {
        self.counts[event as usize].fetch_add(by, Relaxed);
    }

    pub(crate) fn of(&self, event: Event) -> u64 {
        self.counts[event as usize].load(Relaxed)
    }

    /// Counts whether a value was kept.
    pub(crate) fn count_landing(&self, kept: Result<(), NotKept>) {
        self.count(match kept {
            Ok(()) => Event::Kept,
            Err(NotKept::Detached) => Event::RefusedDetached,
            Err(NotKept::Unsubscribed) => Event::RefusedUnsubscribed,
            Err(NotKept::Unnoted) => Event::RefusedUnnoted,
            Err(NotKept::Expiring) => Event::RefusedExpiring,
            Err(NotKept::TooLarge) => Event::RefusedTooLarge,
            Err(NotKept::NoMemory) => Event::RefusedNoMemory,
            Err(NotKept::Failed) => Event::RefusedFailed,
        });
    }
}

/// The number of events.
const EVENTS: usize = Event::RefusedFailed as usize + 1;
