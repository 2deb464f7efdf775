//! The points of the history: a ring of fixed length.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};

/// The counters at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// The time at which they were read, on the monotonic clock, so that steps of the system's
    /// clock do not move a point.
    pub(super) taken_us: i64,
    /// The rows of `stats` that are numbers.
    pub(super) rows: HashMap<String, u64>,
}

/// The points, the oldest first, one for each interval.
#[derive(Debug, Default)]
pub(super) struct Points {
    points: VecDeque<Point>,
    /// The sample of the newest point, from which the next rates are computed.
    last: Option<Sample>,
    /// When the first sample was taken.
    began_us: i64,
    /// The interval of the newest point, counted from the first sample.
    newest: i64,
}

/// The values of the columns; `None` if a value is unknown.
type Point = [Option<f64>; COLUMNS.len()];

/// How a column is computed from samples.
#[derive(Debug)]
enum Column {
    /// The sum of these counters, per second since the previous sample.
    Rate(&'static [&'static str]),
    /// The increase of the first counter, as a fraction of the increase of the second.
    Ratio(&'static str, &'static str),
    /// The value of the row without a change.
    Level(&'static str),
}

impl Points {
    /// Adds a point. Intervals without a sample since the newest point become points without
    /// values. A second sample within an interval is ignored.
    pub(super) fn add(&mut self, sample: Sample) {
        let Some(last) = self.last.take() else {
            self.began_us = sample.taken_us;
            self.push(point(None, &sample));
            self.last = Some(sample);
            return;
        };
        let elapsed_us = sample.taken_us - self.began_us + EARLY_US_MAX;
        let interval = elapsed_us / INTERVAL_US;
        if interval <= self.newest {
            self.last = Some(last);
            return;
        }
        let missed = interval - self.newest - 1;
        for _ in 0..missed.min(POINTS_MAX as i64) {
            self.push([None; COLUMNS.len()]);
        }
        // After a gap the rates are unknown, because the increase since the last sample belongs to
        // several intervals.
        self.push(point((missed == 0).then_some(&last), &sample));
        self.newest = interval;
        self.last = Some(sample);
    }

    fn push(&mut self, point: Point) {
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// Returns the document of `/api/v1/history`.
    pub(super) fn document(&self, now_us: i64) -> Value {
        let newest_us = self.began_us + self.newest * INTERVAL_US;
        let age_secs = (now_us - newest_us).max(0) as f64 / 1e6;
        let column = |number: usize| -> Value {
            self.points.iter().map(|point| point[number].map(rounded)).collect()
        };
        let columns = COLUMNS.iter().enumerate();
        let columns = columns.map(|(number, (name, _))| ((*name).to_owned(), column(number)));
        json!({
            "pid": std::process::id(),
            "interval_secs": INTERVAL_SECS,
            "points_max": POINTS_MAX,
            "age_secs": self.last.as_ref().map(|_| rounded(age_secs)),
            "columns": columns.collect::<Map<_, _>>(),
        })
    }
}

/// Returns the point of a sample. Without the previous sample, its rates are unknown.
fn point(last: Option<&Sample>, sample: &Sample) -> Point {
    let row = |name: &str| sample.rows.get(name).copied();
    // A counter that went down was reset.
    let increase = |name: &str| row(name)?.checked_sub(*last?.rows.get(name)?);
    let secs = last.map(|last| (sample.taken_us - last.taken_us) as f64 / 1e6);
    std::array::from_fn(|number| match &COLUMNS[number].1 {
        Column::Level(name) => row(name).map(|level| level as f64),
        Column::Rate(names) => {
            let sum: Option<u64> = names.iter().map(|name| increase(name)).sum();
            Some(sum? as f64 / secs.filter(|secs| *secs > 0.0)?)
        }
        Column::Ratio(part, whole) => match increase(whole)? {
            0 => None,
            whole => Some(increase(part)? as f64 / whole as f64),
        },
    })
}

/// Rounds to three decimals.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

/// The names of the columns. Rates are per second.
const COLUMNS: [(&str, Column); 10] = [
    ("requests_per_sec", Column::Rate(REQUESTS)),
    ("gets_per_sec", Column::Rate(&["cmd_get"])),
    ("sets_per_sec", Column::Rate(&["cmd_set"])),
    ("hit_ratio", Column::Ratio("get_hits", "cmd_get")),
    ("items", Column::Level("curr_items")),
    ("item_bytes", Column::Level("bytes")),
    ("connections", Column::Level("curr_connections")),
    ("evictions_per_sec", Column::Rate(&["evictions"])),
    ("received_bytes_per_sec", Column::Rate(&["bytes_read"])),
    ("sent_bytes_per_sec", Column::Rate(&["bytes_written"])),
];

/// The counters of requests on items.
const REQUESTS: &[&str] = &[
    "cmd_get",
    "cmd_set",
    "cmd_touch",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "decr_hits",
    "decr_misses",
];

pub(super) const INTERVAL_SECS: u64 = 10;
const INTERVAL_US: i64 = INTERVAL_SECS as i64 * 1_000_000;

/// An hour.
const POINTS_MAX: usize = 360;

/// How much before the beginning of its interval a sample may be taken and still count for it.
/// Intervals are counted from the first sample, which the timer may take a little late.
const EARLY_US_MAX: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a sample with these numbers of gets, hits and items.
    fn sample(secs: f64, [gets, hits, items]: [u64; 3]) -> Sample {
        let mut rows =
            HashMap::from([("cmd_get", gets), ("get_hits", hits), ("curr_items", items)]);
        for name in REQUESTS.iter().skip(1) {
            rows.insert(name, 0);
        }
        let rows = rows.into_iter().map(|(name, number)| (name.to_owned(), number)).collect();
        Sample { taken_us: 5_000_000 + (secs * 1e6) as i64, rows }
    }

