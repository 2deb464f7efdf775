//! The counts of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// The counts of one thread, or of all threads.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Requests with a response.
    pub(crate) requests: u64,
    /// Keys that were looked up.
    pub(crate) gets: u64,
    /// Requested keys that the server found.
    pub(crate) hits: u64,
    /// Sets with a response.
    pub(crate) sets: u64,
    /// Hits whose value differs from the stored one.
    pub(crate) wrong_values: u64,
    /// Failed requests, by error text.
    pub(crate) errors: BTreeMap<String, u64>,
    /// The first reason why a connection cannot be trusted, or why all connections have failed.
    pub(crate) failed: Option<String>,
    /// The last reason why a connection was lost.
    pub(crate) lost: Option<String>,
    pub(crate) lost_connections: u64,
    /// Lost connections that were reopened.
    pub(crate) reopened_connections: u64,
    /// Connections alive at the end, and connections that failed or were not reopened.
    pub(crate) alive_connections: u32,
    pub(crate) failed_connections: u32,
    /// Latencies from the sending of a request, or from its due time, to the parsed response, in
    /// nanoseconds.
    pub(crate) latency_ns: Histogram<u64>,
    /// The length of the run: the longest time of a thread.
    pub(crate) elapsed: Duration,
    pub(crate) lateness: Lateness,
    pub(crate) effort: Effort,
}

/// The accuracy with which a schedule was kept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lateness {
    /// Requests in the schedule.
    pub(crate) scheduled: u64,
    /// Requests sent late because no connection was free when they were due.
    pub(crate) late_for_connections: u64,
    /// Requests sent late although a connection was free, because the generator was too slow.
    pub(crate) late_for_generator: u64,
    /// Requests that were due before the end but not sent.
    pub(crate) unsent: u64,
    /// The longest delay between due time and sending, by its cause, in nanoseconds.
    pub(crate) for_connections_max_ns: u64,
    pub(crate) for_generator_max_ns: u64,
}

/// The processor time of the generator itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effort {
    /// Processor time of the busiest thread divided by its running time.
    pub(crate) busy_share: f64,
    /// The largest share of its running time in which a thread was runnable but had no processor.
    pub(crate) starved_share: f64,
}

/// The counts of one second, of one thread or of all threads.
#[derive(Clone, Debug)]
pub(crate) struct Second {
    /// The number of the second, from the beginning of the run.
    pub(crate) number: u64,
    /// The measured part of the second.
    pub(crate) span: Duration,
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    pub(crate) errors: u64,
    pub(crate) latency_ns: Histogram<u64>,
}

fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, digits).expect("the bounds are in order")
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            requests: 0,
            gets: 0,
            hits: 0,
            sets: 0,
            wrong_values: 0,
            errors: BTreeMap::new(),
            failed: None,
            lost: None,
            lost_connections: 0,
            reopened_connections: 0,
            alive_connections: 0,
            failed_connections: 0,
            latency_ns: histogram(3),
            elapsed: Duration::ZERO,
            lateness: Lateness::default(),
            effort: Effort::default(),
        }
    }
}

impl Tally {
    /// Counts failed requests by error text.
    pub(crate) fn count_errors(&mut self, words: &[u8], times: u64) {
        if times == 0 {
            return;
        }
        let words = &words[..words.len().min(ERROR_BYTES_MAX)];
        let mut kind = words.escape_ascii().to_string();
        // A server may send any error text, so the number of kinds is bounded.
        if self.errors.len() >= ERROR_KINDS_MAX && !self.errors.contains_key(&kind) {
            kind = "others".to_owned();
        }
        *self.errors.entry(kind).or_default() += times;
    }

    pub(crate) fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Adds another thread's counts.
    pub(crate) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.gets += other.gets;
        self.hits += other.hits;
        self.sets += other.sets;
        self.wrong_values += other.wrong_values;
        for (kind, times) in &other.errors {
            self.count_errors(kind.as_bytes(), *times);
        }
        self.failed = self.failed.take().or(other.failed);
        self.lost = self.lost.take().or(other.lost);
        self.lost_connections += other.lost_connections;
        self.reopened_connections += other.reopened_connections;
        self.alive_connections += other.alive_connections;
        self.failed_connections += other.failed_connections;
        self.latency_ns.add(&other.latency_ns).expect("all have the same bounds");
        self.elapsed = self.elapsed.max(other.elapsed);
        self.lateness.add(other.lateness);
        self.effort.busy_share = self.effort.busy_share.max(other.effort.busy_share);
        self.effort.starved_share = self.effort.starved_share.max(other.effort.starved_share);
    }

    /// Marks the run as failed if all connections have failed.
    pub(crate) fn end(&mut self) {
        if self.alive_connections == 0 {
            self.failed = self.failed.take().or(self.lost.take());
        }
    }

    pub(crate) fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns hits divided by lookups; `None` without lookups.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        ratio(self.hits, self.gets)
    }

    pub(crate) fn latency_us(&self, quantile: f64) -> f64 {
        self.latency_ns.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// True if every request succeeded and every value was right.
    pub(crate) fn is_sound(&self) -> bool {
        self.wrong_values == 0 && self.errors.is_empty()
    }
}

