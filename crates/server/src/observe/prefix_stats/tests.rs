//! The thread's side of the statistics, driven by hand.

use larder::Clock;
use larder_options::Options;

use super::census::{GROUPS_MAX, Stored};
use super::labels::LABELS_MAX;
use super::*;

const SECOND_US: i64 = 1_000_000;

/// A cache and its counter.
struct Scene {
    cache: Cache,
    counter: PrefixCounter,
    now_us: i64,
}

impl Scene {
    fn new() -> Self {
        Self::with_memory(64 << 20)
    }

    fn with_memory(bytes: u64) -> Self {
        let (options, _) = Options::from_map([("memory_limit", "64")]).unwrap();
        let builder = Cache::builder().memory_bytes(bytes).clock(Clock::Ticked);
        let cache = builder.open().unwrap();
        let classes = Arc::new(Classes::new(&options.slabs, options.cas));
        let stats = PrefixStats::new(b':', true, cache.clone(), classes);
        let counter = PrefixCounter::new(Arc::new(stats));
        Self { cache, counter, now_us: monotonic_us() }
    }

    fn store(&self, key: &[u8]) {
        self.cache.set(key, [0; 20], None).unwrap();
    }

    /// Lets the time of a census pass, and returns the report after it.
    fn report(&mut self) -> Arc<PrefixReport> {
        self.now_us += CENSUS_EVERY_US;
        self.counter.stats.requested_us.store(self.now_us, Relaxed);
        self.counter.turn(self.now_us);
        while self.counter.walk.is_some() {
            self.now_us += SECOND_US / 10;
            self.counter.turn(self.now_us);
        }
        Arc::clone(&self.counter.stats.locked())
    }
}

fn items(report: &PrefixReport) -> u64 {
    let rows: u64 = report.rows.iter().map(|row| row.sums.stored.items).sum();
    rows + report.none.stored.items + report.other.stored.items
}

#[test]
fn a_prefix_ends_before_the_first_delimiter() {
    let long = [b'x'; PREFIX_BYTES_MAX];
    let cases: [(&[u8], Option<&[u8]>); 6] = [
        (b"a:b:c", Some(b"a")),
        (b":k", Some(b"")),
        (b"plain", None),
        (b"\xff\0:k", Some(b"\xff\0")),
        (&[&long[..], b":k"].concat(), Some(&long)),
        (&[&long[..], b"x:k"].concat(), None),
    ];
    for (key, prefix) in cases {
        assert_eq!(prefix_of(key, b':'), prefix, "{}", key.escape_ascii());
    }
}

#[test]
fn a_census_counts_all_items_of_a_small_cache() {
    let mut scene = Scene::new();
    for number in 0..1000_u32 {
        scene.store(format!("a:{number:04}").as_bytes());
        scene.store(format!("b:{:04}", number / 2).as_bytes());
    }
    scene.store(b"plain");
    let report = scene.report();
    assert_eq!(report.census.unwrap().share, 1.0);
    let rows: Vec<_> = report.rows.iter().map(|row| (&row.prefix[..], row.sums.stored)).collect();
    // 48 bytes, 8 of the cas token, the key, the value, and three of their ends.
    let stored = |items| Stored { items, bytes: items * 85, items_error: 0, bytes_error: 0 };
    assert_eq!(rows, [(&b"a"[..], stored(1000)), (b"b", stored(500))]);
    assert_eq!(report.none.stored.items, 1);
    (0..500_u32).for_each(|number| {
        scene.cache.delete(format!("b:{number:04}")).unwrap();
    });
    assert_eq!(scene.report().rows.len(), 1, "the next census does not find removed items");
}

#[test]
fn a_census_of_a_large_index_is_a_sample_within_its_error() {
    // The index of a new cache of this size has twice as many groups as a census visits.
    let mut scene = Scene::with_memory(4 << 30);
    assert!(scene.cache.group_count() > GROUPS_MAX);
    let truth = [("a", 40_000), ("b", 10_000), ("c", 1000)];
    for (prefix, items) in truth {
        (0..items).for_each(|number| scene.store(format!("{prefix}:{number:05}").as_bytes()));
    }
    let first = scene.report();
    let share = first.census.unwrap().share;
    assert!(share < 1.0, "{share}");
    for (prefix, items) in truth {
        let row = first.rows.iter().find(|row| &row.prefix[..] == prefix.as_bytes()).unwrap();
        let Stored { items: found, items_error: error, bytes, bytes_error } = row.sums.stored;
        assert!(error > 0 && error < items / 5, "{row:?}");
        assert!(found.abs_diff(items) <= 2 * error, "{row:?}");
        assert!(bytes.abs_diff(items * 86) <= 2 * bytes_error, "{row:?}");
    }
    // The next census visits the other groups.
    let second = scene.report();
    assert_ne!(first.rows[0].sums, second.rows[0].sums);
}

