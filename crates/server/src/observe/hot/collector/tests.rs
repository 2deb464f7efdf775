//! Lists of loads whose true rates are known.

use std::env;
use std::sync::Arc;

use fastrand::Rng;
use rtrb::Consumer;

use super::super::sampler::{Mean, Sampler, take};
use super::*;
use crate::observe::prefix_stats::Access;

/// Zipf's law: the cumulative shares of the keys, the most frequent key first.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new() -> Self {
        let mut sum = 0.0;
        let sums = (1..=KEYS).map(|rank| {
            sum += f64::from(rank).powf(-SKEW);
            sum
        });
        let sums: Vec<f64> = sums.collect();
        Self(sums.iter().map(|upto| upto / sum).collect())
    }

    /// Returns a key, counted from 0.
    fn draw(&self, random: &mut Rng) -> usize {
        let drawn = random.f64();
        self.0.partition_point(|upto| *upto < drawn)
    }

    fn per_sec(&self, key: usize) -> f64 {
        let before = key.checked_sub(1).map_or(0.0, |before| self.0[before]);
        (self.0[key] - before) * f64::from(COMMANDS_PER_SEC)
    }
}

/// A load on a collector. Keys are drawn only for sampled commands.
struct Load<'a> {
    zipf: &'a Zipf,
    random: Rng,
    sampler: Sampler,
    ring: Consumer<u8>,
    collector: Collector,
    ran_secs: f64,
}

impl<'a> Load<'a> {
    fn new(zipf: &'a Zipf, seed: u64) -> Self {
        let (sampler, ring) = Sampler::new(Arc::new(Mean::new(MEAN)), seed);
        let (random, collector) = (Rng::with_seed(!seed), Collector::new());
        Self { zipf, random, sampler, ring, collector, ran_secs: 0.0 }
    }

    /// Runs until this time since the start. Returns the keys of the list and the list itself.
    fn run_until(&mut self, secs: f64) -> (Vec<usize>, HotList) {
        while self.ran_secs < secs - 0.01 {
            for _ in 0..COMMANDS_PER_SEC / 20 {
                if self.sampler.is_due() {
                    let key = self.zipf.draw(&mut self.random);
                    self.sampler.pass(Some(&key.to_le_bytes()), 100, Access::Miss);
                }
            }
            let collector = &mut self.collector;
            take(&mut self.ring, &mut Vec::new(), |sample| collector.take(&sample));
            collector.age(0.05);
            self.ran_secs += 0.05;
        }
        let list = self.collector.list();
        let key = |hot_key: &HotKey| usize::from_le_bytes((*hot_key.key).try_into().unwrap());
        (list.by_rate.iter().map(key).collect(), list)
    }
}

/// Fails unless the first twelve keys include the true ten, and every pair whose rates differ by
/// more than 30 % is in order.
fn assert_first_are_found(found: &[usize], zipf: &Zipf, seed: u64) {
    let first = &found[..12];
    for key in 0..10 {
        assert!(first.contains(&key), "seed {seed}: key {key} is not among {first:?}");
    }
    for (place, one) in first.iter().enumerate() {
        for other in &first[place + 1..] {
            let ratio = zipf.per_sec(*other) / zipf.per_sec(*one);
            assert!(ratio <= 1.3, "seed {seed}: {one} is before {other} in {first:?}");
        }
    }
}

/// Runs two seeds, or the number in `LARDER_SEEDS`. A seed takes seconds without optimization.
#[test]
fn the_hottest_keys_of_a_zipf_load_are_found_in_ten_seconds_and_exactly_in_sixty() {
    let zipf = Zipf::new();
    let (mut rows, mut off) = (0, 0);
    let seeds = env::var("LARDER_SEEDS").map_or(2, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        let mut load = Load::new(&zipf, seed);
        let (found, _) = load.run_until(10.0);
        assert_first_are_found(&found, &zipf, seed);
        let (mut found, list) = load.run_until(60.0);
        assert_first_are_found(&found, &zipf, seed);
        for (hot_key, key) in list.by_rate.iter().zip(&found) {
            rows += 1;
            off += i32::from((hot_key.per_sec - zipf.per_sec(*key)).abs() > hot_key.error);
        }
        found.truncate(10);
        found.sort_unstable();
        assert_eq!(found, (0..10).collect::<Vec<_>>(), "seed {seed}: after 60 s");
    }
    assert!(off * 100 < rows, "{off} of {rows} rates have a larger error than the row shows");
}

#[test]
fn keys_are_ordered_by_commands_and_by_bytes() {
    let mut collector = Collector::new();
    for _ in 0..300 {
        collector.take(&Sample { key: b"small", bytes: 100, access: Access::Miss, weight: 10 });
    }
    for _ in 0..30 {
        collector.take(&Sample { key: b"large", bytes: 10_000, access: Access::Miss, weight: 10 });
    }
    collector.age(5.0);
    let list = collector.list();
    assert_eq!((list.window_secs, list.sampled), (5.0, 330));
    let [small, large] = &list.by_rate[..] else { panic!("{list:?}") };
    assert_eq!((&*small.key, small.per_sec, small.bytes_per_sec), (&b"small"[..], 600.0, 6e4));
    assert_eq!(&*large.key, b"large");
    // Three standard deviations of 300 samples that stand for 10 commands each.
    assert!((small.error - 3.0 * (300f64 * 100.0).sqrt() / 5.0).abs() < 1e-9);
    let first = &list.by_bytes[0];
    assert_eq!((&*first.key, first.per_sec, first.bytes_per_sec), (&b"large"[..], 60.0, 6e5));
}

#[test]
fn a_new_hot_key_is_ahead_of_an_old_one_within_a_window() {
    let mut collector = Collector::new();
    for second in 0..75 {
        let key: &[u8] = if second < 60 { b"old" } else { b"new" };
        for _ in 0..1000 {
            collector.take(&Sample { key, bytes: 1, access: Access::Miss, weight: 8 });
        }
        collector.age(1.0);
    }
    assert_eq!(&*collector.list().by_rate[0].key, b"new");
    assert!(collector.list().window_secs < 20.0);
}

/// A realistic load, and a number of keys that is large for the sketch.
const COMMANDS_PER_SEC: u32 = 400_000;
const KEYS: u32 = 1_000_000;
const SKEW: f64 = 0.99;

/// The mean that the server settles on at this load.
const MEAN: u32 = 32;