impl Lateness {
    fn add(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.late_for_connections += other.late_for_connections;
        self.late_for_generator += other.late_for_generator;
        self.unsent += other.unsent;
        let max = self.for_connections_max_ns.max(other.for_connections_max_ns);
        self.for_connections_max_ns = max;
        self.for_generator_max_ns = self.for_generator_max_ns.max(other.for_generator_max_ns);
    }
}

impl Second {
    pub(crate) fn new(number: u64) -> Self {
        Self { number, span: Duration::ZERO, gets: 0, hits: 0, errors: 0, latency_ns: histogram(2) }
    }

    /// Adds the counts of another thread for the same second.
    pub(crate) fn add(&mut self, other: &Self) {
        self.span = self.span.max(other.span);
        self.gets += other.gets;
        self.hits += other.hits;
        self.errors += other.errors;
        self.latency_ns.add(&other.latency_ns).expect("all have the same bounds");
    }

    pub(crate) fn requests_per_second(&self) -> f64 {
        self.latency_ns.len() as f64 / self.span.as_secs_f64().max(1e-9)
    }

    pub(crate) fn latency_us(&self, quantile: f64) -> f64 {
        self.latency_ns.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// Returns `part` divided by `whole`; `None` if `whole` is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The largest latency in the histogram, in nanoseconds. Longer latencies count as this one.
const LATENCY_NS_MAX: u64 = 600_000_000_000;
const ERROR_KINDS_MAX: usize = 32;
const ERROR_BYTES_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn of_latencies_us(latencies: impl IntoIterator<Item = u64>) -> Tally {
        let mut tally = Tally::default();
        for us in latencies {
            tally.latency_ns.saturating_record(us * 1000);
            tally.requests += 1;
        }
        tally
    }

    #[track_caller]
    fn assert_near(found: f64, expected: f64, share: f64) {
        let error = (found - expected).abs() / expected;
        assert!(error <= share, "found {found}, expected {expected} within {share}");
    }

    #[test]
    fn quantiles_are_exact_to_a_thousandth() {
        let tally = of_latencies_us(1..=100_000);
        for (quantile, us) in [(0.5, 5e4), (0.9, 9e4), (0.99, 9.9e4), (0.999, 9.99e4), (1.0, 1e5)] {
            assert_near(tally.latency_us(quantile), us, 0.001);
        }
    }

    #[test]
    fn a_latency_beyond_the_histogram_counts_as_its_longest() {
        let mut tally = of_latencies_us([LATENCY_NS_MAX / 1000]);
        tally.latency_ns.saturating_record(u64::MAX);
        assert_eq!(tally.latency_ns.len(), 2, "no latency is lost");
        assert_near(tally.latency_us(1.0), LATENCY_NS_MAX as f64 / 1e3, 0.001);
    }

    #[test]
    fn a_second_has_quantiles_to_a_hundredth_and_the_rate_of_its_span() {
        let mut second = Second::new(3);
        second.span = Duration::from_millis(500);
        (1..=1000).for_each(|us| second.latency_ns.record(us * 1000).unwrap());
        assert_near(second.requests_per_second(), 2000.0, 1e-9);
        assert_near(second.latency_us(0.5), 500.0, 0.01);
        assert_eq!(Second::new(0).requests_per_second(), 0.0, "a second without time and requests");
    }

    #[test]
    fn the_rate_counts_answered_requests_over_the_time_of_the_run() {
        let mut tally = of_latencies_us([5; 300]);
        tally.elapsed = Duration::from_millis(1500);
        assert_near(tally.requests_per_second(), 200.0, 1e-9);
        tally.elapsed = Duration::ZERO;
        assert!(tally.requests_per_second().is_finite(), "{}", tally.requests_per_second());
    }

    #[test]
    fn the_hit_ratio_is_of_keys_and_absent_without_gets() {
        assert_eq!(Tally::default().hit_ratio(), None);
        let tally = Tally { gets: 8, hits: 6, requests: 2, ..Tally::default() };
        assert_eq!(tally.hit_ratio(), Some(0.75));
    }

    #[test]
    fn threads_add_their_counts_and_the_longest_of_their_times() {
        let lateness = Lateness {
            scheduled: 10,
            late_for_connections: 1,
            late_for_generator: 2,
            unsent: 3,
            for_connections_max_ns: 40,
            for_generator_max_ns: 5,
        };
        let one = Tally {
            requests: 1,
            gets: 2,
            hits: 1,
            sets: 4,
            wrong_values: 5,
            lost_connections: 6,
            reopened_connections: 7,
            alive_connections: 8,
            failed_connections: 9,
            elapsed: Duration::from_secs(2),
            lateness,
            effort: Effort { busy_share: 0.5, starved_share: 0.1 },
            ..of_latencies_us([100])
        };
        let mut sum = one.clone();
        let for_generator_max_ns = 50;
        sum.add(Tally {
            elapsed: Duration::from_secs(3),
            lateness: Lateness { for_connections_max_ns: 4, for_generator_max_ns, ..lateness },
            effort: Effort { busy_share: 0.25, starved_share: 0.2 },
            ..one
        });
        assert_eq!((sum.requests, sum.gets, sum.hits, sum.sets), (2, 4, 2, 8));
        assert_eq!((sum.wrong_values, sum.lost_connections), (10, 12));
        assert_eq!((sum.reopened_connections, sum.alive_connections), (14, 16));
        assert_eq!((sum.failed_connections, sum.latency_ns.len()), (18, 2));
        assert_eq!(sum.elapsed, Duration::from_secs(3), "threads run at the same time");
        assert_eq!((sum.effort.busy_share, sum.effort.starved_share), (0.5, 0.2));
        let Lateness { scheduled, late_for_connections, late_for_generator, .. } = sum.lateness;
        assert_eq!((scheduled, late_for_connections, late_for_generator), (20, 2, 4));
        let longest = (sum.lateness.for_connections_max_ns, sum.lateness.for_generator_max_ns);
        assert_eq!((longest, sum.lateness.unsent), ((40, 50), 6));
    }

    #[test]
    fn errors_are_counted_by_their_words() {
        let mut tally = Tally::default();
        tally.count_errors(b"SERVER_ERROR x", 2);
        tally.count_errors(b"SERVER_ERROR x", 3);
        tally.count_errors(b"a\x1b]0;\xff", 1);
        tally.count_errors(b"not counted", 0);
        let kinds: Vec<_> = tally.errors.iter().map(|(kind, times)| (&**kind, *times)).collect();
        assert_eq!(kinds, [("SERVER_ERROR x", 5), (r"a\x1b]0;\xff", 1)]);
        assert_eq!(tally.error_count(), 6);
    }

    #[test]
    fn errors_of_many_kinds_take_bounded_memory() {
        let mut tally = Tally::default();
        for number in 0..1000_u32 {
            let words = format!("SERVER_ERROR {number} {}", "x".repeat(1000));
            tally.count_errors(words.as_bytes(), 1);
        }
        assert_eq!(tally.errors.len(), ERROR_KINDS_MAX + 1, "these and the others");
        assert_eq!(tally.errors["others"], 1000 - ERROR_KINDS_MAX as u64);
        assert!(tally.errors.keys().all(|kind| kind.len() <= ERROR_BYTES_MAX));
        assert_eq!(tally.error_count(), 1000, "no error is lost");
        // A kind that was counted before is still counted by its name when the limit is reached.
        let first = tally.errors.keys().next().unwrap().clone();
        tally.count_errors(first.as_bytes(), 1);
        assert_eq!(tally.errors[&first], 2);
    }

    #[test]
    fn a_run_has_failed_once_no_connection_is_left() {
        let lost = || Some("the server is gone".to_owned());
        let mut alive = Tally { lost: lost(), alive_connections: 1, ..Tally::default() };
        alive.end();
        assert_eq!(alive.failed, None, "a connection is left");
        let mut dead = Tally { lost: lost(), ..Tally::default() };
        dead.end();
        assert_eq!(dead.failed, lost());
        let failed = Some("a wrong answer".to_owned());
        let mut both = Tally { lost: lost(), failed: failed.clone(), ..Tally::default() };
        both.end();
        assert_eq!(both.failed, failed, "an answer that cannot be trusted comes first");
    }

    #[test]
    fn a_wrong_value_or_an_error_makes_a_run_unsound() {
        assert!(Tally::default().is_sound());
        assert!(!Tally { wrong_values: 1, ..Tally::default() }.is_sound());
        let mut tally = Tally::default();
        tally.count_errors(b"ERROR", 1);
        assert!(!tally.is_sound());
    }
}
