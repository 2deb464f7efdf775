//! Processes forked from a process that has a cache open.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use larder::{Builder, Cache, Read, StoreMode, StoreRequest};
use larder_testkit::cache_file;
use larder_testkit::children::{Child, Word, fork, sleep_for_ever};
use rustix::process::{Pid, Signal, kill_process};

fn builder() -> Builder {
    Cache::builder().memory_bytes(4 << 20)
}

fn shared() -> Cache {
    builder().anonymous_shared(true).open().unwrap()
}

/// Returns a value that identifies its key.
fn value_of(key: u64, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (key * 31 + at) as u8).collect()
}

fn is_of(key: u64, value: &[u8]) -> bool {
    value == value_of(key, value.len() as u64)
}

/// Performs operations of all kinds. True if all values were correct.
fn play(cache: &Cache, seed: u64, operations: u64) -> bool {
    let mut state = seed | 1;
    let mut below = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    (0..operations).all(|_| {
        let key = below(300);
        let name = format!("k{key}");
        match below(8) {
            0..3 => cache.set(&name, value_of(key, below(500)), None).is_ok(),
            3 => cache.set(&name, value_of(key, 20_000 + below(20_000)), None).is_ok(),
            4 => cache.delete(&name).is_ok(),
            _ => cache.get(&name).is_none_or(|value| is_of(key, &value)),
        }
    })
}

#[test]
fn children_and_their_parent_see_each_others_stores() {
    let cache = shared();
    cache.set("of the parent", "1", None).unwrap();
    let (stored, seen) = (Word::new(), Word::new());
    let one = fork(|| {
        assert_eq!(cache.get("of the parent").as_deref(), Some(&b"1"[..]));
        cache.set("of one", "2", None).unwrap();
        stored.say(1);
        seen.hear();
        0
    });
    stored.hear();
    let other = fork(|| {
        assert_eq!(cache.get("of one").as_deref(), Some(&b"2"[..]));
        cache.set("of the other", "3", None).unwrap();
        // The parent must find the item without any message from the child.
        0
    });
    assert_eq!(other.wait(), 0);
    seen.say(1);
    assert_eq!(one.wait(), 0);
    assert_eq!((cache.get("of the other").as_deref(), cache.len()), (Some(&b"3"[..]), 3));
    cache.validate().unwrap();
}

#[test]
fn a_child_has_an_independent_copy_of_a_private_cache() {
    let cache = builder().open().unwrap();
    cache.set("k", "before", None).unwrap();
    let child = fork(|| {
        assert_eq!(cache.get("k").as_deref(), Some(&b"before"[..]));
        cache.set("k", "of the child", None).unwrap();
        cache.set("more", "of the child", None).unwrap();
        cache.validate().unwrap();
        0
    });
    assert_eq!(child.wait(), 0);
    assert_eq!((cache.get("k").as_deref(), cache.len()), (Some(&b"before"[..]), 1));
}

#[test]
fn killed_children_leave_nothing_locked() {
    let cache = shared();
    for round in 0..40 {
        let begun = Word::new();
        let children: Vec<_> = (0..2)
            .map(|child| {
                fork(|| {
                    play(&cache, round * 7 + child, 10);
                    begun.say(1);
                    while play(&cache, round + child * 1000 + 1, 100) {}
                    1
                })
            })
            .collect();
        for _ in &children {
            begun.hear();
        }
        thread::sleep(Duration::from_micros(round * 331 % 5000));
        children.iter().for_each(Child::kill);
        for child in children {
            assert_eq!(child.wait(), -libc::SIGKILL);
        }
        let since = Instant::now();
        assert!(play(&cache, round, 500));
        cache.maintain();
        cache.validate().unwrap();
        assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    }
    assert_eq!(cache.identity().1.len(), 1, "dead peers are still listed");
}

/// Forks while threads are in the middle of operations.
fn fork_beside_threads(cache: &Cache) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 1..=3 {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut turn = seed;
                while !is_over.load(Relaxed) {
                    turn += 10;
                    assert!(play(cache, turn, 50));
                }
            });
        }
        for round in 0..40 {
            let child = fork(|| {
                let begun = Instant::now();
                let is_right = play(cache, round * 11 + 5, 500);
                cache.maintain();
                i32::from(!is_right) + 2 * i32::from(begun.elapsed() > Duration::from_secs(4))
            });
            assert_eq!(child.wait(), 0, "in round {round}");
        }
        is_over.store(true, Relaxed);
    });
    cache.maintain();
    cache.validate().unwrap();
    let names: Vec<Vec<u8>> = cache.keys().collect();
    assert_eq!(cache.len(), names.len() as u64);
    names.iter().for_each(|name| assert!(cache.delete(name).unwrap()));
    cache.maintain();
    assert_eq!((cache.len(), cache.report().live_bytes), (0, 0));
}

#[test]
fn a_fork_during_operations_keeps_both_copies_of_a_private_cache_valid() {
    fork_beside_threads(&builder().open().unwrap());
}

#[test]
fn a_fork_during_operations_keeps_a_shared_cache_valid() {
    fork_beside_threads(&shared());
}

#[test]
fn a_fork_beside_a_maintainer_keeps_both_sides_valid() {
    fork_beside_threads(&builder().anonymous_shared(true).maintainer(true).open().unwrap());
}

