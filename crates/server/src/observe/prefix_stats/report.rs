//! The statistics of all prefixes, in the form in which they are shown.

use std::collections::HashMap;

use super::ROWS_MAX;
use super::accesses::{Accesses, Gets};
use super::census::{Census, Stored};
use super::labels::Series;
use super::table::Prefix;

/// The statistics by prefix at one time.
#[derive(Debug, Default)]
pub(crate) struct PrefixReport {
    /// The census from which the items come; `None` until the first one is complete.
    pub(crate) census: Option<CensusFacts>,
    /// How long gets and hits have been counted, in seconds.
    pub(crate) counted_secs: f64,
    /// The samples from which gets and hits are computed, whatever their command.
    pub(crate) sampled: u64,
    /// The prefixes, the one with the most bytes first.
    pub(crate) rows: Vec<PrefixRow>,
    /// The keys without a delimiter.
    pub(crate) none: Sums,
    /// All prefixes that are not in `rows`.
    pub(crate) other: Sums,
    /// The memory of `rows`, in bytes.
    pub(crate) rows_bytes: usize,
    /// The series of the metrics; empty without `--prefix-metrics`.
    pub(crate) series: Vec<Series>,
}

/// The census of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CensusFacts {
    /// When it was completed, on the monotonic clock.
    pub(crate) taken_us: i64,
    /// The visited fraction of the index. Below 1, the items are estimates.
    pub(crate) share: f64,
}

/// A prefix and its statistics.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PrefixRow {
    pub(crate) prefix: Prefix,
    pub(crate) sums: Sums,
}

/// The statistics of one prefix, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) stored: Stored,
    pub(crate) gets: Gets,
}

impl Sums {
    /// Returns the numbers with their names, in the order in which they are shown.
    pub(crate) fn members(&self) -> [(&'static str, u64); 8] {
        let Stored { items, bytes, items_error, bytes_error } = self.stored;
        let Gets { gets, hits, gets_error, hits_error } = self.gets;
        [
            ("items", items),
            ("items_error", items_error),
            ("bytes", bytes),
            ("bytes_error", bytes_error),
            ("gets", gets),
            ("gets_error", gets_error),
            ("hits", hits),
            ("hits_error", hits_error),
        ]
    }
}

impl PrefixReport {
    /// Merges the items and the gets of all prefixes.
    pub(super) fn merge(census: Option<&Census>, accesses: &Accesses) -> Self {
        let mut merged: HashMap<&Prefix, Sums> = HashMap::new();
        let (mut none, mut other) = (Sums::default(), Sums::default());
        if let Some(census) = census {
            for (prefix, stored) in census.rows() {
                merged.entry(prefix).or_default().stored = stored;
            }
            (none.stored, other.stored) = (census.none(), census.other());
        }
        for (prefix, gets) in accesses.rows() {
            merged.entry(prefix).or_default().gets = gets;
        }
        (none.gets, other.gets) = (accesses.none(), accesses.other());
        let rows = merged.into_iter();
        let mut rows: Vec<_> =
            rows.map(|(prefix, sums)| PrefixRow { prefix: prefix.clone(), sums }).collect();
        for row in cut(&mut rows) {
            other.add(&row.sums);
        }
        rows.sort_unstable_by(|one, two| {
            let order = |row: &PrefixRow| (row.sums.stored.bytes, row.sums.gets.gets);
            order(two).cmp(&order(one)).then_with(|| one.prefix.cmp(&two.prefix))
        });
        let census = census.map(|of| CensusFacts { taken_us: of.taken_us, share: of.share });
        let sampled = accesses.sampled();
        let spilled = rows.iter().filter(|row| row.prefix.spilled());
        let rows_bytes = rows.capacity() * size_of::<PrefixRow>()
            + spilled.map(|row| row.prefix.capacity()).sum::<usize>();
        Self { census, sampled, rows, none, other, rows_bytes, ..Self::default() }
    }
}

/// Removes all rows except [`ROWS_MAX`], and returns them. Keeps those with the largest shares of
/// the bytes or of the gets: a prefix that is only missed has no bytes.
fn cut(rows: &mut Vec<PrefixRow>) -> Vec<PrefixRow> {
    if rows.len() <= ROWS_MAX {
        return Vec::new();
    }
    let sum = |of: fn(&PrefixRow) -> u64| rows.iter().map(of).sum::<u64>().max(1) as f64;
    let bytes = sum(|row| row.sums.stored.bytes);
    let gets = sum(|row| row.sums.gets.gets);
    let share = |row: &PrefixRow| {
        let Sums { stored, gets: of } = row.sums;
        (stored.bytes as f64 / bytes).max(of.gets as f64 / gets)
    };
    rows.select_nth_unstable_by(ROWS_MAX, |one, two| share(two).total_cmp(&share(one)));
    rows.split_off(ROWS_MAX)
}

impl Sums {
    /// Adds the statistics of other prefixes.
    pub(crate) fn add(&mut self, more: &Self) {
        let Self { stored, gets } = self;
        stored.items += more.stored.items;
        stored.bytes += more.stored.bytes;
        stored.items_error += more.stored.items_error;
        stored.bytes_error += more.stored.bytes_error;
        gets.gets += more.gets.gets;
        gets.hits += more.gets.hits;
        gets.gets_error += more.gets.gets_error;
        gets.hits_error += more.gets.hits_error;
    }
}
