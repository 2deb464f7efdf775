//! Many threads on one cache: every value that is read is complete, and was stored for that key.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use larder::{Arithmetic, Cache, Clock, Deadline, Direction, StoreMode, StoreRequest, Stored};
use larder_testkit::Random;

/// Returns a value that contains its key and version, followed by bytes derived from both.
fn self_describing(key: u64, version: u64, bytes: usize) -> Vec<u8> {
    let fill = (key ^ version).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
    let mut value = [key.to_le_bytes(), version.to_le_bytes()].concat();
    value.resize(16 + bytes, fill as u8);
    value
}

fn assert_is_of(key: u64, value: &[u8]) {
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().unwrap());
    assert_eq!(word(0), key, "value of another key");
    assert_eq!(value, self_describing(key, word(8), value.len() - 16), "mix of two values");
}

fn churn(cache: &Cache, thread: u64, keys: u64, operations: u64, bytes_max: u64) {
    let mut random = Random::with_seed(thread + 1);
    let mut out = Vec::new();
    for version in 0..operations {
        let key = random.below(keys);
        let name = key.to_le_bytes();
        match random.below(10) {
            0..5 => {
                out.clear();
                if cache.get_into(name, &mut out).is_some() {
                    assert_is_of(key, &out);
                }
            }
            5..8 => {
                let bytes = random.below(bytes_max) as usize;
                let value = self_describing(key, version << 8 | thread, bytes);
                cache.set(name, &value, None).unwrap();
            }
            8 => {
                cache.delete(name).unwrap();
            }
            _ => {
                cache
                    .touch_until(&name, Deadline::after(cache.now(), 1 + random.below(5)))
                    .unwrap();
            }
        }
    }
}

#[test]
fn no_reader_gets_a_wrong_value_while_segments_are_reused() {
    let cache = Cache::builder().memory_bytes(2 << 20).clock(Clock::Ticked).open().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|thread| {
                let cache = cache.clone();
                scope.spawn(move || churn(&cache, thread, 3_000, 150_000, 2_000))
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                cache.tick(cache.now() + 1);
                cache.maintain();
                thread::yield_now();
            }
        });
        let ends: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    cache.validate().unwrap();
    assert!(
        cache.counter(larder::Counter::SegmentsEvicted) > 100,
        "the test did not empty segments"
    );
}

#[test]
fn large_values_are_read_whole_while_their_pieces_are_evicted() {
    let cache = Cache::builder().memory_bytes(8 << 20).open().unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let cache = cache.clone();
            scope.spawn(move || churn(&cache, thread, 40, 6_000, 400_000));
        }
    });
    cache.validate().unwrap();
}

#[test]
fn survivors_of_compaction_are_never_lost_or_mixed() {
    let cache =
        Cache::builder().memory_bytes(4 << 20).evict(false).clock(Clock::Ticked).open().unwrap();
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let cache = cache.clone();
            scope.spawn(move || {
                let mut random = Random::with_seed(thread + 1);
                let mut versions = [None; 300];
                for version in 0..30_000u64 {
                    let key = random.below(300);
                    let name = (thread << 32 | key).to_le_bytes();
                    let bytes = random.below(3_000) as usize;
                    let value = self_describing(thread << 32 | key, version, bytes);
                    if random.below(3) > 0 && cache.set(name, &value, None).is_ok() {
                        versions[key as usize] = Some(version);
                    } else {
                        let found = cache.get(name).map(|value| {
                            assert_is_of(thread << 32 | key, &value);
                            u64::from_le_bytes(value[8..16].try_into().unwrap())
                        });
                        // A set that failed because memory was full removed the old value.
                        assert!(found.is_none() || found == versions[key as usize]);
                    }
                }
            });
        }
    });
    cache.validate().unwrap();
    assert!(cache.report().bytes_relocated > 0, "the test did not compact segments");
}

#[test]
fn every_increment_is_counted() {
    let cache = Cache::builder().memory_bytes(4 << 20).open().unwrap();
    cache.set(b"n", b"0", None).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            let cache = cache.clone();
            scope.spawn(move || {
                for _ in 0..20_000 {
                    let moved = cache.arithmetic(b"n", Direction::Increment, 1).unwrap();
                    assert!(matches!(moved, Arithmetic::Number { .. }));
                }
            });
        }
    });
    assert_eq!(cache.get(b"n").as_deref(), Some(&b"80000"[..]));
    cache.validate().unwrap();
}

#[test]
fn one_thread_succeeds_per_cas_token_and_no_append_is_lost() {
    let cache = Cache::builder().memory_bytes(16 << 20).cas(true).open().unwrap();
    cache.set(b"cas", b"", None).unwrap();
    cache.set(b"log", b"", None).unwrap();
    let won: usize = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..2_000).filter(|_| swap_and_append(&cache)).count()))
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(cache.get(b"cas").map(|value| value.len()), Some(won));
    assert_eq!(cache.get(b"log").map(|value| value.len()), Some(8_000));
    cache.validate().unwrap();
}

