//! The segments and peers of a region, for people.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::Second;

use crate::engine::Engine;
use crate::inspect::validate::{Broken, Reached};
use crate::process::thread_slot::ThreadSlot;
use crate::segment::header::{State, begun};
use crate::segment::stream::Pool;

/// A segment at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its number.
    pub number: u32,
    /// Its state: `free`, `reserved`, `active`, `sealed`, `emptying`, `index`, `overflow`, `ghost`.
    pub state: &'static str,
    /// True if a thread slot owns it.
    pub is_taken: bool,
    /// True if it holds items of the small pool, through which new ones pass; false for the main
    /// pool.
    pub is_small: bool,
    /// The TTL class of its items.
    pub ttl_class: u32,
    /// The second in which its use started; `None` if it holds no items.
    pub begun: Option<Second>,
    /// The bytes of records in it, dead ones included.
    pub filled_bytes: usize,
    /// The number of reachable items.
    pub items: u64,
    /// The bytes of reachable records.
    pub live_bytes: usize,
    /// True if the last two may be too high until a recount.
    pub is_suspect: bool,
}

impl Engine {
    /// Returns all segments that have ever been used.
    pub fn segment_reports(&self) -> impl Iterator<Item = SegmentReport> {
        self.segments().used_segment_numbers().map(|segment| self.segment_report(segment))
    }

    /// True if the cache has a segment of this number.
    pub fn has_segment(&self, segment: u32) -> bool {
        self.segments().segment_numbers().contains(&segment)
    }

    /// Returns a segment; one that has never been used is free.
    ///
    /// # Panics
    /// The cache has no segment of this number.
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

    /// Checks a region in use, group by group under its lock, and returns the number of items seen.
    /// [`Engine::validate`] checks more, but only a region at rest.
    ///
    /// # Errors
    /// The first broken invariant, in words, or that a stopped process holds a group.
    pub fn validate_in_use(&self, thread: &ThreadSlot) -> Result<u64, Broken> {
        let op = &self.op(thread, self.now());
        let mut items = 0;
        let mut group = 0;
        while group < self.index().groups() {
            let locked = self
                .index()
                .lock_group(op, group)
                .map_err(|stuck| Broken::new(stuck.to_string()))?;
            let mut reached = Reached::default();
            self.validate_items(group, locked.control().level(), &mut reached)?;
            items += reached.items();
            group += 1;
        }
        Ok(items)
    }
}
