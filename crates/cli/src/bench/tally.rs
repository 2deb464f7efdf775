//! What a load counts.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::bench::{Arguments, Mode};

/// The counts of one thread, or of all.
pub(super) struct Tally {
    /// Gets among the requests.
    pub(super) gets: u64,
    /// Gets that found an item.
    pub(super) hits: u64,
    /// Hits with another value than was stored.
    pub(super) wrong_values: u64,
    /// How long it took; of several threads the longest.
    pub(super) elapsed: Duration,
    /// From sending a request to having read its answer, in nanoseconds.
    latency_ns: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3);
        Self {
            gets: 0,
            hits: 0,
            wrong_values: 0,
            elapsed: Duration::ZERO,
            latency_ns: latency_ns.expect("the bounds are in order"),
        }
    }
}

impl Tally {
    /// Counts an answer.
    pub(super) fn count(&mut self, latency: Duration) {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latency_ns.saturating_record(latency_ns);
    }

    /// Adds another thread's counts.
    pub(super) fn add(&mut self, other: &Self) {
        self.gets += other.gets;
        self.hits += other.hits;
        self.wrong_values += other.wrong_values;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latency_ns.add(&other.latency_ns).expect("all have the same bounds");
    }

    fn requests_per_second(&self) -> f64 {
        self.latency_ns.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// `None` where there was no get.
    fn hit_ratio(&self) -> Option<f64> {
        (self.gets > 0).then(|| self.hits as f64 / self.gets as f64)
    }

    fn latency_us(&self, quantile: f64) -> f64 {
        self.latency_ns.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// For people.
    pub(super) fn text(&self, arguments: &Arguments) -> String {
        let hit_ratio = self.hit_ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.4}"));
        let [p50, p99, p999] = QUANTILES.map(|quantile| self.latency_us(quantile));
        format!(
            "{workload}, {seconds:.1} s\n\
             requests/s     {requests_per_second:.0}\n\
             hit ratio      {hit_ratio}\n\
             wrong values   {wrong_values}\n\
             latency in us  p50 {p50:.1}, p99 {p99:.1}, p99.9 {p999:.1}, longest {longest:.1}\n",
            workload = workload(arguments),
            seconds = self.elapsed.as_secs_f64(),
            requests_per_second = self.requests_per_second(),
            wrong_values = self.wrong_values,
            longest = self.latency_us(1.0),
        )
    }

    /// For programs: one object on one line.
    pub(super) fn json(&self, arguments: &Arguments) -> String {
        let hit_ratio = self.hit_ratio().map_or("null".to_owned(), |ratio| format!("{ratio:.6}"));
        let [p50, p99, p999] = QUANTILES.map(|quantile| self.latency_us(quantile));
        format!(
            "{{\"mode\":\"{mode}\",\"value_bytes\":{value_bytes},\"keys\":{keys},\
             \"connections\":{connections},\"threads\":{threads},\"pipeline\":{pipeline},\
             \"seconds\":{seconds:.3},\"requests\":{requests},\
             \"requests_per_second\":{requests_per_second:.1},\"hit_ratio\":{hit_ratio},\
             \"wrong_values\":{wrong_values},\"p50_us\":{p50:.1},\"p99_us\":{p99:.1},\
             \"p999_us\":{p999:.1},\"longest_us\":{longest:.1}}}",
            mode = mode(arguments),
            value_bytes = arguments.value_bytes,
            keys = arguments.keys,
            connections = arguments.connections,
            threads = arguments.threads,
            pipeline = arguments.pipeline,
            seconds = self.elapsed.as_secs_f64(),
            requests = self.latency_ns.len(),
            requests_per_second = self.requests_per_second(),
            wrong_values = self.wrong_values,
            longest = self.latency_us(1.0),
        )
    }
}

fn mode(arguments: &Arguments) -> &'static str {
    match arguments.mode {
        Mode::Get => "get",
        Mode::Set => "set",
        Mode::Mix => "mix",
    }
}

fn workload(arguments: &Arguments) -> String {
    let share = match arguments.mode {
        Mode::Mix => format!(" (gets {:.0} %)", arguments.get_share * 100.0),
        Mode::Get | Mode::Set => String::new(),
    };
    format!(
        "{mode}{share}, {value_bytes} B values, keys {keys}, connections {connections}, \
         threads {threads}, pipeline {pipeline}",
        mode = mode(arguments),
        value_bytes = arguments.value_bytes,
        keys = arguments.keys,
        connections = arguments.connections,
        threads = arguments.threads,
        pipeline = arguments.pipeline,
    )
}

const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];
const LATENCY_NS_MAX: u64 = 60_000_000_000;
