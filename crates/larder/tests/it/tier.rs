//! A cache with a disk tier holds all items that were stored, even if memory is too small for them,
//! and after a restart.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use larder::{
    Admission, Arithmetic, ArithmeticRequest, Cache, Clock, Deadline, Deletion, DiskTier,
    Durability, LoadOptions, MetaOutcome, Read, Refusal, StoreError, StoreMode, StoreRequest,
    Stored, TierMode,
};
use larder_item::Direction;

/// A generator of numbers, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

const MODES: [TierMode; 2] = [TierMode::Store, TierMode::Cache];

fn open_as(path: &Path, mode: TierMode, durability: Durability, clock: Clock) -> Cache {
    // Nothing is dropped in cache mode either: all items are admitted, and the log and its memory
    // have enough space.
    let disk = DiskTier::new(path, 256 << 20).mode(mode).durability(durability);
    let disk = disk.admission(Admission::All).dirty_bytes(64 << 20);
    Cache::builder().memory_bytes(2 << 20).cas(true).clock(clock).tier(disk).open().unwrap()
}

fn open(path: &Path, mode: TierMode) -> Cache {
    open_as(path, mode, Durability::Async, Clock::System)
}

#[derive(Clone, Debug, PartialEq)]
struct Item {
    value: Vec<u8>,
    flags: u32,
    cas: u64,
}

fn read(cache: &Cache, key: &[u8]) -> Option<Item> {
    let mut value = Vec::new();
    match cache.read(key, &mut value, |_, _| ()) {
        Read::Hit(meta) => Some(Item { value, flags: meta.flags, cas: meta.cas }),
        Read::Large(meta, mut large) => {
            while large.next_piece(&mut value).unwrap() {}
            Some(Item { value, flags: meta.flags, cas: meta.cas })
        }
        Read::Miss(_) => None,
        Read::Failed(error) => panic!("{error}"),
    }
}

fn random_value(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0 => random.below(3000).to_string().into_bytes(),
        1 => vec![random.next() as u8 | 128; 17_000 + random.below(30_000) as usize],
        _ => vec![random.next() as u8 | 128; random.below(5000) as usize],
    }
}

/// One random operation on a key, in the cache and in the model. `present` is the item of the key
/// in the model before the operation.
struct Turn<'a> {
    cache: &'a Cache,
    model: &'a mut HashMap<Vec<u8>, Item>,
    random: &'a mut Random,
    key: Vec<u8>,
    present: Option<Item>,
}

/// Changes a key at random, in the cache and in the model.
fn step(cache: &Cache, model: &mut HashMap<Vec<u8>, Item>, random: &mut Random, keys: u64) {
    let key = format!("key {}", random.below(keys)).into_bytes();
    let present = model.get(&key).cloned();
    let turn = Turn { cache, model, random, key, present };
    match turn.random.below(20) {
        0..9 => turn.store(),
        9..11 => turn.compare_and_set(),
        11..13 => turn.count(),
        13..15 => turn.delete(),
        15 => turn.mark_stale(),
        16 => {
            let deadline = Deadline::after(cache.now(), 1000);
            let touched = cache.touch_until(&turn.key, deadline).unwrap();
            assert_eq!(touched.is_some(), turn.present.is_some());
        }
        17 => turn.upload(),
        _ => assert_eq!(read(cache, &turn.key), turn.present),
    }
}

