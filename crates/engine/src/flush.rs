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
        let mine = HIDING | u64::from(self.peer);
        if due.compare_exchange(at, mine, AcqRel, Relaxed).is_ok() {
            self.end_flush(mine);
        }
    }

    fn end_flush(&self, mine: u64) {
        self.hide();
        // Another may be due by now.
        let _ = self.memory.word(global::FLUSH_AT).compare_exchange(mine, 0, AcqRel, Relaxed);
    }

    /// Finishes the flush that a dead peer was about, if it was.
    pub(crate) fn finish_flush(&self, peer: u32) {
        let mine = HIDING | u64::from(peer);
        if self.memory.word(global::FLUSH_AT).load(Acquire) == mine {
            self.end_flush(mine);
        }
    }

    /// Has everything that is there been flushed, or is it about to be? For who cannot flush it.
    pub(crate) fn is_flush_due(&self, now: Second) -> bool {
        let at = self.memory.word(global::FLUSH_AT).load(Relaxed);
        at & HIDING != 0 || at != 0 && at & !ALL_ALONG <= u64::from(now)
    }
}

/// In place of the second of a flush: the peer beside it is about to do it.
const HIDING: u64 = 1 << 63;

/// Beside the second of a flush: it goes on until that second is over.
const ALL_ALONG: u64 = 1 << 32;
