//! Extreme sizes, numbers of processes, memory limits and clocks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use larder::{Cache, Clock, Deadline, StoreError};
use larder_testkit::Random;
use larder_testkit::children::{Child, Word, fork};

use crate::{resident_bytes, turn};

/// Returns a value that identifies its key.
fn value_of(key: u64, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (key * 31 + at) as u8).collect()
}

/// Repeats a change that fails because another of the hundreds of processes was not scheduled for a
/// second in the middle of a change.
fn unless_stuck<T>(mut change: impl FnMut() -> Result<T, StoreError>) -> T {
    const PATIENCE: Duration = Duration::from_secs(15);
    let begun = Instant::now();
    loop {
        match change() {
            Err(StoreError::Stuck(_)) if begun.elapsed() < PATIENCE => {}
            ended => return ended.unwrap(),
        }
    }
}

/// Stores, reads and deletes, and checks that each value belongs to its key.
fn play(cache: &Cache, seed: u64, operations: u64) {
    let mut random = Random::with_seed(seed * 2 + 1);
    for _ in 0..operations {
        let key = random.below(2000);
        let name = key.to_le_bytes();
        match random.below(8) {
            0..4 => {
                let value = value_of(key, random.below(2000));
                unless_stuck(|| cache.set(name, &value, None));
            }
            4 => {
                unless_stuck(|| cache.delete(name));
            }
            _ => {
                let read = cache.get(name);
                assert!(read.is_none_or(|read| *read == value_of(key, read.len() as u64)[..]));
            }
        }
    }
}

#[test]
fn a_cache_of_a_mebibyte_is_full_all_the_time_and_valid() {
    let _turn = turn();
    let cache = Cache::builder().memory_bytes(1 << 20).open().unwrap();
    play(&cache, 1, 20_000);
    assert!(cache.memory().used <= 1 << 20, "{:?}", cache.memory());
    assert!(cache.counter(larder::Counter::SegmentsEvicted) > 10, "the cache was never full");
    cache.validate().unwrap();
}

/// The segments are as small as in a cache of 16 MiB, so there are as many as in a cache of 256
/// GiB.
#[test]
fn sixteen_gibibytes_of_the_smallest_segments_take_no_memory_until_they_are_used() {
    let _turn = turn();
    const MEMORY_BYTES: u64 = 16 << 30;
    const RESIDENT_BYTES_MAX: u64 = 300 << 20;
    const PATIENCE: Duration = Duration::from_secs(60);
    let (begun, before) = (Instant::now(), resident_bytes());
    let builder = Cache::builder().memory_bytes(16 << 20).memory_bytes_max(MEMORY_BYTES);
    let cache = match builder.open() {
        Ok(cache) => cache,
        Err(error) => {
            return larder_testkit::skip(format!("the system reserves no 16 GiB: {error}"));
        }
    };
    cache.set_memory_limit(MEMORY_BYTES).unwrap();
    assert!(cache.report().segments > 260_000, "{:?}", cache.report());
    for key in 0..50_000_u64 {
        let ttl = key.is_multiple_of(2).then_some(Duration::from_secs(1000));
        cache.set(key.to_le_bytes(), value_of(key, 500), ttl).unwrap();
    }
    cache.set("large", vec![7; 400_000], None).unwrap();
    for key in (0..50_000_u64).step_by(5) {
        assert!(cache.delete(key.to_le_bytes()).unwrap());
    }
    (0..3).for_each(|_| cache.maintain());
    assert_eq!(cache.len(), 40_001);
    cache.set_memory_limit(64 << 20).unwrap();
    (0..3).for_each(|_| cache.maintain());
    cache.validate().unwrap();
    assert_eq!(cache.len(), 40_001, "a limit above what is used evicts");
    let resident = resident_bytes().saturating_sub(before);
    assert!(resident < RESIDENT_BYTES_MAX, "{resident} bytes are resident");
    assert!(begun.elapsed() < PATIENCE, "it took {:?}", begun.elapsed());
}

#[test]
fn two_hundred_and_fifty_six_processes_use_one_cache_and_half_of_them_are_killed() {
    let _turn = turn();
    const CHILDREN: u64 = 255;
    const OPERATIONS: u64 = 200;
    const PATIENCE: Duration = Duration::from_secs(10);
    let cache = Cache::builder().memory_bytes(256 << 20).anonymous_shared(true).open().unwrap();
    play(&cache, 1, OPERATIONS);
    let (begun, all_are_there) = (Word::new(), Word::new());
    let is_killed = |child: u64| child.is_multiple_of(2);
    let children: Vec<Child> = (0..CHILDREN)
        .map(|child| {
            fork(|| {
                play(&cache, child, 1);
                begun.say(u32::from(cache.lost().is_some()));
                all_are_there.hear();
                play(&cache, child, OPERATIONS);
                while is_killed(child) {
                    play(&cache, child, OPERATIONS);
                }
                0
            })
        })
        .collect();
    let refused: u32 = children.iter().map(|_| begun.hear()).sum();
    assert_eq!(refused, 0, "processes that the cache had no room for");
    (0..CHILDREN).for_each(|_| all_are_there.say(1));
    thread::sleep(Duration::from_millis(30));
    (0..).zip(&children).filter(|(number, _)| is_killed(*number)).for_each(|(_, child)| {
        child.kill();
    });
    for (number, child) in (0..).zip(children) {
        let expected = if is_killed(number) { -libc::SIGKILL } else { 0 };
        assert_eq!(child.wait(), expected, "child {number}");
    }
    let since = Instant::now();
    play(&cache, 7, OPERATIONS);
    cache.maintain();
    assert!(since.elapsed() < PATIENCE, "the survivor waited for {:?}", since.elapsed());
    assert_eq!(cache.identity().1.len(), 1, "dead processes are still listed");
    cache.validate().unwrap();
}

