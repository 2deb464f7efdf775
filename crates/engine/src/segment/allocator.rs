//! Free segments: those that were used before, and those that never were.
//!
//! A segment is free if its state says so, and whoever changes that state by a compare-exchange has it. All else here is
//! advice: how many are in use, where to look for a free one. So nothing is lost with a process that dies half-way: what it had taken
//! has its thread slot's number in the state (see `repair`).

use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::fence;

use larder_region::layout::global;

use crate::segment::header::State;
use crate::{Engine, ThreadSlot};

impl Engine {
    /// How many segments may still be taken into use.
    pub(crate) fn free_segments(&self) -> u64 {
        self.segments_max().saturating_sub(self.segments_in_use())
    }

    /// How many segments hold something.
    pub(crate) fn segments_in_use(&self) -> u64 {
        in_use(self.memory.word(global::SEGMENTS_USED).load(Relaxed))
    }

    /// How many segments have ever been used. They are the first ones.
    pub(crate) fn used_segments(&self) -> u64 {
        self.memory.word(global::FRESH_SEGMENT).load(Relaxed)
    }

    /// Takes a free segment, leaving `spare`: one that was used before, or else one that never was.
    pub(crate) fn take_any(&self, thread: &ThreadSlot, spare: u64) -> Option<u32> {
        self.take_used(thread, spare).or_else(|| self.take_fresh(thread, spare))
    }

    /// Takes a segment that was used before, leaving `spare` free ones of any kind.
    pub(crate) fn take_used(&self, thread: &ThreadSlot, spare: u64) -> Option<u32> {
        self.take(thread, spare, || self.claim_used(thread))
    }

    /// Takes a segment that has never been used, leaving `spare`. No more are ever used than may be at a time: a
    /// free one that was used before has its memory still.
    pub(crate) fn take_fresh(&self, thread: &ThreadSlot, spare: u64) -> Option<u32> {
        self.take(thread, spare, || self.claim_fresh(thread, self.segments_max()))
    }

    /// Takes a free segment for what is moved out of another, which is free for it soon. So a limit that was
    /// lowered below what is in use does not stand in the way of getting there.
    pub(crate) fn take_for_survivors(&self, thread: &ThreadSlot) -> Option<u32> {
        let taken = self.take_any(thread, 0);
        if taken.is_some() || self.segments_in_use() < self.segments_max() {
            return taken;
        }
        // Where none is free of those that ever were in use all are: with more of them than may be, the limit was
        // lowered.
        let is_lowered = self.used_segments() > self.segments_max();
        let fresh_end = if is_lowered { self.layout.segments as u64 } else { 0 };
        self.note_taking(thread, true);
        self.count_segments(|used| Some(used + 1));
        let claimed = self.claim_used(thread).or_else(|| self.claim_fresh(thread, fresh_end));
        self.end_taking(thread, claimed)
    }

    /// Counts one more segment as used, if `spare` are left then, and claims it.
    fn take(
        &self,
        thread: &ThreadSlot,
        spare: u64,
        claim: impl FnOnce() -> Option<u32>,
    ) -> Option<u32> {
        let max = self.segments_max();
        self.note_taking(thread, true);
        let is_counted = self.count_segments(|used| (used + spare < max).then_some(used + 1));
        if !is_counted {
            self.note_taking(thread, false);
            return None;
        }
        self.end_taking(thread, claim())
    }

    fn end_taking(&self, thread: &ThreadSlot, claimed: Option<u32>) -> Option<u32> {
        if claimed.is_none() {
            self.count_segments(|used| Some(used - 1));
        }
        self.note_taking(thread, false);
        claimed
    }

    /// Claims a free segment that was used before: the one that became free last, or one near it.
    fn claim_used(&self, thread: &ThreadSlot) -> Option<u32> {
        let used = self.used_segments() as u32;
        let hint = self.memory.word(global::FREE_NEXT);
        let start = (hint.load(Relaxed) as u32).min(used);
        let segment =
            (start..used).chain(0..start).find(|segment| self.claim_free(thread, *segment))?;
        hint.store(u64::from(segment) + 1, Relaxed);
        Some(segment)
    }

    /// Claims the next segment that has never been used, if it is one before `end`.
    fn claim_fresh(&self, thread: &ThreadSlot, end: u64) -> Option<u32> {
        let fresh = self.memory.word(global::FRESH_SEGMENT);
        loop {
            let next = |next| (next < end).then_some(next + 1);
            let segment = fresh.fetch_update(Relaxed, Relaxed, next).ok()? as u32;
            // Else somebody else found it among those used before, which it is now.
            if self.claim_free(thread, segment) {
                return Some(segment);
            }
        }
    }

    fn claim_free(&self, thread: &ThreadSlot, segment: u32) -> bool {
        let claimed = self.claim_segment(segment, State::Free, State::Reserved, thread);
        if claimed {
            // Pairs with the acquire fence of readers: who sees bytes that the caller writes
            // sees the sequence gone too, and reads again. Here, not in `retire`: a fence counts
            // for what its own thread writes afterwards.
            fence(Release);
        }
        claimed
    }

    /// Makes a segment of the thread slot free.
    pub(crate) fn free(&self, thread: &ThreadSlot, segment: u32) {
        self.note_taking(thread, true);
        self.memory.word(global::FREE_NEXT).store(u64::from(segment), Relaxed);
        self.set_state(segment, State::Free);
        self.count_segments(|used| Some(used - 1));
        self.note_taking(thread, false);
    }

    /// Gives the memory of a segment back to the system, if it is free. It is taken meanwhile: where nothing may be evicted
    /// only if others are left for a store.
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

    /// Gives the memory of a segment of the thread slot back to the system. Not where processes share it: what a full tmpfs did not
    /// give again would end them with a signal.
    pub(crate) fn give_back_memory(&self, segment: u32) {
        if !self.has_peers() {
            self.memory.release(self.layout.segment_at(segment), self.layout.segment_bytes);
        }
    }

    /// Changes the number of segments in use, if `change` says to what. Each change gives the word another version: who
    /// counts them again notices.
    fn count_segments(&self, change: impl Fn(u64) -> Option<u64>) -> bool {
        let word = self.memory.word(global::SEGMENTS_USED);
        word.fetch_update(AcqRel, Relaxed, |word| Some(recounted(word, change(in_use(word))?)))
            .is_ok()
    }
}

/// The number of segments in use that a word says.
pub(crate) fn in_use(word: u64) -> u64 {
    word & 0xFFFF_FFFF
}

/// The word of another number, with the next version.
pub(crate) fn recounted(word: u64, used: u64) -> u64 {
    (word >> 32).wrapping_add(1) << 32 | in_use(used)
}