#[test]
fn without_a_request_no_census_begins() {
    let mut scene = Scene::new();
    scene.counter.turn(scene.now_us);
    assert!(scene.counter.census.is_none());
    scene.report();
    let taken_us = scene.counter.census.as_ref().unwrap().taken_us;
    scene.now_us += WANTED_US;
    scene.counter.turn(scene.now_us);
    assert_eq!(scene.counter.census.as_ref().unwrap().taken_us, taken_us);
}

#[test]
fn the_number_of_prefixes_is_bounded_and_the_totals_add_up() {
    let mut scene = Scene::new();
    for number in 0..25_000_u32 {
        scene.store(format!("{number}:k").as_bytes());
        scene.counter.take(format!("{}:k", number + 12_000).as_bytes(), Access::Miss, 8);
    }
    (0..500_u32).for_each(|number| scene.store(format!("heavy:{number}").as_bytes()));
    let report = scene.report();
    assert_eq!(report.rows.len(), ROWS_MAX);
    assert_eq!(items(&report), 25_500);
    let gets: u64 = report.rows.iter().map(|row| row.sums.gets.gets).sum();
    assert_eq!(gets + report.other.gets.gets, 8 * 25_000);
    let first = &report.rows[0];
    let Stored { items, items_error, .. } = first.sums.stored;
    assert_eq!(&first.prefix[..], b"heavy");
    assert!(items <= 500 && items + items_error >= 500, "{first:?}");
}

#[test]
fn gets_are_within_their_error_and_reset_begins_anew() {
    let mut scene = Scene::new();
    for number in 0..1000 {
        let access = if number % 4 == 0 { Access::Miss } else { Access::Hit };
        scene.counter.take(b"a:k", access, 128);
        scene.counter.take(b"a:k", Access::Other, 128);
    }
    let report = scene.report();
    let gets = report.rows[0].sums.gets;
    assert_eq!((gets.gets, gets.hits), (128_000, 96_000));
    // Three standard deviations of 1000 samples.
    assert!(gets.gets_error.abs_diff(12_100) < 100, "{gets:?}");
    assert_eq!(report.sampled, 2000);
    scene.counter.stats.reset();
    assert_eq!(scene.report().rows, []);
}

#[test]
fn the_counters_of_series_never_decrease() {
    let mut scene = Scene::new();
    let key = |prefix: usize| format!("p{prefix:02}:k").into_bytes();
    let store = |scene: &Scene, prefix: usize, bytes: usize| {
        scene.cache.set(key(prefix), vec![0; bytes], None).unwrap();
    };
    (0..60).for_each(|prefix| store(&scene, prefix, 100 * (prefix + 1)));
    let shared = |report: &PrefixReport| {
        let other = report.series.iter().find(|series| series.label == Label::Other).unwrap();
        (other.gets, other.hits)
    };
    let mut last = (0, 0);
    for round in 0..20 {
        for prefix in 0..60 {
            scene.counter.take(&key(prefix), Access::Hit, 1);
        }
        let report = scene.report();
        assert_eq!(report.series.len(), LABELS_MAX + 2);
        let sum: u64 = report.series.iter().map(|series| series.items).sum();
        assert_eq!(sum, 60, "the series contain all items");
        let now = shared(&report);
        let own: u64 = report.series.iter().map(|series| series.gets).sum();
        assert!(round > 0 || own == 60, "the first series contain all gets: {own}");
        // Ten prefixes share the series, and each has one get in a round. A prefix that receives a
        // series of its own leaves its gets until then to the others.
        assert!(now.0 >= last.0 && now.0 - last.0 <= 70, "{last:?}, then {now:?}");
        last = now;
        // The smallest prefix becomes the largest.
        store(&scene, round, 10_000 + round);
    }
}
