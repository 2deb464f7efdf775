//! What an engine holds, for people and for statistics.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use larder_item::Second;
use larder_region::layout::GROUP_BYTES;
use larder_stats::Counter;

use crate::Engine;
use crate::segment::header::{State, begun};
use crate::segment::stream::Pool;

/// The sizes of the parts of a cache at one time. Threads go on meanwhile: the numbers need not add up to
/// the byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How much memory may be used, in bytes.
    pub memory_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Segments that may be in use.
    pub segments: u64,
    /// Of these, those that hold nothing.
    pub segments_free: u64,
    /// Segments that have ever been in use, or as many as may be in use if that is less.
    pub segments_used: u64,
    /// Segments that are just being emptied.
    pub segments_emptying: u64,
    /// Segments that hold index groups, overflow groups included.
    pub segments_index: u64,
    /// Segments of the ghost, which remembers what was evicted lately.
    pub segments_ghost: u64,
    /// Segments that hold items.
    pub segments_items: u64,
    /// Those of them that belong to the small pool.
    pub segments_small: u64,
    /// Segments held by readers of large values.
    pub segments_pinned: u64,
    /// Mean of the seconds that evicted items had been in their segments; 0 where none was evicted.
    pub eviction_age_secs: u64,
    /// Items, dead ones that nobody has come across included.
    pub items: u64,
    /// Bytes of the records of these items.
    pub live_bytes: u64,
    /// Index groups.
    pub groups: u64,
    /// Overflow groups in use.
    pub overflow_groups: u64,
    /// Bytes of all groups in use.
    pub index_bytes: u64,
    /// Bytes of records written by stores.
    pub bytes_written: u64,
    /// Bytes of records moved to keep them.
    pub bytes_relocated: u64,
    /// The second in which the oldest segment with items was begun; 0 where there is none.
    pub oldest: Second,
}

impl Report {
    /// Bytes of items by the memory of the segments that hold items, in percent.
    pub fn live_percent(&self) -> u64 {
        (self.live_bytes * 100).checked_div(self.segments_items * self.segment_bytes).unwrap_or(0)
    }
}

impl Engine {
    /// How many items there are, dead ones that nobody has come across included.
    ///
    /// Cost: a look at every segment's account.
    pub fn items(&self) -> u64 {
        self.total().items
    }

    /// Counts and measures.
    pub fn report(&self) -> Report {
        let groups = self.groups();
        let overflow_groups =
            u64::from(self.overflow_groups()).saturating_sub(self.free_overflow_groups());
        let total = self.total();
        let mut report = Report {
            memory_bytes: self.memory_limit() as u64,
            segment_bytes: self.layout.segment_bytes as u64,
            segments: self.segments_max(),
            segments_free: self.free_segments(),
            segments_used: self.used_segments().min(self.segments_max()),
            segments_pinned: self.pinned_segments(),
            eviction_age_secs: self
                .counter(Counter::EvictedAgeSecs)
                .checked_div(self.counter(Counter::Evictions))
                .unwrap_or(0),
            items: total.items,
            live_bytes: total.bytes as u64,
            groups,
            overflow_groups,
            index_bytes: (groups + overflow_groups) * GROUP_BYTES as u64,
            bytes_written: self.counter(Counter::BytesWritten),
            bytes_relocated: self.counter(Counter::BytesRelocated),
            ..Report::default()
        };
        let mut oldest = u64::MAX;
        for segment in self.segments().take(self.used_segments() as usize) {
            let state = self.state(segment);
            report.segments_emptying += u64::from(state == State::Emptying);
            match state {
                State::Index | State::Overflow => report.segments_index += 1,
                State::Active | State::Sealed | State::Emptying => {
                    report.segments_items += 1;
                    let is_small = self.stream(segment).pool == Pool::Small;
                    report.segments_small += u64::from(is_small);
                    let sequence = self.sequence(segment).load(Relaxed);
                    if sequence < oldest {
                        oldest = sequence;
                        report.oldest = begun(sequence);
                    }
                }
                State::Ghost => report.segments_ghost += 1,
                State::Free | State::Reserved => {}
            }
        }
        report
    }

    /// How many items there are of each size: record bytes rounded up to 32, and their number. Walks the
    /// whole index.
    pub fn sizes(&self) -> BTreeMap<u64, u64> {
        let mut sizes = BTreeMap::new();
        for group in 0..self.groups() {
            for found in self.linked(group) {
                let pieces: usize = match found.header.is_large() {
                    true => {
                        self.memory.word(found.record_at + found.header.value_at()).load(Relaxed)
                            as usize
                    }
                    false => 0,
                };
                let bytes = (found.header.record_bytes() + pieces) as u64;
                if self.is_still_there(&found) {
                    *sizes.entry(bytes.next_multiple_of(32)).or_default() += 1;
                }
            }
        }
        sizes
    }
}
