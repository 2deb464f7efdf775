//! Concurrent allocation and freeing of segments.

use super::*;

/// Takes segments until `free` are left.
fn leave_free(scene: &Scene, free: u64) -> Vec<u32> {
    let mut taken = Vec::new();
    while scene.engine.segments().free_segments() > free {
        taken.push(scene.engine.segments().take_fresh(&scene.stage.thread, 0).unwrap());
    }
    taken
}

fn end_giving_back(scene: &Scene, taken: Vec<u32>) {
    let mut each = taken.clone();
    each.sort_unstable();
    each.dedup();
    assert_eq!(each.len(), taken.len(), "a segment was given to two: {taken:?}");
    taken
        .into_iter()
        .for_each(|segment| scene.engine.segments().free(&scene.stage.thread, segment));
    scene.end();
    assert_eq!(scene.engine.segments().segments_in_use(), 1, "all but the index is free");
}

#[test]
fn of_two_threads_one_gets_the_last_segment_that_may_be_taken() {
    explore(|| {
        let scene = Scene::new();
        let mut taken = leave_free(&scene, 2);
        let takers = [(); 2]
            .map(|()| scene.start(|actor| actor.engine.segments().take_any(&actor.thread, 1)));
        let got: Vec<u32> = takers.into_iter().filter_map(|taker| taker.join().unwrap()).collect();
        assert_eq!((got.len(), scene.engine.segments().free_segments()), (1, 1));
        taken.extend(got);
        end_giving_back(&scene, taken);
    });
}

#[test]
fn a_segment_given_back_between_two_looks_at_the_stack_is_not_given_to_two() {
    explore(|| {
        let scene = Scene::new();
        let mut taken = leave_free(&scene, 0);
        taken
            .drain(..3)
            .for_each(|segment| scene.engine.segments().free(&scene.stage.thread, segment));
        let taker = scene.start(|actor| actor.engine.segments().take_used(&actor.thread, 0));
        let returner = scene.start(|actor| {
            let [first, second] =
                [(); 2].map(|()| actor.engine.segments().take_used(&actor.thread, 0).unwrap());
            actor.engine.segments().free(&actor.thread, first);
            second
        });
        taken.extend(taker.join().unwrap());
        taken.push(returner.join().unwrap());
        while let Some(segment) = scene.engine.segments().take_used(&scene.stage.thread, 0) {
            taken.push(segment);
        }
        assert_eq!(scene.engine.segments().free_segments(), 0);
        end_giving_back(&scene, taken);
    });
}

#[test]
fn segments_of_both_kinds_are_counted_while_they_are_taken_and_given_back() {
    explore(|| {
        let scene = Scene::new();
        let mut taken = leave_free(&scene, 2);
        let given = taken.pop().unwrap();
        let giver = scene.start(move |actor| actor.engine.segments().free(&actor.thread, given));
        let takers = [(); 2].map(|()| {
            scene.start(|actor| actor.engine.segments().take_any(&actor.thread, 0).unwrap())
        });
        giver.join().unwrap();
        taken.extend(takers.map(|taker| taker.join().unwrap()));
        assert_eq!(scene.engine.segments().free_segments(), 1);
        end_giving_back(&scene, taken);
    });
}
