//! The behaviour of a store at the limits of its log, and when the disk fails.

use std::time::{Duration, Instant};

use larder_tier::disk::simulated::{Fault, SimulatedDisk, When};
use larder_tier::disk::{Call, Directory};
use larder_tier::format::Item;
use larder_tier::store::{Change, Durability, Durable, Known, Refusal};

use super::{NOW, TestStore, start};

pub(crate) const NEW: Change<'static> =
    Change { now_unix_secs: NOW, is_resident: false, is_gone: &|| false };

pub(crate) fn item<'a>(key: &'a [u8], value: &'a [u8]) -> Item<'a> {
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

/// Puts an item that memory does not have. Waits for the disk without a limit.
pub(crate) fn put(store: &TestStore, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
    put_as(store, key, value, &NEW)
}

/// Same as [`put`], for a key that memory has.
pub(crate) fn replace(store: &TestStore, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
    put_as(store, key, value, &Change { is_resident: true, ..NEW })
}

fn put_as(store: &TestStore, key: &[u8], value: &[u8], change: &Change<'_>) -> Result<(), Refusal> {
    let mut known = Known::default();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match store.put(&item(key, value), change, &known) {
            Err(Refusal::Busy) => store.wait_for_progress(deadline)?,
            Err(Refusal::NeedsDisk) => known = store.find(key).unwrap().0,
            done => return done,
        }
    }
}

/// Puts an item in a full log after something has died.
fn put_in_time(store: &TestStore, key: &[u8], value: &[u8]) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while put(store, key, value).is_err() {
        assert!(Instant::now() < deadline, "no room for {key:?} although items were removed");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Removes a live item that memory has. Waits for the disk without a limit.
fn remove(store: &TestStore, key: &[u8]) {
    let resident = Change { is_resident: true, ..NEW };
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(refusal) = store.remove(key, &resident, &Known::default()) {
        assert_eq!(refusal, Refusal::Busy, "a full log takes removals");
        store.wait_for_progress(deadline).unwrap();
    }
}

pub(crate) fn value(store: &TestStore, key: &[u8]) -> Option<Vec<u8>> {
    store.find(key).unwrap().1.map(|item| item.value)
}

#[test]
fn a_clean_stop_keeps_everything_at_each_durability() {
    for durability in
        [Durability::Sync, Durability::Interval(Duration::from_millis(5)), Durability::Async]
    {
        let disk = SimulatedDisk::new(1);
        let (store, _) = start(&disk, 8, durability);
        for n in 0..1000_u32 {
            put(&store, &n.to_le_bytes(), &n.to_le_bytes()).unwrap();
        }
        assert_eq!(store.stop(Duration::from_secs(20)), 0, "bytes that are not durable");
        drop(store);
        disk.lose_power();
        let (store, started) = start(&disk, 8, durability);
        assert_eq!((started.items, started.version_max), (1000, 5), "{durability:?}");
        assert!(started.is_from_index, "a clean stop leaves an index");
        assert_eq!(value(&store, &7_u32.to_le_bytes()), Some(7_u32.to_le_bytes().to_vec()));
    }
}

#[test]
fn a_store_that_has_stopped_changes_nothing_that_its_index_has() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Async);
    let expiring = Item { deadline_unix_secs: Some(NOW + 10), ..item(b"expiring", b"1") };
    store.put(&expiring, &NEW, &Known::default()).unwrap();
    put(&store, b"k", b"1").unwrap();
    let resident = Change { is_resident: true, ..NEW };
    assert_eq!(store.stop(Duration::from_secs(20)), 0);
    assert_eq!(put(&store, b"new", b"2"), Err(Refusal::Failed));
    assert_eq!(store.remove(b"k", &resident, &Known::default()), Err(Refusal::Failed));
    assert_eq!(store.flush(|| panic!("nothing is flushed")), Err(Refusal::Failed));
    assert_eq!(store.flush_at(NOW, || panic!("nothing is scheduled")), Err(Refusal::Failed));
    let at = store.find(b"expiring").unwrap().0.own.unwrap();
    store.forget_expired(b"expiring", at, NOW + 10);
    assert!(store.may_have(b"expiring"), "the index has it");
    drop(store);
    let (store, started) = start(&disk, 8, Durability::Async);
    assert_eq!((started.items, started.is_from_index), (2, true));
    assert_eq!(value(&store, b"k"), Some(b"1".to_vec()));
}

#[test]
fn a_delayed_flush_survives_stops_with_an_index_and_then_a_kill() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Sync);
    put(&store, b"k", b"1").unwrap();
    store.flush_at(NOW + 100, || ()).unwrap();
    drop(store);
    let (store, started) = start(&disk, 8, Durability::Sync);
    assert!(started.is_from_index && store.is_flush_due(NOW + 100), "{started:?}");
    // The header of its next segment must repeat it.
    put(&store, b"k", b"2").unwrap();
    assert_eq!(store.sync(), Durable::Yes);
    disk.lose_power();
    drop(store);
    let (store, started) = start(&disk, 8, Durability::Sync);
    assert!(!started.is_from_index && store.is_flush_due(NOW + 100), "{started:?}");
}

