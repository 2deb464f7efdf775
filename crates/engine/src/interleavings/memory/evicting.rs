//! Items in a memory in which several threads evict.

use larder_stats::Counter;

use super::*;
use crate::interleavings::stage::keys::of_one_group;
use crate::interleavings::stage::scene::Crowd;
use crate::segment::stream::Pool;

const KEY: &[u8] = b"a key";
const NEIGHBOUR: &[u8] = b"another";

/// Stores an item that was read, as the only item of a segment, and returns the segment.
fn wanted_item(scene: &Scene, key: &[u8]) -> u32 {
    scene.stage.set(key, 1);
    assert_eq!(scene.stage.fill_of(key), Some(1));
    scene.seal(key)
}

fn pool_of(scene: &Scene, key: &[u8]) -> Pool {
    scene.engine.segments().stream(scene.segment_of(key)).pool
}

#[test]
fn two_threads_evict_at_once_and_items_that_were_read_stay() {
    explore_some(|| {
        let scene = Scene::with_places_for_two_evictors();
        scene.lay_out_ghost();
        let segments = [KEY, NEIGHBOUR].map(|key| wanted_item(&scene, key));
        let evictors = segments.map(|segment| scene.start(move |actor| actor.evict(segment)));
        let writer = scene.start(|actor| actor.set(KEY, 2));
        assert!(evictors.into_iter().all(|evictor| evictor.join().unwrap()), "there is a place");
        writer.join().unwrap();
        scene.end();
        assert_eq!(scene.engine.counter(Counter::SegmentsEvicted), 2);
        assert_eq!([KEY, NEIGHBOUR].map(|key| scene.stage.fill_of(key)), [Some(2), Some(1)]);
        assert_eq!(pool_of(&scene, NEIGHBOUR), Pool::Main);
    });
}

#[test]
fn a_segment_is_evicted_by_one_of_two_threads() {
    explore(|| {
        let scene = Scene::with_places_for_two_evictors();
        scene.lay_out_ghost();
        let segment = wanted_item(&scene, KEY);
        let evictors = [(); 2].map(|()| scene.start(move |actor| actor.evict(segment)));
        let reader = scene.start(|actor| actor.fill_of(KEY));
        let evicted = evictors.map(|evictor| evictor.join().unwrap());
        assert_eq!(reader.join().unwrap(), Some(1));
        scene.end();
        assert!(evicted[0] != evicted[1], "{evicted:?}");
        assert_eq!(pool_of(&scene, KEY), Pool::Main);
    });
}

#[test]
fn no_more_threads_evict_than_there_are_segments_for_survivors() {
    explore(|| {
        let scene = Scene::new();
        scene.lay_out_ghost();
        scene.free_some_segments();
        let segments = [KEY, NEIGHBOUR].map(|key| wanted_item(&scene, key));
        let evictors = segments.map(|segment| scene.start(move |actor| actor.evict(segment)));
        let evicted = evictors.map(|evictor| evictor.join().unwrap());
        scene.end();
        assert!(evicted.contains(&true));
        assert_eq!([KEY, NEIGHBOUR].map(|key| scene.stage.fill_of(key)), [Some(1); 2]);
        let again = [0, 1].map(|at| evicted[at] || scene.stage.evict(segments[at]));
        assert_eq!(again, [true; 2], "the place is free again");
    });
}

#[test]
fn two_writers_in_a_full_memory_both_find_room() {
    explore(|| {
        let scene = Scene::new();
        scene.lay_out_ghost();
        scene.stage.set(KEY, 1);
        assert_eq!(scene.stage.fill_of(KEY), Some(1));
        scene.fill_memory();
        let writers = [KEY, NEIGHBOUR]
            .map(|key| scene.start(move |actor| actor.set_raw(key, &[2; Crowd::BYTES])));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        scene.end();
        assert!(scene.engine.counter(Counter::SegmentsEvicted) > 0, "one was evicted");
        for key in [KEY, NEIGHBOUR] {
            assert!(scene.stage.raw(key).is_some_and(|(value, _)| value == [2; Crowd::BYTES]));
        }
    });
}

/// Returns a key that the next split moves to the new group.
fn moving_key(scene: &Scene) -> keys::Key {
    scene.lay_out_ghost();
    scene.split_a_group();
    of_one_group(0, 1).1[0]
}

fn is_remembered(scene: &Scene, key: &[u8]) -> bool {
    let hash = scene.engine.index().hash(key);
    scene.engine.index().ghost_holds(scene.engine.index().group_of(hash), hash)
}

#[test]
fn an_item_evicted_while_its_group_is_split_is_remembered() {
    explore(|| {
        let scene = Scene::new();
        let key = moving_key(&scene);
        scene.stage.set(&key, 1);
        let segment = scene.seal(&key);
        scene.race(
            move |actor| assert!(actor.evict(segment), "no reader holds the segment"),
            Actor::split_a_group,
        );
        assert_eq!(scene.stage.fill_of(&key), None);
        assert!(is_remembered(&scene, &key));
        scene.stage.set(&key, 2);
        assert_eq!(pool_of(&scene, &key), Pool::Main);
    });
}

#[test]
fn an_item_stored_again_while_its_group_is_split_is_forgotten_once() {
    explore(|| {
        let scene = Scene::new();
        let key = moving_key(&scene);
        scene.stage.set(&key, 1);
        let segment = scene.seal(&key);
        assert!(scene.stage.evict(segment) && is_remembered(&scene, &key));
        scene.race(move |actor| actor.set(&key, 2), Actor::split_a_group);
        assert_eq!(scene.stage.fill_of(&key), Some(2));
        assert!(!is_remembered(&scene, &key));
        assert_eq!(scene.engine.counter(Counter::GhostHits), 1);
    });
}
