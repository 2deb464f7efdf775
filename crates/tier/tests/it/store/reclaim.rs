//! Items that reclaim moves are still found, and items that it drops stay dropped.

use std::thread;
use std::time::{Duration, Instant};

use larder_tier::disk::Call;
use larder_tier::disk::simulated::{Fault, SimulatedDisk, When};
use larder_tier::store::{Durability, Durable};

use super::faults::{put, replace, value};
use super::{NOW, TestStore, start};

/// Overwrites one key until reclaim has processed every current segment. Reads nothing.
pub(crate) fn churn(store: &TestStore) {
    let before = store.statistics().reclaimed_segments;
    let deadline = Instant::now() + Duration::from_secs(20);
    while store.statistics().reclaimed_segments < before + 10 {
        assert!(Instant::now() < deadline, "nothing is reclaimed: {:?}", store.statistics());
        replace(store, b"churn", &vec![1; 500_000]).unwrap();
    }
}

#[test]
fn a_read_whose_segment_is_reclaimed_meanwhile_finds_the_copy() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Async);
    put(&store, b"k", b"moved").unwrap();
    assert_eq!(store.sync(), Durable::Yes);
    disk.inject(When::nth(Call::Read, 1), Fault::Hang);
    thread::scope(|scope| {
        let reader = scope.spawn(|| value(&store, b"k"));
        disk.wait_for_hanging(1);
        churn(&store);
        disk.release();
        assert_eq!(reader.join().unwrap(), Some(b"moved".to_vec()));
    });
}

#[test]
fn a_flush_cancels_a_delayed_one_for_good() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Async);
    store.flush_at(NOW + 100, || ()).unwrap();
    store.flush(|| ()).unwrap();
    // Neither record is left in the log.
    churn(&store);
    drop(store);
    let (store, _) = start(&disk, 8, Durability::Async);
    assert!(!store.is_flush_due(NOW + 100), "the delayed flush came back");
}
