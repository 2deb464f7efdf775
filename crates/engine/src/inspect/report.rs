//! Sizes and counts of an engine, for people and for statistics.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use larder_item::Second;
use larder_region::layout::GROUP_BYTES;
use larder_stats::Counter;

use crate::engine::Engine;
use crate::segment::header::{State, begun};
use crate::segment::stream::Pool;

/// The sizes of the parts of a cache at one moment. Other threads change the cache during the
/// measurement, so the sizes need not add up exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The memory limit in bytes.
    pub memory_bytes: u64,
    /// The length of a segment in bytes.
    pub segment_bytes: u64,
    /// The number of segments that may be in use.
    pub segments: u64,
    /// The number of these segments that are free.
    pub segments_free: u64,
    /// The number of segments that have ever been in use, at most `segments`.
    pub segments_used: u64,
    /// The number of segments that threads are emptying.
    pub segments_emptying: u64,
    /// The number of segments of index groups, including overflow groups.
    pub segments_index: u64,
    /// The number of segments of the ghost, which remembers recently evicted keys.
    pub segments_ghost: u64,
    /// The number of segments of items.
    pub segments_items: u64,
    /// The number of these segments that belong to the small pool.
    pub segments_small: u64,
    /// The number of segments that readers of large values pin.
    pub segments_pinned: u64,
    /// The mean time in seconds that evicted items had spent in their segments; 0 without
    /// evictions.
    pub eviction_age_secs: u64,
    /// The number of items, including dead ones that are not removed yet.
    pub items: u64,
    /// The bytes of these items' records.
    pub live_bytes: u64,
    /// The number of index groups.
    pub groups: u64,
    /// The number of overflow groups in use.
    pub overflow_groups: u64,
    /// The bytes of all groups in use, overflow groups included.
    pub index_bytes: u64,
    /// The bytes of records that stores wrote.
    pub bytes_written: u64,
    /// The bytes of records that were moved to keep them.
    pub bytes_relocated: u64,
    /// The second in which the current use of the oldest segment of items started; 0 if no segment
    /// holds items.
    pub oldest: Second,
}

impl Report {
    /// Returns the bytes of items as a percentage of the size of the segments that hold items.
    pub fn live_percent(&self) -> u64 {
        (self.live_bytes * 100).checked_div(self.segments_items * self.segment_bytes).unwrap_or(0)
    }
}

impl Engine {
    /// Returns the number of items, including dead ones that are not removed yet.
    ///
    /// Cost: a load of each segment's account.
    pub fn items(&self) -> u64 {
        self.segments().total().items
    }

    /// Measures all parts of the engine.
    pub fn report(&self) -> Report {
        let groups = self.index().groups();
        let overflow_groups = u64::from(self.index().overflow_groups())
            .saturating_sub(self.index().free_overflow_groups());
        let total = self.segments().total();
        let mut report = Report {
            memory_bytes: self.memory_limit() as u64,
            segment_bytes: self.region().segment_bytes() as u64,
            segments: self.segments().segments_max(),
            segments_free: self.segments().free_segments(),
            segments_used: self.segments().used_segments().min(self.segments().segments_max()),
            segments_pinned: self.peers().pinned_segments(),
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
        for segment in self.segments().used_segment_numbers() {
            let state = self.segments().state(segment);
            report.segments_emptying += u64::from(state == State::Emptying);
            match state {
                State::Index | State::Overflow => report.segments_index += 1,
                State::Active | State::Sealed | State::Emptying => {
                    report.segments_items += 1;
                    let is_small = self.segments().stream(segment).pool == Pool::Small;
                    report.segments_small += u64::from(is_small);
                    let sequence = self.segments().sequence(segment).load(Relaxed);
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

    /// Returns the number of items for each size. The size is the length of the record, rounded up
    /// to a multiple of 32 bytes. Walks over the complete index.
    pub fn sizes(&self) -> BTreeMap<u64, u64> {
        let mut sizes = BTreeMap::new();
        for group in 0..self.index().groups() {
            for found in self.index().linked(group) {
                let pieces: usize = match found.header.is_large() {
                    true => {
                        self.region().word(found.record_at + found.header.value_at()).load(Relaxed)
                            as usize
                    }
                    false => 0,
                };
                let bytes = (found.header.record_bytes() + pieces) as u64;
                if self.index().is_still_there(&found) {
                    *sizes.entry(bytes.next_multiple_of(32)).or_default() += 1;
                }
            }
        }
        sizes
    }
}
