//! The report of a run, as text and as JSON.

pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod plot;

use std::fmt::Write;

use crate::measure::LoadResult;
use crate::measure::series::Point;
use crate::options::{LoadArguments, name};
use crate::report::json::{Json, array};
use crate::tally::Tally;
use crate::units::latency;

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
        measured: &'a LoadResult,
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
                "{} requests were due and could not be sent before the end: they count only in the \
                 latencies, with the time that they waited",
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

    /// Returns the size of values as a number or as the two ends of a range; `null` if a trace
    /// determines the sizes.
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

    /// Returns the lateness of the schedule; `null` in a closed loop.
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

    /// Returns pairs of percentile and latency for the complete histogram, with finer steps towards
    /// its end.
    fn percentiles_json(&self) -> String {
        array(
            self.percentiles()
                .into_iter()
                .map(|(percentile, us)| format!("[{percentile:.6},{us:.1}]")),
        )
    }

    /// Returns percentiles with their latencies in microseconds. Each step halves the remaining
    /// range above it.
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
/// Above this share the results also measure the machine.
pub(crate) const STARVED_SHARE_MAX: f64 = 0.05;
const LATE_SHARE_MAX: f64 = 0.001;
const STEPS_PER_HALVING: u32 = 4;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::fixtures::load;
    use crate::measure::series::Series;
    use crate::tally::{Effort, Lateness, Second};

    /// A run of two seconds with latencies from 1 to 1000 us.
    fn measured() -> LoadResult {
        let mut tally = Tally { gets: 900, hits: 450, sets: 100, ..Tally::default() };
        tally.elapsed = Duration::from_secs(2);
        let mut series = Series::new(1);
        for number in 0..2 {
            let mut second = Second::new(number);
            second.span = Duration::from_secs(1);
            (second.gets, second.hits, second.errors) = (450, 225, number);
            for us in 1..=500 {
                let ns = (us + 500 * number) * 1000;
                tally.latency_ns.record(ns).unwrap();
                second.latency_ns.record(ns).unwrap();
                tally.requests += 1;
            }
            series.add(second);
        }
        tally.count_errors(b"SERVER_ERROR x", 1);
        LoadResult { tally, series, key_count: 77 }
    }

    fn row(rows: &[(String, String)], name: &str) -> String {
        let found = rows.iter().find(|(found, _)| found == name);
        found.map_or_else(|| panic!("no row {name} in {rows:?}"), |(_, value)| value.clone())
    }

    #[test]
    fn the_rows_have_the_rate_the_hits_and_the_percentiles() {
        let (arguments, measured) = (load(&[]), measured());
        let rows = Report::new(&arguments, &measured, false).rows();
        for (name, value) in [
            ("requests", "1000"),
            ("requests/s", "500"),
            ("hit ratio", "0.5000"),
            ("wrong values", "0"),
            ("errors", "1"),
            ("", "1 x SERVER_ERROR x"),
            ("latency p50", "500 us"),
            ("latency p90", "900 us"),
            ("latency max", "1 ms"),
        ] {
            assert_eq!(row(&rows, name), value, "{name}");
        }
        let names: Vec<_> = rows.iter().map(|(name, _)| name.as_str()).collect();
        for absent in ["scheduled", "sent late", "never sent", "connections"] {
            assert!(!names.contains(&absent), "a closed loop without losses has no row {absent}");
        }
    }

    #[test]
    fn a_lost_connection_and_a_schedule_have_rows() {
        let (arguments, mut measured) = (load(&["--rate=500"]), measured());
        measured.tally.lost_connections = 3;
        measured.tally.reopened_connections = 2;
        measured.tally.lateness = Lateness {
            scheduled: 1000,
            late_for_connections: 5,
            late_for_generator: 6,
            unsent: 7,
            for_connections_max_ns: 8_000_000,
            for_generator_max_ns: 9_000_000,
        };
        let rows = Report::new(&arguments, &measured, false).rows();
        assert_eq!(row(&rows, "connections"), "3 lost, 2 reopened");
        assert_eq!(
            (row(&rows, "scheduled"), row(&rows, "never sent")),
            ("1000".into(), "7".into())
        );
        let late =
            "5 for lack of a free connection (at most 8 ms), 6 by the generator (at most 9 ms)";
        assert_eq!(row(&rows, "sent late"), late);
    }

    #[test]
    fn the_text_is_a_line_of_the_workload_then_a_line_a_row_then_the_notes() {
        let (arguments, measured) = (load(&[]), measured());
        let report = Report::new(&arguments, &measured, true);
        let text = report.text();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("get, text, 100 B values, keys 77, "), "{text}");
        assert!(lines[0].ends_with(", closed loop, 2.0 s"), "{text}");
        assert_eq!(lines.len(), 1 + report.rows().len() + report.notes().len(), "{text}");
        assert_eq!(lines.last(), Some(&"note: stopped early"));
    }

    #[test]
    fn each_condition_that_distorts_the_results_has_a_note() {
        let note = |args: &[&str], change: &dyn Fn(&mut Tally)| {
            let (arguments, mut measured) = (load(args), measured());
            change(&mut measured.tally);
            Report::new(&arguments, &measured, false).notes().join("; ")
        };
        assert_eq!(note(&[], &|_| {}), "");
        let busy =
            |tally: &mut Tally| tally.effort = Effort { busy_share: 0.95, starved_share: 0.0 };
        assert!(note(&[], &busy).contains("busy 95 % of the time: the rate may be its own limit"));
        assert!(note(&["--rate=9"], &busy).contains("part of the latency is its own"));
        let starved = note(&[], &|tally| tally.effort.starved_share = 0.06);
        assert!(starved.contains("waited for a processor 6 % of the time"), "{starved}");
        let late = note(&["--rate=9"], &|tally| {
            tally.lateness.scheduled = 1000;
            tally.lateness.late_for_generator = 2;
        });
        assert!(late.contains("could not keep up: it sent 0.2 % of the requests late"), "{late}");
        let unsent = note(&["--rate=9"], &|tally| tally.lateness.unsent = 3);
        assert!(unsent.starts_with("3 requests were due and could not be sent"), "{unsent}");
    }

    #[test]
    fn the_json_has_every_count_and_is_one_line() {
        let arguments = load(&["--mode=mix", "--value-bytes=5-9", "--skew=0.5", "--pipeline=4"]);
        let measured = measured();
        let text = Report::new(&arguments, &measured, false).json();
        assert!(!text.contains('\n'), "{text}");
        let json: Value = serde_json::from_str(&text).unwrap();
        for (name, expected) in [
            ("mode", Value::from("mix")),
            ("dialect", "text".into()),
            ("value_bytes", vec![5, 9].into()),
            ("keys", 77.into()),
            ("connections", 50.into()),
            ("pipeline", 4.into()),
            ("skew", 0.5.into()),
            ("rate", Value::Null),
            ("seconds", 2.0.into()),
            ("stopped", false.into()),
            ("requests", 1000.into()),
            ("requests_per_second", 500.0.into()),
            ("gets", 900.into()),
            ("hits", 450.into()),
            ("sets", 100.into()),
            ("hit_ratio", 0.5.into()),
            ("wrong_values", 0.into()),
            ("schedule", Value::Null),
        ] {
            assert_eq!(json[name], expected, "{name} in {text}");
        }
        assert_eq!(json["errors"]["SERVER_ERROR x"], 1);
        for (_, name, _) in PERCENTILES {
            assert!(json[name].as_f64() > Some(400.0), "{name} in {text}");
        }
    }

    #[test]
    fn the_json_has_a_point_a_second() {
        let (arguments, measured) = (load(&[]), measured());
        let text = Report::new(&arguments, &measured, false).json();
        let json: Value = serde_json::from_str(&text).unwrap();
        let points = json["per_second"].as_array().unwrap();
        assert_eq!(points.len(), 2, "{text}");
        for (number, point) in points.iter().enumerate() {
            assert_eq!(point["second"], number);
            assert_eq!(point["requests_per_second"], 500.0);
            assert_eq!((&point["hit_ratio"], &point["errors"]), (&0.5.into(), &number.into()));
        }
        assert!(points[0]["max_us"].as_f64() < points[1]["p50_us"].as_f64(), "{text}");
    }

    #[test]
    fn an_open_loop_has_its_schedule_in_the_json() {
        let (arguments, mut measured) = (load(&["--rate=500"]), measured());
        measured.tally.lateness.scheduled = 1000;
        measured.tally.lateness.unsent = 1;
        let json = Report::new(&arguments, &measured, false).json();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["rate"], 500.0);
        assert_eq!(
            (&json["schedule"]["scheduled"], &json["schedule"]["unsent"]),
            (&1000.into(), &1.into())
        );
    }

    #[test]
    fn percentiles_rise_to_the_longest_latency() {
        let (arguments, measured) = (load(&[]), measured());
        let percentiles = Report::new(&arguments, &measured, false).percentiles();
        assert!(percentiles.len() > 20, "{percentiles:?}");
        assert!(percentiles.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1));
        let (last, longest) = percentiles[percentiles.len() - 1];
        assert!(last > 99.9 && (999.0..1002.0).contains(&longest), "{last} % {longest} us");
        let empty = LoadResult { tally: Tally::default(), series: Series::new(1), key_count: 1 };
        assert_eq!(Report::new(&arguments, &empty, false).percentiles(), []);
    }

    #[test]
    fn the_workload_names_what_differs_from_the_defaults() {
        let measured = measured();
        for (args, words) in [
            (&["--mode=mix"][..], "mix (gets 90 %), text"),
            (&["--mode=mix", "--get-share=1"], "mix, text"),
            (&["--dialect=binary"], "get, binary"),
            (&["--tls", "--insecure"], "text over TLS"),
            (&["--udp"], "text by UDP"),
            (&["--value-bytes=10-20"], "10-20 B values"),
            (&["--trace=t.zst"], "trace, text, values as in the trace, keys of t.zst"),
            (&["--trace=t.zst", "--value-bytes=9"], "9 B values, keys of t.zst"),
            (&["--sizes-of=s.zst"], "values as in the trace, keys 77"),
            (&["--skew=0.9"], "keys 77 with skew 0.9"),
            (&["--multiget=5"], "pipeline 1, 5 keys a get"),
            (&["--rate=20"], "open loop at 20 requests/s"),
        ] {
            let arguments = load(args);
            let workload = Report::new(&arguments, &measured, false).workload();
            assert!(workload.contains(words), "{args:?} is {workload:?}, which lacks {words:?}");
        }
    }

    #[test]
    fn sizes_of_a_trace_have_no_number_in_the_json() {
        let measured = measured();
        for (args, expected) in [
            (&[][..], "100"),
            (&["--value-bytes=1-2"], "[1,2]"),
            (&["--sizes-of=s"], "null"),
            (&["--trace=t"], "null"),
            (&["--trace=t", "--value-bytes=7"], "7"),
        ] {
            let arguments = load(args);
            assert_eq!(Report::new(&arguments, &measured, false).value_bytes_json(), expected);
        }
    }
}
