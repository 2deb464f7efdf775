//! The heaviest keys of a stream in bounded memory: Space-Saving.
//!
//! The sketch has a fixed number of counters. A key without one takes over the smallest counter and
//! its count, which becomes the error of the new one: counts are never too low, and too high by the
//! error at most. Source: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and
//! top-k elements in data streams" (2005).

use std::cmp::Ordering;

use priority_queue::PriorityQueue;

/// A sketch of the heaviest keys.
#[derive(Debug)]
pub(super) struct Sketch {
    /// The smallest count first.
    counters: PriorityQueue<Box<[u8]>, Count>,
    counters_max: usize,
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
        Self { counters: PriorityQueue::with_capacity(counters_max), counters_max }
    }

    /// Counts a sample of a key.
    pub(super) fn add(&mut self, key: &[u8], weight: f64, beside: f64) {
        let add = |count: &mut Count| {
            count.weight += weight;
            count.squares += weight * weight;
            count.beside += beside;
        };
        if self.counters.change_priority_by(key, add) {
            return;
        }
        let mut count = Count::default();
        if self.counters.len() >= self.counters_max
            && let Some((_, smallest)) = self.counters.pop()
        {
            count = Count { weight: smallest.weight, error: smallest.weight, ..count };
        }
        add(&mut count);
        self.counters.push(key.into(), count);
    }

    /// Halves all counts, so that keys that are no longer asked for disappear.
    pub(super) fn halve(&mut self) {
        for (_, count) in &mut self.counters {
            count.weight /= 2.0;
            count.error /= 2.0;
            count.squares /= 4.0;
            count.beside /= 2.0;
        }
    }

    /// Returns the heaviest keys, the heaviest first.
    pub(super) fn heaviest(&self, count_max: usize) -> Vec<(&[u8], Count)> {
        let mut all: Vec<_> = self.counters.iter().map(|(key, count)| (&**key, *count)).collect();
        // Larger counts come first, as the smallest priority of the queue is last.
        all.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
        all.truncate(count_max);
        all
    }
}

/// The queue gives out the greatest first, so the smallest weight is the greatest.
impl Ord for Count {
    fn cmp(&self, other: &Self) -> Ordering {
        other.weight.total_cmp(&self.weight)
    }
}

impl PartialOrd for Count {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Count {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Count {}

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
