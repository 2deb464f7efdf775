//! The segment allocator: free segments that were used before, and fresh ones.
//!
//! A segment is free if its state says so. A compare-exchange of that state takes it. The number in
//! use and the hint for the next free one are advice only. A process that dies in the middle loses
//! nothing: a taken segment carries the owner in its state (see `repair`).

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use larder_region::layout::global;

use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::let_others_run;
use crate::segment::Segments;
use crate::segment::header::State;
use crate::segment::stream::Pool;
use crate::segment::suspect::SEGMENTS_IN_USE;

/// The number of counts before the recount is left to the next call of `Engine::maintain` …
const RECOUNTS_MAX: usize = 1000;
/// … or the number of segments that they may count together. A survivor of a killed process counts
/// while others go on, and may not succeed in a large memory.
const RECOUNTED_MAX: usize = 1 << 22;

impl Segments {
    /// Returns the number of segments that may still be taken.
    pub(crate) fn free_segments(&self) -> u64 {
        self.segments_max().saturating_sub(self.segments_in_use())
    }

    /// Returns the number of segments in use.
    pub(crate) fn segments_in_use(&self) -> u64 {
        in_use(self.region().word(global::SEGMENTS_USED).load(Relaxed))
    }

    /// Returns the number of segments that have ever been used. They are the first ones.
    pub(crate) fn used_segments(&self) -> u64 {
        self.region().word(global::FRESH_SEGMENT).load(Relaxed)
    }

    /// Takes a free segment and leaves `spare`: a used one first, then a fresh one.
    pub(crate) fn take_any(&self, thread: &ThreadSlot, spare: u64) -> Option<u32> {
        self.take_used(thread, spare).or_else(|| self.take_fresh(thread, spare))
    }

    /// Takes a segment that was used before and leaves `spare` free ones of any kind.
    pub(crate) fn take_used(&self, thread: &ThreadSlot, spare: u64) -> Option<u32> {
        self.take(thread, spare, || self.claim_used(thread))
    }

    /// Takes a fresh segment and leaves `spare`. The number of segments ever used stays within the
    /// limit: a free one that was used before still has its memory.
    pub(crate) fn take_fresh(&self, thread: &ThreadSlot, spare: u64) -> Option<u32> {
        self.take(thread, spare, || self.claim_fresh(thread, self.segments_max()))
    }

    /// Takes a free segment for survivors of another segment, which becomes free soon after. This
    /// works beyond a limit that was lowered, so that eviction can reach the limit.
    pub(crate) fn take_for_survivors(&self, thread: &ThreadSlot) -> Option<u32> {
        let taken = self.take_any(thread, 0);
        if taken.is_some() || self.segments_in_use() < self.segments_max() {
            return taken;
        }
        // If none of the used segments is free, all are in use. More of them than the limit allows
        // means that the limit was lowered.
        let is_lowered = self.used_segments() > self.segments_max();
        let fresh_end = if is_lowered { self.region().layout().segments as u64 } else { 0 };
        self.peers().note_taking(thread, true);
        self.count_segments(|used| Some(used + 1));
        let claimed = self.claim_used(thread).or_else(|| self.claim_fresh(thread, fresh_end));
        self.end_taking(thread, claimed)
    }

    /// Adds one to the number in use if `spare` remain, and claims a segment.
    fn take(
        &self,
        thread: &ThreadSlot,
        spare: u64,
        claim: impl FnOnce() -> Option<u32>,
    ) -> Option<u32> {
        let max = self.segments_max();
        self.peers().note_taking(thread, true);
        let is_counted = self.count_segments(|used| (used + spare < max).then_some(used + 1));
        if !is_counted {
            self.peers().note_taking(thread, false);
            return None;
        }
        self.end_taking(thread, claim())
    }

    fn end_taking(&self, thread: &ThreadSlot, claimed: Option<u32>) -> Option<u32> {
        if claimed.is_none() {
            self.count_segments(|used| Some(used - 1));
        }
        self.peers().note_taking(thread, false);
        claimed
    }

