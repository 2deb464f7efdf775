//! The output of a replay.

use std::fmt;

use crate::replay::play::Counts;

/// The result of a replay: names and values in the order of output.
#[derive(Debug)]
pub(crate) struct Report {
    lines: Vec<(&'static str, String)>,
    sound: bool,
}

impl Report {
    /// Creates a report with the counts that every replay has.
    pub(crate) fn of(counts: &Counts, request_count: usize) -> Self {
        let mut report = Self { lines: Vec::new(), sound: counts.wrong_values == 0 };
        report.push("requests", request_count);
        report.push("gets", counts.gets);
        report.push("hits", counts.hits);
        report.push("misses", counts.misses());
        report.push("miss_ratio", ratio(counts.misses(), counts.gets));
        report.push("missed_bytes", counts.missed_bytes);
        report.push("sets", counts.sets);
        report.push("sets_refused", counts.sets_refused);
        report.push("wrong_values", counts.wrong_values);
        report
    }

    /// Adds a line.
    pub(crate) fn push(&mut self, name: &'static str, value: impl fmt::Display) {
        self.lines.push((name, value.to_string()));
    }

    /// Adds the result of a check.
    pub(crate) fn push_check(&mut self, name: &'static str, holds: bool) {
        self.push(name, if holds { "yes" } else { "no" });
        self.sound &= holds;
    }

    /// True if every value was right and every check holds.
    pub(crate) fn is_sound(&self) -> bool {
        self.sound
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|(name, value)| writeln!(f, "{name}={value}"))
    }
}

/// Returns `part / whole` with four places; 0 if `whole` is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> String {
    format!("{:.4}", part as f64 / whole.max(1) as f64)
}
