//! The heaviest keys of a stream in bounded memory: Space-Saving.
//!
//! The sketch has a fixed number of counters. A key without one takes over the smallest counter and
//! its count, which becomes the error of the new one: counts are never too low, and too high by the
//! error at most. Source: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and
//! top-k elements in data streams" (2005).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A sketch of the heaviest keys.
#[derive(Debug)]
pub(super) struct Sketch {
    counters_max: usize,
    counters: Vec<Counter>,
    /// The place of each key's counter. The keys are foreign: the hash of the map resists those
    /// that are made to collide.
    places: HashMap<Arc<[u8]>, usize>,
    /// All counters by weight, as [`rank`] orders it, with their places.
    order: BTreeSet<(u64, usize)>,
}

#[derive(Debug)]
struct Counter {
    key: Arc<[u8]>,
    count: Count,
}

/// What a sketch knows of a key. Older samples count less: see [`Sketch::halve`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    /// What the keys are ordered by.
    pub(super) weight: f64,
    /// The part of `weight` that may belong to other keys.
    pub(super) error: f64,
    /// The sum of the squares of the samples, from which their random error follows.
    pub(super) squares: f64,
    /// A second number that is added up, since the key has its counter.
    pub(super) beside: f64,
}

impl Sketch {
    /// Creates an empty sketch.
    pub(super) fn new(counters_max: usize) -> Self {
        Self {
            counters_max,
            counters: Vec::with_capacity(counters_max),
            places: HashMap::with_capacity(counters_max),
            order: BTreeSet::new(),
        }
    }

    /// Counts a sample of a key.
    pub(super) fn add(&mut self, key: &[u8], weight: f64, beside: f64) {
        let place = match self.places.get(key) {
            Some(place) => {
                self.order.remove(&(rank(self.counters[*place].count.weight), *place));
                *place
            }
            None => self.give_counter(key),
        };
        let count = &mut self.counters[place].count;
        count.weight += weight;
        count.squares += weight * weight;
        count.beside += beside;
        self.order.insert((rank(count.weight), place));
    }

    /// Gives a key a counter, which is not in the order yet: a new one, or the smallest.
    fn give_counter(&mut self, key: &[u8]) -> usize {
        let key: Arc<[u8]> = key.into();
        let smallest = match self.counters.len() < self.counters_max {
            true => None,
            false => self.order.pop_first(),
        };
        let place = match smallest {
            Some((_, place)) => {
                let counter = &mut self.counters[place];
                self.places.remove(&counter.key);
                let weight = counter.count.weight;
                let count = Count { weight, error: weight, ..Count::default() };
                *counter = Counter { key: Arc::clone(&key), count };
                place
            }
            None => {
                self.counters.push(Counter { key: Arc::clone(&key), count: Count::default() });
                self.counters.len() - 1
            }
        };
        self.places.insert(key, place);
        place
    }

    /// Halves all counts, so that keys that are no longer asked for disappear.
    pub(super) fn halve(&mut self) {
        for Counter { count, .. } in &mut self.counters {
            count.weight /= 2.0;
            count.error /= 2.0;
            count.squares /= 4.0;
            count.beside /= 2.0;
        }
        let ranks = self.counters.iter().map(|counter| rank(counter.count.weight));
        self.order = ranks.zip(0..).collect();
    }

    /// Returns the heaviest keys, the heaviest first.
    pub(super) fn heaviest(&self, count_max: usize) -> Vec<(&[u8], Count)> {
        let heaviest = self.order.iter().rev().take(count_max);
        let counters = heaviest.map(|(_, place)| &self.counters[*place]);
        counters.map(|counter| (&*counter.key, counter.count)).collect()
    }
}

/// Returns a number that is ordered as the weight: that holds for the bits of what is not negative.
fn rank(weight: f64) -> u64 {
    weight.to_bits()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use fastrand::Rng;

    use super::*;

    #[test]
    fn counts_are_never_too_low_and_too_high_by_the_error_at_most() {
        let (mut sketch, mut random) = (Sketch::new(50), Rng::with_seed(1));
        let mut truth: HashMap<Vec<u8>, f64> = HashMap::new();
        for _ in 0..100_000 {
            // Small numbers are frequent.
            let bound = random.u32(1..3000);
            let number = random.u32(0..bound);
            let (key, weight) = (number.to_string().into_bytes(), f64::from(random.u8(1..10)));
            sketch.add(&key, weight, 1.0);
            *truth.entry(key).or_default() += weight;
        }
        let heaviest = sketch.heaviest(usize::MAX);
        assert_eq!(heaviest.len(), 50);
        assert!(heaviest.windows(2).all(|pair| pair[0].1.weight >= pair[1].1.weight));
        for (key, count) in &heaviest {
            let weight = truth[*key];
            assert!(count.weight >= weight && count.weight - count.error <= weight, "{key:?}");
        }
        let sum: f64 = heaviest.iter().map(|(_, count)| count.weight).sum();
        assert_eq!(sum, truth.values().sum::<f64>(), "the counters hold all that was counted");
    }

    #[test]
    fn a_key_that_is_no_longer_asked_for_falls_behind() {
        let mut sketch = Sketch::new(10);
        (0..1000).for_each(|_| sketch.add(b"old", 1.0, 0.0));
        for _ in 0..4 {
            sketch.halve();
            (0..100).for_each(|_| sketch.add(b"new", 1.0, 2.0));
        }
        let heaviest = sketch.heaviest(2);
        assert_eq!((heaviest[0].0, heaviest[1].0), (&b"new"[..], &b"old"[..]));
        assert_eq!((heaviest[1].1.weight, heaviest[0].1.weight), (62.5, 187.5));
        assert_eq!(heaviest[0].1.beside, 375.0);
    }
}
