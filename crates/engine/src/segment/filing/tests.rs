use std::time::{Duration, Instant};

use larder_item::{Deadline, StoreMode};
use larder_region::layout::global;
use larder_region::{Locks, Memory};

use super::*;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::fixtures::SMALL;
use crate::open::Config;
use crate::ops::request::StoreRequest;
use crate::process::operation::Operation;
use crate::process::thread_slot::ThreadSlot;
use crate::reclaim::evict::Keep;
use crate::reclaim::policy::Wish;
use crate::segment::stream::Pool;
use crate::superblock::Birth;

const NOW: Second = 10;

fn store(
    engine: &Engine,
    thread: &ThreadSlot,
    key: u32,
    deadline: Deadline,
) -> Result<(), StoreError> {
    let key = key.to_le_bytes();
    let request = StoreRequest { deadline, ..StoreRequest::new(&key, StoreMode::Set) };
    engine.store(&Operation::new(thread, NOW), &request, &[7; 1000]).map(drop)
}

/// Takes a fresh segment and seals it. Marks `bytes` of it as filled with records.
fn seal_one(engine: &Engine, thread: &ThreadSlot, bytes: usize) -> Option<u32> {
    let segments = engine.segments();
    let segment = segments.take_any(thread, 0)?;
    let stream = segments.stream_of(Pool::Small, Deadline::NEVER, NOW);
    segments.activate(&engine.op(thread, NOW), segment, stream);
    segments.set_filled(segment, bytes);
    segments.note_deadline(segment, Deadline::NEVER);
    segments.charge(segment, Account { items: 1, bytes });
    segments.seal(segment);
    Some(segment)
}

#[test]
fn a_segment_moves_to_the_set_of_what_is_left_of_it() {
    let engine = Engine::create(&SMALL).unwrap();
    let thread = engine.register().unwrap();
    let (segments, op) = (engine.segments(), engine.op(&thread, NOW));
    let bytes = engine.region().segment_bytes();
    let segment = seal_one(&engine, &thread, bytes).unwrap();
    for left in (0..SIXTEENTHS).rev() {
        segments.discharge(segment, Account { items: 0, bytes: bytes / SIXTEENTHS });
        let found = segments.filed(left..=left, &op, |_| true);
        assert_eq!(found.map(|found| found.segment), Some(segment), "{left} sixteenths are live");
        let above = segments.filed(left + 1..=SIXTEENTHS, &op, |_| true);
        assert_eq!(above, None, "a set above {left} sixteenths names it");
    }
}

#[test]
fn a_half_dead_segment_is_ripe_when_a_fifth_of_the_segments_were_reused() {
    let engine = Engine::create(&SMALL).unwrap();
    let thread = engine.register().unwrap();
    let (segments, op) = (engine.segments(), engine.op(&thread, NOW));
    let bytes = engine.region().segment_bytes();
    let segment = seal_one(&engine, &thread, bytes).unwrap();
    segments.discharge(segment, Account { items: 0, bytes: bytes / 2 });
    let ripe = || segments.ripe(&op, |_| true).map(|ripe| ripe.segment);
    for age in 1..segments.segments_max().div_ceil(5) {
        assert_eq!(ripe(), None, "the segment has the age {age}");
        let other = segments.take_any(&thread, 0).unwrap();
        segments.activate(&op, other, segments.stream(segment));
        segments.retire(&thread, other);
        segments.free(&thread, other);
    }
    assert_eq!(ripe(), Some(segment));
    segments.discharge(segment, Account { items: 0, bytes: bytes / 4 });
    assert_eq!(ripe(), Some(segment), "an emptier segment is ripe as well");
}

#[test]
fn a_segment_of_which_fifteen_sixteenths_are_live_is_never_ripe() {
    let engine = Engine::create(&SMALL).unwrap();
    let thread = engine.register().unwrap();
    let bytes = engine.region().segment_bytes();
    let segment = seal_one(&engine, &thread, bytes).unwrap();
    engine.segments().discharge(segment, Account { items: 0, bytes: bytes / SIXTEENTHS });
    engine.region().word(global::NEXT_SEQUENCE).fetch_add(1 << 30, Relaxed);
    assert_eq!(engine.segments().ripe(&engine.op(&thread, NOW), |_| true), None);
    engine.segments().discharge(segment, Account { items: 0, bytes: bytes / SIXTEENTHS });
    assert!(engine.segments().ripe(&engine.op(&thread, NOW), |_| true).is_some());
}