    /// Claims a free segment that was used before: the one freed last, or one near it.
    fn claim_used(&self, thread: &ThreadSlot) -> Option<u32> {
        let hint = self.region().word(global::FREE_NEXT);
        let from = hint.load(Relaxed) as u32;
        let segment = self.filed_free(from, |segment| self.claim_free(thread, segment))?;
        hint.store(u64::from(segment) + 1, Relaxed);
        Some(segment)
    }

    /// Claims the next fresh segment below `end`.
    fn claim_fresh(&self, thread: &ThreadSlot, end: u64) -> Option<u32> {
        let fresh = self.region().word(global::FRESH_SEGMENT);
        loop {
            let next = |next| (next < end).then_some(next + 1);
            let segment = fresh.fetch_update(Relaxed, Relaxed, next).ok()? as u32;
            // Otherwise another thread took it as a used one, which it is by now.
            if self.claim_free(thread, segment) {
                return Some(segment);
            }
        }
    }

    fn claim_free(&self, thread: &ThreadSlot, segment: u32) -> bool {
        let claimed = self.claim_segment(segment, State::Free, State::Reserved, thread);
        if claimed {
            // Pairs with the acquire fence of readers: a reader that sees bytes of the new use also
            // sees the cleared sequence and reads again. The fence stands here and not in `retire`,
            // because it orders what its own thread writes afterwards.
            fence(Release);
        }
        claimed
    }

    /// Frees a segment that the thread slot owns.
    pub(crate) fn free(&self, thread: &ThreadSlot, segment: u32) {
        self.peers().note_taking(thread, true);
        self.region().word(global::FREE_NEXT).store(u64::from(segment), Relaxed);
        self.set_state(segment, State::Free);
        self.file_free(segment);
        self.count_segments(|used| Some(used - 1));
        self.peers().note_taking(thread, false);
    }

    /// Returns the memory of a free segment to the system. Takes the segment meanwhile, without
    /// eviction only if others remain for a store.
    pub(crate) fn release_if_free(&self, thread: &ThreadSlot, segment: u32) {
        if self.state(segment) != State::Free {
            return;
        }
        let spare = if self.evicts { 0 } else { self.spare_segments() + 1 };
        let claim = || self.claim_free(thread, segment).then_some(segment);
        if let Some(segment) = self.take(thread, spare, claim) {
            self.give_back_memory(segment);
            self.free(thread, segment);
        }
    }

    /// Returns the memory of an owned segment to the system. Does nothing in shared memory: a full
    /// tmpfs would not provide it again, and a store would end the process with a signal.
    pub(crate) fn give_back_memory(&self, segment: u32) {
        if !self.peers().has_peers() {
            self.region()
                .memory()
                .release(self.region().segment_at(segment), self.region().segment_bytes());
        }
    }

    /// Changes the number of segments in use to the result of `change`, if there is one. Each
    /// change bumps the word's version, so that a concurrent recount notices it.
    fn count_segments(&self, change: impl Fn(u64) -> Option<u64>) -> bool {
        let word = self.region().word(global::SEGMENTS_USED);
        word.fetch_update(AcqRel, Relaxed, |word| Some(recounted(word, change(in_use(word))?)))
            .is_ok()
    }

    /// Stores the memory limit. The number of usable segments follows step by step.
    pub(crate) fn set_memory_limit(&self, bytes: usize) {
        self.region().word(global::MEMORY_LIMIT).store(bytes as u64, Relaxed);
    }

    /// Changes the number of usable segments, unless another thread has changed it.
    pub(crate) fn replace_segments_max(&self, from: u64, to: u64) {
        let word = self.region().word(global::SEGMENTS_MAX);
        let _ = word.compare_exchange(from, to, Relaxed, Relaxed);
    }

    pub(crate) fn limit_to(&self, bytes: usize) {
        let segments = self.region().layout().segments_in(bytes) as u64;
        self.region().word(global::SEGMENTS_MAX).store(segments, Relaxed);
        self.region().word(global::MEMORY_LIMIT).store(bytes as u64, Relaxed);
    }