impl Turn<'_> {
    fn has_become(self, value: Vec<u8>, flags: u32, stored: Stored) {
        let Stored::Stored { cas, .. } = stored else { panic!("{stored:?}") };
        self.model.insert(self.key, Item { value, flags, cas });
    }

    fn store(self) {
        const MODES: [StoreMode; 7] = [
            StoreMode::Set,
            StoreMode::Set,
            StoreMode::Set,
            StoreMode::Add,
            StoreMode::Replace,
            StoreMode::Append,
            StoreMode::Prepend,
        ];
        let mode = MODES[self.random.below(MODES.len() as u64) as usize];
        let (value, flags) = (random_value(self.random), self.random.below(3) as u32);
        let request = StoreRequest { flags, ..StoreRequest::new(&self.key, mode) };
        let stored = self.cache.store(&request, &value).unwrap();
        let (value, flags) = match (mode, &self.present) {
            (StoreMode::Add, Some(_))
            | (StoreMode::Replace | StoreMode::Append | StoreMode::Prepend, None) => {
                return assert_eq!(stored, Stored::NotStored);
            }
            (StoreMode::Append, Some(old)) => ([&old.value[..], &value].concat(), old.flags),
            (StoreMode::Prepend, Some(old)) => ([&value[..], &old.value].concat(), old.flags),
            _ => (value, flags),
        };
        self.has_become(value, flags, stored);
    }

    fn compare_and_set(self) {
        let cas = self.present.as_ref().map_or(1, |item| item.cas) + self.random.below(2);
        let request =
            StoreRequest { cas: Some(cas), ..StoreRequest::new(&self.key, StoreMode::Set) };
        let stored = self.cache.store(&request, b"swapped").unwrap();
        match &self.present {
            None => assert_eq!(stored, Stored::NotFound),
            Some(old) if old.cas != cas => assert_eq!(stored, Stored::Exists),
            Some(_) => self.has_become(b"swapped".to_vec(), 0, stored),
        }
    }

    fn count(self) {
        let delta = self.random.below(9);
        let counting = ArithmeticRequest::new(&self.key, Direction::Increment, delta);
        let number_of = |old: &Item| str::from_utf8(&old.value).ok()?.parse::<u64>().ok();
        let number = self.present.as_ref().and_then(number_of);
        match (self.cache.arithmetic_as(&counting).unwrap(), self.present, number) {
            (Arithmetic::NotFound, None, _) | (Arithmetic::NonNumeric, Some(_), None) => {}
            (Arithmetic::Number { number, meta }, Some(old), Some(was)) => {
                assert_eq!(number, was + delta);
                let value = number.to_string().into_bytes();
                self.model.insert(self.key, Item { value, flags: old.flags, cas: meta.cas });
            }
            other => panic!("{other:?}"),
        }
    }

    fn delete(self) {
        let deletion = self.cache.delete_if(&self.key, None).unwrap();
        assert_eq!(matches!(deletion, Deletion::Deleted(_)), self.present.is_some());
        self.model.remove(&self.key);
    }

    fn mark_stale(self) {
        match (self.cache.mark_stale(&self.key, None, None, None).unwrap(), self.present) {
            (MetaOutcome::NotFound, None) => {}
            (MetaOutcome::Done(meta), Some(old)) => {
                self.model.insert(self.key, Item { cas: meta.cas, ..old });
            }
            other => panic!("{other:?}"),
        }
    }

    fn upload(self) {
        let value = vec![9; 30_000];
        let mut upload = self.cache.upload(&self.key, value.len()).unwrap();
        upload.push(&value).unwrap();
        let stored = upload.store(&StoreRequest::new(&self.key, StoreMode::Set)).unwrap();
        self.has_become(value, 0, stored);
    }
}

fn check_all(cache: &Cache, model: &HashMap<Vec<u8>, Item>) {
    for (key, item) in model {
        assert_eq!(read(cache, key).as_ref(), Some(item), "{}", String::from_utf8_lossy(key));
    }
}

/// If the disk cannot keep up, evicted items are dropped.
fn wait_for_the_disk(cache: &Cache) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while cache.tier().unwrap().statistics.dirty_bytes > 4 << 20 {
        assert!(Instant::now() < deadline, "{:?}", cache.tier());
        thread::sleep(Duration::from_millis(1));
    }
}

