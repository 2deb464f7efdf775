//! A walk over a cache with a disk tier returns the items in memory and the items that are only on
//! the disk, each key once, while other threads store, read and evict items.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use larder::{
    Cache, Clock, DiskRead, DiskTier, Dumped, Durability, StoreMode, StoreRequest, TierMode, Wait,
    WalkStep,
};

const MODES: [TierMode; 2] = [TierMode::Store, TierMode::Cache];

fn open(path: &Path, mode: TierMode, bytes: u64, clock: Clock) -> Cache {
    let disk = DiskTier::new(path, bytes).mode(mode).durability(Durability::Async);
    let disk = disk.dirty_bytes(16 << 20).wait(Duration::from_secs(20));
    Cache::builder().memory_bytes(2 << 20).cas(true).clock(clock).tier(disk).open().unwrap()
}

fn value_of(key: &str, turn: u32) -> Vec<u8> {
    let len = match key.len() + turn as usize {
        n if n % 40 == 0 => 70_000,
        n => n * 37 % 2000,
    };
    format!("{turn} {key} ").into_bytes().into_iter().cycle().take(len + 20).collect()
}

fn set(cache: &Cache, key: &str, turn: u32) {
    let request = StoreRequest { flags: turn, ..StoreRequest::new(key.as_bytes(), StoreMode::Set) };
    cache.store(&request, &value_of(key, turn)).unwrap();
}

/// Walks over all items, and pauses at each read of the disk.
fn walk(cache: &Cache, prefix: &str, pause: Duration) -> BTreeMap<Vec<u8>, Dumped> {
    let (mut walk, mut read, mut found) = (cache.walk(prefix), Vec::new(), Vec::new());
    let mut shown = BTreeMap::new();
    loop {
        let step = walk.step(std::mem::take(&mut read), Wait::Block, &mut found);
        for dumped in found.drain(..) {
            let key = dumped.key.clone();
            let earlier = shown.insert(key, dumped);
            assert_eq!(earlier, None, "a key is shown twice");
        }
        match step {
            WalkStep::Reads(reads) => {
                read = reads.into_iter().map(DiskRead::perform).collect();
                thread::sleep(pause);
            }
            WalkStep::GoesOn => {}
            WalkStep::Over => break,
        }
    }
    assert_eq!(walk.unreadable(), 0);
    shown
}

#[test]
fn what_only_the_disk_has_is_listed_with_its_metadata() {
    for mode in MODES {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(&folder.path().join("tier"), mode, 256 << 20, Clock::Ticked);
        let soon = Some(Duration::from_secs(10));
        (0..100).for_each(|n| cache.set(format!("dies {n}"), "", soon).unwrap());
        for n in 0..20_000 {
            set(&cache, &format!("k{n}"), n % 7);
        }
        cache.delete("k7").unwrap();
        set(&cache, "k8", 9);
        cache.tick(cache.now() + 11);
        let shown = walk(&cache, "", Duration::ZERO);
        assert_eq!(shown.len(), 19_999, "{mode:?}");
        assert!(cache.len() < 8000, "memory has {} items", cache.len());
        for n in (0..20_000).filter(|n| *n != 7) {
            let (key, turn) = (format!("k{n}"), if n == 8 { 9 } else { n % 7 });
            let meta = &shown[key.as_bytes()].meta;
            let expected = (turn, value_of(&key, turn).len());
            assert_eq!((meta.flags, meta.value_bytes), expected, "{key}");
        }
        assert_eq!(walk(&cache, "k1999", Duration::ZERO).len(), 11);
        assert_eq!(cache.keys_with_prefix("k1999").count(), 11);
        let items: Vec<_> = cache.iterate().collect();
        assert_eq!(items.len(), 19_999);
        for item in items {
            let key = String::from_utf8(item.key).unwrap();
            assert_eq!(item.value, value_of(&key, item.meta.flags), "{key}");
        }
        cache.clear();
        assert_eq!(cache.keys().next(), None);
        set(&cache, "after", 1);
        assert_eq!(cache.keys().collect::<Vec<_>>(), [b"after"]);
    }
}

