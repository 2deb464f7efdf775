//! The guarantees of the library with a disk tier: reads find every item, a failing disk causes
//! errors, a stop releases the directory, and children cannot use the cache.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use larder::{
    Cache, DiskTier, Durability, Refusal, StoreError, StoreMode, StoreRequest, Stored, TierMode,
};
use larder_testkit::children::{fork, sleep_for_ever};

const LONG: Duration = Duration::from_secs(60);

const MODES: [TierMode; 2] = [TierMode::Store, TierMode::Cache];

fn open(path: &Path, mode: TierMode, memory_bytes: u64) -> Cache {
    let disk = DiskTier::new(path, 64 << 20).mode(mode).durability(Durability::Async);
    let disk = disk.dirty_bytes(64 << 20);
    Cache::builder().memory_bytes(memory_bytes).tier(disk).open().unwrap()
}

fn value_of(number: u32, bytes: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

#[test]
fn a_batch_that_is_larger_than_memory_has_all_values() {
    for mode in MODES {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(&folder.path().join("tier"), mode, 1 << 20);
        let names: Vec<_> = (0..64).map(|number| format!("k{number}")).collect();
        // The longer values are stored in pieces.
        let value = |number: u32| value_of(number, 12_000 + 30_000 * (number as usize % 4));
        for (number, name) in (0..).zip(&names) {
            cache.set(name, value(number), None).unwrap();
        }
        for (number, found) in (0..).zip(cache.get_many(&names)) {
            assert!(found == Some(value(number)), "{mode:?}: k{number} is not there");
        }
        let misses = cache.stats().find(|stat| stat.name == "get_misses").unwrap();
        assert_eq!(misses.value, 0, "{mode:?}");
    }
}

/// Overwrites the value in the log of the directory.
fn damage(path: &Path, value: &[u8]) {
    let log = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let log = log.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let bytes = fs::read(&log).unwrap();
    let at = bytes.windows(value.len()).position(|window| window == value).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&log).unwrap();
    file.write_all_at(b"damaged", at as u64).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn a_damaged_item_is_an_error_where_the_method_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let cache = open(&path, TierMode::Store, 1 << 20);
    let value = value_of(0x2A2B_2C2D, 5000);
    cache.set("k", &value, None).unwrap();
    (0..1000).for_each(|n| cache.set(format!("filler {n}"), vec![0; 4000], None).unwrap());
    cache.sync().unwrap();
    damage(&path, &value);
    let unreadable = StoreError::Journal(Refusal::Unreadable);
    let mut out = b"before".to_vec();
    assert_eq!(cache.try_get_to("k", &mut out, |_| ()), Err(unreadable));
    assert_eq!(out, b"before");
    assert_eq!(cache.try_peek(b"k"), Err(unreadable));
    assert_eq!((cache.get("k"), cache.contains("k"), cache.peek(b"k")), (None, false, None));
    assert_eq!(cache.append("k", "more"), Err(unreadable));
    let tier = cache.tier().unwrap();
    assert!(tier.unreadable > 0);
    assert!(tier.trouble.is_some_and(|why| why.contains("damaged")));
    assert!(cache.try_get_to("filler 1", &mut out, |_| ()).unwrap());
}

#[test]
fn what_a_load_has_stored_is_durable_and_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let sync = || DiskTier::new(&path, 64 << 20).durability(Durability::Sync);
    let cache = Cache::builder().tier(sync()).open().unwrap();
    let syncs = || cache.tier().unwrap().statistics.syncs;
    for n in 0..20 {
        let (key, before) = (format!("k{n}"), syncs());
        let basis = cache.begin_load(key.as_bytes(), Duration::from_secs(9)).unwrap();
        let request = StoreRequest::new(key.as_bytes(), StoreMode::Set);
        let stored = cache.end_load(&request, basis, b"loaded").unwrap();
        assert!(matches!(stored, Stored::Stored { .. }), "{stored:?}");
        assert!(syncs() > before, "the load returned before it was durable");
    }
    drop(cache);
    let cache = Cache::builder().tier(sync()).open().unwrap();
    for n in 0..20 {
        assert_eq!(cache.get(format!("k{n}")).as_deref(), Some(&b"loaded"[..]));
    }
}

