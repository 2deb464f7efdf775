use larder_item::{Deadline, StoreMode};

use super::*;
use crate::engine::Engine;
use crate::fixtures::SMALL;
use crate::open::Config;
use crate::ops::request::StoreRequest;
use crate::process::operation::Operation;
use crate::reclaim::policy::Wish;

const NOW: Second = 10;

fn pass(from: Pool) -> EvictionPass<'static> {
    let to = Stream { pool: Pool::Main, ttl_class: 0 };
    EvictionPass {
        evicts: true,
        mean_bytes: 100,
        limits: SizeLimits::of(ReadItems { reads: 100, bytes: 3000 }),
        margin_min: SizeLimits::MARGIN_OF_LIMIT,
        ..EvictionPass::moving(to, from, 1000)
    }
}

#[test]
fn rounds_count_until_a_whole_segment_is_reclaimed() {
    const SEGMENT: usize = 1000;
    let mut effort = Effort::default();
    for _ in 0..1000 {
        effort.count_round(SEGMENT / 10, SEGMENT);
        assert_eq!(
            effort.keep(),
            Keep::Needed,
            "ten rounds for a segment must keep all that is needed"
        );
    }
    for (rounds, keep) in [(16, Keep::Needed), (48, Keep::BestHalf), (100, Keep::Nothing)] {
        for _ in 0..rounds {
            assert_eq!(effort.keep(), keep);
            effort.count_round(0, SEGMENT);
        }
    }
    effort.count_round(SEGMENT, SEGMENT);
    assert_eq!(effort.keep(), Keep::Needed);
    effort.keep_nothing();
    effort.count_round(SEGMENT, SEGMENT);
    assert_eq!(effort.keep(), Keep::Nothing);
}

#[test]
fn larger_items_must_have_been_read_more_often() {
    let pass = pass(Pool::Small);
    assert!(pass.keeps(1, 100, 100) && !pass.keeps(1, 200, 200) && pass.keeps(2, 200, 200));
    assert!(!pass.keeps(0, 1, 1), "an item survived that was not read");
    assert!(!pass.keeps(3, 100, 1001), "an item survived without bytes left for it");
}

#[test]
fn a_margin_chooses_among_items_below_their_limits() {
    let half = EvictionPass { margin_min: 2 * SizeLimits::MARGIN_OF_LIMIT, ..pass(Pool::Main) };
    assert!(half.keeps(2, 100, 100) && !half.keeps(1, 100, 100) && half.keeps(1, 50, 50));
}

#[test]
fn survivors_of_small_restart_at_zero_and_those_of_main_lose_one() {
    assert_eq!(pass(Pool::Small).freq_after(3), 0);
    assert_eq!(pass(Pool::Main).freq_after(3), 2);
}

fn set(engine: &Engine, thread: &ThreadSlot, key: &[u8], value_bytes: usize) {
    let request = StoreRequest::new(key, StoreMode::Set);
    let request = StoreRequest { deadline: Deadline::NEVER, ..request };
    engine.store(&Operation::new(thread, NOW), &request, &vec![7; value_bytes]).unwrap();
}

fn read(engine: &Engine, thread: &ThreadSlot, key: &[u8]) {
    engine.read(thread, key, NOW, &mut Vec::new(), |_, _| ());
}

/// Evicts the segment that was written last.
fn evict_written(engine: &Engine, thread: &ThreadSlot) {
    engine.segments().detach_idle(thread);
    let victim = engine.reclaimer().victim(Wish::keeping(Keep::Needed)).unwrap();
    let emptied = engine.reclaimer().evict(&engine.op(thread, NOW), victim, Keep::Needed).unwrap();
    assert!(matches!(emptied, Emptied::Yes(_)), "{emptied:?}");
}

fn segment_of(engine: &Engine, key: &[u8]) -> u32 {
    engine.index().find(engine.index().hash(key), key).unwrap().slot.segment()
}

fn is_found(engine: &Engine, key: &[u8]) -> bool {
    engine.index().find(engine.index().hash(key), key).is_some()
}

#[test]
fn a_large_item_survives_with_more_reads_than_small_ones_need() {
    let engine = Engine::create(&SMALL).unwrap();
    let thread = engine.register().unwrap();
    for key in 0..30_u32 {
        set(&engine, &thread, &key.to_le_bytes(), 500);
        read(&engine, &thread, &key.to_le_bytes());
    }
    evict_written(&engine, &thread);
    let kept = (0..30_u32).filter(|key| is_found(&engine, &key.to_le_bytes()));
    assert_eq!(kept.count(), 30, "before anything is known, what was read survives");
    for (key, reads) in [(b"read once", 1), (b"read more", 3)] {
        set(&engine, &thread, key, 3000);
        (0..reads).for_each(|_| read(&engine, &thread, key));
    }
    set(&engine, &thread, b"small", 500);
    read(&engine, &thread, b"small");
    evict_written(&engine, &thread);
    let found = [&b"read once"[..], b"read more", b"small"].map(|key| is_found(&engine, key));
    assert_eq!(found, [false, true, true], "of items read once, twice, and a small one");
}

#[test]
fn an_item_that_was_stored_again_survives_as_one_that_was_read_does() {
    let engine = Engine::create(&SMALL).unwrap();
    let thread = engine.register().unwrap();
    for key in [&b"read"[..], b"stored again", b"stored once"] {
        set(&engine, &thread, key, 500);
    }
    read(&engine, &thread, b"read");
    set(&engine, &thread, b"stored again", 500);
    evict_written(&engine, &thread);
    let found = [&b"read"[..], b"stored again", b"stored once"].map(|key| is_found(&engine, key));
    assert_eq!(found, [true, true, false], "of items read, stored again, stored once");
}

#[test]
fn survivors_lie_apart_from_new_records() {
    let config = Config { memory_bytes: 64 << 20, memory_bytes_max: 64 << 20, ..SMALL };
    let engine = Engine::create(&config).unwrap();
    let thread = engine.register().unwrap();
    set(&engine, &thread, b"survivor", 500);
    engine.segments().detach_idle(&thread);
    let sealed = engine.segments().present_use(segment_of(&engine, b"survivor"));
    engine.reclaimer().compact(&engine.op(&thread, NOW), sealed).unwrap();
    set(&engine, &thread, b"new", 500);
    let [survivor, new] = [&b"survivor"[..], b"new"].map(|key| segment_of(&engine, key));
    assert_ne!(survivor, sealed.segment, "the survivor was not moved");
    assert_ne!(survivor, new, "a new record follows the survivor in its segment");
}

#[test]
fn the_ghost_forgets_a_large_item_before_a_small_one() {
    let engine = Engine::create(&SMALL).unwrap();
    let thread = engine.register().unwrap();
    engine.index().extend_ghost(&thread);
    for key in 0..30_u32 {
        set(&engine, &thread, &key.to_le_bytes(), 500);
    }
    set(&engine, &thread, b"large", 6000);
    let stamp = engine.region().word(global::GHOST_STAMP);
    let then = stamp.load(Relaxed);
    evict_written(&engine, &thread);
    let is_remembered = |key: &[u8]| {
        let hash = engine.index().hash(key);
        engine.index().ghost_holds(engine.index().group_of(hash), hash)
    };
    let keys = [&7_u32.to_le_bytes()[..], b"large"];
    // In a cache with few items, these evictions are a large part of the keys that the ghost
    // remembers.
    stamp.store(then, Relaxed);
    assert_eq!(keys.map(is_remembered), [true, true], "just evicted");
    stamp.store(then + 40, Relaxed);
    assert_eq!(keys.map(is_remembered), [true, false], "40 of 64 stamps later");
}
