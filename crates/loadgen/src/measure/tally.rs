//! The counts of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// The counts of one thread, or of all threads.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Answered requests.
    pub(crate) requests: u64,
    /// Keys requested by gets.
    pub(crate) gets: u64,
    /// Requested keys that the server found.
    pub(crate) hits: u64,
    /// Answered sets.
    pub(crate) sets: u64,
    /// Hits with another value than the stored one.
    pub(crate) wrong_values: u64,
    /// Failed requests, by the words of the error.
    pub(crate) errors: BTreeMap<String, u64>,
    /// The first reason why a connection cannot be trusted or none is left.
    pub(crate) failed: Option<String>,
    /// The last reason why a connection was lost.
    pub(crate) lost: Option<String>,
    pub(crate) lost_connections: u64,
    /// Lost connections that were reopened.
    pub(crate) reopened_connections: u64,
    /// Connections alive at the end, and connections that failed or stayed lost.
    pub(crate) alive_connections: u32,
    pub(crate) failed_connections: u32,
    /// From the sending of a request, or from its due time, to the parsed answer, in nanoseconds.
    pub(crate) latency_ns: Histogram<u64>,
    /// The length of the run; of several threads the longest.
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
    /// Requests sent late although a connection was free: the generator was behind.
    pub(crate) late_for_generator: u64,
    /// Requests due before the end and not sent.
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
    /// The largest share of its running time in which a thread was runnable without a processor.
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
    /// Counts failed requests by the words of the error.
    pub(crate) fn count_errors(&mut self, words: &[u8], times: u64) {
        if times == 0 {
            return;
        }
        let words = &words[..words.len().min(ERROR_BYTES_MAX)];
        let mut kind = words.escape_ascii().to_string();
        // A server may send any words as errors, so the number of kinds is bounded.
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

    /// Marks the run as failed if no connection is left.
    pub(crate) fn end(&mut self) {
        if self.alive_connections == 0 {
            self.failed = self.failed.take().or(self.lost.take());
        }
    }

    pub(crate) fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns hits over gets; `None` without gets.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        ratio(self.hits, self.gets)
    }

    pub(crate) fn latency_us(&self, quantile: f64) -> f64 {
        self.latency_ns.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// True if every request was served with the right value.
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

/// Returns `part` over `whole`; `None` if `whole` is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The largest latency in the histogram, in nanoseconds; longer ones count as this.
const LATENCY_NS_MAX: u64 = 600_000_000_000;
const ERROR_KINDS_MAX: usize = 32;
const ERROR_BYTES_MAX: usize = 80;