#[test]
fn a_stop_frees_the_directory_while_others_hold_the_cache_and_changes_fail() {
    for mode in MODES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tier");
        let cache = open(&path, mode, 4 << 20);
        cache.set("k", "v", None).unwrap();
        let walk = cache.keys();
        assert_eq!(cache.stop_tier(), 0);
        let failed = Err(StoreError::Journal(Refusal::Failed));
        assert_eq!(cache.set("k", "lost", None), failed, "{mode:?}");
        assert_eq!(cache.try_clear(), failed, "{mode:?}");
        let next = open(&path, mode, 4 << 20);
        assert_eq!(next.get("k").as_deref(), Some(&b"v"[..]), "{mode:?}");
        assert_eq!(cache.stop_tier(), 0);
        drop((walk, cache));
    }
}

#[test]
fn the_index_of_the_disk_is_a_part_of_the_memory_without_a_maintainer() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(&folder.path().join("tier"), TierMode::Store, 4 << 20);
    for n in 0..150_000 {
        cache.set(format!("k{n}"), [0; 100], None).unwrap();
    }
    // Memory is divided between cache and index once per second.
    std::thread::sleep(Duration::from_millis(1100));
    cache.set("k", "v", None).unwrap();
    (0..100).for_each(|_| cache.maintain());
    let index = cache.tier().unwrap().statistics.catalog_bytes;
    let memory = cache.memory();
    assert!(index > 1 << 20, "{index}");
    assert!(memory.used + index <= memory.limit + (memory.limit >> 5), "{memory:?}, {index}");
}

#[test]
fn a_forked_child_gets_errors_and_the_parent_keeps_its_tier() {
    for mode in MODES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tier");
        let cache = open(&path, mode, 4 << 20);
        cache.set("k", "v", None).unwrap();
        let child = fork(|| {
            let forked = StoreError::Journal(Refusal::Forked);
            assert_eq!(cache.try_get_to("k", &mut Vec::new(), |_| ()), Err(forked));
            assert_eq!((cache.get("k"), cache.contains("k")), (None, false));
            assert_eq!(cache.set("k", "w", None), Err(forked));
            assert_eq!(cache.delete("absent"), Err(forked));
            assert_eq!(cache.try_clear(), Err(forked));
            assert_eq!(cache.sync(), Err(forked));
            assert_eq!(cache.begin_load(b"k", Duration::from_secs(1)), Err(forked));
            assert!(forked.to_string().contains("open a cache after the fork"));
            assert_eq!(cache.stop_tier(), 0);
            drop(cache.clone());
            0
        });
        assert_eq!(child.wait(), 0, "{mode:?}");
        assert_eq!(cache.get("k").as_deref(), Some(&b"v"[..]));
        cache.set("k", "later", None).unwrap();
        assert_eq!(cache.stop_tier(), 0);
        drop(cache);
        assert_eq!(open(&path, mode, 4 << 20).get("k").as_deref(), Some(&b"later"[..]));
    }
}

#[test]
fn a_child_that_outlives_the_cache_does_not_keep_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let cache = open(&path, TierMode::Store, 4 << 20);
    cache.set("k", "v", None).unwrap();
    let child = fork(|| sleep_for_ever());
    drop(cache);
    assert_eq!(open(&path, TierMode::Store, 4 << 20).get("k").as_deref(), Some(&b"v"[..]));
    child.kill();
    child.wait();
}

#[test]
fn leases_are_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let cache = open(&path, TierMode::Store, 4 << 20);
    let lease = cache.lease("k", LONG).unwrap().unwrap();
    assert_eq!(cache.lease("k", LONG).unwrap(), None);
    cache.set("k", "v", None).unwrap();
    assert!(cache.release("k", lease).unwrap());
    cache.lease("k", LONG).unwrap().unwrap();
    drop(cache);
    let cache = open(&path, TierMode::Store, 4 << 20);
    assert_eq!(cache.keys().collect::<Vec<_>>(), [b"k"]);
    cache.lease("k", LONG).unwrap().unwrap();
}

#[test]
fn a_size_that_is_too_small_is_refused_before_a_directory_of_that_size_exists() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let open = |bytes| Cache::builder().tier(DiskTier::new(&path, bytes)).open();
    for bytes in [0, 20 << 20, (32 << 20) - 1] {
        let refused = open(bytes).unwrap_err().to_string();
        assert!(refused.contains("at least 32 MiB"), "{bytes}: {refused}");
    }
    drop(open(32 << 20).unwrap());
}
