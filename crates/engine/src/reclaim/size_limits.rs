//! The size rule of eviction: the larger an item is, the more often it must have been read.
//!
//! An item survives if its number of reads per byte is at least 30 % of the mean of the items that
//! recent evictions found and that had been read. The sums over these items are in the region, so
//! that processes that use a cache only briefly share them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use larder_region::layout::global;

use crate::reclaim::Reclaimer;
use crate::segment::slot::FREQ_MAX;

/// How many reads per byte an item needs, as a percentage of the mean of the items that evictions
/// found and that had been read.
const NEEDED_PERCENT: u64 = 30;

/// Items that eviction has found and that had been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadItems {
    /// The sum of their freqs.
    pub(crate) reads: u64,
    /// The sum of their sizes.
    pub(crate) bytes: u64,
}

impl ReadItems {
    pub(crate) fn add(&mut self, freq: u64, item_bytes: u64) {
        if freq > 0 {
            self.reads += freq;
            self.bytes += item_bytes;
        }
    }
}

/// The size of the largest item that survives, in bytes, for each freq.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SizeLimits([u64; FREQ_MAX as usize + 1]);

impl SizeLimits {
    /// The largest margin. Larger margins count as this one.
    pub(crate) const MARGIN_MAX: u64 = 127;
    /// The margin of an item whose size is exactly its limit.
    pub(crate) const MARGIN_OF_LIMIT: u64 = 8;

    /// Derives the limits from the read items that eviction has found. If it has found none, all
    /// items that were read survive.
    pub(crate) fn of(found: ReadItems) -> Self {
        let limit = |freq: u64| match (freq, found.reads) {
            (0, _) => 0,
            (_, 0) => u64::MAX,
            (_, reads) => {
                // In a damaged region, the sums may be anything.
                let allowed = found.bytes.saturating_mul(100 * freq);
                allowed / reads.saturating_mul(NEEDED_PERCENT)
            }
        };
        Self(std::array::from_fn(|freq| limit(freq as u64)))
    }

    /// Returns how far below its limit an item is: the limit divided by the item's size, in
    /// eighths. An item survives from [`Self::MARGIN_OF_LIMIT`] on.
    pub(crate) fn margin(&self, freq: u64, item_bytes: u64) -> u64 {
        let limit = self.0[freq.min(FREQ_MAX) as usize];
        let margin = limit.saturating_mul(Self::MARGIN_OF_LIMIT) / item_bytes.max(1);
        margin.min(Self::MARGIN_MAX)
    }
}

impl Reclaimer {
    /// Returns the sums over the read items that evictions have found: reads and bytes.
    fn read_sums(&self) -> [&AtomicU64; 2] {
        [global::READS_FOUND, global::READ_BYTES_FOUND].map(|at| self.region().word(at))
    }

    /// Returns the current limits.
    pub(crate) fn size_limits(&self) -> SizeLimits {
        let [reads, bytes] = self.read_sums().map(|sum| sum.load(Relaxed));
        SizeLimits::of(ReadItems { reads, bytes })
    }

    /// Adds the read items of an eviction to the sums. When their bytes reach the memory in use,
    /// halves both sums, so that the limits follow the items that are stored now.
    pub(crate) fn note_read_items(&self, found: ReadItems) {
        let segment_bytes = self.region().segment_bytes() as u64;
        let used_bytes = self.segments().used_segments().saturating_mul(segment_bytes);
        let [reads, bytes] = self.read_sums();
        let reads_now = reads.fetch_add(found.reads, Relaxed).wrapping_add(found.reads);
        let bytes_now = bytes.fetch_add(found.bytes, Relaxed).wrapping_add(found.bytes);
        if bytes_now >= used_bytes {
            // A concurrent eviction may lose its additions, which is acceptable because the sums
            // are a hint.
            reads.store(reads_now / 2, Relaxed);
            bytes.store(bytes_now / 2, Relaxed);
        }
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::fixtures::SMALL;

    /// Returns the size from which on an item of this freq is evicted.
    fn limit(limits: SizeLimits, freq: u64) -> u64 {
        let survives = |bytes: &u64| limits.margin(freq, *bytes) >= SizeLimits::MARGIN_OF_LIMIT;
        (1..100_000).take_while(survives).last().unwrap_or(0)
    }

    #[test]
    fn an_item_needs_a_share_of_the_reads_for_each_byte_of_others() {
        let limits = SizeLimits::of(ReadItems { reads: 100, bytes: 30_000 });
        let largest = [0, 1, 2, 3].map(|freq| limit(limits, freq));
        assert_eq!(largest, [0, 1000, 2000, 3000]);
    }

    #[test]
    fn the_limits_are_those_of_density_and_not_of_number() {
        let few = SizeLimits::of(ReadItems { reads: 10, bytes: 3_000 });
        assert_eq!(few, SizeLimits::of(ReadItems { reads: 1000, bytes: 300_000 }));
    }

    #[test]
    fn before_any_item_was_found_read_each_that_was_read_survives() {
        let limits = SizeLimits::of(ReadItems::default());
        assert_eq!(limits.margin(0, 1), 0);
        assert_eq!(limits.margin(1, 1 << 40), SizeLimits::MARGIN_MAX);
    }

    #[test]
    fn sums_of_a_damaged_region_give_limits() {
        for sum in [0, 1, u64::MAX] {
            for other in [0, 1, u64::MAX] {
                let limits = SizeLimits::of(ReadItems { reads: sum, bytes: other });
                assert!(limits.margin(FREQ_MAX, 1) <= SizeLimits::MARGIN_MAX);
            }
        }
    }

    #[test]
    fn the_limits_follow_the_items_that_are_read_now() {
        let engine = Engine::create(&SMALL).unwrap();
        let reclaimer = engine.reclaimer();
        let limit_after = |bytes: u64| {
            for _ in 0..1000 {
                reclaimer.note_read_items(ReadItems { reads: 20, bytes: 10 * bytes });
            }
            limit(reclaimer.size_limits(), 1)
        };
        let (small, large) = (limit_after(100), limit_after(5_000));
        assert!((166..=167).contains(&small), "{small}");
        assert!(large > 40 * small, "{large} after {small}");
        assert!(limit_after(100) < 170, "the sums do not forget");
    }
}
