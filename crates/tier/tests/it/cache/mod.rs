//! A store in mode cache. The disk returns the item that memory evicted last, or nothing. A clean
//! stop keeps all items, and a start after a crash is empty.
//!
//! `LARDER_SEED=17` runs only this seed, `LARDER_SEEDS=1000` runs 1000 seeds.

mod lives;

use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_tier::disk::Call;
use larder_tier::disk::simulated::{Fault, SimulatedDirectory, SimulatedDisk, When};
use larder_tier::format::{Item, Mode, SEGMENT_BYTES, Uuid};
use larder_tier::store::{
    Change, Demoted, Durability, KeyRecords, Refusal, Settings, StartReport, Store,
};
use larder_tier::{Entropy, RequestedTier, Tier};

/// The current second in all tests, as a Unix time.
const NOW: u64 = 1_790_000_000;

type TestStore = Store<SimulatedDirectory>;

/// A change of a key that memory does not have.
const ABSENT: Change<'static> =
    Change { now_unix_secs: NOW, is_resident: false, is_gone: &|| false };

fn start_with(disk: &SimulatedDisk, catalog_bytes_max: u64) -> (TestStore, StartReport) {
    let wanted = RequestedTier { mode: Mode::Cache, bytes: 8 * SEGMENT_BYTES as u64 };
    let entropy = Entropy { uuid: Uuid([7; 16]), index_seed: 1, hash_key: [2; 16] };
    let tier = Tier::open(disk.open(), wanted, entropy, NOW).unwrap();
    let settings = Settings {
        durability: Durability::Async,
        dirty_bytes_max: 4 << 20,
        catalog_bytes_max,
        clock: Arc::new(|| NOW),
        wall: Arc::new(|| NOW),
        before_change: Arc::new(|| ()),
        accept_loss: None,
        compression: None,
    };
    Store::start(tier, settings, &mut |_, _| ()).unwrap()
}

fn start(disk: &SimulatedDisk) -> (TestStore, StartReport) {
    start_with(disk, 1 << 20)
}

fn item<'a>(key: &'a [u8], value: &'a [u8]) -> Item<'a> {
    Item {
        key,
        value,
        flags: 9,
        version: 5,
        deadline_unix_secs: None,
        stale: false,
        token_sent: false,
        number: false,
    }
}

fn keep(store: &TestStore, key: &[u8], value: &[u8]) -> Demoted {
    store.keep(&item(key, value), &ABSENT)
}

/// Demotes an item. Waits for the disk without a limit.
fn keep_surely(store: &TestStore, key: &[u8], value: &[u8]) {
    for _ in 0..2000 {
        match keep(store, key, value) {
            Demoted::Busy => std::thread::sleep(Duration::from_millis(1)),
            Demoted::Written | Demoted::Present => return,
            Demoted::Dropped => break,
        }
    }
    panic!("the store does not take it: {:?}, {:?}", store.failure(), store.statistics());
}

fn value(store: &TestStore, key: &[u8]) -> Option<Vec<u8>> {
    store.find(key).unwrap().1.map(|item| item.value)
}

/// Waits until reclaim is idle.
fn settle(store: &TestStore) {
    let mut items = 0;
    while items != store.statistics().items {
        items = store.statistics().items;
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn replace(store: &TestStore, key: &[u8]) -> Result<(), Refusal> {
    store.forget(key, &ABSENT, false, &KeyRecords::default())
}

#[test]
fn a_clean_stop_keeps_what_was_evicted_and_a_kill_leaves_an_empty_cache() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk);
    for n in 0..1000_u32 {
        keep_surely(&store, &n.to_le_bytes(), &n.to_be_bytes());
    }
    assert_eq!(store.stop(Duration::from_secs(20)), 0, "the stop is not clean");
    drop(store);
    disk.lose_power();
    let (store, started) = start(&disk);
    assert_eq!((started.items, started.version_max), (1000, 5));
    for n in 0..1000_u32 {
        assert_eq!(value(&store, &n.to_le_bytes()), Some(n.to_be_bytes().to_vec()), "item {n}");
    }
    disk.lose_power();
    drop(store);
    let (store, started) = start(&disk);
    assert_eq!(started.items, 0, "after a crash nothing is known to be current");
    assert_eq!(value(&store, &7_u32.to_le_bytes()), None);
}

