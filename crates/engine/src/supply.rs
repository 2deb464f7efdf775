//! Free segments: those that were used before, on a stack, and those that never were.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use larder_region::layout::global;

use crate::Engine;
use crate::segment::State;

impl Engine {
    /// How many segments may still be taken into use.
    pub(crate) fn free_segments(&self) -> u64 {
        self.segments_max().saturating_sub(self.segments_in_use())
    }

    /// How many segments hold something.
    pub(crate) fn segments_in_use(&self) -> u64 {
        self.memory.word(global::SEGMENTS_USED).load(Relaxed)
    }

    /// How many segments have ever been used. They are the first ones.
    pub(crate) fn used_segments(&self) -> u64 {
        self.memory.word(global::FRESH_SEGMENT).load(Relaxed)
    }

    /// Takes a free segment, leaving `spare`: one that was used before, or else one that never was.
    pub(crate) fn take_any(&self, spare: u64) -> Option<u32> {
        self.pop_free(spare).or_else(|| self.take_fresh(spare))
    }

    /// Takes a segment that has never been used, leaving `spare`. No more are ever used than may be at a time: a
    /// free one that was used before has its memory still.
    pub(crate) fn take_fresh(&self, spare: u64) -> Option<u32> {
        self.count_in(spare).then_some(())?;
        self.take_fresh_counted(self.segments_max())
    }

    /// Takes the next segment that has never been used, which is counted already, if it is one before `end`.
    fn take_fresh_counted(&self, end: u64) -> Option<u32> {
        let fresh = self.memory.word(global::FRESH_SEGMENT);
        let taken = fresh.fetch_update(Relaxed, Relaxed, |next| (next < end).then_some(next + 1));
        match taken {
            Ok(segment) => {
                self.set_state(segment as u32, State::Reserved);
                Some(segment as u32)
            }
            Err(_) => self.count_out(),
        }
    }

    /// Puts a reserved segment on the free stack.
    pub(crate) fn push_free(&self, segment: u32) {
        self.set_state(segment, State::Free);
        let top = self.memory.word(global::FREE_SEGMENTS);
        let mut old = top.load(Relaxed);
        loop {
            self.next_free(segment).store(old as u32, Relaxed);
            let new = stack_top(old, segment + 1);
            // The release pairs with the acquire in `pop_free`.
            match top.compare_exchange_weak(old, new, Release, Relaxed) {
                Ok(_) => break,
                Err(found) => old = found,
            }
        }
        self.count_out();
    }

    /// Takes a segment that was used before, leaving `spare` free ones of any kind.
    pub(crate) fn pop_free(&self, spare: u64) -> Option<u32> {
        self.count_in(spare).then_some(())?;
        self.pop_counted()
    }

    /// Takes a free segment for what is moved out of another, which is free for it soon. So a limit that was
    /// lowered below what is in use does not stand in the way of getting there.
    pub(crate) fn take_for_survivors(&self) -> Option<u32> {
        let taken = self.take_any(0);
        if taken.is_some() || self.segments_in_use() < self.segments_max() {
            return taken;
        }
        // Where none is on the stack all that ever were in use are: with more of them than may be, the limit was
        // lowered.
        let is_lowered = self.used_segments() > self.segments_max();
        let fresh_end = if is_lowered { self.layout.segments as u64 } else { 0 };
        let used = self.memory.word(global::SEGMENTS_USED);
        used.fetch_add(1, AcqRel);
        self.pop_counted().or_else(|| {
            used.fetch_add(1, AcqRel);
            self.take_fresh_counted(fresh_end)
        })
    }

    /// Takes a segment off the stack that is counted as used already.
    fn pop_counted(&self) -> Option<u32> {
        let top = self.memory.word(global::FREE_SEGMENTS);
        let mut old = top.load(Acquire);
        loop {
            let Some(segment) = (old as u32).checked_sub(1) else {
                return self.count_out();
            };
            let next = self.next_free(segment).load(Relaxed);
            match top.compare_exchange_weak(old, stack_top(old, next), Acquire, Acquire) {
                Ok(_) => {
                    // Pairs with the acquire fence of readers: who sees bytes that the caller writes
                    // sees the sequence gone too, and reads again. Here, not in `retire`: a fence counts
                    // for what its own thread writes afterwards.
                    fence(Release);
                    self.set_state(segment, State::Reserved);
                    return Some(segment);
                }
                Err(found) => old = found,
            }
        }
    }

    /// Gives the memory of free segments back to the system. They are all taken meanwhile: who needs one just
    /// now makes room for itself.
    pub(crate) fn release_free_segments(&self) {
        let free: Vec<u32> = std::iter::from_fn(|| self.pop_free(0)).collect();
        for segment in free {
            self.memory.release(self.layout.segment_at(segment), self.layout.segment_bytes);
            self.push_free(segment);
        }
    }

    /// Counts one more segment as used, if `spare` are left then.
    fn count_in(&self, spare: u64) -> bool {
        let max = self.segments_max();
        self.memory
            .word(global::SEGMENTS_USED)
            .fetch_update(AcqRel, Relaxed, |used| (used + spare < max).then_some(used + 1))
            .is_ok()
    }

    /// Counts one segment less.
    fn count_out(&self) -> Option<u32> {
        self.memory.word(global::SEGMENTS_USED).fetch_sub(1, AcqRel);
        None
    }
}

/// The word of a stack whose top is `number` (0 for none), with a version that differs from `old`'s: a
/// compare-exchange by somebody who saw an earlier top fails even if the same number is on top again.
pub(crate) fn stack_top(old: u64, number: u32) -> u64 {
    ((old >> 32) + 1) << 32 | u64::from(number)
}
