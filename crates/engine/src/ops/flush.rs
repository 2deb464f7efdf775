//! Flushing: one number makes everything stored so far invisible.

use larder_item::Second;
use larder_region::layout::global;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::Engine;

impl Engine {
    /// Makes everything stored so far invisible, and calls off a flush that was to come. Constant time:
    /// segments begun before are dead as a whole.
    pub fn flush(&self) {
        self.hide();
        self.memory.word(global::FLUSH_AT).store(0, Relaxed);
    }

    /// Flushes, and goes on until the second `now` is over: what is stored in it does not outlive the store.
    pub fn flush_second(&self, now: Second) {
        self.memory.word(global::FLUSH_AT).store(ALL_ALONG | u64::from(now), Relaxed);
        self.hide();
    }

    fn hide(&self) {
        self.hide_from(self.memory.word(global::NEXT_SEQUENCE).load(Acquire), || true);
    }

    /// Hides what is in segments begun before the sequence `next`, and in those begun meanwhile, while that `is_wanted`.
    fn hide_from(&self, mut next: u64, is_wanted: impl Fn() -> bool) {
        loop {
            // Pairs with the acquire in `is_flushed`.
            self.memory.word(global::FLUSH_SEQUENCE).fetch_max(next, Release);
            // A segment begun in between is not covered, and an item stored long ago may have been moved
            // there. Where none was, this pairs with `activate`: whoever begins a segment from now on
            // sees the flush, and moves nothing that was flushed.
            let begun = self.memory.word(global::NEXT_SEQUENCE);
            match begun.compare_exchange(next, next, AcqRel, Acquire) {
                Err(later) if is_wanted() => next = later,
                Ok(_) | Err(_) => return,
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
        if at != 0 && at & SECOND <= u64::from(now) {
            self.flush_due(at, now);
        }
    }

    #[cold]
    fn flush_due(&self, at: u64, now: Second) {
        if at == ALL_ALONG | u64::from(now) {
            return self.hide();
        }
        let due = self.memory.word(global::FLUSH_AT);
        let keeps_identity = || due.load(Acquire) == HIDING;
        // Before the look whether somebody has done it: what is stored after that is not to go with it.
        let next = self.memory.word(global::NEXT_SEQUENCE).load(Acquire);
        let is_first = at != HIDING && due.compare_exchange(at, HIDING, AcqRel, Relaxed).is_ok();
        // The first one may be stopped, or dead: whoever comes does it too before anything else.
        if is_first || keeps_identity() {
            self.hide_from(next, keeps_identity);
            // Another may be due by now.
            let _ = due.compare_exchange(HIDING, 0, AcqRel, Relaxed);
        }
    }

    /// Has everything that is there been flushed, or is it about to be? For who cannot flush it.
    pub(crate) fn is_flush_due(&self, now: Second) -> bool {
        let at = self.memory.word(global::FLUSH_AT).load(Relaxed);
        at != 0 && at & SECOND <= u64::from(now)
    }
}

/// The second of a flush.
const SECOND: u64 = 0xFFFF_FFFF;

/// In place of the second of a flush, and as due as one: somebody is about to do it.
const HIDING: u64 = 1 << 63;

/// Beside the second of a flush: it goes on until that second is over.
const ALL_ALONG: u64 = 1 << 32;
