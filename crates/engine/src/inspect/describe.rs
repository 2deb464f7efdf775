//! Reports of the segments of a region, for people, and a check of a region that is in use.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::Second;

use crate::engine::Engine;
use crate::inspect::validate::{Broken, ReachableContent};
use crate::process::thread_slot::ThreadSlot;
use crate::segment::header::{State, begun};
use crate::segment::stream::Pool;

/// The state of a segment at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its number.
    pub number: u32,
    /// Its state: `free`, `reserved`, `active`, `sealed`, `emptying`, `index`, `overflow`, `ghost`.
    pub state: &'static str,
    /// True if a thread slot owns the segment.
    pub is_taken: bool,
    /// True if the segment belongs to the small pool, which new items pass through; false for the
    /// main pool.
    pub is_small: bool,
    /// The TTL class of the segment's items.
    pub ttl_class: u32,
    /// The second in which the current use of the segment started; `None` if it holds no items.
    pub begun: Option<Second>,
    /// The bytes of records in the segment, including dead ones.
    pub filled_bytes: usize,
    /// The number of reachable items.
    pub items: u64,
    /// The bytes of reachable records.
    pub live_bytes: usize,
    /// True if `items` and `live_bytes` may be too high until a recount.
    pub is_suspect: bool,
}

impl Engine {
    /// Returns reports of all segments that have ever been used.
    pub fn segment_reports(&self) -> impl Iterator<Item = SegmentReport> {
        self.segments().used_segment_numbers().map(|segment| self.segment_report(segment))
    }

    /// True if the cache has a segment with this number.
    pub fn has_segment(&self, segment: u32) -> bool {
        self.segments().segment_numbers().contains(&segment)
    }

    /// Returns the report of a segment. A segment that has never been used is free.
    ///
    /// # Panics
    /// If the cache has no segment with this number.
    pub fn segment_report(&self, segment: u32) -> SegmentReport {
        assert!(self.has_segment(segment), "no segment {segment}");
        let state = self.segments().state(segment);
        let holds_items = matches!(state, State::Active | State::Sealed | State::Emptying);
        let stream = self.segments().stream(segment);
        let account = self.segments().account(segment);
        let of_items = |number: usize| if holds_items { number } else { 0 };
        SegmentReport {
            number: segment,
            state: state.name(),
            is_taken: self.segments().segment_owner(segment) != 0,
            is_small: holds_items && stream.pool == Pool::Small,
            ttl_class: stream.ttl_class,
            begun: holds_items.then(|| begun(self.segments().sequence(segment).load(Relaxed))),
            filled_bytes: of_items(self.segments().filled(segment)),
            items: if holds_items { account.items } else { 0 },
            live_bytes: of_items(account.bytes),
            is_suspect: self.segments().is_suspect(segment),
        }
    }

    /// Checks a region that is in use, group by group under each group's lock, and returns the
    /// number of items found. [`Engine::validate`] checks more, but requires that no operation is
    /// in progress.
    ///
    /// # Errors
    /// Describes the first broken invariant, or reports that a stopped process holds a group.
    pub fn validate_in_use(&self, thread: &ThreadSlot) -> Result<u64, Broken> {
        let op = &self.op(thread, self.now());
        let mut items = 0;
        let mut group = 0;
        while group < self.index().groups() {
            let locked = self
                .index()
                .lock_group(op, group)
                .map_err(|stuck| Broken::new(stuck.to_string()))?;
            let mut reached = ReachableContent::default();
            self.validate_items(group, locked.control().level(), &mut reached)?;
            items += reached.items();
            group += 1;
        }
        Ok(items)
    }
}
