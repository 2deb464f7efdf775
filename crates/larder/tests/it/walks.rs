//! Walks over a cache that changes during the walk.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use larder::{Cache, Clock, Counter, Cursor};

fn cache(memory_bytes: u64) -> Cache {
    Cache::builder().memory_bytes(memory_bytes).clock(Clock::Ticked).evict(false).open().unwrap()
}

fn stable_key(number: u32) -> String {
    format!("stable {number}")
}

fn fill_stable(cache: &Cache, count: u32) -> BTreeSet<Vec<u8>> {
    let keys = (0..count).map(stable_key);
    keys.map(|key| {
        cache.set(&key, format!("value of {key}"), None).unwrap();
        key.into_bytes()
    })
    .collect()
}

#[test]
fn a_walk_returns_every_live_item_once_if_nothing_changes() {
    let cache = cache(16 << 20);
    let mut expected = fill_stable(&cache, 10_000);
    cache.set("large", vec![7; 300_000], None).unwrap();
    expected.insert(b"large".to_vec());
    cache.set("dies", "", Some(Duration::from_secs(1))).unwrap();
    cache.tick(cache.now() + 1);
    let keys: Vec<_> = cache.keys().collect();
    assert_eq!(keys.len(), expected.len());
    assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), expected);
    let mut count = 0;
    for item in &cache {
        count += 1;
        assert_eq!(Some(&item.value), cache.get(&item.key).as_ref());
        assert_eq!(item.meta.value_bytes, item.value.len());
    }
    assert_eq!(count, expected.len());
    cache.clear();
    assert_eq!((cache.keys().next(), cache.iterate().next()), (None, None));
}

#[test]
fn items_present_before_the_index_grows_are_returned_after_it() {
    let cache = cache(64 << 20);
    let stable = fill_stable(&cache, 5_000);
    let groups = cache.report().groups;
    let mut walk = cache.keys();
    let mut shown: BTreeSet<_> = walk.by_ref().take(2_000).collect();
    for number in 0..300_000u32 {
        cache.set(number.to_le_bytes(), "new", None).unwrap();
    }
    assert!(cache.report().groups > 4 * groups, "the index did not grow");
    shown.extend(walk);
    assert!(stable.is_subset(&shown), "{} of 5000", stable.intersection(&shown).count());
}

#[test]
fn no_walk_misses_an_item_while_the_index_grows_and_items_move() {
    let cache = cache(16 << 20);
    let stable = fill_stable(&cache, 3_000);
    let writing = AtomicUsize::new(2);
    let walks = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..2u64 {
            let (cache, writing) = (&cache, &writing);
            scope.spawn(move || {
                for number in 0..150_000u64 {
                    let key = (thread << 32 | number).to_le_bytes();
                    cache.set(key, [thread as u8; 60], None).unwrap();
                    // Leaves holes everywhere, so that segments are compacted and stable items are
                    // moved. Stable items are also stored again.
                    if number % 8 != 0 {
                        cache.delete(key).unwrap();
                    }
                    let again = stable_key(number as u32 % 3_000);
                    cache.set(&again, format!("value of {again}"), None).unwrap();
                }
                writing.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while writing.load(Ordering::Relaxed) > 0 {
                let keys: BTreeSet<_> = cache.keys().collect();
                let missed = stable.difference(&keys).next();
                assert_eq!(missed.map(|key| String::from_utf8_lossy(key)), None);
                let items = cache.iterate().filter(|item| item.key.starts_with(b"stable"));
                let mut shown = BTreeSet::new();
                for item in items {
                    assert_eq!(item.value, [b"value of ", &item.key[..]].concat());
                    shown.insert(item.key);
                }
                assert_eq!(shown.len(), stable.len());
                walks.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    assert!(walks.into_inner() > 1);
    assert!(cache.counter(Counter::GroupsSplit) > 1_000, "the test did not split groups");
    assert!(cache.report().bytes_relocated > 0, "the test did not move items");
    cache.validate().unwrap();
}

#[test]
fn an_item_removed_before_its_turn_is_not_returned_and_a_walk_may_continue_in_another_thread() {
    let cache = cache(1 << 20);
    fill_stable(&cache, 1_000);
    let mut walk = cache.iterate();
    assert!(walk.next().is_some());
    cache.clear();
    assert_eq!(thread::spawn(move || walk.next()).join().unwrap(), None);
}

#[test]
fn a_walk_does_not_count_as_a_use_of_items() {
    let cache = Cache::builder().memory_bytes(2 << 20).open().unwrap();
    let fill = |from: u32| {
        for number in from..from + 5_000 {
            cache.set(number.to_le_bytes(), [0; 200], None).unwrap();
        }
    };
    fill(0);
    for _ in 0..5 {
        assert!(cache.iterate().count() > 1_000);
    }
    (1..5).for_each(|round| fill(round * 5_000));
    let evictions = cache.counter(Counter::Evictions);
    assert!(evictions > 10_000, "{evictions}");
    assert_eq!(cache.counter(Counter::EvictedUnfetched), evictions);
}

#[test]
fn removing_a_prefix_removes_exactly_its_items() {
    let cache = cache(16 << 20);
    for user in 0..50 {
        for page in 0..100 {
            cache.set(format!("user:{user}:{page}"), "p", None).unwrap();
        }
    }
    cache.set("user:", vec![0; 300_000], None).unwrap();
    cache.set("user:7:dies", "", Some(Duration::from_secs(1))).unwrap();
    cache.tick(cache.now() + 1);
    // In a record the value follows the key.
    cache.set("use", "r:7:0", None).unwrap();
    assert_eq!(cache.keys_with_prefix("user:7:").count(), 100);
    assert_eq!(cache.remove_prefix("user:7:").unwrap(), 100);
    assert_eq!(cache.remove_prefix("user:7:").unwrap(), 0);
    assert_eq!(cache.keys().count(), 4_902);
    assert!(!cache.contains("user:7:0"));
    assert!(cache.contains("user:17:0"));
    assert_eq!(cache.remove_prefix("u".repeat(1_000)).unwrap(), 0);
    assert_eq!(
        (cache.remove_prefix("user:").unwrap(), cache.remove_prefix("use").unwrap()),
        (4_901, 1)
    );
    cache.set([0, 1], "", None).unwrap();
    assert_eq!((cache.remove_prefix([0, 2]).unwrap(), cache.remove_prefix("").unwrap()), (0, 1));
    cache.validate().unwrap();
}

#[test]
fn a_sweep_removes_dead_and_wanted_items_everywhere() {
    let cache = cache(16 << 20);
    let live = fill_stable(&cache, 1000);
    for number in 0..1000 {
        let value = vec![0; if number < 300 { 10 } else { 1000 }];
        cache.set(format!("dies {number}"), value, Some(Duration::from_secs(1))).unwrap();
    }
    cache.set("large", vec![7; 300_000], Some(Duration::from_secs(1))).unwrap();
    cache.tick(cache.now() + 1);
    let sweep = |bytes_min: usize| {
        let mut cursor = Cursor::default();
        while cache.sweep_group(&mut cursor, |_, meta| meta.value_bytes >= bytes_min) {}
        cache.len()
    };
    assert_eq!(sweep(1000), 1300);
    assert_eq!(sweep(0), 1000);
    assert_eq!(cache.keys().collect::<BTreeSet<_>>(), live);
    cache.validate().unwrap();
}
