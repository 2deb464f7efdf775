//! The removals that a subscriber receives.

use std::collections::HashMap;
use std::time::Duration;

use larder::{Cache, Clock, Reason, Removals};

fn ticked(memory_bytes: u64) -> Cache {
    Cache::builder().memory_bytes(memory_bytes).clock(Clock::Ticked).open().unwrap()
}

/// Returns the key, value and reason of each queued removal.
fn reported(removals: &Removals) -> Vec<(String, Option<String>, Reason)> {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    removals
        .drain()
        .map(|removed| (text(removed.key), removed.value.map(text), removed.reason))
        .collect()
}

#[test]
fn each_kind_of_removal_is_reported_with_its_reason() {
    let cache = ticked(1 << 20);
    cache.set("before", "unheard", None).unwrap();
    cache.delete("before").unwrap();
    let removals = cache.subscribe(100);
    cache.set("a", "first", None).unwrap();
    cache.set("a", "second", None).unwrap();
    cache.delete("a").unwrap();
    cache.set("b", "dies", Some(Duration::from_secs(1))).unwrap();
    cache.tick(cache.now() + 2);
    assert_eq!(cache.get("b"), None);
    cache.set("c", "cleared", None).unwrap();
    cache.clear();
    assert_eq!(cache.get("c"), None);
    let expected = [
        ("a", "first", Reason::Replaced),
        ("a", "second", Reason::Deleted),
        ("b", "dies", Reason::Expired),
        ("c", "cleared", Reason::Cleared),
    ];
    let expected = expected.map(|(key, value, reason)| (key.into(), Some(value.into()), reason));
    assert_eq!(reported(&removals), expected);
}

#[test]
fn a_changed_item_is_not_reported() {
    let cache = ticked(1 << 20);
    let removals = cache.subscribe(100);
    cache.set("n", "9", None).unwrap();
    cache.set("log", "a", None).unwrap();
    for _ in 0..20 {
        cache.increment("n", 1).unwrap();
        cache.append("log", "b").unwrap();
        cache.prepend("log", "c").unwrap();
        cache.touch("log", Some(Duration::from_secs(100))).unwrap();
    }
    assert_eq!(reported(&removals), []);
}

#[test]
fn every_item_is_either_present_or_reported_once() {
    let cache = ticked(4 << 20);
    let removals = cache.subscribe(100_000);
    for number in 0..30_000u32 {
        cache.set(number.to_le_bytes(), [7; 300], None).unwrap();
    }
    let mut left: HashMap<Vec<u8>, u32> = HashMap::new();
    for removed in removals.drain() {
        assert_eq!((removed.value, removed.reason), (Some(vec![7; 300]), Reason::Evicted));
        *left.entry(removed.key).or_default() += 1;
    }
    assert!(left.len() > 10_000);
    for number in 0..30_000u32 {
        let told = left.get(&number.to_le_bytes()[..]).copied().unwrap_or(0);
        let is_there = cache.get(number.to_le_bytes()).is_some();
        assert_eq!(u32::from(!is_there), told, "{number}");
    }
}

#[test]
fn the_value_of_a_large_item_is_not_reported() {
    let cache = ticked(8 << 20);
    let removals = cache.subscribe(10);
    cache.set("large", vec![1; 500_000], None).unwrap();
    cache.delete("large").unwrap();
    assert_eq!(reported(&removals), [("large".into(), None, Reason::Deleted)]);
}

#[test]
fn removals_beyond_the_capacity_are_counted_and_block_no_writer() {
    let cache = ticked(1 << 20);
    let (small, gone) = (cache.subscribe(2), cache.subscribe(2));
    drop(gone);
    for _ in 0..6 {
        cache.set("k", "v", None).unwrap();
    }
    assert_eq!((small.drain().count(), small.lost()), (2, 3));
    drop(cache);
    assert_eq!(
        small.next_within(Duration::from_secs(60)),
        None,
        "the subscriber waited for a dropped cache"
    );
}