#[test]
fn a_changed_item_is_not_found_and_the_next_version_is() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk);
    assert_eq!(keep(&store, b"k", b"1"), Demoted::Written);
    assert_eq!(keep(&store, b"k", b"1"), Demoted::Present, "an item is written once");
    replace(&store, b"k").unwrap();
    assert_eq!(value(&store, b"k"), None, "memory has a newer item");
    assert_eq!(keep(&store, b"k", b"2"), Demoted::Written);
    assert_eq!(value(&store, b"k"), Some(b"2".to_vec()));
}

#[test]
fn a_change_that_needs_the_item_asks_the_disk_first() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk);
    keep_surely(&store, b"k", b"1");
    let unknown = KeyRecords::default();
    assert_eq!(store.forget(b"k", &ABSENT, true, &unknown), Err(Refusal::NeedsDisk));
    let known = store.find(b"k").unwrap().0;
    assert_eq!(store.forget(b"k", &ABSENT, true, &known), Ok(()));
    assert_eq!(value(&store, b"k"), None);
    assert_eq!(store.forget(b"other", &ABSENT, true, &unknown), Ok(()), "no read is needed");
}

#[test]
fn flushes_forget_everything_at_once_and_when_they_are_due_even_while_down() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk);
    keep_surely(&store, b"k", b"1");
    store.flush(|| ()).unwrap();
    assert_eq!(value(&store, b"k"), None);
    keep_surely(&store, b"k", b"2");
    store.flush_at(NOW + 100, || ()).unwrap();
    drop(store);
    let (store, _) = start(&disk);
    assert!(!store.is_flush_due(NOW + 99) && store.is_flush_due(NOW + 100));
    assert_eq!(value(&store, b"k"), Some(b"2".to_vec()), "it is not due yet");
    let late = Change { now_unix_secs: NOW + 100, ..ABSENT };
    assert_eq!(store.keep(&item(b"late", b""), &late), Demoted::Dropped, "the flush comes first");
    store.flush(|| ()).unwrap();
    assert_eq!(value(&store, b"k"), None);
    assert_eq!(store.keep(&item(b"late", b""), &late), Demoted::Written);
}

#[test]
fn the_oldest_items_go_when_the_log_is_full_and_the_newest_stay() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk);
    let long = vec![7; 50_000];
    // Three times the size of the log.
    let count = 3 * 8 * SEGMENT_BYTES as u32 / 50_000;
    for n in 0..count {
        keep_surely(&store, &n.to_le_bytes(), &long);
    }
    settle(&store);
    let found: Vec<u32> =
        (0..count).filter(|n| value(&store, &n.to_le_bytes()).is_some()).collect();
    let first = *found.first().unwrap();
    assert_eq!(
        found,
        (first..count).collect::<Vec<_>>(),
        "the remaining items are the end of the log"
    );
    assert!(found.len() > count as usize / 6, "{} of {count} are left", found.len());
    let statistics = store.statistics();
    assert_eq!(statistics.items, found.len() as u64, "the catalog has exactly the remaining items");
    assert_eq!(statistics.damaged_segments, 0, "{statistics:?}");
}

#[test]
fn an_item_that_memory_evicts_again_is_renewed_before_its_segment_is_used_again() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk);
    keep_surely(&store, b"hot", b"1");
    let long = vec![7; 50_000];
    for n in 0..3 * 8 * SEGMENT_BYTES as u32 / 50_000 {
        keep_surely(&store, &n.to_le_bytes(), &long);
        keep_surely(&store, b"hot", b"1");
        assert_eq!(value(&store, b"hot"), Some(b"1".to_vec()), "after {n} others");
    }
    settle(&store);
    let others = (0..3 * 8 * SEGMENT_BYTES as u32 / 50_000)
        .filter(|n| value(&store, &n.to_le_bytes()).is_some());
    let statistics = store.statistics();
    assert_eq!(statistics.items, others.count() as u64 + 1, "it is in the catalog once");
    let kept = statistics.kept_items;
    assert!(kept < 3 * 8 * SEGMENT_BYTES as u64 / 50_000 + 60, "{kept}: it is written rarely");
}

