//! Threads that wait for a group hold no appender, and threads that wait for an appender hold no
//! group. Each stream of these scenes has one appender.

use larder_item::Deadline;

use super::*;
use crate::interleavings::stage::scene::NOW;
use crate::segment::stream::Pool;

const KEY: &[u8] = b"a key";
const OTHER: &[u8] = b"another";

/// Returns a scene whose keys are in different groups.
fn scene_of_two_groups() -> Scene {
    let scene = Scene::new();
    let group = |key| scene.engine.index().group_of(scene.engine.index().hash(key));
    assert_ne!(group(KEY), group(OTHER));
    scene
}

#[test]
fn a_writer_of_another_key_stores_while_the_group_of_a_hot_key_is_held() {
    explore(|| {
        let scene = scene_of_two_groups();
        let op = scene.engine.op(&scene.stage.thread, NOW);
        let held = scene.engine.index().lock(&op, scene.engine.index().hash(KEY)).unwrap();
        let waiting = scene.start(|actor| actor.set(KEY, 1));
        let other = scene.start(|actor| actor.set(OTHER, 2));
        // Never returns if the waiting writer holds the appender.
        other.join().unwrap();
        drop(held);
        waiting.join().unwrap();
        scene.end();
        assert_eq!([KEY, OTHER].map(|key| scene.stage.fill_of(key)), [Some(1), Some(2)]);
    });
}

#[test]
fn two_writers_of_one_key_that_meet_at_its_group_both_store() {
    explore(|| {
        let scene = scene_of_two_groups();
        scene.race(|actor| actor.set(KEY, 1), |actor| actor.set(KEY, 2));
        assert!(matches!(scene.stage.fill_of(KEY), Some(1 | 2)));
    });
}

#[test]
fn an_item_is_replaced_while_its_evictor_waits_for_an_appender() {
    explore(|| {
        let scene = scene_of_two_groups();
        scene.lay_out_ghost();
        scene.free_some_segments();
        scene.stage.set(KEY, 1);
        assert_eq!(scene.stage.fill_of(KEY), Some(1));
        let segment = scene.seal_alone(&[KEY]);
        let main = scene.engine.segments().stream(segment).in_pool(Pool::Main);
        let op = scene.engine.op(&scene.stage.thread, NOW);
        let held = scene.engine.segments().reserve(&op, main, 8, 8).unwrap();
        let evictor = scene.start(move |actor| actor.evict(segment));
        let writer = scene.start(|actor| actor.set(KEY, 2));
        // Never returns if the waiting evictor holds the group.
        writer.join().unwrap();
        drop(held);
        assert!(evictor.join().unwrap(), "nothing keeps the segment from being emptied");
        scene.end();
        assert_eq!(scene.stage.fill_of(KEY), Some(2));
    });
}

#[test]
fn a_first_deadline_is_given_while_another_writer_holds_the_appender_for_some_time() {
    explore(|| {
        let scene = scene_of_two_groups();
        scene.stage.set(KEY, 1);
        let pool = scene.engine.segments().stream(scene.segment_of(KEY)).pool;
        let stream = scene.engine.segments().stream_of(pool, Deadline(20), NOW);
        let op = scene.engine.op(&scene.stage.thread, NOW);
        let held = scene.engine.segments().reserve(&op, stream, 8, 8).unwrap();
        let touching = scene.start(|actor| actor.touch(KEY, 20));
        let deleting = scene.start(|actor| actor.delete(KEY));
        // Never returns if the thread that waits for the appender holds the group.
        assert!(deleting.join().unwrap());
        drop(held);
        touching.join().unwrap();
        scene.end();
        assert_eq!(scene.stage.fill_of(KEY), None);
    });
}

#[test]
fn an_item_flushed_while_it_gets_its_first_deadline_does_not_come_back() {
    explore(|| {
        let scene = scene_of_two_groups();
        scene.free_some_segments();
        scene.stage.set(KEY, 1);
        // The longer record begins a segment that is younger than a flush that happened before.
        scene.seal(KEY);
        scene.race(|actor| actor.engine.flush(), |actor| actor.touch(KEY, 90));
        assert_eq!(scene.stage.fill_of(KEY), None);
    });
}