#[test]
fn a_short_end_of_a_segment_counts_as_live() {
    let engine = Engine::create(&SMALL).unwrap();
    let bytes = engine.region().segment_bytes();
    let segments = engine.segments();
    assert_eq!(segments.share_of(bytes - 8, bytes - 8), SIXTEENTHS);
    assert_eq!(segments.share_of(bytes * 15 / 16, bytes * 15 / 16), SIXTEENTHS);
    assert_eq!(segments.share_of(bytes / 2, bytes / 2), 8, "a long end is free");
    assert_eq!(segments.share_of(0, bytes - 8), 0, "nothing is live");
    assert_eq!(segments.share_of(8, bytes), 1);
}

#[test]
fn the_lap_finds_segments_that_a_killed_process_left_unfiled() {
    let engine = Engine::create(&SMALL).unwrap();
    let thread = engine.register().unwrap();
    let bytes = engine.region().segment_bytes();
    let sealed = seal_one(&engine, &thread, bytes).unwrap();
    let freed = seal_one(&engine, &thread, bytes).unwrap();
    engine.segments().retire(&thread, freed);
    engine.segments().free(&thread, freed);
    // Simulates a thread that was killed between the change of the state and the first bit.
    for at in (engine.region().layout().sets_at..engine.region().layout().pool_at).step_by(8) {
        engine.region().word(at).store(0, Relaxed);
    }
    assert_eq!(engine.segments().unfiled(NOW), [sealed, freed]);
    assert!(!engine.segments().has_age(sealed));
    engine.segments().lap(engine.segments().used_segments(), NOW);
    assert_eq!(engine.segments().unfiled(NOW), []);
    assert!(engine.segments().has_age(sealed), "the queue by age misses the segment");
    assert_eq!(engine.segments().take_used(&thread, 0), Some(freed));
}

#[test]
fn a_store_finds_memory_that_a_killed_process_left_unfiled() {
    let engine = Engine::create(&SMALL).unwrap();
    let thread = engine.register().unwrap();
    for key in 0..2000 {
        store(&engine, &thread, key, Deadline::NEVER).unwrap();
        // Simulates stores that were killed after they sealed a segment.
        for at in (engine.region().layout().sets_at..engine.region().layout().pool_at).step_by(8) {
            engine.region().word(at).store(0, Relaxed);
        }
    }
    engine.validate().unwrap();
}

#[test]
fn segments_that_expire_are_found_by_the_lap() {
    let engine = Engine::create(&SMALL).unwrap();
    let thread = engine.register().unwrap();
    (0..200).for_each(|key| store(&engine, &thread, key, Deadline(NOW + 5)).unwrap());
    engine.segments().detach_idle(&thread);
    let reclaimable = |now| {
        let op = engine.op(&thread, now);
        engine.segments().lap(engine.segments().used_segments(), now);
        engine.segments().filed(0..=0, &op, |_| true)
    };
    assert_eq!(reclaimable(NOW), None);
    assert!(reclaimable(NOW + 5).is_some());
}

#[test]
fn a_full_cache_without_eviction_is_looked_through_once() {
    let engine = Engine::create(&Config { evicts: false, ..SMALL }).unwrap();
    let thread = engine.register().unwrap();
    let full = (0..).find(|key| store(&engine, &thread, *key, Deadline::NEVER).is_err()).unwrap();
    assert_eq!(store(&engine, &thread, full, Deadline::NEVER), Err(StoreError::NoMemory));
    assert!(!engine.segments().file_all(NOW), "nothing was filed since the last look");
    for key in 0..100_u32 {
        engine.delete(&Operation::new(&thread, NOW), &key.to_le_bytes(), None).unwrap();
    }
    store(&engine, &thread, full, Deadline::NEVER).expect("deleted items made room");
}

