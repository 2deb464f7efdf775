//! Filing: how a thread finds the next segment to reuse without looking at all segments.
//!
//! ```text
//! free                        ── one set
//! nothing in it is needed     ┐
//! up to 1/16 is live          │
//! …                           ├─ a set for each share of live bytes
//! up to 16/16 is live         ┘
//! sealed, by age              ── a queue for each pool
//! ```
//!
//! A segment is filed when it is freed or sealed, and again when its live bytes fall below another
//! sixteenth. Sets and queues are only hints: the segment's header decides, and a thread that finds
//! a segment in the wrong place files it in the right one. A repair therefore changes nothing here.
//!
//! If a thread is killed or stopped while it files a segment, the segment may stay unfiled.
//! Therefore each choice of a segment also files the next few segments in the order of their
//! numbers, and `Engine::maintain` files more: this is the *lap* over all segments. The lap is also
//! needed because time passes: only the lap notices that all records of a segment have expired. A
//! thread that finds no candidate looks at all segments before it reports a failure.

use std::cell::Cell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::fence;

use larder_item::Second;
use larder_region::layout::{LIVE_SHARES, global};

use crate::process::op::Op;
use crate::segment::Segments;
use crate::segment::filing::set::SegmentSet;
use crate::segment::header::{Account, State, Use};

pub(crate) mod age;
pub(crate) mod ripe;
pub(crate) mod set;

/// The share of a segment that is needed, in sixteenths, rounded up; 0 if nothing is needed.
pub(crate) type Share = usize;

/// The number of shares for segments with needed bytes.
const SIXTEENTHS: usize = LIVE_SHARES - 1;

/// The number of the set of free segments.
const FREE: usize = LIVE_SHARES;

/// The unwritten end of a segment does not count as free if it is at most this fraction of the
/// segment. It was too short for the next record, and would be too short in another segment as
/// well. If it counted as free, records of equal length could be moved forever. Only a table of
/// very many pieces is longer than this.
const END_PART: usize = 8;

/// The number of members of a set that a search looks at.
const LOOKED_AT_MAX: usize = 64;

impl Segments {
    /// Seals a segment that the caller owns, and files it.
    pub(crate) fn seal(&self, segment: u32) {
        self.set_state(segment, State::Sealed);
        // See `Segments::discharge`: if one thread seals and another discharges, one of them
        // observes the change of the other.
        fence(SeqCst);
        self.file(segment);
    }

    /// Files a segment if it is sealed.
    pub(crate) fn file(&self, segment: u32) {
        let present = self.present_use(segment);
        if self.state(segment) == State::Sealed && present.sequence != 0 {
            self.file_as(segment, self.share(segment));
            self.join_age_queue(present);
        }
    }

    fn file_as(&self, segment: u32, share: Share) {
        let set = self.set(share);
        if !set.contains(segment) {
            self.region().word(global::FILED).fetch_add(1, AcqRel);
        }
        set.insert(segment);
    }

    /// Files a segment again after its account fell.
    #[inline]
    pub(crate) fn file_lower(&self, segment: u32, before: Account, after: Account) {
        let filled = self.filled(segment);
        let (from, to) = (self.share_of(before.bytes, filled), self.share_of(after.bytes, filled));
        if from != to {
            self.refile(segment, from, to);
        }
    }

    #[cold]
    fn refile(&self, segment: u32, from: Share, to: Share) {
        if self.state_in_order(segment) == State::Sealed {
            self.file_as(segment, to);
            self.set(from).remove(segment);
        }
    }

    /// Adds a free segment to the set of free ones.
    pub(crate) fn file_free(&self, segment: u32) {
        self.file_as(segment, FREE);
    }

