//! The memory and the threads that a process uses for a cache.

use std::fs::read_dir;
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder::{Cache, Clock};
use larder_testkit::value_of;

use crate::{resident_bytes, turn};

#[test]
fn the_memory_is_freed_with_the_last_handle() {
    let _turn = turn();
    let cache = Cache::builder().memory_bytes(256 << 20).open().unwrap();
    for key in 0..190_000u32 {
        cache.set(key.to_le_bytes(), [1; 1_000], None).unwrap();
    }
    let walk = cache.keys();
    drop(cache);
    let full = resident_bytes();
    assert!(full > 190 << 20, "{full} bytes: the memory was freed although a walk holds it");
    drop(walk);
    let empty = resident_bytes();
    assert!(empty + (100 << 20) < full, "{empty} after {full} bytes");
}

fn fill(cache: &Cache, bytes: usize) {
    for number in 0..(bytes / 1_000) as u32 {
        cache.set(number.to_le_bytes(), [1; 990], None).unwrap();
    }
}

#[test]
fn lowering_the_limit_returns_free_memory_to_the_system() {
    let _turn = turn();
    let cache = Cache::builder().memory_bytes(400 << 20).clock(Clock::Ticked).open().unwrap();
    fill(&cache, 350 << 20);
    cache.clear();
    (0..20).for_each(|_| cache.maintain());
    let before = resident_bytes();
    cache.set_memory_limit(32 << 20).unwrap();
    cache.maintain();
    let after = resident_bytes();
    assert!(after + (250 << 20) < before, "{after} bytes, were {before}");
    fill(&cache, 100 << 20);
    cache.validate().unwrap();
}

#[test]
fn a_maintainer_reclaims_expired_items_evicts_ahead_and_ends_with_the_cache() {
    let _turn = turn();
    let threads = || read_dir("/proc/self/task").unwrap().count();
    let cache = Cache::builder().memory_bytes(16 << 20).maintainer(true).open().unwrap();
    for number in 0..1000u64 {
        cache
            .set(&number.to_le_bytes(), &value_of(number, 1000), Some(Duration::from_secs(1)))
            .unwrap();
    }
    let gone = |cache: &Cache| cache.report().live_bytes == 0;
    wait_until("the maintainer reclaims expired items", || gone(&cache));

    for number in 0..60_000u64 {
        cache.set(&number.to_le_bytes(), &value_of(number, 1000), None).unwrap();
    }
    assert!(cache.counter(larder::Counter::SegmentsEvicted) > 100);
    wait_until("segments are free before a writer needs them", || cache.report().segments_free > 1);
    let running = threads();
    drop(cache);
    wait_until("the maintainer thread ends", || threads() < running);
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(20));
    }
}