    /// See `Engine::memory_limit`.
    pub(crate) fn memory_limit(&self) -> usize {
        self.region().word(global::MEMORY_LIMIT).load(Relaxed) as usize
    }

    /// Returns the number of segments that may be in use.
    pub(crate) fn segments_max(&self) -> u64 {
        self.region().word(global::SEGMENTS_MAX).load(Relaxed)
    }

    /// True if segments must be given back.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.segments_in_use() > self.segments_target()
    }

    /// Returns the number of segments that the limit allows.
    pub(crate) fn segments_target(&self) -> u64 {
        self.region().layout().segments_in(self.memory_limit()) as u64
    }

    /// Returns the number of free segments that only survivors may take. It limits the concurrent
    /// evictors, too. Where processes share the cache there are two: one may be stopped.
    pub(crate) fn spare_segments(&self) -> u64 {
        const SEGMENTS_PER_SPARE: u64 = 512;
        const SPARE_MAX: u64 = global::EVICTORS_MAX as u64;
        let least = 1 + u64::from(self.peers().has_peers());
        (self.segments_max() / SEGMENTS_PER_SPARE).clamp(least, SPARE_MAX)
    }

    /// Takes a free segment that was used before, if there are more than survivors may need.
    /// Survivors would take fresh memory instead.
    pub(crate) fn take_free_segment(&self, thread: &ThreadSlot) -> Option<u32> {
        let spare = self.spare_segments();
        let used_before = self.used_segments().saturating_sub(self.segments_in_use());
        (used_before > spare).then(|| self.take_used(thread, spare)).flatten()
    }

    /// Zeroes a segment that no thread can reach.
    pub(crate) fn zero_segment(&self, segment: u32) {
        let at = self.region().segment_at(segment);
        for word in (0..self.region().segment_bytes()).step_by(8) {
            self.region().word(at + word).store(0, Relaxed);
        }
    }

    /// Recounts the segments in use, if no thread takes or gives back one meanwhile, and those of
    /// each pool. Segments that other threads begin or end to use meanwhile make the latter inexact
    /// by as much; they only decide which pool eviction takes from.
    pub(crate) fn recount_in_use(&self) {
        let word = self.region().word(global::SEGMENTS_USED);
        let segments = self.used_segment_numbers().len().max(1);
        for _ in 0..(RECOUNTED_MAX / segments).clamp(1, RECOUNTS_MAX) {
            let before = word.load(Acquire);
            if !self.peers().is_anybody_taking() {
                let counted = recounted(before, self.count_all());
                if !self.peers().is_anybody_taking()
                    && word.compare_exchange(before, counted, AcqRel, Relaxed).is_ok()
                {
                    return;
                }
            }
            let_others_run();
        }
        // A thread that was stopped while it takes a segment keeps only the first count from being
        // exact.
        self.count_all();
        self.call_for_recount(SEGMENTS_IN_USE);
    }

    /// Recounts the segments of each pool, and returns the number of segments in use.
    fn count_all(&self) -> u64 {
        let pools = [Pool::Small, Pool::Main].map(|pool| self.pool_segments(pool));
        let before = pools.map(|pool| pool.load(Relaxed));
        let (mut in_use, mut in_pools) = (0, [0_u64; 2]);
        for segment in self.used_segment_numbers() {
            in_use += u64::from(self.state(segment) != State::Free);
            if self.sequence(segment).load(Relaxed) != 0 {
                in_pools[self.stream(segment).pool as usize] += 1;
            }
        }
        for ((pool, before), counted) in pools.iter().zip(before).zip(in_pools) {
            pool.fetch_add(counted.wrapping_sub(before), Relaxed);
        }
        in_use
    }
}

/// Returns the number of segments in use of a word.
pub(crate) fn in_use(word: u64) -> u64 {
    word & 0xFFFF_FFFF
}

/// Returns the word of another number, with the next version.
pub(crate) fn recounted(word: u64, used: u64) -> u64 {
    (word >> 32).wrapping_add(1) << 32 | in_use(used)
}