/// A log that could be larger than its disk reserves space for the files that a stop and a start
/// write. A stop uses it even if other files have taken the rest.
#[test]
fn a_log_that_fills_its_disk_stops_and_starts_again() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(12 * (4 << 20));
    let (store, _) = start(&disk, 64, Durability::Async);
    let (mut stored, value_of) = (0_u32, vec![b'v'; 100_000]);
    while put(&store, &stored.to_le_bytes(), &value_of).is_ok() {
        stored += 1;
        assert!(stored < 1000, "64 extents have no room in 12");
    }
    let space = disk.open().space().unwrap();
    assert!(space.free_bytes >= 1 << 20, "{} bytes are left", space.free_bytes);
    // Other files use all of the free space.
    disk.set_capacity(space.total_bytes - space.free_bytes);
    assert_eq!(store.stop(Duration::from_secs(20)), 0, "a clean stop");
    drop(store);
    let (store, started) = start(&disk, 64, Durability::Async);
    assert!(started.is_from_index && started.items == u64::from(stored), "{started:?}");
    assert_eq!(value(&store, &0_u32.to_le_bytes()), Some(value_of));
}

#[test]
fn a_store_without_a_good_index_reads_its_log() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Async);
    put(&store, b"k", b"1").unwrap();
    disk.inject(When::nth(Call::Rename, 1), Fault::Errno(5));
    assert_eq!(store.stop(Duration::from_secs(20)), 0, "the log has everything");
    drop(store);
    let (store, started) = start(&disk, 8, Durability::Async);
    assert!(!started.is_from_index && started.cut.is_none(), "{started:?}");
    assert_eq!(value(&store, b"k"), Some(b"1".to_vec()));
    drop(store);
    assert!(disk.flip_bit("INDEX", 8 * 4096 + 3));
    let (store, started) = start(&disk, 8, Durability::Async);
    assert!(!started.is_from_index, "{started:?}");
    assert_eq!(value(&store, b"k"), Some(b"1".to_vec()));
}

#[test]
fn a_flush_and_a_removal_are_not_undone_by_a_start() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Sync);
    put(&store, b"old", b"1").unwrap();
    store.flush(|| ()).unwrap();
    put(&store, b"kept", b"2").unwrap();
    put(&store, b"removed", b"3").unwrap();
    let resident = Change { is_resident: true, ..NEW };
    store.remove(b"removed", &resident, &Known::default()).unwrap();
    assert_eq!(store.sync(), Durable::Yes);
    drop(store);
    let (store, started) = start(&disk, 8, Durability::Sync);
    assert_eq!(started.items, 1);
    assert_eq!(
        [b"old".as_slice(), b"kept", b"removed"].map(|key| value(&store, key).is_some()),
        [false, true, false]
    );
}

#[test]
fn a_delayed_flush_is_known_after_a_start_and_refuses_changes_once_it_is_due() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Sync);
    put(&store, b"k", b"1").unwrap();
    store.flush_at(NOW + 100, || ()).unwrap();
    drop(store);
    let (store, _) = start(&disk, 8, Durability::Sync);
    assert!(!store.is_flush_due(NOW + 99));
    assert!(store.is_flush_due(NOW + 100));
    let late = Change { now_unix_secs: NOW + 100, ..NEW };
    assert_eq!(store.put(&item(b"new", b""), &late, &Known::default()), Err(Refusal::Busy));
    store.flush(|| ()).unwrap();
    assert_eq!(store.put(&item(b"new", b""), &late, &Known::default()), Ok(()));
    assert_eq!(value(&store, b"k"), None);
}

#[test]
fn a_full_log_refuses_items_keeps_the_old_ones_and_recovers_after_removals() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 16, Durability::Async);
    let long = vec![7; 100_000];
    let stored: Vec<u32> =
        (0..1000).take_while(|n: &u32| put(&store, &n.to_le_bytes(), &long).is_ok()).collect();
    assert_eq!(put(&store, b"more", &long), Err(Refusal::Full));
    let full = stored.len() * long.len() * 100 / (16 << 22);
    assert!((40..80).contains(&full), "the log is full at {full} %");
    for n in &stored {
        assert_eq!(value(&store, &n.to_le_bytes()), Some(long.clone()), "item {n} of {stored:?}");
    }
    stored[..stored.len() / 2].iter().for_each(|n| remove(&store, &n.to_le_bytes()));
    put_in_time(&store, b"more", &long);
}

