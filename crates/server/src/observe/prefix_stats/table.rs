//! Sums by key prefix in bounded memory.
//!
//! A prefix has a row from its first value on. When there are too many rows, a *purge* drops the
//! light ones: their sums move to the sums of all other prefixes, so that the totals stay exact. A
//! prefix that appears after a purge may have lost a sum of up to the heaviest dropped weight. So
//! the sums of a row are never too high, and its weight is too low by at most the error of the row.
//! The error is at most the weight of all prefixes divided by [`ROWS_MAX`]. Sources: Misra, Gries,
//! "Finding repeated elements" (1982); Metwally and others, "Efficient computation of frequent and
//! top-k elements in data streams" (2005).

use std::collections::HashMap;

use smallvec::SmallVec;

/// The part of a key before the first delimiter. Most prefixes are short and need no separate
/// allocation.
pub(crate) type Prefix = SmallVec<[u8; 24]>;

/// `N` sums for each prefix. The first sum is the weight, by which a purge orders the rows.
#[derive(Clone, Debug)]
pub(super) struct Table<const N: usize> {
    /// How many rows a purge leaves.
    rows_max: usize,
    /// Clients choose the prefixes, so the hash must resist prefixes that are made to collide.
    rows: HashMap<Prefix, Row<N>>,
    /// The sums of the prefixes that a purge has dropped.
    pub(super) other: [f64; N],
    /// The sums of the keys without a prefix.
    pub(super) none: [f64; N],
    /// The maximum weight that a prefix without a row has lost.
    lost: f64,
}

/// The sums of one prefix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row<const N: usize> {
    pub(super) sums: [f64; N],
    /// The maximum weight that the row is too low by.
    pub(super) error: f64,
}

impl<const N: usize> Table<N> {
    /// Creates an empty table, of which a purge leaves `rows_max` rows.
    pub(super) fn new(rows_max: usize) -> Self {
        Self { rows_max, rows: HashMap::new(), other: [0.0; N], none: [0.0; N], lost: 0.0 }
    }

    /// Adds values of a key; `prefix` is `None` if the key has no prefix.
    pub(super) fn add(&mut self, prefix: Option<&[u8]>, values: [f64; N]) {
        let Some(prefix) = prefix else { return add(&mut self.none, &values) };
        if let Some(row) = self.rows.get_mut(prefix) {
            return add(&mut row.sums, &values);
        }
        if self.rows.len() >= self.rows_max * ROWS_PER_LEFT {
            self.purge();
        }
        let row = Row { sums: values, error: self.lost };
        self.rows.insert(Prefix::from_slice(prefix), row);
    }

    /// Drops the lightest rows, so that `rows_max` are left.
    fn purge(&mut self) {
        let mut weights: Vec<f64> = self.rows.values().map(Row::weight_max).collect();
        let place = weights.len().saturating_sub(self.rows_max + 1);
        let (_, lost, heavier) = weights.select_nth_unstable_by(place, f64::total_cmp);
        let (lost, other) = (*lost, &mut self.other);
        // Of rows that weigh the same, some may be dropped and others not.
        let mut alike_left = heavier.iter().filter(|weight| **weight == lost).count();
        self.rows.retain(|_, row| {
            let weight = row.weight_max();
            let is_alike = weight == lost && alike_left > 0;
            alike_left -= usize::from(is_alike);
            let is_kept = weight > lost || is_alike;
            if !is_kept {
                add(other, &row.sums);
            }
            is_kept
        });
        // A new row starts with the previous loss as its error, so this never decreases.
        self.lost = lost;
    }

    /// Returns all rows, in no particular order.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&Prefix, &Row<N>)> {
        self.rows.iter()
    }

    /// Returns the sums of a prefix; zeros, with the largest possible error, if it has no row.
    pub(super) fn row(&self, prefix: &[u8]) -> Row<N> {
        let absent = Row { sums: [0.0; N], error: self.lost };
        self.rows.get(prefix).copied().unwrap_or(absent)
    }

    /// Returns the sums over all keys.
    pub(super) fn total(&self) -> [f64; N] {
        let mut total = self.other;
        add(&mut total, &self.none);
        self.rows.values().for_each(|row| add(&mut total, &row.sums));
        total
    }
}

impl<const N: usize> Row<N> {
    /// Returns the maximum weight that the prefix may have.
    fn weight_max(&self) -> f64 {
        self.sums[0] + self.error
    }
}

/// Adds each value to its sum.
pub(super) fn add<const N: usize>(sums: &mut [f64; N], values: &[f64; N]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// How many rows there may be for each row that a purge leaves. So a purge costs about two steps
/// for each row that it drops.
const ROWS_PER_LEFT: usize = 2;

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    #[test]
    fn totals_are_exact_and_rows_are_too_low_by_their_error_at_most() {
        let (mut table, mut random) = (Table::<2>::new(50), Rng::with_seed(1));
        let mut truth: HashMap<Vec<u8>, [f64; 2]> = HashMap::new();
        let mut sums = [0.0; 2];
        for _ in 0..100_000 {
            // Small numbers are frequent.
            let bound = random.u32(1..3000);
            let prefix = random.u32(0..bound).to_string().into_bytes();
            let values = [f64::from(random.u8(1..10)), 1.0];
            table.add(Some(&prefix), values);
            add(truth.entry(prefix).or_default(), &values);
            add(&mut sums, &values);
            assert!(table.rows.len() <= 100, "{} rows", table.rows.len());
        }
        table.add(None, [5.0, 1.0]);
        add(&mut sums, &[5.0, 1.0]);
        assert_eq!(table.total(), sums);
        assert!(table.lost <= sums[0] / 50.0, "{} of {sums:?}", table.lost);
        for (prefix, [weight, _]) in &truth {
            let row = table.row(prefix);
            let bounds = row.sums[0]..=row.weight_max();
            assert!(bounds.contains(weight), "{weight} is not in {bounds:?}");
        }
    }

    #[test]
    fn a_purge_leaves_room_even_if_all_prefixes_are_alike() {
        let mut table = Table::<1>::new(10);
        for number in 0..1000_u32 {
            table.add(Some(&number.to_le_bytes()), [1.0]);
            assert!(table.rows.len() <= 20, "{} rows", table.rows.len());
            assert!(number < 10 || table.rows.len() >= 10, "{} rows", table.rows.len());
        }
        assert_eq!(table.total(), [1000.0]);
    }
}
