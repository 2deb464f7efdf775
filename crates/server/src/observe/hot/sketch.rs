//! Finds the heaviest keys of a sequence of samples in bounded memory, in two orders: by commands
//! and by bytes.
//!
//! A key is counted from its first sample on. When there are too many keys, a *purge* drops those
//! that are light in both orders, and remembers the heaviest weight among them. A key that appears
//! after a purge may have had up to this weight before. Its count therefore starts with this
//! weight, which is the error of the count. So counts are never too low, and they are too high by
//! at most the error. The error is at most the weight of all samples, divided by the number of keys
//! that a purge leaves in each order. Sources: Misra, Gries, "Finding repeated elements" (1982);
//! Anderson and others, "A high-performance algorithm for identifying frequent items in data
//! streams" (2017).

use std::collections::HashMap;

use smallvec::SmallVec;

/// A sketch of the heaviest keys.
#[derive(Debug)]
pub(super) struct Sketch {
    /// How many keys a purge leaves in each order.
    left_max: usize,
    /// The counts by key. Clients choose the keys, so the hash must resist keys that are made to
    /// collide.
    counts: HashMap<Key, Count>,
    /// The maximum weight of a key that has no count.
    missed: [f64; Order::ALL.len()],
}

/// A key. Most keys are short and need no separate allocation.
type Key = SmallVec<[u8; 32]>;

/// The quantities by which keys are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Order {
    Commands,
    Bytes,
}

/// The counts of one key. Older samples count less: see [`Sketch::halve`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Count([Tally; Order::ALL.len()]);

/// A count in one order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    /// The commands or bytes that the key's samples stand for. Never too low, and too high by at
    /// most `error`.
    pub(super) weight: f64,
    /// The part of `weight` that may belong to other keys.
    pub(super) error: f64,
    /// The sum of the squares of the samples, from which the random error is computed.
    pub(super) squares: f64,
}

impl Sketch {
    /// Creates an empty sketch.
    pub(super) fn new(left_max: usize) -> Self {
        let counts = HashMap::with_capacity(left_max * COUNTS_PER_LEFT);
        Self { left_max, counts, missed: Default::default() }
    }

    /// Counts a sample of a key, with its weight in each order.
    pub(super) fn add(&mut self, key: &[u8], weights: [f64; Order::ALL.len()]) {
        if let Some(count) = self.counts.get_mut(key) {
            count.add(weights);
            return;
        }
        if self.counts.len() >= self.left_max * COUNTS_PER_LEFT {
            self.purge();
        }
        let mut count = Count(self.missed.map(Tally::new));
        count.add(weights);
        self.counts.insert(Key::from_slice(key), count);
    }

    /// Drops the keys that are light in both orders, which are at least a third of them.
    fn purge(&mut self) {
        let mut weights = Vec::with_capacity(self.counts.len());
        // The heaviest dropped weights. A purge never decreases them, because a new count starts
        // with the weights of the previous purge.
        self.missed = Order::ALL.map(|order| {
            weights.clear();
            weights.extend(self.counts.values().map(|count| count.of(order).weight));
            let place = weights.len().saturating_sub(self.left_max + 1);
            *weights.select_nth_unstable_by(place, f64::total_cmp).1
        });
        let missed = self.missed;
        let is_heavy = |count: &Count, order| count.of(order).weight > missed[order as usize];
        self.counts.retain(|_, count| Order::ALL.iter().any(|order| is_heavy(count, *order)));
    }

    /// Halves all counts, so that keys that are no longer requested disappear.
    pub(super) fn halve(&mut self) {
        for tally in self.counts.values_mut().flat_map(|count| &mut count.0) {
            tally.weight /= 2.0;
            tally.error /= 2.0;
            tally.squares /= 4.0;
        }
        self.missed = self.missed.map(|weight| weight / 2.0);
    }

    /// Returns the heaviest keys, the heaviest first.
    pub(super) fn heaviest(&self, order: Order, count_max: usize) -> Vec<(&[u8], Count)> {
        let mut all: Vec<_> = self.counts.iter().map(|(key, count)| (&**key, *count)).collect();
        let heavier = |(_, one): &(&[u8], Count), (_, other): &(&[u8], Count)| {
            other.of(order).weight.total_cmp(&one.of(order).weight)
        };
        if all.len() > count_max {
            all.select_nth_unstable_by(count_max, heavier);
            all.truncate(count_max);
        }
        all.sort_unstable_by(heavier);
        all
    }
}