#[test]
fn a_full_catalog_drops_the_oldest_segments() {
    let (disk, bytes_max) = (SimulatedDisk::new(1), 600_000);
    let (store, _) = start_with(&disk, bytes_max);
    for n in 0..120_000_u32 {
        keep(&store, &n.to_le_bytes(), &[7; 60]);
        if n % 1000 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    settle(&store);
    let statistics = store.statistics();
    assert!(statistics.catalog_bytes <= bytes_max, "{statistics:?}");
    assert!(statistics.catalog_bytes > bytes_max / 4, "the index is in use: {statistics:?}");
    let recent = (110_000..120_000_u32).filter(|n| value(&store, &n.to_le_bytes()).is_some());
    assert!(recent.count() > 1000, "new items take the room of old ones: {statistics:?}");
}

#[test]
fn after_a_stop_nothing_is_forgotten_that_the_index_has() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk);
    keep_surely(&store, b"k", b"1");
    assert_eq!(store.stop(Duration::from_secs(20)), 0);
    assert_eq!(replace(&store, b"k"), Err(Refusal::Failed), "the next start would find it");
    assert_eq!(store.flush(|| ()), Err(Refusal::Failed));
    assert_eq!(keep(&store, b"new", b"1"), Demoted::Dropped);
}

#[test]
fn a_damaged_segment_is_reclaimed_as_a_whole() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk);
    let long = vec![7; 50_000];
    (0..83_u32).for_each(|n| keep_surely(&store, &n.to_le_bytes(), &long));
    store.sync();
    // In the second half of the first segment.
    assert!(disk.flip_bit("log", 8 * 3_000_000));
    let count = 2 * 8 * SEGMENT_BYTES as u32 / 50_000;
    (83..count).for_each(|n| keep_surely(&store, &n.to_le_bytes(), &long));
    settle(&store);
    let statistics = store.statistics();
    assert_eq!(statistics.damaged_segments, 1, "{statistics:?}");
    for n in 0..83_u32 {
        let (_, found) = store.find(&n.to_le_bytes()).unwrap();
        assert_eq!(found, None, "item {n} was in the segment that others have now");
    }
}

#[test]
fn a_write_error_ends_the_disk_and_not_the_cache() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk);
    keep_surely(&store, b"before", b"1");
    store.sync();
    disk.inject(When::nth(Call::Write, 1), Fault::Errno(5));
    // The writing thread may have to wait for a processor.
    let deadline = Instant::now() + Duration::from_secs(60);
    for n in 0_u32.. {
        if keep(&store, &n.to_le_bytes(), &[7; 1000]) == Demoted::Dropped {
            if store.has_failed() {
                break;
            }
            assert!(Instant::now() < deadline, "the log has not failed: {:?}", store.statistics());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(value(&store, b"before"), Some(b"1".to_vec()), "a written item is readable");
    replace(&store, b"before").unwrap();
    assert_eq!(value(&store, b"before"), None, "a changed item is never shown");
    drop(store);
    disk.clear_faults();
    assert_eq!(start(&disk).1.items, 0, "a failed log has no index");
}

#[test]
fn a_damaged_segment_or_index_costs_items_and_nothing_else() {
    for name in ["INDEX", "log"] {
        for bit in [3, 8 * 13, 8 * 40, 8 * 4100, 8 * 4200, 8 * 45_000] {
            let disk = SimulatedDisk::new(1);
            let (store, _) = start(&disk);
            for n in 0..2000_u32 {
                keep_surely(&store, &n.to_le_bytes(), &n.to_be_bytes());
            }
            drop(store);
            assert!(disk.flip_bit(name, bit), "{name} has no bit {bit}");
            let (store, started) = start(&disk);
            if name == "INDEX" {
                assert_eq!(started.items, 0, "bit {bit} is covered by a checksum");
            }
            for n in 0..2000_u32 {
                match store.find(&n.to_le_bytes()) {
                    Ok((_, Some(found))) => assert_eq!(found.value, n.to_be_bytes(), "bit {bit}"),
                    Ok((_, None)) => {}
                    Err(_) => {
                        store.give_up(&n.to_le_bytes());
                        assert_eq!(value(&store, &n.to_le_bytes()), None);
                    }
                }
            }
        }
    }
}
