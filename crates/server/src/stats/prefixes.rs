//! `stats prefixes`: items, bytes, gets and hits by key prefix.

use std::fmt::Display;
use std::sync::Arc;

use larder_protocol::text::dump::push_uri;
use larder_protocol::{Frame, render};
use larder_stats::Counter;

use crate::clock::monotonic_us;
use crate::observe::prefix_stats::{PrefixReport, Sums};
use crate::server::Server;

/// A report that is being shown.
#[derive(Debug)]
pub(super) struct PrefixList {
    report: Arc<PrefixReport>,
    /// Samples that were dropped, of all commands.
    lost: u64,
    /// The number of rows that were shown; `None` before the head.
    shown: Option<usize>,
}

impl PrefixList {
    pub(super) fn begin(server: &Server) -> Self {
        let report = server.statistics.prefix_report();
        Self { report, lost: server.counter(Counter::HotKeysLost), shown: None }
    }

    /// Appends the next rows. Returns true at the end. Prefixes are shown in URI encoding, because
    /// they may contain any byte.
    pub(super) fn step(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> bool {
        let mut shown = match self.shown {
            Some(shown) => shown,
            None => {
                self.show_head(frame, out);
                0
            }
        };
        let (rows, end) = (&self.report.rows, out.len() + BYTES_PER_SLICE);
        while let Some(row) = rows.get(shown).filter(|_| out.len() < end) {
            shown += 1;
            let mut prefix = Vec::new();
            push_uri(&mut prefix, &row.prefix);
            let prefix = String::from_utf8_lossy(&prefix);
            render::stat(out, format_args!("{shown}:prefix"), prefix, frame);
            show_sums(&shown, &row.sums, frame, out);
        }
        self.shown = Some(shown);
        shown == rows.len()
    }

    /// Returns the memory of the report. Other responses may share it, but the last one to end
    /// keeps it.
    pub(super) fn held_bytes(&self) -> usize {
        self.report.rows_bytes
    }

    fn show_head(&self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let report = &*self.report;
        let mut stat = |name: &str, value: String| render::stat(out, name, value, frame);
        stat("prefixes", report.rows.len().to_string());
        if let Some(census) = report.census {
            let age_us = monotonic_us() - census.taken_us;
            stat("census_age_secs", format!("{:.1}", age_us as f64 / 1e6));
            stat("census_share", format!("{:.3}", census.share));
        }
        stat("counted_secs", format!("{:.1}", report.counted_secs));
        stat("sampled", report.sampled.to_string());
        stat("lost", self.lost.to_string());
        show_sums(&"none", &report.none, frame, out);
        show_sums(&"other", &report.other, frame, out);
    }
}

fn show_sums(place: &dyn Display, sums: &Sums, frame: &Frame<'_>, out: &mut Vec<u8>) {
    for (name, value) in sums.members() {
        render::stat(out, format_args!("{place}:{name}"), value, frame);
    }
}

/// Bytes of rows that one slice shows.
const BYTES_PER_SLICE: usize = 8 * 1024;
