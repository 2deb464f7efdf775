//! Flushing: one number hides everything stored so far. Items in segments whose sequence is below
//! the number count as absent.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use larder_item::Second;
use larder_region::layout::global;

use crate::segment::Segments;

impl Segments {
    /// See `Engine::flush`.
    pub(crate) fn flush(&self) {
        self.hide();
        self.region().word(global::FLUSH_AT).store(0, Relaxed);
    }

    /// See `Engine::flush_second`.
    pub(crate) fn flush_second(&self, now: Second) {
        self.region().word(global::FLUSH_AT).store(ALL_ALONG | u64::from(now), Relaxed);
        self.hide();
    }

    fn hide(&self) {
        self.hide_from(self.region().word(global::NEXT_SEQUENCE).load(Acquire), || true);
    }

    /// Hides segments that were activated before the sequence `next`. While `is_wanted` returns
    /// true, also hides segments that are activated during the call.
    fn hide_from(&self, mut next: u64, is_wanted: impl Fn() -> bool) {
        loop {
            // Pairs with the acquire in `is_flushed`.
            self.region().word(global::FLUSH_SEQUENCE).fetch_max(next, Release);
            // A segment that was activated in between is not covered, and eviction may have moved
            // an old item to it. If no segment was activated, this pairs with `activate`: a thread
            // that activates a segment from now on observes the flush and moves no flushed record.
            let begun = self.region().word(global::NEXT_SEQUENCE);
            match begun.compare_exchange(next, next, AcqRel, Acquire) {
                Err(later) if is_wanted() => next = later,
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Runs a due flush. Every operation calls this first.
    #[inline]
    pub(crate) fn flush_if_due(&self, now: Second) {
        let at = self.region().word(global::FLUSH_AT).load(Relaxed);
        if at != 0 && at & SECOND <= u64::from(now) {
            self.flush_due(at, now);
        }
    }

    #[cold]
    fn flush_due(&self, at: u64, now: Second) {
        if at == ALL_ALONG | u64::from(now) {
            self.hide();
            return self.report_clear();
        }
        let due = self.region().word(global::FLUSH_AT);
        let is_hiding = || due.load(Acquire) == HIDING;
        // Loaded before the check for a finished flush, so that items stored after the flush stay.
        let next = self.region().word(global::NEXT_SEQUENCE).load(Acquire);
        let is_first = at != HIDING && due.compare_exchange(at, HIDING, AcqRel, Relaxed).is_ok();
        // The first thread may be stopped or dead. Every later thread therefore also flushes before
        // it does anything else.
        if is_first || is_hiding() {
            self.hide_from(next, is_hiding);
            // Before the flush counts as done: when a thread finds no flush due, this one has been
            // reported.
            self.report_clear();
            // By this time, another flush may already be due.
            let _ = due.compare_exchange(HIDING, 0, AcqRel, Relaxed);
        }
    }

    fn report_clear(&self) {
        if let Some(listener) = self.listener() {
            listener.cleared();
        }
    }

    /// True if everything stored is flushed or about to be flushed. For processes that cannot run
    /// the flush.
    pub(crate) fn is_flush_due(&self, now: Second) -> bool {
        let at = self.region().word(global::FLUSH_AT).load(Relaxed);
        at != 0 && at & SECOND <= u64::from(now)
    }

    /// See `Engine::flush_at`.
    pub(crate) fn flush_at(&self, at: Second, now: Second) {
        self.flush_if_due(now);
        if at <= now {
            return self.flush();
        }
        self.region().word(global::FLUSH_AT).store(u64::from(at), Relaxed);
    }
}

/// The bits of the scheduled second.
const SECOND: u64 = 0xFFFF_FFFF;

/// Stored in place of the second while a thread runs the flush. Other threads then also treat the
/// flush as due.
const HIDING: u64 = 1 << 63;

/// Set together with the second: the flush lasts until that second is over.
const ALL_ALONG: u64 = 1 << 32;
