//! Segments that are filed for reuse while other threads look for one. At the end of every scene,
//! each segment is where a search finds it: see [`Scene::end`].

use super::*;
use crate::interleavings::stage::scene::NOW;
use crate::segment::filing::set::SegmentSet;
use crate::segment::header::Use;
use crate::segment::stream::Pool;

const KEY: &[u8] = b"a key";
const OTHER: &[u8] = b"another key";

fn set(actor: &Actor) -> SegmentSet<'_> {
    SegmentSet::new(actor.engine.region(), actor.engine.region().layout().set_at(0))
}

/// Starts to empty a segment and stops again, like an evictor that finds no memory for survivors.
fn give_up_emptying(actor: &Actor, sealed: Use) {
    if actor.engine.segments().begin_emptying(&actor.thread, sealed) {
        actor.engine.segments().seal(sealed.segment);
    }
}

fn oldest(actor: &Actor) -> Option<Use> {
    actor.engine.segments().oldest(Pool::Small, |_| true)
}

#[test]
fn a_member_is_found_although_its_neighbour_leaves_the_set_meanwhile() {
    explore(|| {
        // The scene has enough segments for several words in a set: a search from 0 needs the upper
        // levels.
        let scene = Scene::with_places_for_two_evictors();
        set(&scene.stage).insert(128);
        let (found, ()) = scene.race(
            |actor| {
                set(actor).insert(129);
                set(actor).next(0)
            },
            |actor| set(actor).remove(128),
        );
        // The other thread may be between two levels of the set, and may have cleared a bit that
        // this thread needs. It sets the bit again before it ends.
        assert!([Some(128), Some(129), None].contains(&found), "{found:?}");
        assert_eq!(set(&scene.stage).next(0), Some(129), "the upper levels lost the member");
        set(&scene.stage).remove(129);
    });
}

#[test]
fn a_segment_sealed_while_its_items_are_deleted_is_filed_by_what_is_left() {
    explore(|| {
        let scene = Scene::new();
        [KEY, OTHER].iter().for_each(|key| scene.stage.set(key, 1));
        let segment = scene.segment_of(KEY);
        let sealer = scene.start(move |actor| {
            actor.engine.segments().detach_where(&actor.thread, |idle| idle == segment)
        });
        let deleters = [KEY, OTHER].map(|key| scene.start(move |actor| actor.delete(key)));
        sealer.join().unwrap();
        deleters.into_iter().for_each(|deleter| assert!(deleter.join().unwrap()));
        scene.end();
        assert_eq!(scene.engine.segments().live(segment), 0);
    });
}

#[test]
fn a_segment_whose_emptying_is_given_up_is_found_again() {
    explore(|| {
        let scene = Scene::new();
        scene.lay_out_ghost();
        scene.stage.set(KEY, 1);
        let segment = scene.seal(KEY);
        let sealed = scene.engine.segments().present_use(segment);
        let search = |actor: &Actor| {
            actor.engine.segments().filed(0..=16, &actor.engine.op(&actor.thread, NOW), |_| true);
            oldest(actor)
        };
        scene.race(move |actor| give_up_emptying(actor, sealed), search);
        assert_eq!(oldest(&scene.stage), Some(sealed), "the queue by age lost the segment");
    });
}

#[test]
fn a_segment_freed_while_others_look_for_a_free_one_is_found_by_one_of_them() {
    explore(|| {
        let scene = Scene::new();
        let taken = scene.engine.segments().take_fresh(&scene.stage.thread, 0).unwrap();
        scene.engine.segments().free(&scene.stage.thread, taken);
        let take_and_free = |actor: &Actor| {
            let segment = actor.engine.segments().take_used(&actor.thread, 0);
            segment.inspect(|segment| actor.engine.segments().free(&actor.thread, *segment));
        };
        scene.race(take_and_free, take_and_free);
        let found = scene.engine.segments().take_used(&scene.stage.thread, 0);
        assert_eq!(found, Some(taken), "a free segment is lost");
    });
}

#[test]
fn segments_that_join_the_queue_by_age_meanwhile_are_there_after_a_lap() {
    explore(|| {
        let scene = Scene::new();
        scene.lay_out_ghost();
        scene.stage.set(KEY, 1);
        scene.fill_segment();
        scene.stage.set(OTHER, 1);
        let first = scene.segment_of(KEY);
        let second = scene.segment_of(OTHER);
        let begun = scene.engine.segments().present_use(first);
        scene.race(
            move |actor| {
                actor.engine.segments().detach_where(&actor.thread, |idle| idle == second);
            },
            move |actor| {
                give_up_emptying(actor, begun);
                // Simulates that the first segment is pinned, so that it moves to the end.
                actor
                    .engine
                    .segments()
                    .oldest(Pool::Small, |oldest| oldest.segment != begun.segment)
            },
        );
        let segments = scene.engine.segments();
        segments.lap(segments.used_segments(), NOW);
        for segment in [first, second] {
            assert!(segments.has_age(segment), "segment {segment} is in no queue");
        }
    });
}