/// Waits until the segments in use have at most `limit` bytes and the maintainer has no more work.
fn wait_for_limit(cache: &Cache, limit: u64) {
    let in_use = || {
        let report = cache.report();
        let segments = report.segments_index + report.segments_ghost + report.segments_items;
        segments * report.segment_bytes
    };
    let (begun, mut before) = (Instant::now(), u64::MAX);
    while before > limit || before != in_use() {
        before = in_use();
        cache.maintain();
        assert!(begun.elapsed() < Duration::from_secs(10), "{before} bytes are in use");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_memory_limit_that_rises_and_falls_under_load_is_reached_and_every_account_is_exact() {
    let _turn = turn();
    const LIMITS: [u64; 2] = [40 << 20, 6 << 20];
    for has_maintainer in [false, true] {
        let builder = Cache::builder().memory_bytes(8 << 20).memory_bytes_max(LIMITS[0]);
        let cache = &builder.maintainer(has_maintainer).open().unwrap();
        let is_over = &AtomicBool::new(false);
        thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || {
                    let mut random = Random::with_seed(thread + 1);
                    while !is_over.load(Relaxed) {
                        let key = random.below(60_000);
                        cache.set(key.to_le_bytes(), value_of(key, 900), None).unwrap();
                    }
                });
            }
            for limit in LIMITS.iter().cycle().take(8) {
                cache.set_memory_limit(*limit).unwrap();
                thread::sleep(Duration::from_millis(60));
            }
            is_over.store(true, Relaxed);
        });
        wait_for_limit(cache, LIMITS[1]);
        cache.validate().unwrap();
        let names: Vec<Vec<u8>> = cache.keys().collect();
        assert_eq!(cache.len(), names.len() as u64, "the count of items is not exact");
        names.iter().for_each(|name| assert!(cache.delete(name).unwrap()));
        assert_eq!((cache.len(), cache.memory().items), (0, 0), "an account is too high");
    }
}

/// One thread of the test of the clock. No other thread uses its keys, and nothing is evicted.
fn use_until(cache: &Cache, thread: u64, is_over: &AtomicBool) {
    let mut random = Random::with_seed(thread + 1);
    let mut deadlines: HashMap<u64, Deadline> = HashMap::new();
    while !is_over.load(Relaxed) {
        let key = random.below(500);
        let name = (thread << 32 | key).to_le_bytes();
        let (ttl, before) = (1 + random.below(40), cache.now());
        let deadline = Deadline::after(before, ttl);
        let touched = random.below(4) == 0 && cache.touch_until(&name, deadline).unwrap().is_some();
        if !touched && random.below(2) == 0 {
            let request = larder::StoreRequest {
                deadline,
                ..larder::StoreRequest::new(&name, larder::StoreMode::Set)
            };
            cache.store(&request, &value_of(key, 100)).unwrap();
            deadlines.insert(key, deadline);
        } else if touched {
            deadlines.insert(key, deadline);
        }
        let Some(deadline) = deadlines.get(&key) else { continue };
        let before = cache.now();
        let is_found = cache.get(name).is_some();
        let after = cache.now();
        if is_found {
            assert!(!deadline.is_past(before), "read in second {before}, {deadline:?} is past");
        } else {
            assert!(deadline.is_past(after), "expired in second {after}, before {deadline:?}");
        }
    }
}

#[test]
fn no_step_of_the_clock_lets_an_item_expire_early_or_live_for_ever() {
    let _turn = turn();
    let cache = &Cache::builder().memory_bytes(64 << 20).clock(Clock::Ticked).open().unwrap();
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || use_until(cache, thread, is_over));
        }
        let mut random = Random::with_seed(77);
        for _ in 0..150 {
            let now = cache.now();
            match random.below(4) {
                0 => cache.tick(now + random.below(500) as u32),
                1 => cache.tick(now.saturating_sub(random.below(500) as u32)),
                _ => cache.tick(now + 1),
            }
            assert!(cache.now() >= now, "the clock went back from {now} to {}", cache.now());
            cache.maintain();
            thread::sleep(Duration::from_millis(3));
        }
        is_over.store(true, Relaxed);
    });
    cache.validate().unwrap();
    cache.set("stays", "v", None).unwrap();
    cache.tick(cache.now() + 41);
    let live: Vec<Vec<u8>> = cache.keys().collect();
    assert_eq!(live, [b"stays".to_vec()], "items outlive their deadlines");
    // Also items in segments that are still being filled.
    let mut cursor = larder::Cursor::default();
    while cache.sweep_group(&mut cursor, |_, _| true) {}
    assert_eq!(cache.len(), 1, "items that expired keep their memory");
    cache.validate().unwrap();
}