    fn set(&self, share: Share) -> SegmentSet<'_> {
        SegmentSet::new(self.region(), self.region().layout().set_at(share))
    }

    /// Returns the share of a segment that moving its records to another segment would not gain:
    /// the live bytes, and a short unwritten end.
    fn share(&self, segment: u32) -> Share {
        self.share_of(self.live(segment), self.filled(segment))
    }

    #[inline]
    fn share_of(&self, live: usize, filled: usize) -> Share {
        // The length is a power of two. Every discharge calls this, and a division would take
        // noticeable time.
        let segment_bytes = self.region().segment_bytes();
        let sixteenths = self.taken_of(live, filled) * SIXTEENTHS + segment_bytes - 1;
        let share = (sixteenths >> segment_bytes.trailing_zeros()).min(SIXTEENTHS);
        if live == 0 { 0 } else { share }
    }

    /// Returns the bytes of a segment that moving its records to another segment would not gain.
    #[inline]
    fn taken_of(&self, live: usize, filled: usize) -> usize {
        let segment_bytes = self.region().segment_bytes();
        let end = segment_bytes - filled.min(segment_bytes);
        live + if end < segment_bytes / END_PART { end } else { 0 }
    }

    /// Returns a free segment that was used before: the first one at or after `from`.
    pub(crate) fn filed_free(&self, from: u32, claim: impl Fn(u32) -> bool) -> Option<u32> {
        self.find_in(FREE, from, |segment| {
            let is_claimed = claim(segment);
            self.set(FREE).remove(segment);
            if !is_claimed && self.state(segment) == State::Free {
                self.set(FREE).insert(segment);
            }
            is_claimed
        })
    }

    /// Returns a sealed segment for which `is_wanted` returns true, with the smallest of these
    /// shares. Threads begin their searches at different segments, so that they find different
    /// ones.
    pub(crate) fn filed(
        &self,
        shares: std::ops::RangeInclusive<Share>,
        op: &Op<'_>,
        is_wanted: impl Fn(Use) -> bool,
    ) -> Option<Use> {
        let from = self.place_of(op.thread.index);
        shares
            .into_iter()
            .find_map(|share| self.filed_with(share, from, op.now, |_| true, &is_wanted))
    }

    /// Returns a sealed segment with this share for which both conditions hold. Looks at its header
    /// only if the first one holds.
    fn filed_with(
        &self,
        share: Share,
        from: u32,
        now: Second,
        is_candidate: impl Fn(Use) -> bool,
        is_wanted: impl Fn(Use) -> bool,
    ) -> Option<Use> {
        let found = Cell::new(None);
        self.find_in(share, from, |segment| {
            // Loaded first: the use may end during the search. Then the checks below apply to the
            // next use, and the attempt to empty the segment detects that.
            let present = self.present_use(segment);
            found.set(Some(present));
            is_candidate(present)
                && self.is_rightly_filed(segment, share, now)
                && is_wanted(present)
        })?;
        found.get()
    }

    /// Same as [`Self::filed`], for segments of which at most this percentage is live. The set of
    /// the last share may contain segments above the percentage; they are passed over.
    pub(crate) fn filed_up_to(
        &self,
        percent_max: usize,
        op: &Op<'_>,
        is_wanted: impl Fn(Use) -> bool,
    ) -> Option<Use> {
        let taken_max = self.region().segment_bytes() / 100 * percent_max;
        let is_within =
            |segment| self.taken_of(self.live(segment), self.filled(segment)) <= taken_max;
        let last = (percent_max * SIXTEENTHS).div_ceil(100);
        self.filed(1..=last, op, |present| is_within(present.segment) && is_wanted(present))
    }

    /// Returns the segment at which the search with this number begins. It is far from the segments
    /// of the searches with similar numbers, so that they find different candidates.
    fn place_of(&self, number: u32) -> u32 {
        // The golden ratio spreads consecutive numbers evenly (Knuth, TAOCP 3, section 6.4).
        let place = number.wrapping_mul(0x9E37_79B9);
        ((u64::from(place) * u64::from(self.used_segment_numbers().end)) >> 32) as u32
    }

    /// True if a segment is sealed and has the share of the set that contains it. Otherwise files
    /// it in the right set.
    fn is_rightly_filed(&self, segment: u32, share: Share, now: Second) -> bool {
        let has_share = || match share {
            0 => self.is_reclaimable(segment, now),
            _ => self.share(segment) == share,
        };
        let is_right = || self.state(segment) == State::Sealed && has_share();
        if is_right() {
            return true;
        }
        self.set(share).remove(segment);
        if is_right() {
            self.set(share).insert(segment);
        } else {
            self.file(segment);
        }
        false
    }

    /// Returns a member of a set for which `is_wanted` returns true. Searches from `from` to the
    /// end, and then from the start.
    fn find_in(&self, set: usize, from: u32, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let mut looked_at = 0;
        let mut search = |from: u32, end: u32| {
            let mut from = from;
            while looked_at < LOOKED_AT_MAX {
                let segment = self.set(set).next(from).filter(|segment| *segment < end)?;
                if is_wanted(segment) {
                    return Some(segment);
                }
                looked_at += 1;
                from = segment + 1;
            }
            None
        };
        search(from, u32::MAX).or_else(|| search(0, from))
    }

    /// Continues the lap over all segments: files the next `count` segments, and counts their
    /// records.
    pub(crate) fn lap(&self, count: u64, now: Second) {
        let used = self.used_segment_numbers().end;
        if used == 0 {
            return;
        }
        let begun = self.region().word(global::LAP_NEXT).fetch_add(count, Relaxed);
        let mut counted = Account::default();
        for step in 0..count.min(u64::from(used)) {
            let segment = (begun.wrapping_add(step) % u64::from(used)) as u32;
            if self.sequence(segment).load(Relaxed) != 0 {
                counted.add(self.account(segment));
            }
            self.file_in_lap(segment, now);
        }
        let lap_of = |step: u64| begun.wrapping_add(step) / u64::from(used);
        self.note_counted(counted, lap_of(0) != lap_of(count));
    }

    fn file_in_lap(&self, segment: u32, now: Second) {
        match self.state(segment) {
            State::Free => self.file_free(segment),
            State::Sealed if self.is_reclaimable(segment, now) => self.file_as(segment, 0),
            State::Sealed => self.file(segment),
            _ => {}
        }
    }

    fn note_counted(&self, counted: Account, ends_lap: bool) {
        let [items, bytes] = [0, 8].map(|at| self.region().word(global::LAP_COUNTS + at));
        items.fetch_add(counted.items, Relaxed);
        bytes.fetch_add(counted.bytes as u64, Relaxed);
        if ends_lap {
            let mean = bytes.swap(0, Relaxed) / items.swap(0, Relaxed).max(1);
            self.region().word(global::MEAN_RECORD_BYTES).store(mean, Relaxed);
        }
    }

    /// Returns the mean size of a record in bytes according to the last lap. Before the end of the
    /// first lap, returns the mean size of the records in `segment`.
    pub(crate) fn mean_record_bytes(&self, segment: u32) -> u64 {
        let account = self.account(segment);
        match self.region().word(global::MEAN_RECORD_BYTES).load(Relaxed) {
            0 => account.bytes as u64 / account.items.max(1),
            mean => mean,
        }
    }

    /// Files all segments. Returns false without looking at them if no segment was filed since the
    /// last call. So in a full cache without eviction, not every store that fails looks at all
    /// segments.
    pub(crate) fn file_all(&self, now: Second) -> bool {
        let filed = self.region().word(global::FILED).load(Acquire);
        let looked = self.region().word(global::FILED_AT_LAST_LOOK);
        let next = filed.wrapping_add(1);
        if looked.swap(next, AcqRel) == next {
            return false;
        }
        self.used_segment_numbers().for_each(|segment| self.file_in_lap(segment, now));
        true
    }

    /// Returns the segments that no search would find. While no operation is in progress there are
    /// no such segments, unless a thread was killed.
    #[cfg(test)]
    pub(crate) fn unfiled(&self, now: Second) -> Vec<u32> {
        let is_found = |segment: u32, set| self.set(set).next(segment) == Some(segment);
        let is_filed = |segment: &u32| match self.state(*segment) {
            State::Free => is_found(*segment, FREE),
            State::Sealed if self.is_reclaimable(*segment, now) && is_found(*segment, 0) => true,
            State::Sealed => is_found(*segment, self.share(*segment)),
            _ => true,
        };
        self.used_segment_numbers().filter(|segment| !is_filed(segment)).collect()
    }

    /// True if the queue of the segment's pool contains the segment.
    #[cfg(test)]
    pub(crate) fn has_age(&self, segment: u32) -> bool {
        self.is_in_age_queue(self.present_use(segment))
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests;
