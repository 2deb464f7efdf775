use std::mem;
use std::time::{Duration, Instant};

use larder_item::{Deadline, Second, StoreMode};
use larder_region::Locks;

use super::*;
use crate::engine::Engine;
use crate::fixtures::{SMALL, two_peers, two_peers_of};
use crate::open::Config;
use crate::ops::request::StoreRequest;
use crate::process::operation::Operation;
use crate::segment::stream::Pool;
use crate::superblock::{AttachError, Birth};

const NOW: Second = 10;

/// Ends a peer like a process that the kernel has killed.
fn kill(peer: Engine) {
    peer.peers().die();
    mem::forget(peer);
}

/// Takes a segment and begins a use of it.
fn begin_use(engine: &Engine, thread: &ThreadSlot) -> u32 {
    let segments = engine.segments();
    let segment = segments.take_any(thread, 0).expect("a segment is free");
    let stream = segments.stream_of(Pool::Small, Deadline::NEVER, NOW);
    segments.activate(&engine.op(thread, NOW), segment, stream);
    segment
}

#[test]
fn what_all_threads_of_a_dead_process_held_is_released() {
    let (dead, engine) = two_peers_of(&Config { memory_bytes: 4 << 20, ..LARGER });
    let threads: Vec<_> = (0..6).map(|_| dead.register().unwrap()).collect();
    let segments = dead.segments();
    let reserved = segments.take_any(&threads[0], 0).unwrap();
    let active = begin_use(&dead, &threads[1]);
    let [emptying, retired, pinned] = [(); 3].map(|()| {
        let segment = begin_use(&dead, &threads[2]);
        segments.seal(segment);
        segment
    });
    assert!(segments.begin_emptying(&threads[2], segments.present_use(emptying)));
    assert!(segments.begin_emptying(&threads[3], segments.present_use(retired)));
    segments.sequence(retired).store(0, Release);
    assert!(segments.pin(pinned, segments.present_use(pinned).sequence));
    let locked = dead.index().lock(&dead.op(&threads[4], NOW), 1).unwrap();
    let group = locked.group;
    mem::forget(locked);
    let stream = segments.stream_of(Pool::Main, Deadline::NEVER, NOW);
    mem::forget(segments.reserve(&dead.op(&threads[5], NOW), stream, 8, 8).unwrap());
    let in_use = segments.segments_in_use();
    kill(dead);

    assert!(engine.reclaimer().reap_peers());

    let segments = engine.segments();
    let states = [reserved, active, emptying, retired].map(|segment| segments.state(segment));
    assert_eq!(states, [State::Free, State::Sealed, State::Sealed, State::Free]);
    assert_eq!(segments.segments_in_use(), in_use - 2);
    assert!(!engine.peers().is_held(pinned), "a dead process pins segment {pinned}");
    assert!(segments.is_suspect(pinned), "it may have been counting segment {pinned}");
    assert!(!segments.is_any_appender_claimed());
    assert_eq!(
        engine
            .index()
            .lock_group(&engine.op(&engine.register().unwrap(), NOW), group)
            .map(|locked| locked.group)
            .ok(),
        Some(group)
    );
    let pools = [Pool::Small, Pool::Main].map(|pool| segments.pool_segments(pool).load(Relaxed));
    assert_eq!(pools, [3, 1], "segments of the pools");
    engine.validate().unwrap();
}

/// A pin that comes too late, after another thread has begun the segment's next use, is in the
/// peer's row, but the segment's holders do not name the peer.
#[test]
fn a_pin_that_the_holders_do_not_name_ends_with_its_process() {
    let (dead, engine) = two_peers();
    let thread = engine.register().unwrap();
    let segment = begin_use(&engine, &thread);
    dead.peers().raise_pin(segment);
    engine.segments().set_own_state(segment, State::Reserved, &thread);
    let stream = engine.segments().stream(segment);
    engine.segments().activate(&engine.op(&thread, NOW), segment, stream);
    engine.segments().seal(segment);
    kill(dead);

    assert!(engine.reclaimer().reap_peers());

    // The next process in that row briefly holds something in the segment.
    let next = another_peer(&engine);
    next.peers().raise_pin(segment);
    next.peers().unpin(segment);
    assert!(!engine.peers().is_pinned(segment), "segment {segment} is pinned for ever");
}

/// Returns one more peer of a region.
fn another_peer(engine: &Engine) -> Engine {
    let locks = Locks::of(&engine.lock_file_to_pass().unwrap().unwrap(), "locks").unwrap();
    let check = |_: &Config, _: &Birth| Ok::<(), AttachError>(());
    Engine::attach(engine.region().memory().again(), locks, SMALL.item_bytes_max, check)
        .unwrap()
        .peer()
        .unwrap()
}

const LARGER: Config = Config { memory_bytes: 16 << 20, memory_bytes_max: 16 << 20, ..SMALL };

