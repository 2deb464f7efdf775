//! The series of the metrics by prefix.
//!
//! Only the prefixes with the most bytes have their own series; all others share one. A prefix that
//! loses its series joins the others with its later gets only. So no counter ever decreases, except
//! that of a prefix that receives a series again, which starts at 0 like after a restart.

use std::collections::HashMap;

use super::accesses::{Accesses, Gets};
use super::report::{PrefixReport, Sums};
use super::table::Prefix;

/// The values of one series.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) label: Label,
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    pub(crate) gets: u64,
    pub(crate) hits: u64,
}

/// The prefix of a series.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Label {
    Prefix(Prefix),
    /// The keys without a delimiter.
    None,
    /// All other prefixes.
    Other,
}

/// The prefixes that have a series.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// The gets of each when it received its series.
    members: HashMap<Prefix, Gets>,
    /// The gets and hits of former members while they had a series.
    former: [u64; 2],
    /// The last values of the shared series.
    others: [u64; 2],
}

impl Labels {
    /// Returns the series of a report.
    pub(super) fn series(&mut self, report: &PrefixReport, accesses: &Accesses) -> Vec<Series> {
        let with_items = report.rows.iter().filter(|row| row.sums.stored.bytes > 0);
        let top: Vec<_> = with_items.take(LABELS_MAX).collect();
        // Before the first series, no gets have been shown as those of others.
        let is_first = self.members.is_empty() && self.others == [0; 2];
        let former = &mut self.former;
        self.members.retain(|prefix, start| {
            let is_member = top.iter().any(|row| row.prefix == *prefix);
            if !is_member {
                let own = since(accesses.row(prefix), *start);
                former.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            }
            is_member
        });
        let mut own_sums = self.former;
        let (mut series, mut stored_rest) = (Vec::new(), stored_sum(report));
        for row in &top {
            let begin = if is_first { Gets::default() } else { row.sums.gets };
            let start = *self.members.entry(row.prefix.clone()).or_insert(begin);
            let own = since(row.sums.gets, start);
            own_sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            let Sums { stored, .. } = row.sums;
            stored_rest = [stored_rest[0] - stored.items, stored_rest[1] - stored.bytes];
            let label = Label::Prefix(row.prefix.clone());
            series.push(Series {
                label,
                items: stored.items,
                bytes: stored.bytes,
                gets: own[0],
                hits: own[1],
            });
        }
        let none = report.none;
        let total = accesses.total();
        let rest = [total.gets - none.gets.gets, total.hits - none.gets.hits];
        for (last, (rest, own)) in self.others.iter_mut().zip(rest.into_iter().zip(own_sums)) {
            // A purge moves gets of a prefix to the others, which must not count them twice.
            *last = (*last).max(rest.saturating_sub(own));
        }
        let [items, bytes] = stored_rest;
        let [gets, hits] = self.others;
        series.push(Series { label: Label::Other, items, bytes, gets, hits });
        let Sums { stored, gets } = none;
        series.push(Series {
            label: Label::None,
            items: stored.items,
            bytes: stored.bytes,
            gets: gets.gets,
            hits: gets.hits,
        });
        series
    }
}

/// Returns the items and bytes of all keys with a prefix.
fn stored_sum(report: &PrefixReport) -> [u64; 2] {
    let rows = report.rows.iter().map(|row| row.sums.stored);
    rows.chain([report.other.stored])
        .fold([0; 2], |[items, bytes], of| [items + of.items, bytes + of.bytes])
}

/// Returns the gets and hits since an earlier count.
fn since(now: Gets, start: Gets) -> [u64; 2] {
    [now.gets.saturating_sub(start.gets), now.hits.saturating_sub(start.hits)]
}

/// How many prefixes have their own series.
pub(crate) const LABELS_MAX: usize = 50;