impl Order {
    pub(super) const ALL: [Self; 2] = [Self::Commands, Self::Bytes];
}

impl Count {
    pub(super) fn of(&self, order: Order) -> &Tally {
        &self.0[order as usize]
    }

    fn add(&mut self, weights: [f64; Order::ALL.len()]) {
        for (tally, weight) in self.0.iter_mut().zip(weights) {
            tally.weight += weight;
            tally.squares += weight * weight;
        }
    }
}

impl Tally {
    /// Creates the tally of a key that may already have had this weight.
    fn new(missed: f64) -> Self {
        Self { weight: missed, error: missed, squares: 0.0 }
    }

    /// Returns the part of the weight that certainly belongs to the key.
    pub(super) fn own(&self) -> f64 {
        self.weight - self.error
    }
}

/// How many keys are counted for each key that a purge leaves in an order. With a larger factor,
/// more samples share the work of a purge.
const COUNTS_PER_LEFT: usize = 3;

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    #[test]
    fn counts_are_never_too_low_and_too_high_by_the_error_at_most() {
        let (mut sketch, mut random) = (Sketch::new(50), Rng::with_seed(1));
        let mut truth: HashMap<Vec<u8>, [f64; 2]> = HashMap::new();
        let mut sums = [0.0; 2];
        for _ in 0..100_000 {
            // Small numbers are frequent; others are long.
            let bound = random.u32(1..3000);
            let number = random.u32(0..bound);
            let key = number.to_string().into_bytes();
            let weights = [f64::from(random.u8(1..10)), f64::from(number % 1000)];
            sketch.add(&key, weights);
            for (order, weight) in weights.into_iter().enumerate() {
                truth.entry(key.clone()).or_default()[order] += weight;
                sums[order] += weight;
            }
        }
        assert!(sketch.counts.len() <= 150, "{} keys", sketch.counts.len());
        for order in Order::ALL {
            let of = order as usize;
            let heaviest = sketch.heaviest(order, 50);
            let weights = heaviest.iter().map(|(_, count)| count.of(order).weight);
            assert!(weights.is_sorted_by(|one, other| one >= other));
            for (key, count) in &heaviest {
                let (tally, weight) = (count.of(order), truth[*key][of]);
                assert!(tally.weight >= weight && tally.own() <= weight, "{order:?} {key:?}");
            }
            assert!(sketch.missed[of] <= sums[of] / 50.0, "{:?} of {sums:?}", sketch.missed);
            for (key, weights) in &truth {
                let is_counted = sketch.counts.contains_key(&key[..]);
                assert!(is_counted || weights[of] <= sketch.missed[of], "{order:?} {key:?}");
            }
        }
    }

    #[test]
    fn a_purge_leaves_room_even_if_all_keys_are_alike() {
        let mut sketch = Sketch::new(10);
        for number in 0..10_000u32 {
            sketch.add(&number.to_le_bytes(), [1.0, 1.0]);
            assert!(sketch.counts.len() <= 30, "{} keys", sketch.counts.len());
        }
        assert!(sketch.missed[0] <= 1000.0, "{:?}", sketch.missed);
    }

    #[test]
    fn a_purge_keeps_what_is_heavy_in_one_order() {
        let mut sketch = Sketch::new(10);
        (0..100).for_each(|_| sketch.add(b"often", [1.0, 0.0]));
        sketch.add(b"large", [1.0, 1e6]);
        (0..1000u32).for_each(|number| sketch.add(&number.to_le_bytes(), [2.0, 2.0]));
        assert_eq!(sketch.heaviest(Order::Commands, 1)[0].0, b"often");
        assert_eq!(sketch.heaviest(Order::Bytes, 1)[0].0, b"large");
    }

    #[test]
    fn a_key_that_is_no_longer_asked_for_falls_behind() {
        let mut sketch = Sketch::new(10);
        (0..1000).for_each(|_| sketch.add(b"old", [1.0, 0.0]));
        for _ in 0..4 {
            sketch.halve();
            (0..100).for_each(|_| sketch.add(b"new", [1.0, 2.0]));
        }
        let heaviest = sketch.heaviest(Order::Commands, 2);
        assert_eq!((heaviest[0].0, heaviest[1].0), (&b"new"[..], &b"old"[..]));
        let weights = [0, 1].map(|place| heaviest[place].1.of(Order::Commands).weight);
        assert_eq!(weights, [187.5, 62.5]);
        assert_eq!(heaviest[0].1.of(Order::Bytes).weight, 375.0);
    }
}
