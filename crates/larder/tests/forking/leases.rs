//! Leases between processes, and the ways in which they end.

use std::thread;
use std::time::{Duration, Instant};

use larder::Cache;
use larder_testkit::children::{Child, Word, fork, sleep_for_ever};

const LONG: Duration = Duration::from_secs(60);

fn shared() -> Cache {
    Cache::builder().memory_bytes(4 << 20).anonymous_shared(true).open().unwrap()
}

#[test]
fn the_lease_of_a_killed_process_is_free_for_the_next_caller() {
    let cache = shared();
    for round in 0..20 {
        let taken = Word::new();
        let holder = fork(|| {
            taken.say(u32::from(cache.lease("k", LONG).unwrap().is_some()));
            sleep_for_ever()
        });
        assert_eq!(taken.hear(), 1, "in round {round}");
        assert_eq!(cache.lease("k", LONG).unwrap(), None);
        holder.kill();
        assert_eq!(holder.wait(), -libc::SIGKILL);
        let begun = Instant::now();
        let lease = cache.lease("k", LONG).unwrap().expect("the holder is dead");
        assert!(begun.elapsed() < Duration::from_secs(1));
        assert!(cache.release("k", lease).unwrap());
    }
    cache.validate().unwrap();
}

#[test]
fn a_lease_ends_with_its_time() {
    let cache = shared();
    let lease = cache.lease("k", Duration::from_millis(50)).unwrap().unwrap();
    assert_eq!(cache.lease("k", LONG).unwrap(), None);
    thread::sleep(Duration::from_millis(60));
    let next = cache.lease("k", LONG).unwrap().unwrap();
    assert!(!cache.release("k", lease).unwrap());
    assert!(cache.release("k", next).unwrap());
}

#[test]
fn a_child_neither_has_nor_ends_the_lease_of_its_parent() {
    for cache in [shared(), Cache::builder().open().unwrap()] {
        let is_shared = cache.identity().0 != 0;
        let lease = cache.lease("k", LONG).unwrap().unwrap();
        let child = fork(|| {
            if cache.release("k", lease).unwrap() {
                return 1;
            }
            let taken = cache.lease("k", LONG).unwrap();
            // A child's copy of a private cache is separate from the parent's.
            2 * i32::from(taken.is_some() == is_shared)
        });
        assert_eq!(child.wait(), 0);
        assert!(cache.release("k", lease).unwrap());
    }
}

#[test]
fn one_process_at_a_time_has_the_lease() {
    let cache = shared();
    cache.add("within", "0", None).unwrap();
    let begin = Word::new();
    let children: Vec<Child> = (0..4)
        .map(|_| {
            fork(|| {
                begin.hear();
                let mut turns = 0;
                while turns < 500 {
                    let Some(lease) = cache.lease("k", LONG).unwrap() else {
                        thread::yield_now();
                        continue;
                    };
                    if cache.increment("within", 1).unwrap() != Some(1) {
                        return 1;
                    }
                    thread::yield_now();
                    if cache.decrement("within", 1).unwrap() != Some(0) {
                        return 2;
                    }
                    if !cache.release("k", lease).unwrap() {
                        return 3;
                    }
                    turns += 1;
                }
                0
            })
        })
        .collect();
    children.iter().for_each(|_| begin.say(1));
    for child in children {
        assert_eq!(child.wait(), 0);
    }
    cache.validate().unwrap();
    assert_eq!(cache.len(), 1);
}
