//! The expiry sweep: unlinks expired items that no thread reads.
//!
//! The sweep visits all segments in turn. If the earliest deadline of a segment has not come, the
//! segment is skipped after one load, which does not count as work. In each other segment, the
//! sweep looks at each record and unlinks the expired ones. One call does a limited amount of work,
//! a *slice* of the sweep, so it takes milliseconds in a memory of any size. A *lap* over all
//! segments may take several slices.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::{Deadline, KEY_BYTES_MAX};
use larder_region::layout::global;
use larder_stats::Counter;

use crate::process::op::Op;
use crate::reclaim::Reclaimer;
use crate::segment::header::State;
use crate::segment::slot::Slot;

/// The work of a slice, in records looked at. It takes about ten milliseconds, during which other
/// work of the maintainer waits. A segment that was begun is swept to its end.
pub(crate) const SLICE_WORK: usize = 1 << 18;

/// The work of unlinking an item, in records looked at. It includes waiting for the item's group.
pub(crate) const UNLINK_WORK: usize = 6;

/// The work of a wait for a group that another thread does not release. Such a wait takes a
/// millisecond.
pub(crate) const STUCK_WORK: usize = SLICE_WORK / 10;

/// The number of skipped segments that count as the work of one record.
const SKIPS_PER_WORK: u64 = 16;

/// The number of segments that a sweep skips before it stores its position.
const SKIPPED_MAX: u64 = 1 << 10;

/// The number of expired items whose groups are prefetched together.
const ITEMS_AHEAD: usize = 16;

/// An expired record that no thread has unlinked yet.
struct ExpiredRecord {
    slot: Slot,
    hash: u64,
    deadline: Deadline,
}

impl Reclaimer {
    /// Sweeps segments in turn and unlinks their expired items, until it has looked at each segment
    /// or has done `work_max`. Returns true if it stopped because of `work_max`. The swept segments
    /// may now have so few live records that compaction pays.
    pub(crate) fn sweep(&self, op: &Op<'_>, work_max: usize) -> bool {
        let used = self.segments().used_segments();
        let (mut looked_at, mut work) = (0, 0);
        while looked_at < used {
            if work + (looked_at / SKIPS_PER_WORK) as usize >= work_max {
                return true;
            }
            let (passed, due) = self.next_due(op, SKIPPED_MAX.min(used - looked_at));
            looked_at += passed;
            work += due.map_or(0, |segment| self.sweep_segment(op, segment));
        }
        false
    }

    /// Sweeps the next segment in turn, if it may hold expired items.
    pub(crate) fn sweep_next(&self, op: &Op<'_>) {
        let turn = self.region().word(global::SWEEP_NEXT).fetch_add(1, Relaxed);
        let segment = (turn % self.segments().used_segments().max(1)) as u32;
        if self.is_due(op, segment) {
            self.sweep_segment(op, segment);
        }
    }

    /// Advances the sweep to the next segment that may hold expired items, but by at most
    /// `count_max` segments. Returns the number of segments passed, and the segment found.
    fn next_due(&self, op: &Op<'_>, count_max: u64) -> (u64, Option<u32>) {
        let used = self.segments().used_segments().max(1);
        let next = self.region().word(global::SWEEP_NEXT);
        let turn = next.load(Relaxed);
        let first = turn % used;
        let segment_at =
            |step| if first + step < used { first + step } else { first + step - used };
        let found = (0..count_max).find(|step| self.is_due(op, segment_at(*step) as u32));
        let passed = found.map_or(count_max, |step| step + 1);
        // If the exchange fails, another thread has advanced the sweep from the same position. Then
        // this thread leaves the segment that it found to other threads.
        let is_mine = next.compare_exchange(turn, turn.wrapping_add(passed), Relaxed, Relaxed);
        let due = found.filter(|_| is_mine.is_ok()).map(|step| segment_at(step) as u32);
        (passed, due)
    }

    fn is_due(&self, op: &Op<'_>, segment: u32) -> bool {
        self.segments().may_hold_expired(segment, op.now)
            && self.segments().state(segment) == State::Sealed
    }

    /// Sweeps a segment. Returns the work.
    fn sweep_segment(&self, op: &Op<'_>, segment: u32) -> usize {
        let sequence = self.segments().sequence(segment).load(Relaxed);
        if !self.segments().pin(segment, sequence) {
            return 1;
        }
        // If a concurrent touch notes a deadline, this may lose it. The item then waits until its
        // segment is emptied.
        self.segments().forget_deadline_min(segment);
        let (mut looked_at, mut checked, mut work) = (0, 0, 0);
        let (mut expired, mut key) =
            (Vec::with_capacity(ITEMS_AHEAD), Vec::with_capacity(KEY_BYTES_MAX));
        for (slot, header) in self.headers(segment) {
            looked_at += 1;
            if header.deadline_at().is_none() {
                continue;
            }
            checked += 1;
            let record_at = self.region().segment_at(segment) + slot.offset();
            let deadline = self.index().swept_at(header, record_at);
            if !deadline.is_past(op.now) {
                self.segments().note_deadline(segment, deadline);
                continue;
            }
            let hash = self.hash_of(record_at, header, &mut key);
            self.index().prefetch_group(hash);
            expired.push(ExpiredRecord { slot, hash, deadline });
            if expired.len() == ITEMS_AHEAD {
                work += self.unlink_expired(op, &mut expired);
            }
        }
        work += self.unlink_expired(op, &mut expired);
        self.peers().bump(op.thread, Counter::CrawlerItemsChecked, checked);
        self.peers().unpin(segment);
        work + looked_at
    }

    /// Unlinks expired items of a pinned segment. Returns the work.
    fn unlink_expired(&self, op: &Op<'_>, expired: &mut Vec<ExpiredRecord>) -> usize {
        let mut work = 0;
        for ExpiredRecord { slot, hash, deadline } in expired.drain(..) {
            work += UNLINK_WORK;
            let Ok(locked) = self.index().lock(&op.hurried(), hash) else {
                // The process that holds the group may be stopped. The next lap sweeps the item.
                self.segments().note_deadline(slot.segment(), deadline);
                work += STUCK_WORK;
                continue;
            };
            if let Some(found) = self.index().find_location(&locked, hash, slot)
                && let Some(death) = self.index().death(&found, op.now)
            {
                self.index().sweep_up(op.thread, &found, death);
            }
        }
        work
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests;
