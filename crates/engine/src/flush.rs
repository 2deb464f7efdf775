//! Flushing: one number makes everything stored so far invisible.

use larder_item::Second;
use larder_region::layout::global;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::Engine;

impl Engine {
    /// Makes everything stored so far invisible, and calls off a flush that was to come. Constant time:
    /// segments begun before are dead as a whole.
    pub fn flush(&self) {
        self.memory.word(global::FLUSH_AT).store(0, Relaxed);
        self.hide();
    }

    /// Flushes, and goes on until the second `now` is over: what is stored in it does not outlive the store.
    pub fn flush_second(&self, now: Second) {
        self.memory.word(global::FLUSH_AT).store(ALL_ALONG | u64::from(now), Relaxed);
        self.hide();
    }

    fn hide(&self) {
        let mut next = self.memory.word(global::NEXT_SEQUENCE).load(Acquire);
        loop {
            // Pairs with the acquire in `is_flushed`.
            self.memory.word(global::FLUSH_SEQUENCE).fetch_max(next, Release);
            // A segment begun in between is not covered, and an item stored long ago may have been moved
            // there. Where none was, this pairs with `activate`: whoever begins a segment from now on
            // sees the flush, and moves nothing that was flushed.
            let begun = self.memory.word(global::NEXT_SEQUENCE);
            match begun.compare_exchange(next, next, AcqRel, Acquire) {
                Ok(_) => return,
                Err(later) => next = later,
            }
        }
    }

    /// Flushes when the clock reaches `at`, which may be `now`, in place of any flush that was to come.
    pub fn flush_at(&self, at: Second, now: Second) {
        self.flush_if_due(now);
        if at <= now {
            return self.flush();
        }
        self.memory.word(global::FLUSH_AT).store(u64::from(at), Relaxed);
    }

    /// Every operation passes here first, so that it sees a flush whose time has come.
    #[inline]
    pub(crate) fn flush_if_due(&self, now: Second) {
        let at = self.memory.word(global::FLUSH_AT).load(Relaxed);
        if at != 0 && at & !ALL_ALONG <= u64::from(now) {
            self.flush_due(at, now);
        }
    }

    #[cold]
    fn flush_due(&self, at: u64, now: Second) {
        if at == ALL_ALONG | u64::from(now) {
            return self.hide();
        }
        let due = self.memory.word(global::FLUSH_AT);
        if due.compare_exchange(at, 0, AcqRel, Relaxed).is_ok() {
            self.hide();
        }
    }
}

/// Beside the second of a flush: it goes on until that second is over.
const ALL_ALONG: u64 = 1 << 32;
