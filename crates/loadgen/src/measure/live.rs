//! The live display of a run.

use std::io::{IsTerminal, Write, stderr};

use crate::measure::series::Point;
use crate::units::{count, latency};

/// One line on a terminal, rewritten each second. Shows nothing if stderr is not a terminal.
#[derive(Debug)]
pub(crate) struct Live {
    is_shown: bool,
    has_text: bool,
    prefix: String,
    errors: u64,
}

impl Live {
    /// Creates a live line that begins with `prefix`.
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            is_shown: stderr().is_terminal(),
            has_text: false,
            prefix: prefix.to_owned(),
            errors: 0,
        }
    }

    /// Shows one second of a run of `seconds`.
    pub(crate) fn show(&mut self, point: &Point, seconds: u64) {
        self.errors += point.errors;
        let [p50, p99, ..] = point.latency_us;
        self.write(&format!(
            "{:>8} requests/s   p50 {:>8}   p99 {:>8}   errors {}   {} s left",
            count(point.requests_per_second),
            latency(p50),
            latency(p99),
            self.errors,
            seconds.saturating_sub(point.second + 1)
        ));
    }

    /// Shows how many connections are open.
    pub(crate) fn show_connecting(&mut self, opened: u32, wanted: u32) {
        self.write(&format!("{opened} of {wanted} connections open"));
    }

    /// Shows the current step of the preparation.
    pub(crate) fn say(&mut self, what: &str) {
        self.write(what);
    }

    /// Clears the line for the output that follows.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.has_text) {
            eprint!("\r\x1b[K");
            stderr().flush().ok();
        }
    }

    fn write(&mut self, line: &str) {
        if self.is_shown {
            self.has_text = true;
            eprint!("\r\x1b[K{}{line}", self.prefix);
            stderr().flush().ok();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
    }
}
