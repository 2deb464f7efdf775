//! Prints a comparison as text and as JSON.

use std::fmt::Write;

use anyhow::{Result, ensure};

use crate::report::STARVED_SHARE_MAX;
use crate::report::json::{Json, array};
use crate::tally::Tally;
use crate::units::{count, latency};

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    server: String,
    workload: String,
    /// Processor time of the server per request, in nanoseconds.
    cost_ns: f64,
    requests_per_second: f64,
    /// Processor time of the server divided by the length of the measurement.
    busy_share: f64,
    hit_ratio: Option<f64>,
    p99_us: f64,
    generator_busy_share: f64,
    generator_starved_share: f64,
    /// True if every request succeeded and every value was right.
    pub(crate) is_sound: bool,
}

/// All measurements of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The name and the version of each server.
    versions: Vec<(String, String)>,
    /// Each row with its round.
    rows: Vec<(u32, Row)>,
}

/// The medians over all rounds of one server and one workload.
struct Medians {
    row: Row,
    /// The cost of a request on the first server divided by the cost on this one.
    ratio: f64,
}

impl Row {
    /// Creates a row from a tally and the processor time that the server used during the
    /// measurement.
    pub(crate) fn new(server: String, workload: String, spent_ns: u64, tally: &Tally) -> Self {
        Self {
            server,
            workload,
            cost_ns: spent_ns as f64 / tally.requests as f64,
            requests_per_second: tally.requests_per_second(),
            busy_share: spent_ns as f64 / tally.elapsed.as_nanos().max(1) as f64,
            hit_ratio: tally.hit_ratio(),
            p99_us: tally.latency_us(0.99),
            generator_busy_share: tally.effort.busy_share,
            generator_starved_share: tally.effort.starved_share,
            is_sound: tally.is_sound(),
        }
    }
}

impl Table {
    pub(crate) fn push(&mut self, round: u32, row: Row) {
        self.rows.push((round, row));
    }

    /// Records the version of a server.
    ///
    /// # Errors
    /// The server had another version in an earlier measurement.
    pub(crate) fn name_version(&mut self, server: &str, version: String) -> Result<()> {
        match self.versions.iter().find(|(name, _)| name == server) {
            Some((_, before)) => ensure!(
                *before == version,
                "{server} was {before} and is {version} now: its binary changed during the \
                 comparison"
            ),
            None => self.versions.push((server.to_owned(), version)),
        }
        Ok(())
    }

