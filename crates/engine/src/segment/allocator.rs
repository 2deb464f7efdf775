//! The segment allocator. It hands out free segments that were used before, and *fresh* segments,
//! which were never used.
//!
//! A segment is free if its state is free. A thread takes it with a compare-exchange of that state.
//! The number of segments in use and the hint for the next free segment may be wrong. If a process
//! dies during an operation, nothing is lost, because the state of a taken segment contains the
//! owner (see `repair`).

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use larder_region::layout::global;

use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::let_others_run;
use crate::segment::Segments;
use crate::segment::header::State;
use crate::segment::stream::Pool;
use crate::segment::suspect::SEGMENTS_IN_USE;

/// How often a recount is attempted before it is left to the next call of `Engine::maintain` …
const RECOUNTS_MAX: usize = 1000;
/// … or how many segments these attempts may count in total. A process that recounts after another
/// one was killed does so while other threads take and free segments. In a large memory it may
/// never succeed.
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

    /// Returns the number of segments that have ever been used. They are the first segments of the
    /// region.
    pub(crate) fn used_segments(&self) -> u64 {
        self.region().word(global::FRESH_SEGMENT).load(Relaxed)
    }

    /// Takes a free segment if at least `spare` others remain free. Prefers one that was used
    /// before to a fresh one.
    pub(crate) fn take_any(&self, thread: &ThreadSlot, spare: u64) -> Option<u32> {
        self.take_used(thread, spare).or_else(|| self.take_fresh(thread, spare))
    }

    /// Takes a segment that was used before if at least `spare` others, used or fresh, remain free.
    pub(crate) fn take_used(&self, thread: &ThreadSlot, spare: u64) -> Option<u32> {
        self.take(thread, spare, || self.claim_used(thread))
    }

    /// Takes a fresh segment if at least `spare` others remain free. The number of segments ever
    /// used stays within the limit, because a free segment that was used before still has its
    /// memory.
    pub(crate) fn take_fresh(&self, thread: &ThreadSlot, spare: u64) -> Option<u32> {
        self.take(thread, spare, || self.claim_fresh(thread, self.segments_max()))
    }

    /// Takes a free segment for the survivors of another segment, which are the records that are
    /// kept when it is emptied. The other segment becomes free soon after. This may exceed a limit
    /// that was lowered, so that eviction can reach the limit.
    pub(crate) fn take_for_survivors(&self, thread: &ThreadSlot) -> Option<u32> {
        let taken = self.take_any(thread, 0);
        if taken.is_some() || self.segments_in_use() < self.segments_max() {
            return taken;
        }
        // If none of the used segments is free, all of them are in use. If they are more than the
        // limit allows, the limit was lowered.
        let is_lowered = self.used_segments() > self.segments_max();
        let fresh_end = if is_lowered { self.region().layout().segments as u64 } else { 0 };
        self.peers().note_taking(thread, true);
        self.count_segments(|used| Some(used + 1));
        let claimed = self.claim_used(thread).or_else(|| self.claim_fresh(thread, fresh_end));
        self.end_taking(thread, claimed)
    }

    /// Adds one to the number in use if `spare` segments remain free, and claims a segment.
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

    /// Claims a free segment that was used before: the one that was freed last, or one near it.
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
            // If this fails, another thread took the segment as a used one, because it now counts
            // as used.
            if self.claim_free(thread, segment) {
                return Some(segment);
            }
        }
    }

    fn claim_free(&self, thread: &ThreadSlot, segment: u32) -> bool {
        let claimed = self.claim_segment(segment, State::Free, State::Reserved, thread);
        if claimed {
            // Pairs with the acquire fence of readers: a reader that loads bytes of the new use
            // also loads the cleared sequence, and reads again. The fence is here and not in
            // `retire`, because it orders the later writes of the same thread.
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

    /// Returns the memory of a free segment to the system. Takes the segment during the call.
    /// Without eviction, does this only if other free segments remain for a store.
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
    /// tmpfs would not provide the memory again, and a store would end the process with a signal.
    pub(crate) fn give_back_memory(&self, segment: u32) {
        if !self.peers().has_peers() {
            self.region()
                .memory()
                .release(self.region().segment_at(segment), self.region().segment_bytes());
        }
    }

    /// Changes the number of segments in use to the result of `change`, if it returns one. Each
    /// change bumps the version in the word, so that a concurrent recount detects it.
    fn count_segments(&self, change: impl Fn(u64) -> Option<u64>) -> bool {
        let word = self.region().word(global::SEGMENTS_USED);
        word.fetch_update(AcqRel, Relaxed, |word| Some(recounted(word, change(in_use(word))?)))
            .is_ok()
    }

    /// Stores the memory limit. The number of usable segments is lowered step by step.
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

    /// Returns the number of segments that may currently be in use.
    pub(crate) fn segments_max(&self) -> u64 {
        self.region().word(global::SEGMENTS_MAX).load(Relaxed)
    }

    /// True if more segments are in use than the memory limit allows.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.segments_in_use() > self.segments_target()
    }

    /// Returns the number of segments that the memory limit allows.
    pub(crate) fn segments_target(&self) -> u64 {
        self.region().layout().segments_in(self.memory_limit()) as u64
    }

    /// Returns the number of free segments that only survivors may take. It also limits the number
    /// of concurrent evictors. If processes share the cache there are at least two, because one
    /// evictor may be stopped.
    pub(crate) fn spare_segments(&self) -> u64 {
        const SEGMENTS_PER_SPARE: u64 = 512;
        const SPARE_MAX: u64 = global::EVICTORS_MAX as u64;
        let least = 1 + u64::from(self.peers().has_peers());
        (self.segments_max() / SEGMENTS_PER_SPARE).clamp(least, SPARE_MAX)
    }

    /// Takes a free segment that was used before, if there are more than survivors may need.
    /// Without that reserve, survivors would take fresh memory.
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

    /// Recounts the segments in use, if no thread takes or frees a segment during the count, and
    /// the segments of each pool. If other threads begin or end uses of segments during the count,
    /// the counts of the pools are wrong by as many segments. They only decide which pool eviction
    /// takes from.
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
        // If a thread is stopped while it takes a segment, only the number of segments in use stays
        // inexact.
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

/// Extracts the number of segments in use from its word.
pub(crate) fn in_use(word: u64) -> u64 {
    word & 0xFFFF_FFFF
}

/// Returns the word for another number, with the next version.
pub(crate) fn recounted(word: u64, used: u64) -> u64 {
    (word >> 32).wrapping_add(1) << 32 | in_use(used)
}
