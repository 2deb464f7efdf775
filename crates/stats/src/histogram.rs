//! Histograms of durations, and the table of those that a worker keeps.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A histogram of durations: one writer, and any number of readers, with the rules of
/// [`Counters`](crate::Counters). Takes 184 bytes.
#[derive(Debug)]
pub struct Histogram {
    /// Durations by bucket; the last count is of those above all bounds.
    counts: [AtomicU64; BUCKETS + 1],
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [const { AtomicU64::new(0) }; BUCKETS + 1], sum_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts a duration.
    #[inline]
    pub fn record(&self, ns: u64) {
        let count = &self.counts[bucket_of(ns)];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        self.sum_ns.store(self.sum_ns.load(Relaxed).wrapping_add(ns), Relaxed);
    }
}

/// The sum of histograms at one time.
///
/// ```
/// use larder_stats::{Distribution, Histogram};
///
/// let histogram = Histogram::default();
/// for ns in [900, 1_500, 1_500, 40_000] {
///     histogram.record(ns);
/// }
/// let mut distribution = Distribution::default();
/// distribution.add(&histogram);
/// assert_eq!((distribution.count(), distribution.sum_secs()), (4, 43_900e-9));
/// assert_eq!(distribution.percentile(50.0), Some(1.5e-6));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    counts: [u64; BUCKETS + 1],
    sum_ns: u64,
}

impl Distribution {
    /// Adds what a histogram has counted.
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, count) in self.counts.iter_mut().zip(&histogram.counts) {
            *sum = sum.wrapping_add(count.load(Relaxed));
        }
        self.sum_ns = self.sum_ns.wrapping_add(histogram.sum_ns.load(Relaxed));
    }

    /// Returns what was counted after `earlier`, a distribution of the same histograms.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = *self;
        for (count, before) in later.counts.iter_mut().zip(&earlier.counts) {
            *count = count.wrapping_sub(*before);
        }
        later.sum_ns = later.sum_ns.wrapping_sub(earlier.sum_ns);
        later
    }

    /// Returns how many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Returns the sum of the durations, in seconds.
    pub fn sum_secs(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Returns the buckets: the upper bound in seconds, and how many durations are not above it.
    /// Durations above the last bound are only in [`Self::count`].
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0u64;
        self.counts.iter().take(BUCKETS).enumerate().map(move |(bucket, count)| {
            sum = sum.wrapping_add(*count);
            (bound_ns(bucket) as f64 / 1e9, sum)
        })
    }

    /// Returns the duration in seconds that `percent` of the durations do not exceed, `None` if
    /// there are none. It is interpolated in its bucket, as Prometheus does it, so it is off by a
    /// factor of two at most; above the last bound it is that bound.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = count as f64 * percent.clamp(0.0, 100.0) / 100.0;
        let (mut lower, mut below) = (0.0, 0);
        for (bound, upto) in self.buckets() {
            if upto as f64 >= rank && upto > below {
                let share = (rank - below as f64) / (upto - below) as f64;
                return Some(lower + (bound - lower) * share.max(0.0));
            }
            (lower, below) = (bound, upto);
        }
        Some(lower)
    }
}

/// Returns the upper bound of a bucket.
fn bound_ns(bucket: usize) -> u64 {
    FIRST_BOUND_NS << bucket
}

#[inline]
fn bucket_of(ns: u64) -> usize {
    let us = ns.div_ceil(FIRST_BOUND_NS);
    match us {
        0 | 1 => 0,
        us => ((us - 1).ilog2() as usize + 1).min(BUCKETS),
    }
}

/// The bounds are 1 µs, 2 µs, 4 µs … 1.048576 s.
const BUCKETS: usize = 21;
const FIRST_BOUND_NS: u64 = 1000;

/// What a worker times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Timing {
    /// A batch that begins with a get.
    Get,
    /// A batch that begins with a store.
    Set,
    /// A batch that begins with another command.
    Other,
    /// A turn of the worker's loop.
    Loop,
}