#[test]
fn a_file_system_without_room_refuses_items_and_no_more() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(8 * (4 << 20));
    let (store, _) = start(&disk, 100, Durability::Async);
    let long = vec![7; 100_000];
    let stored =
        (0..1000).take_while(|n: &u32| put(&store, &n.to_le_bytes(), &long).is_ok()).count();
    assert!((100..340).contains(&stored), "{stored} items of 100 kB in 32 MiB");
    assert_eq!(put(&store, b"more", &long), Err(Refusal::Full));
    assert!(!store.statistics().has_failed, "{:?}", store.failure());
    assert_eq!(store.sync(), Durable::Yes);
    assert_eq!(value(&store, &0_u32.to_le_bytes()), Some(long));
}

#[test]
fn removals_make_room_in_the_space_that_a_full_file_system_has_given() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(12 * (4 << 20));
    let (store, _) = start(&disk, 100, Durability::Async);
    let long = vec![7; 100_000];
    let stored: Vec<u32> =
        (0..1000).take_while(|n: &u32| put(&store, &n.to_le_bytes(), &long).is_ok()).collect();
    let (removed, kept) = stored.split_at(stored.len() / 2);
    removed.iter().for_each(|n| remove(&store, &n.to_le_bytes()));
    let again: Vec<u32> = (1000..).take(removed.len() / 2).collect();
    again.iter().for_each(|n| put_in_time(&store, &n.to_le_bytes(), &long));
    for n in kept.iter().chain(&again) {
        assert_eq!(value(&store, &n.to_le_bytes()), Some(long.clone()), "item {n}");
    }
    assert!(!store.statistics().has_failed, "{:?}", store.failure());
}

#[test]
fn a_log_that_nothing_dies_in_is_full_and_at_rest() {
    // Two of these items do not fit into a segment: a copy frees no more space than it uses.
    let long = vec![7; 2_200_000];
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 16, Durability::Async);
    let stored: Vec<u32> =
        (0..100).take_while(|n: &u32| put(&store, &n.to_le_bytes(), &long).is_ok()).collect();
    assert_eq!(put(&store, b"more", &long), Err(Refusal::Full));
    std::thread::sleep(Duration::from_millis(500));
    let before = store.statistics().written_bytes;
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(store.statistics().written_bytes, before, "nothing is copied in vain");
    stored[..3].iter().for_each(|n| remove(&store, &n.to_le_bytes()));
    (1000..1003_u32).for_each(|n| put_in_time(&store, &n.to_le_bytes(), &long));
    for n in &stored[3..] {
        assert_eq!(value(&store, &n.to_le_bytes()).map(|value| value.len()), Some(long.len()));
    }
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_or_changed_and_reads_go_on() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Sync);
    put(&store, b"before", b"1").unwrap();
    assert_eq!(store.sync(), Durable::Yes);
    disk.inject(When::nth(Call::SyncData, 1), Fault::LosePages { some: false });
    put(&store, b"k", b"2").unwrap();
    assert_eq!(store.wait_durable(store.awaited(b"k").unwrap()), Durable::Failed);
    assert_eq!(put(&store, b"after", b"3"), Err(Refusal::Failed));
    assert_eq!(value(&store, b"before"), Some(b"1".to_vec()));
    assert!(store.failure().unwrap().contains("sync"), "{:?}", store.failure());
}

#[test]
fn while_the_disk_hangs_reads_of_recent_items_go_on_and_writers_wait() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Async);
    disk.inject(When::nth(Call::SyncData, 1).onwards(), Fault::Hang);
    let long = vec![7; 1 << 20];
    let mut stored = 0_u32;
    let soon = || Instant::now() + Duration::from_millis(300);
    while store.wait_for_room(soon()).is_ok() {
        match store.put(&item(&stored.to_le_bytes(), &long), &NEW, &Known::default()) {
            Ok(()) => stored += 1,
            Err(Refusal::Busy) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert!((1..8).contains(&stored), "{stored} MiB were taken; at most 4 may wait");
    assert_eq!(value(&store, &0_u32.to_le_bytes()), Some(long.clone()));
    disk.clear_faults();
    disk.release();
    assert_eq!(store.sync(), Durable::Yes);
}

#[test]
fn expired_items_are_dropped_and_a_late_change_of_one_asks_the_disk() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Sync);
    let expiring = Item { deadline_unix_secs: Some(NOW + 10), ..item(b"k", b"1") };
    store.put(&expiring, &NEW, &Known::default()).unwrap();
    let (known, found) = store.find(b"k").unwrap();
    assert!(found.unwrap().is_expired(NOW + 10));
    store.forget_expired(b"k", known.own.unwrap(), NOW + 10);
    assert!(!store.may_have(b"k"));
    // Without catalog entries the disk is not read. An existing entry may belong to another key.
    store.put(&item(b"k", b"2"), &NEW, &Known::default()).unwrap();
    let late = Change { now_unix_secs: NOW + 9, is_resident: true, ..NEW };
    assert_eq!(store.put(&item(b"k", b"3"), &late, &Known::default()), Err(Refusal::NeedsDisk));
}