#[test]
fn parts_of_the_disk_show_what_it_has_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(&folder.path().join("tier"), TierMode::Store, 256 << 20, Clock::System);
    (0..5000).for_each(|n| set(&cache, &format!("k{n}"), 1));
    let (mut place, mut shown, mut parts) = (0, Vec::new(), 0);
    while let Some((mut walk, end)) = cache.walk_disk_from(place, 100, "k") {
        let before = shown.len();
        while walk.advance(&mut shown) {}
        assert!(shown.len() - before < 150, "{} items in a part", shown.len() - before);
        (place, parts) = (end, parts + 1);
    }
    let keys: std::collections::BTreeSet<_> = shown.iter().map(|dumped| &dumped.key).collect();
    assert_eq!((keys.len(), shown.len()), (5000, 5000));
    assert!(parts >= 40, "{parts} parts");
}

/// Ends the threads of a test, even if the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Threads store, read and delete items during walks. `check` receives the items that each walk has
/// returned.
fn walk_beside_threads(mode: TierMode, check: impl Fn(&Cache, &BTreeMap<Vec<u8>, Dumped>)) {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(&folder.path().join("tier"), mode, 48 << 20, Clock::System);
    (0..STABLE).for_each(|n| set(&cache, &format!("stable {n}"), 1));
    (0..BUSY).for_each(|n| set(&cache, &format!("busy {n}"), 1));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (cache, is_over) = (&cache, &is_over);
        let _ends = Ends(is_over);
        scope.spawn(move || {
            for turn in (2..).take_while(|_| !is_over.load(Relaxed)) {
                set(cache, &format!("busy {}", turn * 7 % BUSY), turn);
                let gone = format!("gone {}", turn % 400);
                set(cache, &gone, turn);
                cache.delete(format!("gone {}", (turn + 200) % 400)).unwrap();
            }
        });
        scope.spawn(move || {
            for turn in (0..).take_while(|_| !is_over.load(Relaxed)) {
                cache.get(format!("stable {}", turn * 769 % STABLE));
            }
        });
        let reclaimed = || cache.tier().unwrap().statistics.reclaimed_segments;
        let start = Instant::now();
        // Reclaim is slow on a slow disk.
        while start.elapsed() < Duration::from_secs(6) || reclaimed() <= 10 {
            check(cache, &walk(cache, "", Duration::from_micros(500)));
            let reclaimed = reclaimed();
            assert!(start.elapsed() < Duration::from_secs(60), "{reclaimed} segments reclaimed");
        }
    });
}

const STABLE: u32 = 6000;
const BUSY: u32 = 300;

#[test]
fn a_walk_over_a_busy_store_shows_every_key_once_in_a_state_that_it_had() {
    walk_beside_threads(TierMode::Store, |_, shown| {
        for n in 0..STABLE {
            let meta = &shown[format!("stable {n}").as_bytes()].meta;
            assert_eq!(meta.value_bytes, value_of(&format!("stable {n}"), 1).len());
        }
        for n in 0..BUSY {
            let key = format!("busy {n}");
            let meta = &shown[key.as_bytes()].meta;
            assert_eq!(meta.value_bytes, value_of(&key, meta.flags).len(), "{key}");
        }
    });
}

#[test]
fn a_walk_over_a_busy_cache_shows_every_key_that_stays() {
    walk_beside_threads(TierMode::Cache, |cache, shown| {
        // They are never stored again, so the items that exist now existed during the entire walk.
        let stable = (0..STABLE).map(|n| format!("stable {n}"));
        let stays: Vec<String> = stable.filter(|key| cache.get(key).is_some()).collect();
        let is_missing = |key: &&String| !shown.contains_key(key.as_bytes());
        let missing: Vec<&String> = stays.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "{missing:?} of {}", stays.len());
    });
}

