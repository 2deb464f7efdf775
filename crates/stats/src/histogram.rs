//! Histograms of durations, and the table of a worker's histograms.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A histogram of durations, for one writer and any number of readers, with the same rules as
/// [`Counters`](crate::Counters). Its size is 184 bytes.
#[derive(Debug)]
pub struct Histogram {
    /// Number of durations per bucket. The last count is for durations above all bounds.
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

/// The sum of several histograms at one moment.
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
    /// Adds the counts of a histogram.
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, count) in self.counts.iter_mut().zip(&histogram.counts) {
            *sum = sum.wrapping_add(count.load(Relaxed));
        }
        self.sum_ns = self.sum_ns.wrapping_add(histogram.sum_ns.load(Relaxed));
    }

    /// Returns the counts since `earlier`, an older distribution of the same histograms.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = *self;
        for (count, before) in later.counts.iter_mut().zip(&earlier.counts) {
            *count = count.wrapping_sub(*before);
        }
        later.sum_ns = later.sum_ns.wrapping_sub(earlier.sum_ns);
        later
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Returns the sum of the durations, in seconds.
    pub fn sum_secs(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Returns the buckets: the upper bound in seconds, and the number of durations up to this
    /// bound. Durations above the last bound are included only in [`Self::count`].
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0u64;
        self.counts.iter().take(BUCKETS).enumerate().map(move |(bucket, count)| {
            sum = sum.wrapping_add(*count);
            (bound_ns(bucket) as f64 / 1e9, sum)
        })
    }

    /// Returns the duration in seconds that `percent` of the durations do not exceed; `None`
    /// without durations. The result is interpolated within its bucket, as in Prometheus, so it is
    /// off by at most a factor of two. It never exceeds the last bound.
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

/// The durations that a worker measures.
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

/// A family of histograms in `/metrics`.
#[derive(Clone, Copy, Debug)]
pub struct HistogramFamily {
    /// The name.
    pub name: &'static str,
    /// The meaning.
    pub doc: &'static str,
    /// The histograms of the family.
    pub timings: &'static [Timing],
}

/// The families of histograms.
pub const HISTOGRAMS: &[HistogramFamily] = &[
    HistogramFamily {
        name: "larder_request_duration_seconds",
        doc: "Time from the return of the worker's wait with a request until the response is \
            passed to the kernel. One batch in 16 is timed, chosen at random: `_count` is the \
            number of timed batches, not of requests. A batch consists of the requests that a \
            connection has sent when the worker serves it. Its first command determines the \
            label: get for retrievals, set for stores, other for all other commands. Batches \
            without a response and UDP are not timed.",
        timings: &[Timing::Get, Timing::Set, Timing::Other],
    },
    HistogramFamily {
        name: "larder_loop_duration_seconds",
        doc: "Time of a turn of a worker's loop, from the return of its wait to the next wait. \
            Every turn is timed. A request that arrives during a turn waits for up to that long.",
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