/// Extends one value by compare-and-swap, another by appending. True if the swap succeeded.
fn swap_and_append(cache: &Cache) -> bool {
    let request = |key, mode, cas| StoreRequest { cas, ..StoreRequest::new(key, mode) };
    let append = request(b"log", StoreMode::Append, None);
    assert!(matches!(cache.store(&append, b"."), Ok(Stored::Stored { .. })));
    let mut value = Vec::new();
    let meta = cache.get_into(b"cas", &mut value).unwrap();
    value.push(b'+');
    match cache.store(&request(b"cas", StoreMode::Set, Some(meta.cas)), &value).unwrap() {
        Stored::Stored { .. } => true,
        Stored::Exists => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_index_grows_under_readers_without_hiding_a_key() {
    let cache = Cache::builder().memory_bytes(64 << 20).open().unwrap();
    let stable = 10_000u64;
    for key in 0..stable {
        cache.set(key.to_le_bytes(), self_describing(key, 0, 0), None).unwrap();
    }
    let writing = AtomicUsize::new(2);
    thread::scope(|scope| {
        for thread in 1..=2u64 {
            let (cache, writing) = (cache.clone(), &writing);
            scope.spawn(move || {
                for key in 0..150_000u64 {
                    cache.set((thread << 40 | key).to_le_bytes(), b"grow", None).unwrap();
                }
                writing.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for reader in 0..2u64 {
            let (cache, writing) = (cache.clone(), &writing);
            scope.spawn(move || {
                let mut random = Random::with_seed(reader + 77);
                while writing.load(Ordering::Relaxed) > 0 {
                    let key = random.below(stable);
                    let value = cache.get(key.to_le_bytes());
                    assert_is_of(key, &value.expect("an unchanged key was missing"));
                }
            });
        }
    });
    cache.validate().unwrap();
    assert!(cache.counter(larder::Counter::GroupsSplit) > 1_000, "the test did not split groups");
}

#[test]
fn more_threads_than_thread_slots_borrow_them() {
    let cache = Cache::builder().memory_bytes(1 << 20).open().unwrap();
    thread::scope(|scope| {
        for thread in 0..40u64 {
            let cache = cache.clone();
            scope.spawn(move || churn(&cache, thread, 500, 1_000, 200));
        }
    });
    cache.validate().unwrap();
}

#[test]
fn a_value_changed_in_place_is_always_read_with_its_own_cas_token() {
    const ROUNDS: u64 = 20_000;
    let cache = Cache::builder().memory_bytes(16 << 20).cas(true).open().unwrap();
    cache.set(b"n", b"1000000", None).unwrap();
    cache.set(b"log", b"", None).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut seen, mut value) = (HashMap::new(), Vec::new());
            while !done.load(Ordering::Relaxed) {
                for key in [&b"n"[..], b"log"] {
                    value.clear();
                    let meta = cache.get_into(key, &mut value).unwrap();
                    seen.insert((key, meta.cas), value.clone());
                }
            }
            seen
        });
        let mut given = HashMap::new();
        for round in 1..=ROUNDS {
            let Ok(Arithmetic::Number { number, meta }) =
                cache.arithmetic(b"n", Direction::Increment, 1)
            else {
                panic!("n is not a number")
            };
            given.insert((&b"n"[..], meta.cas), number.to_string().into_bytes());
            let append = StoreMode::Append;
            let request = StoreRequest::new(b"log", append);
            let Ok(Stored::Stored { cas, .. }) = cache.store(&request, b".") else {
                panic!("log is missing")
            };
            given.insert((b"log", cas), vec![b'.'; round as usize]);
        }
        done.store(true, Ordering::Relaxed);
        let seen = reader.join().unwrap();
        let (first_n, first_log) = (b"1000000".to_vec(), Vec::new());
        for ((key, cas), value) in seen {
            let told = given.get(&(key, cas));
            let told = told.unwrap_or(if key == b"n" { &first_n } else { &first_log });
            assert_eq!(&value, told, "value of {key:?} with token {cas}");
        }
    });
    cache.validate().unwrap();
}

/// Far more threads than thread slots: no operation fails, and every thread makes progress.
#[test]
fn a_thousand_threads_on_a_mebibyte_each_get_their_turn() {
    const THREADS: u64 = 1024;
    const OPERATIONS: u64 = 200;
    const TIME_MAX: Duration = Duration::from_secs(60);
    let cache = &Cache::builder().memory_bytes(1 << 20).open().unwrap();
    let (all_begun, begun) = (&Barrier::new(THREADS as usize), Instant::now());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                // All threads exist at the same time: the last threads find no free thread slot.
                all_begun.wait();
                churn(cache, thread, 500, OPERATIONS, 100);
            });
        }
    });
    let took = begun.elapsed();
    assert!(took < TIME_MAX, "{THREADS} threads took {took:?}");
    cache.validate().unwrap();
}