/// Returns an engine of `segments` segments of 64 KiB that are sealed.
fn full_engine(segments: usize) -> Engine {
    let (_, engine) = two_peers_of(&Config { memory_bytes_max: segments << 16, ..LARGER });
    let thread = engine.register().unwrap();
    engine.set_memory_limit(&thread, engine.region().layout().capacity_bytes).unwrap();
    while engine.segments().free_segments() > 64 {
        let segment = begin_use(&engine, &thread);
        engine.segments().seal(segment);
    }
    engine.deregister(&thread);
    engine
}

/// Returns how long the repair takes after a process with many threads has died.
fn repair_of(engine: &Engine, threads: usize) -> Duration {
    let dead = another_peer(engine);
    let threads: Vec<_> = (0..threads).map(|_| dead.register().unwrap()).collect();
    let key = 7_u32.to_le_bytes();
    let request =
        StoreRequest { deadline: Deadline::NEVER, ..StoreRequest::new(&key, StoreMode::Set) };
    dead.store(&Operation::new(&threads[0], NOW), &request, b"value").unwrap();
    let segment = dead.segments().take_any(threads.last().unwrap(), 0);
    assert!(segment.is_some());
    kill(dead);
    let begun = Instant::now();
    assert!(engine.reclaimer().reap_peers());
    begun.elapsed()
}

/// `LARDER_SEGMENTS=262144` measures a region of 16 GiB.
#[test]
fn a_repair_after_many_threads_takes_as_long_as_after_one() {
    let segments = std::env::var("LARDER_SEGMENTS").map_or(1 << 14, |text| text.parse().unwrap());
    let engine = full_engine(segments);
    // Takes the fastest of several rounds, because other processes also use the machine.
    let fastest = |threads| (0..9).map(|_| repair_of(&engine, threads)).min().unwrap();
    let (one, many) = (fastest(1), fastest(64));
    println!("among {segments} segments: {one:?} after one thread, {many:?} after 64");
    assert!(many < 4 * one, "it takes {many:?} after 64 threads, {one:?} after one");
}

/// Stores an item whose record is overwritable. Returns where it is.
fn overwritable_item(engine: &Engine, thread: &ThreadSlot) -> Found {
    let request = StoreRequest::new(b"k", StoreMode::Set);
    for _ in 0..4 {
        engine.store(&Operation::new(thread, NOW), &request, b"the old value").unwrap();
    }
    let found = engine.index().find(engine.index().hash(b"k"), b"k").unwrap();
    assert!(found.header.is_overwritable());
    found
}

/// Ends a peer in an overwrite of an item, which has reached the given version. Returns the value
/// that the other peer then reads.
fn value_after_a_death_at(version_left: fn(u64) -> u64) -> Option<Vec<u8>> {
    let (dead, engine) = two_peers();
    let thread = dead.register().unwrap();
    let found = overwritable_item(&dead, &thread);
    mem::forget(dead.index().lock(&dead.op(&thread, NOW), dead.index().hash(b"k")).unwrap());
    let version = dead.index().version(&found);
    dead.peers().intend_to_change(&thread, found.record_at, version, InPlace::Overwrite);
    let version_at = found.record_at + found.header.version_at().unwrap();
    dead.region().word(version_at).store(version_left(version), Release);
    kill(dead);
    assert!(engine.reclaimer().reap_peers());
    engine.validate().unwrap();
    engine.peek_value(b"k", NOW).map(|(value, _)| value)
}

#[test]
fn an_item_whose_writer_died_in_an_overwrite_is_gone() {
    assert_eq!(value_after_a_death_at(|_| 0), None);
}

#[test]
fn an_item_whose_writer_died_next_to_an_overwrite_stays() {
    let value = b"the old value".to_vec();
    assert_eq!(value_after_a_death_at(|before| before).as_ref(), Some(&value));
    assert_eq!(value_after_a_death_at(|before| before + 1).as_ref(), Some(&value));
}

#[test]
fn a_segment_that_lost_an_overwritten_item_counts_one_item_less() {
    let (dead, engine) = two_peers();
    let thread = dead.register().unwrap();
    let found = overwritable_item(&dead, &thread);
    let locked = dead.index().lock(&dead.op(&thread, NOW), dead.index().hash(b"k")).unwrap();
    dead.peers().intend_to_change(&thread, found.record_at, 1, InPlace::Overwrite);
    let version_at = found.record_at + found.header.version_at().unwrap();
    dead.region().word(version_at).store(0, Release);
    mem::forget(locked);
    kill(dead);
    assert!(engine.reclaimer().reap_peers());
    assert_eq!(engine.segments().account(found.slot.segment()), Account::default());
    let thread = engine.register().unwrap();
    engine.recount_suspects(&thread, usize::MAX);
    engine.validate().unwrap();
}