fn change_at_random_and_restart(mode: TierMode) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (mut model, mut random) = (HashMap::new(), Random(7));
    for life in 0..3 {
        let cache = open(&path, mode);
        assert_eq!(cache.tier().unwrap().started.items, model.len() as u64, "life {life}");
        check_all(&cache, &model);
        for number in 0..12_000 {
            step(&cache, &mut model, &mut random, 2500);
            if number % 100 == 0 {
                wait_for_the_disk(&cache);
            }
        }
        check_all(&cache, &model);
        let bytes: usize = model.values().map(|item| item.value.len()).sum();
        assert!(bytes > 4 * (2 << 20), "{bytes} bytes are four times the memory");
        assert!(cache.tier().unwrap().statistics.reads > 1000, "{:?}", cache.tier());
        cache.validate().unwrap();
    }
}

#[test]
fn every_operation_finds_what_memory_lacks_and_a_restart_finds_all() {
    change_at_random_and_restart(TierMode::Store);
}

#[test]
fn every_operation_finds_what_memory_evicted_and_a_restart_finds_all() {
    change_at_random_and_restart(TierMode::Cache);
}

fn clear_and_restart(mode: TierMode) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let ticked = || open_as(&path, mode, Durability::Async, Clock::Ticked);
    let cache = ticked();
    cache.set("cleared", "v", None).unwrap();
    cache.clear();
    cache.set("kept", "v", None).unwrap();
    cache.clear_at(cache.now() + 100);
    drop(cache);
    let cache = ticked();
    assert_eq!((cache.get("cleared"), cache.get("kept").is_some()), (None, true));
    cache.tick(cache.now() + 101);
    assert_eq!(cache.get("kept"), None);
    cache.set("later", "v", None).unwrap();
    drop(cache);
    assert_eq!(ticked().get("kept"), None);
    assert!(ticked().get("later").is_some());
}

#[test]
fn a_clear_and_a_delayed_clear_hold_after_a_restart() {
    MODES.into_iter().for_each(clear_and_restart);
}

fn store_and_restart(mode: TierMode) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let ticked = || open_as(&path, mode, Durability::Sync, Clock::Ticked);
    let cache = ticked();
    let deadline = Deadline::after(cache.now(), 50);
    let request = StoreRequest { flags: 77, deadline, ..StoreRequest::new(b"k", StoreMode::Set) };
    let Stored::Stored { cas, .. } = cache.store(&request, b"v").unwrap() else { panic!() };
    let unix_secs = cache.epoch().unix_of(deadline.0);
    drop(cache);
    let cache = ticked();
    // The cache has not read the old token from the disk yet.
    let Stored::Stored { cas: later, .. } =
        cache.store(&StoreRequest::new(b"other", StoreMode::Set), b"").unwrap()
    else {
        panic!()
    };
    let meta = cache.peek(b"k").unwrap();
    assert_eq!((meta.flags, meta.cas), (77, cas));
    // A ticked clock stands still for about a second, while the system's clock advances.
    let later_secs = cache.epoch().unix_of(meta.deadline.0) - unix_secs;
    assert!((0..5).contains(&later_secs), "the deadline has moved by {later_secs} s");
    assert!(later > cas, "token {later} comes after {cas}");
    cache.tick(cache.now() + 51);
    assert_eq!(cache.get("k"), None);
    assert!(cache.add("k", "again", None).unwrap());
}

#[test]
fn deadlines_flags_and_tokens_survive_and_later_tokens_are_higher() {
    MODES.into_iter().for_each(store_and_restart);
}

#[test]
fn a_full_disk_refuses_stores_keeps_the_old_value_and_deletes() {
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskTier::new(folder.path().join("store"), 64 << 20).durability(Durability::Async);
    let cache = Cache::builder().memory_bytes(4 << 20).tier(disk).open().unwrap();
    let value = vec![1; 100_000];
    let stored =
        (0..2000).take_while(|n: &u32| cache.set(n.to_le_bytes(), &value, None).is_ok()).count();
    assert!((200..640).contains(&stored), "{stored} items of 100 kB in 64 MiB");
    // The old value is in memory, and could be evicted.
    assert_eq!(cache.get(0_u32.to_le_bytes()), Some(value.clone()));
    let refused = cache.set(0_u32.to_le_bytes(), vec![2; 100_000], None);
    assert_eq!(refused, Err(StoreError::Journal(Refusal::Full)));
    assert_eq!(cache.get(0_u32.to_le_bytes()), Some(value.clone()), "the old value stays");
    for n in 0..stored as u32 / 2 {
        assert!(cache.delete(n.to_le_bytes()).unwrap(), "item {n}");
    }
    let soon = (0..200).any(|_| {
        thread::sleep(Duration::from_millis(50));
        cache.set("more", &value, None).is_ok()
    });
    assert!(soon, "no room after half of the items were deleted: {:?}", cache.tier());
}