    fn shown(points: &Points, column: &str) -> Vec<Option<f64>> {
        let document = points.document(0);
        let values = document["columns"][column].as_array().unwrap();
        values.iter().map(Value::as_f64).collect()
    }

    #[test]
    fn every_column_has_its_row_in_stats() {
        let general: Vec<_> = larder_stats::Section::General.rows().map(|stat| stat.name).collect();
        for (column, how) in &COLUMNS {
            let rows = match how {
                Column::Rate(names) => names.to_vec(),
                Column::Ratio(part, whole) => vec![*part, *whole],
                Column::Level(name) => vec![*name],
            };
            for row in rows {
                assert!(general.contains(&row), "{column}: stats has no {row}");
            }
        }
    }

    #[test]
    fn rates_are_per_second_of_the_time_that_has_passed() {
        let mut points = Points::default();
        points.add(sample(0.0, [100, 50, 7]));
        points.add(sample(12.5, [350, 250, 8]));
        points.add(sample(20.0, [350, 250, 9]));
        assert_eq!(shown(&points, "gets_per_sec"), [None, Some(20.0), Some(0.0)]);
        assert_eq!(shown(&points, "requests_per_sec"), [None, Some(20.0), Some(0.0)]);
        assert_eq!(shown(&points, "hit_ratio"), [None, Some(0.8), None], "no gets, no ratio");
        assert_eq!(shown(&points, "items"), [Some(7.0), Some(8.0), Some(9.0)]);
        assert_eq!(shown(&points, "connections"), [None; 3], "an unknown row is not zero");
    }

    #[test]
    fn a_stall_is_a_gap_and_the_rates_behind_it_are_unknown() {
        let mut points = Points::default();
        points.add(sample(0.0, [0, 0, 1]));
        points.add(sample(10.0, [10, 0, 2]));
        points.add(sample(40.9, [1000, 0, 3]));
        points.add(sample(50.0, [1010, 0, 4]));
        let items = [Some(1.0), Some(2.0), None, None, Some(3.0), Some(4.0)];
        assert_eq!(shown(&points, "items"), items);
        let rates = [None, Some(1.0), None, None, None, Some(1.099)];
        assert_eq!(shown(&points, "gets_per_sec"), rates);
    }

    #[test]
    fn a_late_sample_and_the_next_one_share_no_point() {
        let mut points = Points::default();
        points.add(sample(0.0, [0, 0, 1]));
        // The timer of the runtime may begin a moment before the first sample is taken.
        points.add(sample(9.9, [99, 0, 2]));
        points.add(sample(29.5, [100, 0, 3]));
        points.add(sample(30.0, [101, 0, 4]));
        points.add(sample(40.0, [206, 0, 5]));
        assert_eq!(shown(&points, "items"), [Some(1.0), Some(2.0), None, Some(3.0), Some(5.0)]);
        let document = points.document(5_000_000 + 43_000_000);
        assert_eq!(document["age_secs"], json!(3.0));
    }

    #[test]
    fn an_hour_is_kept_and_not_more() {
        let mut points = Points::default();
        for number in 0..1000 {
            points.add(sample(number as f64 * 10.0, [0, 0, number]));
        }
        let items = shown(&points, "items");
        assert_eq!(items.len(), POINTS_MAX);
        assert_eq!((items[0], items[POINTS_MAX - 1]), (Some(640.0), Some(999.0)));
        // A thread that stalls for days fills the ring with empty points only once.
        points.add(sample(1e6, [0, 0, 1]));
        let items = shown(&points, "items");
        assert_eq!(items.len(), POINTS_MAX);
        assert!(items[..POINTS_MAX - 1].iter().all(Option::is_none));
        assert_eq!(items[POINTS_MAX - 1], Some(1.0));
    }

    #[test]
    fn a_counter_that_was_reset_has_no_rate() {
        let mut points = Points::default();
        points.add(sample(0.0, [100, 100, 1]));
        points.add(sample(10.0, [5, 0, 1]));
        points.add(sample(20.0, [15, 5, 1]));
        assert_eq!(shown(&points, "gets_per_sec"), [None, None, Some(1.0)]);
        assert_eq!(shown(&points, "hit_ratio"), [None, None, Some(0.5)]);
    }

    #[test]
    fn before_the_first_sample_the_columns_are_empty() {
        let document = Points::default().document(77);
        assert_eq!(
            (&document["age_secs"], &document["columns"]["items"]),
            (&json!(null), &json!([]))
        );
    }
}