#[test]
fn a_child_that_does_not_use_the_cache_does_not_keep_its_parent_alive() {
    let (_folder, path) = cache_file();
    let ready = Word::new();
    let parent = fork(|| {
        let cache = builder().shared(&path).open().unwrap();
        cache.set("k", "v", None).unwrap();
        let _child = fork(|| {
            ready.say(std::process::id());
            sleep_for_ever()
        });
        sleep_for_ever()
    });
    let orphan = Pid::from_raw(ready.hear() as i32).unwrap();
    parent.kill();
    assert_eq!(parent.wait(), -libc::SIGKILL);
    let cache = builder().shared(&path).open().unwrap();
    assert_eq!(cache.identity().1, [u64::from(std::process::id())]);
    assert_eq!(cache.get("k").as_deref(), Some(&b"v"[..]));
    cache.validate().unwrap();
    // Until its alarm the orphan would keep the output of the tests open, and cargo's caller would
    // wait.
    assert_eq!(kill_process(orphan, Signal::KILL), Ok(()));
}

#[test]
fn unfinished_reads_and_uploads_stay_the_parents() {
    for cache in [shared(), builder().open().unwrap()] {
        cache.set("large", value_of(1, 50_000), None).unwrap();
        let mut upload = cache.upload(b"arriving", 50_000).unwrap();
        upload.push(&value_of(2, 50_000)[..20_000]).unwrap();
        let Read::Large(_, mut large) = cache.read(b"large", &mut Vec::new(), |_, _| ()) else {
            panic!("the value is not large");
        };
        let first = large.take_piece().unwrap().unwrap();
        let bytes = first.len();
        let held = Mutex::new(Some((upload, large, first)));
        let child = fork(|| {
            let (mut upload, mut large, piece) = held.lock().unwrap().take().unwrap();
            assert!(upload.push(b"more").is_err());
            assert!(upload.direct_buffer().is_none());
            assert!(large.take_piece().is_err());
            assert!(large.next_piece(&mut Vec::new()).is_err());
            assert!(piece.is_empty());
            assert!(cache.get("large").is_some_and(|value| is_of(1, &value)));
            drop((upload, large, piece));
            assert!(cache.delete("large").unwrap());
            assert!(play(&cache, 5, 300));
            0
        });
        assert_eq!(child.wait(), 0);
        let (mut upload, mut large, piece) = held.into_inner().unwrap().unwrap();
        assert_eq!(*piece, value_of(1, 50_000)[..bytes]);
        let mut value = piece.to_vec();
        while large.next_piece(&mut value).unwrap() {}
        assert!(is_of(1, &value), "the value changed while it was read");
        upload.push(&value_of(2, 50_000)[20_000..]).unwrap();
        upload.store(&StoreRequest::new(b"arriving", StoreMode::Set)).unwrap();
        assert!(cache.get("arriving").is_some_and(|value| is_of(2, &value)));
        drop((large, piece));
        cache.maintain();
        cache.validate().unwrap();
        assert_eq!(cache.report().segments_pinned, 0);
    }
}

#[test]
fn a_direct_buffer_of_the_parent_is_unusable_in_the_child() {
    let cache = shared();
    let mut upload = cache.upload(b"arriving", 50_000).unwrap();
    let direct_buffer = upload.direct_buffer().unwrap();
    assert_eq!(cache.report().segments_pinned, 1);
    let held = Mutex::new(Some((upload, direct_buffer)));
    let child = fork(|| {
        let (mut upload, direct_buffer) = held.lock().unwrap().take().unwrap();
        assert!(direct_buffer.room().is_none());
        upload.complete_direct(direct_buffer, 10);
        0
    });
    assert_eq!(child.wait(), 0);
    assert_eq!(cache.report().segments_pinned, 1, "the parent's buffer is no longer pinned");
    drop(held);
    assert_eq!(cache.report().segments_pinned, 0);
}

#[test]
fn a_child_beyond_the_peer_limit_gets_a_private_cache_and_a_reason() {
    let cache = builder().memory_bytes(1 << 20).anonymous_shared(true).open().unwrap();
    cache.set("k", "v", None).unwrap();
    let counted = Word::new();
    let children: Vec<_> = (0..20)
        .map(|_| {
            let child = fork(|| {
                let lost = cache.lost().map(ToString::to_string);
                let is_right = match &lost {
                    None => cache.get("k").as_deref() == Some(b"v"),
                    Some(why) => {
                        cache.get("k").is_none() && why.contains("processes use the cache")
                    }
                };
                cache.set("mine", "v", None).unwrap();
                counted.say(u32::from(lost.is_some()) + 2 * u32::from(!is_right));
                sleep_for_ever()
            });
            (child, counted.hear())
        })
        .collect();
    let said: Vec<u32> = children.iter().map(|(_, said)| *said).collect();
    assert!(said.iter().all(|said| *said < 2), "{said:?}");
    assert!(said[..7].iter().all(|said| *said == 0), "{said:?}");
    assert!(said[19] == 1, "{said:?}");
    drop(children);
    cache.maintain();
    assert!(
        fork(|| i32::from(cache.lost().is_some())).wait() == 0,
        "a peer slot did not become free"
    );
    cache.validate().unwrap();
}
