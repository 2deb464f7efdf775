//! The time series of a run, one point per second.

use std::collections::BTreeMap;

use crate::tally::{Second, ratio};

/// The seconds of a run, complete and incomplete.
#[derive(Debug)]
pub(crate) struct Series {
    thread_count: u32,
    points: Vec<Point>,
    /// Incomplete seconds by number: the number of threads that have reported, and the sum of their
    /// counts.
    open: BTreeMap<u64, (u32, Second)>,
}

/// The results of one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// The number of the second, from the beginning of the run.
    pub(crate) second: u64,
    pub(crate) requests_per_second: f64,
    /// Latencies of the requests answered in this second, in microseconds; 0 without requests.
    pub(crate) latency_us: [f64; 4],
    pub(crate) hit_ratio: Option<f64>,
    pub(crate) errors: u64,
}

impl Point {
    /// The quantiles in `latency_us`, with their names.
    pub(crate) const QUANTILES: [(&'static str, f64); 4] =
        [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

    fn of(second: &Second) -> Self {
        Self {
            second: second.number,
            requests_per_second: second.requests_per_second(),
            latency_us: Self::QUANTILES.map(|(_, quantile)| second.latency_us(quantile)),
            hit_ratio: ratio(second.hits, second.gets),
            errors: second.errors,
        }
    }
}

impl Series {
    pub(crate) fn new(thread_count: u32) -> Self {
        Self { thread_count, points: Vec::new(), open: BTreeMap::new() }
    }

    /// Adds a thread's second. Returns the point if that completes the second.
    pub(crate) fn add(&mut self, second: Second) -> Option<Point> {
        let number = second.number;
        let (reports, sum) = self.open.entry(number).or_insert_with(|| (0, Second::new(number)));
        *reports += 1;
        sum.add(&second);
        if *reports < self.thread_count {
            return None;
        }
        let (_, sum) = self.open.remove(&number)?;
        self.push(&sum)
    }

    /// Closes the series after the last report of a thread. Keeps incomplete seconds as they are.
    pub(crate) fn end(&mut self) {
        for (_, (_, second)) in std::mem::take(&mut self.open) {
            self.push(&second);
        }
        self.points.sort_by_key(|point| point.second);
    }

    fn push(&mut self, second: &Second) -> Option<Point> {
        // The last moments of a run are too short for a rate.
        if second.span.as_millis() < SPAN_MS_MIN {
            return None;
        }
        self.points.push(Point::of(second));
        self.points.last().copied()
    }

    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }
}

const SPAN_MS_MIN: u128 = 250;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn second(number: u64, requests: u64, span_ms: u64) -> Second {
        let mut second = Second::new(number);
        second.span = Duration::from_millis(span_ms);
        second.latency_ns.record_n(5_000, requests).unwrap();
        second
    }

    #[test]
    fn a_second_is_complete_when_all_threads_have_reported_it() {
        let mut series = Series::new(2);
        assert_eq!(series.add(second(0, 10, 1000)), None);
        assert_eq!(series.add(second(1, 5, 500)), None);
        let point = series.add(second(0, 20, 1000)).unwrap();
        assert_eq!((point.second, point.requests_per_second.round()), (0, 30.0));
        series.add(second(2, 1, 10));
        series.end();
        let rates = series.points().iter().map(|point| point.requests_per_second.round());
        assert_eq!(rates.collect::<Vec<_>>(), [30.0, 10.0]);
    }

    #[test]
    fn a_point_has_the_counts_of_all_threads() {
        let mut series = Series::new(2);
        let of = |hits, errors, ns| {
            let mut second = second(0, 0, 1000);
            (second.gets, second.hits, second.errors) = (10, hits, errors);
            second.latency_ns.record_n(ns, 100).unwrap();
            second
        };
        series.add(of(10, 1, 1_000_000));
        let point = series.add(of(5, 2, 3_000_000)).unwrap();
        assert_eq!((point.hit_ratio, point.errors), (Some(0.75), 3));
        let [p50, p99, _, max] = point.latency_us;
        assert!((990.0..1010.0).contains(&p50), "the median is that of both threads: {p50} us");
        assert!((2970.0..3030.0).contains(&p99) && max >= p99, "{point:?}");
    }

    #[test]
    fn a_second_without_requests_is_a_point_without_latency() {
        let mut series = Series::new(1);
        let point = series.add(second(0, 0, 1000)).unwrap();
        assert_eq!((point.requests_per_second, point.latency_us), (0.0, [0.0; 4]));
        assert_eq!(point.hit_ratio, None);
    }

    #[test]
    fn the_points_are_in_the_order_of_time_although_threads_report_as_they_please() {
        let mut series = Series::new(2);
        // One thread is done before the other reports its first second. The last seconds of both
        // are incomplete: one of the threads has ended early.
        for number in [0, 1, 2, 0, 1, 4] {
            series.add(second(number, 1, 1000));
        }
        series.end();
        let seconds: Vec<u64> = series.points().iter().map(|point| point.second).collect();
        assert_eq!(seconds, [0, 1, 2, 4]);
    }

    #[test]
    fn the_last_moments_of_a_run_are_no_point() {
        for (span_ms, count) in [(249, 0), (250, 1)] {
            let mut series = Series::new(1);
            series.add(second(0, 5, span_ms));
            assert_eq!(series.points().len(), count, "{span_ms} ms");
        }
    }
}