#[test]
fn a_removal_by_prefix_takes_what_was_stored_before_and_nothing_that_is_stored_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let cache = open(&path, TierMode::Store, 48 << 20, Clock::System);
    (0..6000).for_each(|n| set(&cache, &format!("user {n}"), 1));
    (0..500).for_each(|n| set(&cache, &format!("other {n}"), 1));
    let is_over = AtomicBool::new(false);
    let removed = thread::scope(|scope| {
        let (cache, is_over) = (&cache, &is_over);
        let _ends = Ends(is_over);
        // Reclaim is active, and moves old items after new items.
        scope.spawn(move || {
            for turn in (2..).take_while(|_| !is_over.load(Relaxed)) {
                set(cache, &format!("busy {}", turn * 7 % BUSY), turn);
            }
        });
        let before = cache.tier().unwrap().statistics.copied_items;
        let mut removal = cache.begin_remove_prefix("user ").unwrap();
        (0..300).for_each(|n| set(cache, &format!("user {}", n * 20), 2));
        set(cache, "user new", 2);
        let until = Instant::now() + Duration::from_secs(30);
        while cache.tier().unwrap().statistics.copied_items < before + 3000 {
            assert!(Instant::now() < until, "reclaim moves nothing");
            thread::sleep(Duration::from_millis(5));
        }
        while removal.step(64).unwrap() {
            assert!((0.0..=1.0).contains(&removal.progress()));
        }
        removal.removed()
    });
    assert_eq!(removed, 6000 - 300);
    let check = |cache: &Cache| {
        let keys: Vec<_> = cache.keys_with_prefix("user ").collect();
        assert_eq!(keys.len(), 301);
        for n in 0..300 {
            let key = format!("user {}", n * 20);
            assert_eq!(cache.get(&key).unwrap(), value_of(&key, 2), "{key}");
        }
        assert_eq!(cache.get("user 7"), None);
        assert_eq!(cache.keys_with_prefix("other ").count(), 500);
    };
    check(&cache);
    drop(cache);
    // All of these items are in the log.
    check(&open(&path, TierMode::Store, 48 << 20, Clock::System));
}

#[test]
fn a_removal_by_prefix_takes_what_a_cache_has_in_memory_and_on_its_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let cache = open(&path, TierMode::Cache, 256 << 20, Clock::System);
    // In cache mode evicted items are dropped if the disk cannot keep up.
    let settle = |n: u32| n.is_multiple_of(100).then(|| cache.sync().unwrap());
    (0..6000).for_each(|n| (set(&cache, &format!("user {n}"), 1), settle(n)).0);
    (0..2000).for_each(|n| (set(&cache, &format!("other {n}"), 1), settle(n)).0);
    assert_eq!(cache.keys_with_prefix("user ").count(), 6000, "an item was dropped");
    let is_over = AtomicBool::new(false);
    let removed = thread::scope(|scope| {
        let (cache, is_over) = (&cache, &is_over);
        let _ends = Ends(is_over);
        // Items are evicted and return continuously.
        scope.spawn(move || {
            for turn in (0..).take_while(|_| !is_over.load(Relaxed)) {
                set(cache, &format!("busy {}", turn % 500), turn);
                for key in [format!("user {}", turn * 7 % 6000), format!("other {}", turn % 2000)] {
                    let read = [0, 1].map(|_| cache.get(&key));
                    let of = |read: &[u8]| read.starts_with(b"1 ") || read.starts_with(b"2 ");
                    assert!(read.iter().flatten().all(|read| of(read)), "{key}");
                }
            }
        });
        let mut removal = cache.begin_remove_prefix("user ").unwrap();
        (0..300).for_each(|n| set(cache, &format!("user {}", n * 20), 2));
        set(cache, "user new", 2);
        let (mut before, mut steps) = (0.0, 0);
        while removal.step(16).unwrap() {
            let progress = removal.progress();
            assert!((before..=1.0).contains(&progress), "{progress} after {before}");
            (before, steps) = (progress, steps + 1);
        }
        assert!(steps > 100, "{steps} steps");
        removal.removed()
    });
    // Items that were evicted at that moment are gone but not counted, and items that returned may
    // be counted twice.
    assert!((5600..=5750).contains(&removed), "{removed} removed");
    let check = |cache: &Cache| {
        let left = cache.keys_with_prefix("user ").count();
        assert!((200..=301).contains(&left), "{left} items are left");
        for n in 0..6000 {
            let (key, is_new) = (format!("user {n}"), n % 20 == 0);
            let read = cache.get(&key);
            assert!(read.is_none_or(|read| is_new && *read == value_of(&key, 2)[..]), "{key}");
        }
        assert!(cache.keys_with_prefix("other ").count() > 1500);
    };
    check(&cache);
    drop(cache);
    check(&open(&path, TierMode::Cache, 256 << 20, Clock::System));
}
