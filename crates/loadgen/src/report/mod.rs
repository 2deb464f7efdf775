//! The report of a run, as text and as JSON.

pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod plot;
pub(crate) mod units;

use std::fmt::Write;

use crate::measure::Measured;
use crate::measure::series::Point;
use crate::measure::tally::Tally;
use crate::options::{LoadArguments, name};
use crate::report::json::{Json, array};
use crate::report::units::latency;

/// The results of a run and its options.
pub(crate) struct Report<'a> {
    pub(crate) arguments: &'a LoadArguments,
    pub(crate) tally: &'a Tally,
    pub(crate) points: &'a [Point],
    key_count: u32,
    was_stopped: bool,
}

/// The percentiles of all reports: the name in text, the name in JSON, the quantile.
pub(crate) const PERCENTILES: [(&str, &str, f64); 5] = [
    ("p50", "p50_us", 0.5),
    ("p90", "p90_us", 0.9),
    ("p99", "p99_us", 0.99),
    ("p99.9", "p999_us", 0.999),
    ("max", "longest_us", 1.0),
];

impl<'a> Report<'a> {
    pub(crate) fn new(
        arguments: &'a LoadArguments,
        measured: &'a Measured,
        was_stopped: bool,
    ) -> Self {
        Self {
            arguments,
            tally: &measured.tally,
            points: measured.series.points(),
            key_count: measured.key_count,
            was_stopped,
        }
    }

