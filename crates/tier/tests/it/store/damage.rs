//! Damage that reclaim finds: the store continues to work, and starts again.

use std::thread;
use std::time::{Duration, Instant};

use larder_tier::disk::Call;
use larder_tier::disk::simulated::{Fault, SimulatedDisk, When};
use larder_tier::store::{Durability, Durable, Known};

use super::faults::{NEW, item, put, value};
use super::reclaim::churn;
use super::{TestStore, start};

const EIO: i32 = 5;

#[test]
fn a_read_of_reclaim_that_fails_once_is_tried_again() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Async);
    put(&store, b"k", b"value").unwrap();
    store.sync();
    disk.inject(When::nth(Call::Read, 1), Fault::Errno(EIO));
    churn(&store);
    let statistics = store.statistics();
    assert_eq!((statistics.retried_reads, statistics.damaged_segments), (1, 0), "{statistics:?}");
    assert!(!statistics.has_failed, "{:?}", store.failure());
    assert_eq!(value(&store, b"k"), Some(b"value".to_vec()));
}

/// Returns the numbers of items that cannot be read.
fn unreadable(store: &TestStore) -> Vec<u32> {
    (0..ITEMS).filter(|n| store.find(&n.to_le_bytes()).is_err()).collect()
}

/// The number of items that fill the first segment.
const ITEMS: u32 = 80;

/// Returns a store whose first segment is full. The record of item 0 begins at byte 4144 of the
/// log.
fn filled(disk: &SimulatedDisk) -> TestStore {
    let (store, _) = start(disk, 16, Durability::Async);
    (0..ITEMS).for_each(|n| put(&store, &n.to_le_bytes(), &LONG).unwrap());
    assert_eq!(store.sync(), Durable::Yes);
    store
}

static LONG: [u8; 50_000] = [7; 50_000];

/// Checks that one item is lost and that all others are unchanged, also after a kill and after a
/// clean stop. Then changes the item and checks that it is no longer lost.
fn one_is_lost(disk: &SimulatedDisk, store: TestStore, change: impl Fn(&TestStore, &[u8])) {
    churn(&store);
    let lost = unreadable(&store);
    let check = |store: &TestStore, when: &str| {
        let statistics = store.statistics();
        assert_eq!((unreadable(store), statistics.lost_items), (lost.clone(), 1), "{when}");
        for n in (0..ITEMS).filter(|n| !lost.contains(n)) {
            assert!(value(store, &n.to_le_bytes()).as_deref() == Some(&LONG), "{when}: item {n}");
        }
        assert!(!statistics.has_failed, "{when}: {:?}", store.failure());
    };
    assert_eq!((lost.len(), store.statistics().damaged_segments), (1, 1), "{lost:?}");
    check(&store, "after reclaim");
    assert_eq!(store.sync(), Durable::Yes);
    disk.kill();
    drop(store);
    let (store, started) = start(disk, 16, Durability::Async);
    assert!(!started.is_from_index);
    check(&store, "after a kill");
    churn(&store);
    check(&store, "after a kill and more reclaim");
    assert_eq!(store.stop(Duration::from_secs(10)), 0);
    let (store, started) = start(disk, 16, Durability::Async);
    assert!(started.is_from_index);
    check(&store, "after a stop");
    change(&store, &lost[0].to_le_bytes());
    let changed = value(&store, &lost[0].to_le_bytes());
    assert_eq!((unreadable(&store), store.statistics().lost_items), (vec![], 0));
    churn(&store);
    assert_eq!(store.sync(), Durable::Yes);
    disk.kill();
    drop(store);
    let (store, _) = start(disk, 16, Durability::Async);
    assert_eq!(value(&store, &lost[0].to_le_bytes()), changed, "the change is undone");
    assert_eq!((unreadable(&store), store.statistics().lost_items), (vec![], 0));
}

fn set(store: &TestStore, key: &[u8]) {
    let known = store.find(key).unwrap_err().known;
    store.put(&item(key, b"new"), &NEW, &known).unwrap();
}

fn remove(store: &TestStore, key: &[u8]) {
    let known = store.find(key).unwrap_err().known;
    store.remove(key, &NEW, &known).unwrap();
}

#[test]
fn a_value_that_is_damaged_is_lost_until_it_is_set() {
    let disk = SimulatedDisk::new(1);
    let store = filled(&disk);
    assert!(disk.flip_bit("log", 8 * 3_000_000));
    one_is_lost(&disk, store, set);
}

#[test]
fn a_key_that_is_damaged_is_lost_until_it_is_removed() {
    for byte in [4144 + 4, 4144 + 32] {
        let disk = SimulatedDisk::new(1);
        let store = filled(&disk);
        // The kind of its record, or its key.
        assert!(disk.flip_bit("log", 8 * byte));
        one_is_lost(&disk, store, remove);
    }
}

#[test]
fn a_flush_ends_what_was_lost() {
    let disk = SimulatedDisk::new(1);
    let store = filled(&disk);
    assert!(disk.flip_bit("log", 8 * 3_000_000));
    churn(&store);
    assert_eq!(store.statistics().lost_items, 1);
    store.flush(|| ()).unwrap();
    assert_eq!((unreadable(&store), store.statistics().lost_items), (vec![], 0));
}

#[test]
fn a_page_that_the_disk_does_not_return_costs_the_item_in_it() {
    let disk = SimulatedDisk::new(1);
    let store = filled(&disk);
    disk.set_bad_pages("log", 500..501);
    churn(&store);
    // A device replaces a bad sector when it is written.
    disk.set_bad_pages("log", 0..0);
    one_is_lost(&disk, store, set);
}

#[test]
fn a_disk_that_returns_nothing_for_a_while_costs_nothing() {
    let disk = SimulatedDisk::new(1);
    let store = filled(&disk);
    while store.statistics().begun_segments < 10 {
        put(&store, b"churn", &[1; 500_000]).unwrap();
        // The writing thread updates the count.
        assert_eq!(store.sync(), Durable::Yes);
    }
    disk.set_bad_pages("log", 0..16 * 1024);
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut keys = 0..250_u64;
    while store.statistics().retried_reads < 5 {
        assert!(Instant::now() < deadline, "reclaim does not read: {:?}", store.statistics());
        // Stores of new keys do not read the disk.
        if let Some(key) = keys.next() {
            let _ = store.put(&item(&key.to_le_bytes(), &LONG), &NEW, &Known::default());
        }
        thread::sleep(Duration::from_millis(5));
    }
    disk.set_bad_pages("log", 0..0);
    churn(&store);
    let statistics = store.statistics();
    assert_eq!((statistics.damaged_segments, statistics.lost_items), (0, 0), "{statistics:?}");
    assert_eq!(unreadable(&store), []);
}