    /// Returns the versions and the table as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (server, version) in &self.versions {
            writeln!(text, "{server}: {version}").expect("a string takes any text");
        }
        writeln!(
            text,
            "{:<16} {:<14} {:>10} {:>6} {:>10} {:>5} {:>6} {:>8}",
            "workload", "server", "ns/request", "ratio", "requests/s", "busy", "hit", "p99"
        )
        .expect("a string takes any text");
        for Medians { row, ratio } in self.medians() {
            let hit_ratio = row.hit_ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
            writeln!(
                text,
                "{:<16} {:<14} {:>10.0} {:>6.2} {:>10} {:>4.0}% {:>6} {:>8}{}",
                row.workload,
                row.server,
                row.cost_ns,
                ratio,
                count(row.requests_per_second),
                row.busy_share * 100.0,
                hit_ratio,
                latency(row.p99_us),
                if row.is_sound { "" } else { "  WRONG VALUES OR ERRORS" }
            )
            .expect("a string takes any text");
        }
        let starved = self.rows.iter().map(|(_, row)| row.generator_starved_share);
        let starved = starved.fold(0.0, f64::max);
        if starved > STARVED_SHARE_MAX {
            writeln!(
                text,
                "note: the load waited for its processor up to {:.0} % of the time, because other \
                 work uses this machine: trust ns/request and ratio more than rates and latencies",
                starved * 100.0
            )
            .expect("a string takes any text");
        }
        text
    }

    /// Returns the table as one JSON object.
    pub(crate) fn json(&self, are_apart: bool) -> String {
        let rows = self.medians().into_iter().map(|Medians { row, ratio }| {
            let mut json = Json::new();
            json.text("workload", &row.workload)
                .text("server", &row.server)
                .number("cost_ns", row.cost_ns, 1)
                .number("ratio", ratio, 4)
                .number("requests_per_second", row.requests_per_second, 1)
                .number("busy_share", row.busy_share, 4)
                .number("hit_ratio", row.hit_ratio, 6)
                .number("p99_us", row.p99_us, 1)
                .number("generator_busy_share", row.generator_busy_share, 4)
                .number("generator_starved_share", row.generator_starved_share, 4)
                .raw("sound", if row.is_sound { "true" } else { "false" });
            json.end()
        });
        let versions = self.versions.iter().map(|(server, version)| {
            Json::new().text("server", server).text("version", version).end()
        });
        let rounds = self.rows.iter().map(|(round, _)| round + 1).max().unwrap_or(0);
        Json::new()
            .count("rounds", rounds)
            .raw("processors_apart", if are_apart { "true" } else { "false" })
            .raw("versions", &array(versions))
            .raw("rows", &array(rows))
            .end()
    }

    /// Returns the medians, workload by workload, with the servers in the given order.
    fn medians(&self) -> Vec<Medians> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        let mut workloads: Vec<&str> = Vec::new();
        for (_, row) in &self.rows {
            if !workloads.contains(&&*row.workload) {
                workloads.push(&row.workload);
            }
            if !pairs.contains(&(&row.workload, &row.server)) {
                pairs.push((&row.workload, &row.server));
            }
        }
        pairs.sort_by_key(|(workload, _)| workloads.iter().position(|other| other == workload));
        pairs.into_iter().map(|(workload, server)| self.medians_of(workload, server)).collect()
    }

    fn medians_of(&self, workload: &str, server: &str) -> Medians {
        let rows = || {
            let is_of = |row: &Row| row.workload == workload && row.server == server;
            self.rows.iter().filter(move |(_, row)| is_of(row))
        };
        let of = |number: fn(&Row) -> f64| median(rows().map(|(_, row)| number(row)).collect());
        let ratio =
            |(round, row): &(u32, Row)| Some(self.first_ns(*round, workload)? / row.cost_ns);
        let hit_ratios: Vec<f64> = rows().filter_map(|(_, row)| row.hit_ratio).collect();
        let ratio = median(rows().filter_map(ratio).collect());
        let row = Row {
            workload: workload.to_owned(),
            server: server.to_owned(),
            cost_ns: of(|row| row.cost_ns),
            requests_per_second: of(|row| row.requests_per_second),
            busy_share: of(|row| row.busy_share),
            hit_ratio: (!hit_ratios.is_empty()).then(|| median(hit_ratios)),
            p99_us: of(|row| row.p99_us),
            generator_busy_share: of(|row| row.generator_busy_share),
            generator_starved_share: of(|row| row.generator_starved_share),
            is_sound: rows().all(|(_, row)| row.is_sound),
        };
        Medians { row, ratio }
    }

    /// Returns the cost of a request on the first server in this round, in nanoseconds.
    fn first_ns(&self, round: u32, workload: &str) -> Option<f64> {
        let first = &self.rows.first()?.1.server;
        let mut rows = self.rows.iter();
        let found = rows.find(|(found, row)| {
            *found == round && row.workload == workload && row.server == *first
        });
        found.map(|(_, row)| row.cost_ns)
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => f64::NAN,
        length if length % 2 == 0 => f64::midpoint(numbers[middle - 1], numbers[middle]),
        _ => numbers[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(server: &str, workload: &str, cost_ns: f64) -> Row {
        Row {
            server: server.to_owned(),
            workload: workload.to_owned(),
            cost_ns,
            requests_per_second: 1e9 / cost_ns,
            busy_share: 1.0,
            hit_ratio: None,
            p99_us: 100.0,
            generator_busy_share: 0.5,
            generator_starved_share: 0.0,
            is_sound: true,
        }
    }

    #[test]
    fn ratios_are_medians_of_the_ratios_within_a_round() {
        let mut table = Table::default();
        // The machine is half as fast in the second round. In the third round one server is
        // disturbed.
        for (round, a, b) in [(0, 1000.0, 500.0), (1, 2000.0, 1000.0), (2, 1000.0, 4000.0)] {
            table.push(round, row("a", "get:1:1", a));
            table.push(round, row("a", "set:1:1", a));
            table.push(round, row("b", "get:1:1", b));
            table.push(round, row("b", "set:1:1", a));
        }
        let medians = table.medians();
        let shown: Vec<_> = medians
            .iter()
            .map(|Medians { row, ratio }| (&*row.workload, &*row.server, row.cost_ns, *ratio))
            .collect();
        let expected = [
            ("get:1:1", "a", 1000.0, 1.0),
            ("get:1:1", "b", 1000.0, 2.0),
            ("set:1:1", "a", 1000.0, 1.0),
            ("set:1:1", "b", 1000.0, 1.0),
        ];
        assert_eq!(shown, expected);
        assert!(table.text().lines().count() == 5);
    }

    #[test]
    fn the_table_begins_with_the_version_of_each_server() {
        let mut table = Table::default();
        for (server, version) in [("a", "1.6.45"), ("b", "larder 0.1.0 (1)"), ("a", "1.6.45")] {
            table.name_version(server, version.to_owned()).unwrap();
        }
        table.push(0, row("a", "get:1:1", 1.0));
        assert!(table.text().starts_with("a: 1.6.45\nb: larder 0.1.0 (1)\nworkload "));
        let json = table.json(true);
        assert!(json.contains(r#"{"server":"b","version":"larder 0.1.0 (1)"}"#), "{json}");
        let changed = table.name_version("a", "1.6.18".to_owned()).unwrap_err().to_string();
        assert!(changed.contains("a was 1.6.45 and is 1.6.18 now"), "{changed}");
    }

    #[test]
    fn a_row_has_the_processor_time_of_a_request() {
        let mut tally = Tally { requests: 1000, gets: 800, hits: 200, ..Tally::default() };
        tally.elapsed = std::time::Duration::from_secs(2);
        tally.latency_ns.record(70_000).unwrap();
        let row = Row::new("a".to_owned(), "w".to_owned(), 500_000_000, &tally);
        assert_eq!((row.cost_ns, row.requests_per_second), (500_000.0, 500.0));
        assert_eq!((row.busy_share, row.hit_ratio, row.is_sound), (0.25, Some(0.25), true));
        assert!((69.9..70.2).contains(&row.p99_us), "{}", row.p99_us);
        tally.wrong_values = 1;
        assert!(!Row::new("a".to_owned(), "w".to_owned(), 1, &tally).is_sound);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!((median(vec![3.0]), median(vec![9.0, 1.0])), (3.0, 5.0));
        assert_eq!((median(vec![9.0, 1.0, 2.0]), median(vec![4.0, 1.0, 2.0, 9.0])), (2.0, 3.0));
        assert!(median(vec![]).is_nan(), "nothing has no median");
    }

    #[test]
    fn one_unsound_round_marks_the_server_and_the_workload() {
        let mut table = Table::default();
        table.push(0, row("a", "get:1:1", 1.0));
        table.push(1, Row { is_sound: false, ..row("a", "get:1:1", 1.0) });
        table.push(0, row("b", "get:1:1", 1.0));
        let text = table.text();
        let marked: Vec<_> = text.lines().filter(|line| line.contains("WRONG VALUES")).collect();
        assert_eq!(marked.len(), 1, "{text}");
        assert!(marked[0].contains(" a "), "{text}");
        let json: serde_json::Value = serde_json::from_str(&table.json(false)).unwrap();
        assert_eq!(
            (&json["rows"][0]["sound"], &json["rows"][1]["sound"]),
            (&false.into(), &true.into())
        );
        assert_eq!((&json["rounds"], &json["processors_apart"]), (&2.into(), &false.into()));
    }

    #[test]
    fn a_load_that_waited_for_its_processor_is_noted() {
        let mut table = Table::default();
        let starved = |share| Row { generator_starved_share: share, ..row("a", "get:1:1", 1.0) };
        table.push(0, starved(0.04));
        assert!(!table.text().contains("note: "), "{}", table.text());
        table.push(1, starved(0.25));
        assert!(table.text().contains("waited for its processor up to 25 % of the time"));
    }
}
