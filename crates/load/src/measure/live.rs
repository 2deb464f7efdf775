//! What is shown while it runs.

use std::io::{IsTerminal, Write, stderr};

use crate::measure::series::Point;
use crate::report::units::{count, latency};

/// One line on a terminal, written anew each second; nothing where stderr is none.
#[derive(Debug)]
pub(crate) struct Live {
    is_shown: bool,
    has_text: bool,
    prefix: String,
    errors: u64,
}

impl Live {
    /// A line that begins with `prefix`.
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            is_shown: stderr().is_terminal(),
            has_text: false,
            prefix: prefix.to_owned(),
            errors: 0,
        }
    }

    /// Shows a second of so many.
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

    /// Shows what is done before anything is measured.
    pub(crate) fn say(&mut self, what: &str) {
        self.write(what);
    }

    /// Gives the line back to what is printed next.
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
