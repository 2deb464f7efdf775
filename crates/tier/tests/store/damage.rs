//! What reclaim cannot read: the store goes on, and starts again.

use std::time::Duration;

use larder_tier::disk::Call;
use larder_tier::disk::simulated::{Fault, SimulatedDisk, When};
use larder_tier::store::{Durability, Durable};

use crate::faults::{NEW, item, put, value};
use crate::reclaim::churn;
use crate::{TestStore, start};

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

#[test]
fn a_damaged_segment_stays_and_a_clean_stop_leaves_an_index_of_it() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 16, Durability::Async);
    let long = vec![7; 50_000];
    // They fill the first segment.
    (0..80_u32).for_each(|n| put(&store, &n.to_le_bytes(), &long).unwrap());
    store.sync();
    assert!(disk.flip_bit("log", 8 * 3_000_000));
    churn(&store);
    let unreadable = |store: &TestStore| -> Vec<u32> {
        (0..80).filter(|n: &u32| store.find(&n.to_le_bytes()).is_err()).collect()
    };
    let (damaged, statistics) = (unreadable(&store), store.statistics());
    assert_eq!((damaged.len(), statistics.damaged_segments), (1, 1), "{statistics:?}");
    assert!(!statistics.has_failed, "{:?}", store.failure());
    assert_eq!(store.stop(Duration::from_secs(10)), 0);
    for number in 0..2 {
        let (store, started) = start(&disk, 16, Durability::Async);
        assert!(started.is_from_index, "start {number}");
        assert_eq!(unreadable(&store), damaged, "start {number}");
        churn(&store);
        assert_eq!(unreadable(&store), damaged, "start {number}, after more reclaim");
        let good = (0..80).filter(|n: &u32| !damaged.contains(n));
        for n in good {
            assert_eq!(value(&store, &n.to_le_bytes()).as_ref(), Some(&long), "item {n}");
        }
        assert_eq!(store.stop(Duration::from_secs(10)), 0);
    }
    // A set of the damaged item frees the segment, and a kill leaves a log that can be read.
    let (store, _) = start(&disk, 16, Durability::Async);
    let key = damaged[0].to_le_bytes();
    churn(&store);
    let known = store.find(&key).unwrap_err().known;
    store.put(&item(&key, b"new"), &NEW, &known).unwrap();
    churn(&store);
    assert_eq!(store.sync(), Durable::Yes);
    disk.kill();
    drop(store);
    let (store, started) = start(&disk, 16, Durability::Async);
    assert!(!started.is_from_index);
    assert_eq!(value(&store, &key), Some(b"new".to_vec()));
    assert_eq!(unreadable(&store), []);
}
