//! The census by prefix: a walk over the index, or a part of it, that counts items and their bytes.
//!
//! A thread takes the census in slices, with pauses between them, so that workers do no part of it.
//! If the index has at most [`GROUPS_MAX`] groups, the census counts every item. Otherwise it is a
//! sample of that many groups, and each census visits another part of the index.

use std::ops::Range;
use std::time::{Duration, Instant};

use larder::Cache;

use super::table::{Prefix, Table};
use crate::observe::classes::{Classes, ItemSize};

/// The stored items by prefix, at one time.
#[derive(Debug)]
pub(super) struct Census {
    pub(super) table: Table<SUMS>,
    /// The visited fraction of the index, at most 1.
    pub(super) share: f64,
    /// How many items each visited item stands for: 1 if all were visited.
    factor: f64,
    pub(super) taken_us: i64,
}

/// The items of one prefix, scaled up to the whole cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stored {
    pub(crate) items: u64,
    /// Bytes as memcached counts them.
    pub(crate) bytes: u64,
    /// The likely maximum errors of both: fewer than one row in a hundred has a larger error. 0 if
    /// the numbers are exact.
    pub(crate) items_error: u64,
    pub(crate) bytes_error: u64,
}

/// A census in progress.
#[derive(Debug)]
pub(super) struct Walk {
    table: Table<SUMS>,
    groups: u64,
    next_group: u64,
    groups_seen: u64,
}

impl Walk {
    /// Begins at a group of the index, or at its first group if there is no such group.
    pub(super) fn begin(cache: &Cache, first_group: u64) -> Self {
        let groups = cache.group_count();
        Self {
            table: Table::new(super::ROWS_MAX),
            groups,
            next_group: if first_group < groups { first_group } else { 0 },
            groups_seen: 0,
        }
    }

    /// Visits groups for [`SLICE_MAX`]. Returns true if the census is complete.
    pub(super) fn slice(&mut self, cache: &Cache, classes: &Classes, delimiter: u8) -> bool {
        let began = Instant::now();
        while self.groups_seen < self.groups.min(GROUPS_MAX) {
            if began.elapsed() >= SLICE_MAX {
                return false;
            }
            let groups = self.next_groups();
            self.groups_seen += groups.end - groups.start;
            self.next_group = groups.end % self.groups;
            let table = &mut self.table;
            cache.sample_keys(groups, |key, item| {
                let bytes = classes.item_bytes(ItemSize::new(key.len(), &item.meta)) as f64;
                table.add(super::prefix_of(key, delimiter), [bytes, 1.0, bytes * bytes]);
            });
        }
        true
    }

    /// Returns the groups to visit until the time is checked again.
    fn next_groups(&self) -> Range<u64> {
        let left = self.groups.min(GROUPS_MAX) - self.groups_seen;
        let count = GROUPS_PER_LOOK.min(left).min(self.groups - self.next_group);
        self.next_group..self.next_group + count
    }

    /// Returns the census, and the group at which the next one begins.
    pub(super) fn finish(self, cache: &Cache, now_us: i64) -> (Census, u64) {
        let Self { table, groups, groups_seen, next_group } = self;
        let share = groups_seen as f64 / groups.max(1) as f64;
        let [_, seen, _] = table.total();
        let factor = match groups_seen < groups && seen > 0.0 {
            // The number of items is known; the sample shows their distribution.
            true => cache.len_about() as f64 / seen,
            false => 1.0,
        };
        (Census { table, share, factor, taken_us: now_us }, next_group)
    }
}

impl Census {
    /// Returns the prefixes with their items.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&Prefix, Stored)> {
        self.table.rows().map(|(prefix, row)| (prefix, self.stored(&row.sums, row.error)))
    }

    /// Returns the items of the prefixes without a row.
    pub(super) fn other(&self) -> Stored {
        self.stored(&self.table.other, 0.0)
    }

    /// Returns the items of the keys without a prefix.
    pub(super) fn none(&self) -> Stored {
        self.stored(&self.table.none, 0.0)
    }

    /// Scales sums up to the whole cache. Their weight is too low by at most `lost` bytes.
    fn stored(&self, &[bytes, items, squares]: &[f64; SUMS], lost: f64) -> Stored {
        let factor = self.factor;
        // The items are drawn without being put back, so the error vanishes as the share grows.
        let unseen = 1.0 - self.share;
        let error = |squares: f64| super::DEVIATIONS * (squares * unseen).sqrt() * factor;
        let whole = |number: f64| number.round() as u64;
        // A lost item has at least one byte in `lost`; memcached counts some 50 bytes for it.
        let lost_items = lost / ITEM_BYTES_MIN;
        Stored {
            items: whole(items * factor),
            bytes: whole(bytes * factor),
            items_error: (error(items) + lost_items * factor).ceil() as u64,
            bytes_error: (error(squares) + lost * factor).ceil() as u64,
        }
    }
}

/// The sums of a prefix: bytes, items, and squares of the bytes.
const SUMS: usize = 3;

/// Maximum number of groups that a census visits. They have about 1.3 million items, and are the
/// index of a new cache of 2 GiB.
pub(super) const GROUPS_MAX: u64 = 1 << 17;

/// How long the thread visits groups without a pause.
pub(super) const SLICE_MAX: Duration = Duration::from_millis(5);

/// Groups visited between two checks of the time.
const GROUPS_PER_LOOK: u64 = 32;

/// The bytes of the smallest item as memcached counts them.
const ITEM_BYTES_MIN: f64 = 50.0;
