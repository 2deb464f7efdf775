//! Until when other processes may read the items of a region. A region of copies has such a limit:
//! the copies may be out of date later, and the process that would remove them may be stopped.

use std::sync::atomic::Ordering::{Acquire, Release};

use larder_region::layout::global;

use crate::region::Region;

/// A limit by two clocks of the system. Both must be before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadableUntil {
    /// In milliseconds of the monotonic clock.
    pub monotonic_ms: u64,
    /// In milliseconds of Unix time. The monotonic clock stands still while the machine sleeps.
    pub unix_ms: u64,
}

impl ReadableUntil {
    /// A limit that has passed.
    pub const NEVER: Self = Self { monotonic_ms: 1, unix_ms: 0 };
}

impl Region {
    /// Returns until when other processes may read the items; `None` without a limit.
    #[inline]
    pub(crate) fn readable_until(&self) -> Option<ReadableUntil> {
        // Pairs with the release of `limit_readers`: a reader of a later limit finds no items that
        // were removed before it.
        match self.word(global::READABLE_UNTIL_MONOTONIC).load(Acquire) {
            0 => None,
            monotonic_ms => {
                let unix_ms = self.word(global::READABLE_UNTIL_UNIX).load(Acquire);
                Some(ReadableUntil { monotonic_ms, unix_ms })
            }
        }
    }

    /// Sets until when other processes may read the items.
    pub(crate) fn limit_readers(&self, until: ReadableUntil) {
        // A reader that loads an old limit of the first clock with a new one of the second accepts
        // nothing that the new limit does not allow: items that had to be removed have been.
        self.word(global::READABLE_UNTIL_UNIX).store(until.unix_ms, Release);
        self.word(global::READABLE_UNTIL_MONOTONIC).store(until.monotonic_ms.max(1), Release);
    }
}