    /// Returns the report as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        writeln!(text, "{}, {:.1} s", self.workload(), self.tally.elapsed.as_secs_f64())
            .expect("a string takes any text");
        for (name, value) in self.rows() {
            writeln!(text, "{name:<14} {value}").expect("a string takes any text");
        }
        for note in self.notes() {
            writeln!(text, "note: {note}").expect("a string takes any text");
        }
        text
    }

    /// The rows of the table: name and value.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let tally = self.tally;
        let mut rows = vec![
            ("requests".to_owned(), tally.requests.to_string()),
            ("requests/s".to_owned(), format!("{:.0}", tally.requests_per_second())),
            (
                "hit ratio".to_owned(),
                tally.hit_ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.4}")),
            ),
            ("wrong values".to_owned(), tally.wrong_values.to_string()),
            ("errors".to_owned(), tally.error_count().to_string()),
        ];
        rows.extend(
            tally.errors.iter().map(|(kind, times)| ("".to_owned(), format!("{times} x {kind}"))),
        );
        if tally.lost_connections > 0 {
            let (lost, reopened) = (tally.lost_connections, tally.reopened_connections);
            let lost = format!("{lost} lost, {reopened} reopened");
            rows.push(("connections".to_owned(), lost));
        }
        let quantiles = PERCENTILES.map(|(name, _, quantile)| {
            (format!("latency {name}"), latency(tally.latency_us(quantile)))
        });
        rows.extend(quantiles);
        if self.arguments.rate.is_some() {
            let lateness = &tally.lateness;
            rows.push(("scheduled".to_owned(), lateness.scheduled.to_string()));
            rows.push((
                "sent late".to_owned(),
                format!(
                    "{} for lack of a free connection (at most {}), {} by the generator (at most {})",
                    lateness.late_for_connections,
                    latency(lateness.for_connections_max_ns as f64 / 1e3),
                    lateness.late_for_generator,
                    latency(lateness.for_generator_max_ns as f64 / 1e3),
                ),
            ));
            rows.push(("never sent".to_owned(), lateness.unsent.to_string()));
        }
        rows.push((
            "generator".to_owned(),
            format!(
                "busy {:.0} %, waited for a processor {:.0} % of the time",
                tally.effort.busy_share * 100.0,
                tally.effort.starved_share * 100.0
            ),
        ));
        rows
    }

    /// Returns notes about conditions that distort the results.
    pub(crate) fn notes(&self) -> Vec<String> {
        let Tally { effort, lateness, .. } = self.tally;
        let mut notes = Vec::new();
        if self.was_stopped {
            notes.push("stopped early".to_owned());
        }
        if effort.busy_share > BUSY_SHARE_MAX {
            let what = match self.arguments.rate {
                Some(_) => "it is near its limit: part of the latency is its own",
                None => "the rate may be its own limit rather than the server's",
            };
            notes.push(format!(
                "the busiest thread of the load generator was busy {:.0} % of the time: {what} \
                 (more --threads, or more processors)",
                effort.busy_share * 100.0
            ));
        }
        if effort.starved_share > STARVED_SHARE_MAX {
            notes.push(format!(
                "the load generator waited for a processor {:.0} % of the time: latencies are longer \
                 than the server's",
                effort.starved_share * 100.0
            ));
        }
        let late_share = lateness.late_for_generator as f64 / lateness.scheduled.max(1) as f64;
        if late_share > LATE_SHARE_MAX {
            notes.push(format!(
                "the load generator could not keep up: it sent {:.1} % of the requests late although a \
                 connection was free, at most {} after they were due",
                late_share * 100.0,
                latency(lateness.for_generator_max_ns as f64 / 1e3)
            ));
        }
        if lateness.unsent > 0 {
            notes.push(format!(
                "{} requests were due and could not be sent before the end: they count in the \
                 latencies with the time that they waited, and in nothing else",
                lateness.unsent
            ));
        }
        notes
    }

    /// Returns the report as one JSON object on one line.
    pub(crate) fn json(&self) -> String {
        let (arguments, tally) = (self.arguments, self.tally);
        let mut json = Json::new();
        json.text("mode", &arguments.mode_name())
            .text("dialect", &name(arguments.dialect))
            .raw("value_bytes", &self.value_bytes_json())
            .count("keys", self.key_count)
            .count("connections", arguments.connections)
            .count("threads", arguments.threads)
            .count("pipeline", arguments.pipeline)
            .count("multiget", arguments.multiget)
            .number("skew", arguments.skew.unwrap_or(0.0), 3)
            .number("rate", arguments.rate, 2)
            .number("seconds", tally.elapsed.as_secs_f64(), 3)
            .raw("stopped", if self.was_stopped { "true" } else { "false" })
            .count("requests", tally.requests)
            .number("requests_per_second", tally.requests_per_second(), 1)
            .count("gets", tally.gets)
            .count("hits", tally.hits)
            .count("sets", tally.sets)
            .number("hit_ratio", tally.hit_ratio(), 6)
            .count("wrong_values", tally.wrong_values)
            .count("failed_connections", tally.failed_connections)
            .count("lost_connections", tally.lost_connections)
            .count("reopened_connections", tally.reopened_connections);
        let mut errors = Json::new();
        for (kind, times) in &tally.errors {
            errors.count(kind, *times);
        }
        json.raw("errors", &errors.end());
        for (_, name, quantile) in PERCENTILES {
            json.number(name, tally.latency_us(quantile), 1);
        }
        json.raw("schedule", &self.schedule_json())
            .number("generator_busy_share", tally.effort.busy_share, 4)
            .number("generator_starved_share", tally.effort.starved_share, 4)
            .raw("percentiles_us", &self.percentiles_json())
            .raw("per_second", &array(self.points.iter().map(point_json)));
        json.end()
    }

    /// The size of values as a number, or the two ends of a range; `null` if a trace has the sizes.
    fn value_bytes_json(&self) -> String {
        let sizes = self.arguments.sizes().to_string();
        match (self.has_sizes_of_trace(), sizes.split_once('-')) {
            (true, _) => "null".to_owned(),
            (_, Some((min, max))) => format!("[{min},{max}]"),
            _ => sizes,
        }
    }

    fn has_sizes_of_trace(&self) -> bool {
        let arguments = self.arguments;
        let from_trace = arguments.sizes_of.is_some() || arguments.trace.is_some();
        from_trace && arguments.value_bytes.is_none()
    }

    /// The schedule's lateness; `null` in a closed loop.
    fn schedule_json(&self) -> String {
        if self.arguments.rate.is_none() {
            return "null".to_owned();
        }
        let lateness = &self.tally.lateness;
        Json::new()
            .count("scheduled", lateness.scheduled)
            .count("late_for_connections", lateness.late_for_connections)
            .count("late_for_generator", lateness.late_for_generator)
            .number("late_for_connections_max_us", lateness.for_connections_max_ns as f64 / 1e3, 1)
            .number("late_for_generator_max_us", lateness.for_generator_max_ns as f64 / 1e3, 1)
            .count("unsent", lateness.unsent)
            .end()
    }

    /// Pairs of percentile and latency: the whole histogram, finer towards its end.
    fn percentiles_json(&self) -> String {
        array(
            self.percentiles()
                .into_iter()
                .map(|(percentile, us)| format!("[{percentile:.6},{us:.1}]")),
        )
    }

    /// Returns percentiles with their latencies in microseconds. Each step halves the rest above
    /// it.
    pub(crate) fn percentiles(&self) -> Vec<(f64, f64)> {
        let latency_ns = &self.tally.latency_ns;
        if latency_ns.is_empty() {
            return Vec::new();
        }
        let steps = latency_ns.iter_quantiles(STEPS_PER_HALVING);
        let mut percentiles: Vec<(f64, f64)> = steps
            .map(|step| {
                (step.quantile_iterated_to() * 100.0, step.value_iterated_to() as f64 / 1e3)
            })
            .collect();
        percentiles.dedup();
        percentiles
    }

    /// Returns a one-line summary of the workload.
    pub(crate) fn workload(&self) -> String {
        let arguments = self.arguments;
        let mut text = arguments.mode_name();
        let mut add = |words: String| text.push_str(&words);
        if (0.001..0.999).contains(&arguments.gets()) {
            add(format!(" (gets {:.0} %)", arguments.gets() * 100.0));
        }
        add(format!(", {}", name(arguments.dialect)));
        match (arguments.tls.is_on(), arguments.udp) {
            (true, _) => add(" over TLS".to_owned()),
            (_, true) => add(" by UDP".to_owned()),
            _ => {}
        }
        match self.has_sizes_of_trace() {
            true => add(", values as in the trace".to_owned()),
            false => add(format!(", {} B values", arguments.sizes())),
        }
        match (&arguments.trace, arguments.skew) {
            (Some(trace), _) => add(format!(", keys of {}", trace.display())),
            (None, Some(skew)) => add(format!(", keys {} with skew {skew}", self.key_count)),
            (None, None) => add(format!(", keys {}", self.key_count)),
        }
        add(format!(
            ", connections {}, threads {}, pipeline {}",
            arguments.connections, arguments.threads, arguments.pipeline
        ));
        if arguments.multiget > 1 {
            add(format!(", {} keys a get", arguments.multiget));
        }
        match arguments.rate {
            Some(rate) => add(format!(", open loop at {rate} requests/s")),
            None => add(", closed loop".to_owned()),
        }
        text
    }
}

fn point_json(point: &Point) -> String {
    let mut json = Json::new();
    json.count("second", point.second).number("requests_per_second", point.requests_per_second, 1);
    for ((name, _), us) in Point::QUANTILES.iter().zip(point.latency_us) {
        json.number(&format!("{name}_us"), us, 1);
    }
    json.number("hit_ratio", point.hit_ratio, 6).count("errors", point.errors).end()
}

const BUSY_SHARE_MAX: f64 = 0.9;
/// Above this share the results measure the machine too.
pub(crate) const STARVED_SHARE_MAX: f64 = 0.05;
const LATE_SHARE_MAX: f64 = 0.001;
const STEPS_PER_HALVING: u32 = 4;