impl Timing {
    /// All timings, in the order of the table.
    pub const ALL: [Self; 4] = [Self::Get, Self::Set, Self::Other, Self::Loop];

    /// Number of timings.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the value of the label `command`, if the family has that label.
    pub fn command(self) -> Option<&'static str> {
        match self {
            Self::Get => Some("get"),
            Self::Set => Some("set"),
            Self::Other => Some("other"),
            Self::Loop => None,
        }
    }
}

/// A family of histograms as `/metrics` shows it.
#[derive(Clone, Copy, Debug)]
pub struct HistogramFamily {
    /// Its name.
    pub name: &'static str,
    /// Its meaning.
    pub doc: &'static str,
    /// Its histograms.
    pub timings: &'static [Timing],
}

/// The families of histograms.
pub const HISTOGRAMS: &[HistogramFamily] = &[
    HistogramFamily {
        name: "larder_request_duration_seconds",
        doc: "Time from the return of the wait that brought a request to the hand-over of its \
            answer to the kernel. One batch in 16 is timed, chosen at random: `_count` counts \
            timed samples, not requests. A batch is what a connection has sent when its turn \
            comes; its first command decides the label: get for retrievals, set for stores, other \
            for the rest. Batches without an answer and UDP are not timed.",
        timings: &[Timing::Get, Timing::Set, Timing::Other],
    },
    HistogramFamily {
        name: "larder_loop_duration_seconds",
        doc: "Time of a turn of a worker's loop, from the return of its wait to the next wait. \
            Every turn is timed: a request that arrives meanwhile waits that long.",
        timings: &[Timing::Loop],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(durations: &[u64]) -> Distribution {
        let histogram = Histogram::default();
        durations.iter().for_each(|ns| histogram.record(*ns));
        let mut distribution = Distribution::default();
        distribution.add(&histogram);
        distribution
    }

    #[test]
    fn a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        for (ns, bucket) in [
            (0, 0),
            (1_000, 0),
            (1_001, 1),
            (2_000, 1),
            (2_001, 2),
            (4_000, 2),
            (1_048_576_000, 20),
            (1_048_576_001, 21),
            (u64::MAX, 21),
        ] {
            assert_eq!(bucket_of(ns), bucket, "{ns} ns");
        }
    }

    #[test]
    fn buckets_are_cumulative_and_end_above_a_second() {
        let distribution = of(&[1, 1_500, 3_000_000_000]);
        let buckets: Vec<_> = distribution.buckets().collect();
        assert_eq!(buckets.len(), 21);
        assert_eq!((buckets[0], buckets[1]), ((1e-6, 1), (2e-6, 2)));
        assert_eq!(buckets[20], (1.048_576, 2));
        assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1 && pair[0].0 < pair[1].0));
        assert_eq!(distribution.count(), 3);
        assert_eq!(distribution.sum_secs(), 3.000_001_501);
    }

    #[test]
    fn percentiles_lie_in_their_bucket() {
        let durations: Vec<u64> = (1..=1000).map(|us| us * 1000).collect();
        let distribution = of(&durations);
        for percent in [1.0, 25.0, 50.0, 90.0, 99.0] {
            let (found, true_secs) = (distribution.percentile(percent).unwrap(), percent * 1e-5);
            assert!((found / true_secs - 1.0).abs() < 0.05, "p{percent}: {found} s");
        }
        assert_eq!(of(&[]).percentile(50.0), None);
        assert_eq!(of(&[5_000_000_000]).percentile(50.0), Some(1.048_576));
        assert_eq!(of(&[500]).percentile(100.0), Some(1e-6));
    }

    #[test]
    fn a_difference_has_what_came_later() {
        let (earlier, later) = (of(&[1_000]), of(&[1_000, 70_000]));
        assert_eq!(later.since(&earlier), of(&[70_000]));
    }

    #[test]
    fn every_timing_is_in_one_family() {
        let shown: Vec<_> = HISTOGRAMS.iter().flat_map(|family| family.timings).collect();
        assert_eq!(shown, Timing::ALL.iter().collect::<Vec<_>>());
    }
}
