//! Reads from a segment that is reused during the read.

use std::sync::atomic::Ordering::Relaxed;

use larder_region::layout::global;
use larder_stats::Counter;

use super::*;
use crate::interleavings::stage::actor::assert_in_order;
use crate::interleavings::stage::keys::{Key, of_one_group};
use crate::interleavings::stage::scene::Crowd;

const KEY: &[u8] = b"a key";
const NEIGHBOUR: &[u8] = b"another";

#[test]
fn a_key_is_found_though_its_old_record_makes_way_for_others_in_the_middle_of_the_read() {
    explore(|| {
        let scene = Scene::new();
        scene.keep_a_free_segment();
        scene.stage.set(KEY, 1);
        let old_segment = scene.seal_alone(&[KEY]);
        let (_, seen) = scene.race(
            |actor| {
                actor.set(KEY, 2);
                actor.need_a_segment();
            },
            |actor| actor.fill_of(KEY),
        );
        assert_eq!(scene.segment_of(Crowd::LAST), old_segment, "the segment is in use again");
        assert!([Some(1), Some(2)].contains(&seen), "{seen:?}");
    });
}

/// Returns a key in the line that readers load last. It is the only item of its segment.
fn far_key(scene: &Scene) -> (Key, u32) {
    let (mut keys, _) = of_one_group(8, 0);
    let key = keys.pop().unwrap();
    scene.keep_a_free_segment();
    keys.iter().for_each(|key| scene.stage.set(key, 7));
    scene.fill_segment();
    scene.stage.set(&key, 1);
    (key, scene.seal_alone(&[&key]))
}

#[test]
fn a_key_is_found_by_the_last_look_though_its_old_record_makes_way_for_others() {
    explore(|| {
        let scene = Scene::new();
        let (key, old_segment) = far_key(&scene);
        let (_, seen) = scene.race(
            move |actor| {
                actor.set(&key, 2);
                actor.need_a_segment();
            },
            move |actor| actor.fill_of(&key),
        );
        assert_eq!(scene.segment_of(Crowd::LAST), old_segment, "the segment is in use again");
        assert!([Some(1), Some(2)].contains(&seen), "{seen:?}");
    });
}

#[test]
fn two_uses_of_a_segment_with_the_same_low_byte_of_the_sequence_are_distinguished() {
    explore(|| {
        let scene = Scene::new();
        let (key, old_segment) = far_key(&scene);
        let sequence = scene.engine.segments().sequence(old_segment).load(Relaxed);
        let (_, seen) = scene.race(
            move |actor| {
                actor.set(&key, 2);
                // Simulates other threads that have activated segments until now.
                actor.engine.region().word(global::NEXT_SEQUENCE).store(sequence + 256, Relaxed);
                actor.need_a_segment();
            },
            move |actor| actor.fill_of(&key),
        );
        assert_eq!(scene.engine.segments().sequence(old_segment).load(Relaxed), sequence + 256);
        assert!([Some(1), Some(2)].contains(&seen), "{seen:?}");
    });
}

#[test]
fn a_read_finds_its_own_item_or_none_while_the_oldest_segment_is_evicted() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        scene.stage.set(NEIGHBOUR, 2);
        scene.fill_memory();
        let evicted = scene.engine.counter(Counter::SegmentsEvicted);
        let (_, seen) = scene
            .race(Actor::need_a_segment, |actor| [actor.fill_of(KEY), actor.fill_of(NEIGHBOUR)]);
        assert!(scene.engine.counter(Counter::SegmentsEvicted) > evicted, "one was evicted");
        assert!([Some(1), None].contains(&seen[0]) && [Some(2), None].contains(&seen[1]));
    });
}

#[test]
fn an_item_stored_while_the_segment_of_its_old_record_is_evicted_stays() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let segment = scene.seal_alone(&[KEY]);
        scene.race(
            move |actor| assert!(actor.evict(segment), "no reader holds the segment"),
            |actor| actor.set(KEY, 2),
        );
        assert_eq!(scene.stage.fill_of(KEY), Some(2));
    });
}

#[test]
fn an_item_is_out_of_the_index_before_its_segment_counts_as_empty() {
    explore(|| {
        let scene = Scene::new();
        scene.keep_a_free_segment();
        scene.stage.set(KEY, 1);
        scene.seal_alone(&[KEY]);
        let (_, seen) = scene.race(
            |actor| assert!(actor.delete(KEY)),
            |actor| {
                actor.need_a_segment();
                actor.fill_of(KEY)
            },
        );
        assert!([Some(1), None].contains(&seen), "{seen:?}");
    });
}

#[test]
fn a_number_is_a_number_though_its_old_record_makes_way_for_others_while_it_is_incremented() {
    explore(|| {
        let scene = Scene::new();
        scene.keep_a_free_segment();
        scene.stage.set_raw(KEY, b"5");
        scene.seal_alone(&[KEY]);
        let (_, told) = scene.race(
            |actor| {
                actor.set_raw(KEY, b"7");
                actor.need_a_segment();
            },
            |actor| actor.increment(KEY),
        );
        let there = scene.stage.increment(KEY).map(|next| next - 1);
        assert!([(Some(6), Some(7)), (Some(8), Some(8))].contains(&(told, there)), "{told:?}");
    });
}

#[test]
fn a_flush_hides_what_was_stored_before_and_nothing_stored_after() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let (_, seen) = scene.race(
            |actor| {
                actor.engine.flush();
                assert_eq!(actor.fill_of(KEY), None);
                actor.set(KEY, 2);
            },
            |actor| [actor.fill_of(KEY), actor.fill_of(KEY)],
        );
        assert_in_order(seen, [Some(1), None, Some(2)]);
        assert_eq!(scene.stage.fill_of(KEY), Some(2));
    });
}

#[test]
fn reclaimable_segments_are_taken_back_by_one_of_two_threads() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        scene.seal_alone(&[KEY]);
        assert!(scene.stage.delete(KEY));
        scene.race(|actor| actor.engine.maintain(&actor.thread, scene::NOW), Actor::need_a_segment);
        assert_eq!(scene.engine.counter(Counter::SegmentsSpent), 1);
    });
}
