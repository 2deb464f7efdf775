//! A walk shows each item once, whatever happens to the item during the walk.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fastrand::Rng;
use larder_tier::disk::Call;
use larder_tier::disk::simulated::{Fault, SimulatedDisk, When};
use larder_tier::store::{Durability, Durable, Known, PLACES, WalkStep};

use super::faults::{NEW, item, put};
use super::keys::pairs;
use super::reclaim::churn;
use super::{NOW, TestStore, start};

/// Walks over all items. Returns the values by key, and the number of unreadable records.
fn walk(store: &TestStore) -> (HashMap<Vec<u8>, Vec<u8>>, u64) {
    let (mut walk, mut read) = (store.walk(PLACES), Vec::new());
    let mut shown = HashMap::new();
    loop {
        let step = store.walk_on(&mut walk, std::mem::take(&mut read), |identity, item| {
            assert_eq!(identity, store.identity(item.key));
            let earlier = shown.insert(item.key.to_vec(), item.value.to_vec());
            assert_eq!(earlier, None, "{} is shown twice", item.key.escape_ascii());
        });
        match step {
            WalkStep::Reads(wanted) => {
                read = wanted.into_iter().map(|wanted| store.read(wanted)).collect();
            }
            WalkStep::GoesOn | WalkStep::Slice => {}
            WalkStep::Over => return (shown, walk.unreadable()),
        }
    }
}

/// Returns the value of a key in a turn. It contains the key.
fn value_of(key: &[u8], turn: u32, len: usize) -> Vec<u8> {
    [&turn.to_le_bytes(), key].concat().into_iter().cycle().take(4 + len).collect()
}

/// True if the key had this value in some turn.
fn was_of(key: &[u8], value: &[u8]) -> bool {
    let turn = u32::from_le_bytes(value[..4].try_into().unwrap());
    value == value_of(key, turn, value.len() - 4)
}

#[test]
fn items_on_the_disk_and_on_the_way_to_it_are_shown_once() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 12, Durability::Async);
    // Pairs share a place in the catalog.
    let keys: Vec<Vec<u8>> = pairs()[..60].iter().flatten().cloned().collect();
    let keys: Vec<Vec<u8>> =
        keys.into_iter().chain((0..12_000_u32).map(|n| n.to_be_bytes().to_vec())).collect();
    for (n, key) in keys.iter().enumerate() {
        put(&store, key, b"earlier").unwrap();
        let len = if n % 500 == 0 { 60_000 } else { n % 100 };
        put(&store, key, &value_of(key, 1, len)).unwrap();
    }
    put(&store, b"long", &vec![3; 3_000_000]).unwrap();
    let mut expired = item(b"expired", b"1");
    expired.deadline_unix_secs = Some(NOW);
    store.put(&expired, &NEW, &Known::default()).unwrap();
    put(&store, b"removed", b"1").unwrap();
    store.remove(b"removed", &NEW, &store.find(b"removed").unwrap().0).unwrap();
    for is_durable in [false, true] {
        if is_durable {
            assert_eq!(store.sync(), Durable::Yes);
        }
        let (shown, unreadable) = walk(&store);
        assert_eq!((shown.len(), unreadable), (keys.len() + 1, 0));
        assert_eq!(shown[&b"long"[..]], vec![3; 3_000_000]);
        for key in &keys {
            assert!(was_of(key, &shown[key]), "{}", key.escape_ascii());
        }
    }
    let reads = store.statistics().reads;
    store.flush_at(NOW, || ()).unwrap();
    assert_eq!(walk(&store).0.len(), 0, "a flush is due");
    assert_eq!(store.statistics().reads, reads);
}

#[test]
fn an_item_that_reclaim_moves_before_it_is_read_is_shown_all_the_same() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Async);
    put(&store, b"k", b"moved").unwrap();
    assert_eq!(store.sync(), Durable::Yes);
    disk.inject(When::nth(Call::Read, 1), Fault::Hang);
    thread::scope(|scope| {
        let walking = scope.spawn(|| walk(&store).0);
        disk.wait_for_hanging(1);
        churn(&store);
        disk.release();
        assert_eq!(walking.join().unwrap()[&b"k"[..]], b"moved");
    });
}

#[test]
fn what_the_disk_does_not_return_is_counted() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Async);
    put(&store, b"k", &[1; 100_000]).unwrap();
    put(&store, b"l", &[1; 200_000]).unwrap();
    assert_eq!(store.sync(), Durable::Yes);
    // The first record is that of `k`, whichever is read first.
    for fault in [Fault::Errno(5), Fault::FlipBit(8 * 90)] {
        disk.inject(When::nth(Call::Read, 1), fault);
        let (shown, unreadable) = walk(&store);
        assert_eq!((shown.len(), unreadable), (1, 1), "{fault:?}");
    }
    assert_eq!(walk(&store).0.len(), 2);
}

/// Stops the threads of a test, even if it fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Overwrites keys repeatedly, but never deletes them, to keep reclaim busy.
fn write_on(store: &TestStore, writer: u32, is_over: &AtomicBool, mut rng: Rng) {
    let mut turn = 2;
    while !is_over.load(Ordering::Relaxed) {
        let key = format!("busy {writer}/{}", rng.u32(0..30)).into_bytes();
        let len = if turn % 8 == 0 { 100_000 } else { rng.usize(0..30_000) };
        put(store, &key, &value_of(&key, turn, len)).unwrap();
        turn += 1;
    }
}

#[test]
fn walks_beside_writers_and_reclaim_show_every_key_once() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 12, Durability::Async);
    let stable: Vec<Vec<u8>> = (0..9_000_u32).map(|n| n.to_le_bytes().to_vec()).collect();
    for key in &stable {
        put(&store, key, &value_of(key, 1, 100)).unwrap();
    }
    let busy = (0..2).flat_map(|writer| (0..30).map(move |n| format!("busy {writer}/{n}")));
    let busy: Vec<Vec<u8>> = busy.map(String::into_bytes).collect();
    for key in &busy {
        put(&store, key, &value_of(key, 1, 1000)).unwrap();
    }
    let (is_over, store) = (AtomicBool::new(false), &store);
    thread::scope(|scope| {
        let is_over = &is_over;
        let _ends = Ends(is_over);
        for writer in 0..2 {
            scope.spawn(move || write_on(store, writer, is_over, Rng::with_seed(writer.into())));
        }
        for _ in 0..20 {
            let (shown, unreadable) = walk(store);
            assert_eq!((shown.len(), unreadable), (stable.len() + busy.len(), 0));
            for key in stable.iter().chain(&busy) {
                assert!(was_of(key, &shown[key]), "{}", key.escape_ascii());
            }
        }
    });
    let moved = store.statistics().reclaimed_segments;
    assert!(moved > 10, "reclaim gave up only {moved} segments");
}