/// Regression test: an entry that stays at the head, such as a segment that a stopped thread
/// empties, kept the cells of reused segments after it until the queue was full.
#[test]
fn a_queue_by_age_never_fills_with_cells_of_reused_segments() {
    let engine = Engine::create(&SMALL).unwrap();
    let thread = engine.register().unwrap();
    let first = seal_one(&engine, &thread, 1000).unwrap();
    for _ in 0..10 * engine.region().layout().age_cells() {
        let last = seal_one(&engine, &thread, 1000).unwrap();
        for sealed in [first, last] {
            assert!(engine.segments().has_age(sealed), "segment {sealed} is not in the queue");
        }
        engine.segments().retire(&thread, last);
        engine.segments().free(&thread, last);
    }
}

#[test]
fn a_damaged_queue_by_age_is_filled_again() {
    let engine = Engine::create(&SMALL).unwrap();
    let thread = engine.register().unwrap();
    let sealed = seal_one(&engine, &thread, 1000).unwrap();
    for (head, end) in [(u64::MAX, 5), (0, u64::MAX), (1 << 40, 7), (0, 1 << 40)] {
        engine.region().word(global::AGE_QUEUES).store(head, Relaxed);
        engine.region().word(global::AGE_QUEUES + 8).store(end, Relaxed);
        engine.segments().lap(engine.segments().used_segments(), NOW);
        assert!(engine.segments().has_age(sealed), "head {head}, end {end}");
    }
}

/// Returns an engine with `segments` segments of 64 KiB that are sealed and full, and in which 63
/// peers have died.
fn full_engine(segments: usize) -> Engine {
    let config = Config { memory_bytes: 16 << 20, memory_bytes_max: segments << 16, ..SMALL };
    let memory = Memory::shared_anonymous(Engine::shared_bytes(&config).unwrap()).unwrap();
    let locks = Locks::anonymous().unwrap();
    let engine = Engine::create_shared(memory, locks, &config, &Birth::default()).unwrap();
    let thread = engine.register().unwrap();
    engine.set_memory_limit(&thread, engine.region().layout().capacity_bytes).unwrap();
    engine.region().word(global::PEERS_USED).store(64, Relaxed);
    while seal_one(&engine, &thread, engine.region().segment_bytes()).is_some() {}
    engine
}

/// Returns the mean time in which the oldest segment is chosen, freed, taken and sealed again.
fn turn(engine: &Engine) -> Duration {
    const TURNS: u32 = 500;
    let thread = engine.register().unwrap();
    let (segments, op) = (engine.segments(), engine.op(&thread, NOW));
    let begun = Instant::now();
    for _ in 0..TURNS {
        segments.lap(64, NOW);
        let wish = Wish::keeping(Keep::Needed);
        assert_eq!(engine.reclaimer().reclaimable(&op, wish), None);
        let victim = engine.reclaimer().victim(wish).expect("all segments are sealed");
        assert!(segments.begin_emptying(&thread, victim));
        segments.retire(&thread, victim.segment);
        segments.free(&thread, victim.segment);
        seal_one(engine, &thread, engine.region().segment_bytes()).unwrap();
    }
    let each = begun.elapsed() / TURNS;
    engine.deregister(&thread);
    each
}

/// `LARDER_SEGMENTS=262144` looks at as many segments as 16 GiB have.
#[test]
fn a_choice_among_many_segments_takes_as_long_as_among_few() {
    let many = std::env::var("LARDER_SEGMENTS").map_or(1 << 14, |text| text.parse().unwrap());
    let [few, many] = [1 << 8, many].map(full_engine);
    // Takes the fastest of several rounds, because other processes also use the machine.
    let fastest = |engine| (0..9).map(|_| turn(engine)).min().unwrap();
    let (few, many) = (fastest(&few), fastest(&many));
    println!("a turn takes {few:?} among few segments, {many:?} among many");
    assert!(many < 4 * few, "it takes {many:?}, among few segments {few:?}");
}
