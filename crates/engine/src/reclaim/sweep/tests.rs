use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use larder_item::{Deadline, Second, StoreMode};

use super::*;
use crate::engine::Engine;
use crate::fixtures::{SMALL, two_peers};
use crate::open::Config;
use crate::ops::request::StoreRequest;
use crate::process::operation::Operation;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::header::Account;
use crate::segment::stream::Pool;

const NOW: Second = 10;

/// Returns an engine of `segments` segments of 64 KiB.
fn engine_of(segments: usize) -> Engine {
    let engine = Engine::create(&Config {
        memory_bytes: 16 << 20,
        memory_bytes_max: (segments << 16).max(16 << 20),
        keeps_versions: false,
        ..SMALL
    });
    let engine = engine.unwrap();
    let thread = engine.register().unwrap();
    engine.set_memory_limit(&thread, engine.region().layout().capacity_bytes).unwrap();
    engine.deregister(&thread);
    engine
}

fn segments_or(default: usize) -> usize {
    std::env::var("LARDER_SEGMENTS").map_or(default, |text| text.parse().unwrap())
}

fn store(engine: &Engine, thread: &ThreadSlot, key: u32, deadline: Deadline, now: Second) {
    let key = u64::from(key).to_le_bytes();
    let request = StoreRequest { deadline, ..StoreRequest::new(&key, StoreMode::Set) };
    engine.store(&Operation::new(thread, now), &request, &[7; 80]).unwrap();
}

/// Seals segments that look full of items without a deadline, until few are free.
fn seal_the_rest(engine: &Engine, thread: &ThreadSlot) {
    let segments = engine.segments();
    while segments.free_segments() > segments.free_segments_high() + 64 {
        let segment = segments.take_fresh(thread, 0).unwrap();
        let stream = segments.stream_of(Pool::Small, Deadline::NEVER, NOW);
        segments.activate(&engine.op(thread, NOW), segment, stream);
        segments.set_filled(segment, engine.region().segment_bytes());
        segments.note_deadline(segment, Deadline::NEVER);
        let bytes = engine.region().segment_bytes();
        segments.charge(segment, Account { items: 1, bytes });
        segments.seal(segment);
    }
}

/// `LARDER_SEGMENTS=1048576` sweeps as many segments as a terabyte has.
#[test]
fn a_lap_over_segments_without_expired_items_takes_a_few_calls() {
    let engine = engine_of(segments_or(1 << 14));
    let thread = engine.register().unwrap();
    seal_the_rest(&engine, &thread);
    for key in 0..100 {
        store(&engine, &thread, key, Deadline(NOW + 1), NOW);
        store(&engine, &thread, 1000 + key, Deadline(NOW + 50), NOW);
    }
    engine.segments().detach_idle(&thread);
    let (mut calls, mut longest) = (0, Duration::ZERO);
    while engine.counter(Counter::CrawlerReclaimed) < 100 && calls < 2000 {
        calls += 1;
        let begun = Instant::now();
        engine.maintain(&thread, NOW + 1);
        longest = longest.max(begun.elapsed());
    }
    let segments = engine.segments().used_segments();
    println!("{calls} calls for {segments} segments, the longest {longest:?}");
    assert!(calls <= 2, "{calls} calls of maintain found what had expired");
}

/// `LARDER_SEGMENTS=16384` sweeps a gigabyte of items of 100 bytes.
#[test]
fn half_of_all_items_expire_at_once() {
    let engine = engine_of(segments_or(256));
    let thread = engine.register().unwrap();
    let segments = engine.segments();
    let mut stored = 0_u32;
    while segments.free_segments() > segments.free_segments_high() + 64 {
        let deadline = if stored.is_multiple_of(2) { NOW + 1 } else { NOW + 50 };
        store(&engine, &thread, stored, Deadline(deadline), NOW);
        stored += 1;
    }
    segments.detach_idle(&thread);
    let (mut calls, mut longest, begun) = (0, Duration::ZERO, Instant::now());
    while engine.counter(Counter::CrawlerReclaimed) < u64::from(stored / 2) && calls < 2000 {
        let begun = Instant::now();
        engine.maintain(&thread, NOW + 1);
        longest = longest.max(begun.elapsed());
        calls += 1;
    }
    let each = begun.elapsed() / stored;
    println!("{stored} items, {calls} calls, the longest {longest:?}, {each:?} an item");
    engine.validate().unwrap();
}

/// Regression test: the sweep waited a second for each segment with an item in a group that a
/// stopped process holds.
#[test]
fn a_call_does_not_wait_for_a_stopped_process() {
    let (stopped, engine) = two_peers();
    let (holder, thread) = (stopped.register().unwrap(), engine.register().unwrap());
    for key in 0..400 {
        store(&engine, &thread, key, Deadline(NOW + 1), NOW);
    }
    engine.segments().detach_idle(&thread);
    let hash = engine.index().hash(&0_u64.to_le_bytes());
    let locked = stopped.index().lock(&stopped.op(&holder, NOW), hash).unwrap();
    let begun = Instant::now();
    engine.maintain(&thread, NOW + 1);
    let took = begun.elapsed();
    drop(locked);
    assert!(took < Duration::from_millis(500), "a call of maintain took {took:?}");
    let left = engine.segments().total().items;
    assert!((1..100).contains(&left), "{left} of 400 items are left, most of them in other groups");
    engine.maintain(&thread, NOW + 1);
    assert_eq!(engine.segments().total().items, 0, "the process went on, and its items stay");
    engine.validate().unwrap();
}

/// Items with many TTLs are continuously stored and expire, in the same segments.
#[test]
fn items_that_expire_all_the_time_are_swept_within_a_few_calls() {
    const STORED_A_SECOND: u32 = 1000;
    const SECONDS: u32 = 150;
    const LATE_SECONDS_MAX: u32 = 12;
    let engine = engine_of(segments_or(1 << 10));
    let thread = engine.register().unwrap();
    let mut stored = 0_u32;
    let mut expiring: BTreeMap<Second, u64> = BTreeMap::new();
    for now in NOW..NOW + SECONDS {
        for _ in 0..STORED_A_SECOND {
            let deadline = now + 1 + stored.wrapping_mul(0x9E37_79B9) % 60;
            store(&engine, &thread, stored, Deadline(deadline), now);
            *expiring.entry(deadline).or_default() += 1;
            stored += 1;
        }
        engine.maintain(&thread, now);
        let expired: u64 = expiring.range(..=now).map(|(_, count)| count).sum();
        let due: u64 =
            expiring.range(..=now.saturating_sub(LATE_SECONDS_MAX)).map(|(_, count)| count).sum();
        let counters = [Counter::CrawlerReclaimed, Counter::Reclaimed];
        let swept: u64 = counters.map(|counter| engine.counter(counter)).iter().sum();
        // Segments of appenders are not swept.
        let open = 8 * engine.region().segment_bytes() as u64 / 96;
        assert!(
            swept + open >= due,
            "in second {now}, {swept} of {expired} expired items are swept, {due} are long due"
        );
    }
    assert_eq!(engine.counter(Counter::Evictions), 0, "the test did not leave it to the sweep");
    engine.validate().unwrap();
}