fn count_in_threads(mode: TierMode) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let cache = open(&path, mode);
    let added = AtomicU64::new(0);
    for n in 0..20 {
        cache.set(format!("counter {n}"), "0", None).unwrap();
    }
    thread::scope(|scope| {
        for seed in 1..4 {
            let (cache, added) = (&cache, &added);
            scope.spawn(move || {
                let mut random = Random(seed);
                for _ in 0..4000 {
                    let counter = format!("counter {}", random.below(20));
                    assert!(cache.increment(counter, 1).unwrap().is_some());
                    added.fetch_add(1, Ordering::Relaxed);
                    // Evicts the counters from memory.
                    cache.set(format!("filler {}", random.next()), vec![0; 8000], None).unwrap();
                    if random.below(50) == 0 {
                        (0..20).for_each(|_| {
                            assert!(cache.delete(format!("filler {}", random.next())).is_ok())
                        });
                    }
                }
            });
        }
    });
    let sum = |cache: &Cache| -> u64 {
        let of = |n| String::from_utf8(cache.get(format!("counter {n}")).unwrap()).unwrap();
        (0..20).map(|n| of(n).trim().parse::<u64>().unwrap()).sum()
    };
    assert_eq!(sum(&cache), added.load(Ordering::Relaxed));
    drop(cache);
    assert_eq!(sum(&open(&path, mode)), added.load(Ordering::Relaxed));
}

#[test]
fn threads_count_exactly_on_counters_that_memory_loses() {
    MODES.into_iter().for_each(count_in_threads);
}

/// Fills memory, so that all earlier items are evicted.
fn push_out(cache: &Cache) {
    (0..1000).for_each(|n| cache.set(format!("filler {n}"), vec![0; 4000], None).unwrap());
}

#[test]
fn a_load_is_not_run_for_an_item_that_only_the_disk_has() {
    for mode in MODES {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(&folder.path().join("store"), mode);
        cache.set("k", "stored", None).unwrap();
        cache.set("other", "stored", None).unwrap();
        push_out(&cache);
        let load = || -> Result<Vec<u8>, String> { Err("loaded".into()) };
        let found = cache.get_or_load("k", &LoadOptions::default(), load);
        assert_eq!(found.unwrap(), b"stored", "{mode:?}");
        let basis = cache.begin_load(b"other", Duration::from_secs(9)).unwrap();
        cache.cancel_load(b"other", basis).unwrap();
        assert_eq!(cache.get("other").as_deref(), Some(&b"stored"[..]), "{mode:?}");
    }
}

#[test]
fn a_stop_keeps_the_rest_of_memory_beside_an_item_that_no_segment_holds() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let disk = DiskTier::new(folder.path().join("tier"), 64 << 20).mode(TierMode::Cache);
        let disk = disk.stop(Duration::from_secs(5));
        let builder = Cache::builder().memory_bytes(64 << 20).item_bytes_max(8 << 20);
        builder.tier(disk).open().unwrap()
    };
    let cache = open();
    cache.set("long", vec![1; 6 << 20], None).unwrap();
    (0..1000).for_each(|n| cache.set(format!("k{n}"), "v", None).unwrap());
    let begun = Instant::now();
    drop(cache);
    assert!(begun.elapsed() < Duration::from_secs(4), "the stop took {:?}", begun.elapsed());
    let cache = open();
    let found = (0..1000).filter(|n| cache.get(format!("k{n}")).is_some()).count();
    assert_eq!((found, cache.get("long")), (1000, None));
}
