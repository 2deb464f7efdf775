//! A store that is full of expiring items has space again after they expire. A store whose long
//! items have died while short ones live is not full.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use larder_tier::disk::simulated::SimulatedDisk;
use larder_tier::format::Item;
use larder_tier::store::{Change, Durability, Known, Refusal, Settings, Store};

use super::faults::item;
use super::{NOW, TestStore, open, settings};

/// A store whose clock the test sets.
fn start(disk: &SimulatedDisk, clock: &Arc<AtomicU64>) -> TestStore {
    let clock = Arc::clone(clock);
    let clock = Arc::new(move || clock.load(Relaxed));
    let settings = Settings { clock, ..settings(Durability::Async) };
    Store::start(open(disk, 16), settings, &mut |_, _| ()).unwrap().0
}

/// Puts an item that memory does not have. Waits for the disk, at most until the deadline.
fn put(store: &TestStore, item: &Item<'_>, clock: &AtomicU64) -> Result<(), Refusal> {
    let now_unix_secs = clock.load(Relaxed);
    let change = Change { now_unix_secs, is_resident: false, is_gone: &|| false };
    let (mut known, deadline) = (Known::default(), Instant::now() + Duration::from_secs(20));
    loop {
        match store.put(item, &change, &known) {
            Err(Refusal::Busy) => store.wait_for_progress(deadline)?,
            Err(Refusal::NeedsDisk) => known = store.find(item.key).unwrap().0,
            done => return done,
        }
    }
}

#[test]
fn expired_items_make_room_also_after_a_start_from_the_index() {
    for is_started_again in [false, true] {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::new(AtomicU64::new(NOW)));
        let mut store = start(&disk, &clock);
        let long = vec![7; 100_000];
        let put_expiring = |n: &u32| {
            let key = n.to_le_bytes();
            let expiring = Item { deadline_unix_secs: Some(NOW + 10), ..item(&key, &long) };
            put(&store, &expiring, &clock)
        };
        put(&store, &item(b"kept", &long), &clock).unwrap();
        let count = (0..1000_u32).take_while(|n| put_expiring(n).is_ok()).count();
        assert!(count > 200, "{count} items fit");
        if is_started_again {
            assert_eq!(store.stop(Duration::from_secs(20)), 0);
            drop(store);
            store = start(&disk, &clock);
        }
        assert_eq!(put(&store, &item(b"new", &long), &clock), Err(Refusal::Full));
        clock.store(NOW + 10, Relaxed);
        // About as many items as before: a store that is filled quickly accepts a few more before
        // it notices that it is full. It stays full until it has searched for expired items.
        let deadline = Instant::now() + Duration::from_secs(20);
        for n in 2000..2000 + count as u32 * 9 / 10 {
            while let Err(refusal) = put(&store, &item(&n.to_le_bytes(), &long), &clock) {
                assert_eq!(refusal, Refusal::Full);
                assert!(
                    Instant::now() < deadline,
                    "no room for item {n}, all but one have expired"
                );
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let (_, kept) = store.find(b"kept").unwrap();
        assert_eq!(
            kept.map(|kept| kept.value),
            Some(long.clone()),
            "an item that does not expire stays"
        );
    }
}

#[test]
fn a_store_whose_long_items_have_died_is_not_full_of_the_short_ones() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::new(AtomicU64::new(NOW)));
    let store = start(&disk, &clock);
    let (long, mut puts) = (vec![7; 1_000_000], 0_u32);
    // Short live items are between long ones that are replaced: two MB are live.
    for round in 0..200_u32 {
        for n in 0..20 {
            put(&store, &item(&(round * 20 + n).to_be_bytes(), b"short"), &clock).unwrap();
        }
        let key = format!("long{}", round % 2);
        put(&store, &item(key.as_bytes(), &long), &clock)
            .unwrap_or_else(|refusal| panic!("round {round}: {refusal}"));
        puts += 21;
    }
    assert_eq!(store.statistics().items, 4002, "of {puts} stores");
}
