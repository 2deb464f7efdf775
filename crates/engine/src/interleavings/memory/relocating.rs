//! Items that are moved out of a sparse segment while other threads use them.

use larder_item::{Deadline, Direction};
use larder_stats::Counter;

use super::*;

const KEY: &[u8] = b"a key";

/// Stores an item as the only item of a segment.
fn about_to_be_moved(deadline: u32) -> Scene {
    let scene = Scene::without_eviction();
    scene.stage.set_until(KEY, 1, deadline);
    scene.seal_alone(&[KEY]);
    scene
}

/// Runs another thread's use of the item while the item is moved.
fn beside_a_relocation<T: Send + 'static>(
    scene: &Scene,
    act: impl FnOnce(&Actor) -> T + Send + 'static,
) -> T {
    let segment = scene.segment_of(KEY);
    let (_, outcome) = scene
        .race(move |actor| assert!(actor.reclaim(segment), "no reader holds the segment"), act);
    // The segment was compacted, or reclaimed without a move if the other thread left nothing alive
    // in it.
    let emptied = [Counter::SegmentsCompacted, Counter::SegmentsSpent];
    assert!(emptied.map(|counter| scene.engine.counter(counter)).iter().sum::<u64>() > 0);
    outcome
}

#[test]
fn a_read_finds_an_item_that_is_being_moved() {
    explore(|| {
        let scene = about_to_be_moved(0);
        assert_eq!(beside_a_relocation(&scene, |actor| actor.fill_of(KEY)), Some(1));
        assert!(scene.engine.counter(Counter::BytesRelocated) > 0);
    });
}

#[test]
fn a_deadline_given_to_an_item_that_is_being_moved_stays() {
    explore(|| {
        let scene = about_to_be_moved(90);
        assert!(beside_a_relocation(&scene, |actor| actor.touch(KEY, 20)));
        assert_eq!(scene.stage.deadline(KEY), Deadline(20));
        assert_eq!(scene.stage.fill_of(KEY), Some(1));
    });
}

#[test]
fn a_first_deadline_given_to_an_item_that_is_being_moved_stays() {
    explore(|| {
        let scene = about_to_be_moved(0);
        assert!(beside_a_relocation(&scene, |actor| actor.touch(KEY, 20)));
        assert_eq!(scene.stage.deadline(KEY), Deadline(20));
        assert_eq!(scene.stage.fill_of(KEY), Some(1));
    });
}

#[test]
fn an_item_overwritten_while_it_is_moved_does_not_come_back() {
    explore(|| {
        let scene = about_to_be_moved(0);
        beside_a_relocation(&scene, |actor| actor.set(KEY, 2));
        assert_eq!(scene.stage.fill_of(KEY), Some(2));
    });
}

#[test]
fn an_item_deleted_while_it_is_moved_does_not_come_back() {
    explore(|| {
        let scene = about_to_be_moved(0);
        assert!(beside_a_relocation(&scene, |actor| actor.delete(KEY)));
        assert_eq!(scene.stage.get(KEY), None);
    });
}

#[test]
fn an_item_flushed_while_it_is_moved_does_not_come_back() {
    explore(|| {
        let scene = about_to_be_moved(0);
        let seen = beside_a_relocation(&scene, |actor| {
            actor.engine.flush();
            actor.fill_of(KEY)
        });
        assert_eq!((seen, scene.stage.get(KEY)), (None, None));
    });
}

#[test]
fn an_increment_of_a_number_that_is_being_moved_counts() {
    explore(|| {
        let scene = Scene::without_eviction();
        scene.stage.set_raw(KEY, b"5");
        scene.seal_alone(&[KEY]);
        assert_eq!(beside_a_relocation(&scene, |actor| actor.increment(KEY)), Some(6));
        assert_eq!(scene.stage.increment(KEY), Some(7));
    });
}

/// A number that changes in place, with or without a cas token, is incremented while it is moved.
fn counted_while_it_is_moved(keeps_versions: bool) {
    let scene = Scene::with_versions(keeps_versions);
    scene.stage.set_raw(KEY, b"5");
    assert_eq!(scene.stage.increment(KEY), Some(6));
    scene.seal_alone(&[KEY]);
    let told = beside_a_relocation(&scene, |actor| {
        [actor.count(KEY, Direction::Increment), actor.count(KEY, Direction::Increment)]
    });
    let [(seventh, _), (eighth, token)] = told.map(Option::unwrap);
    assert_eq!((seventh, eighth), (7, 8));
    assert_eq!(scene.stage.raw(KEY), Some((b"8".to_vec(), token)));
    assert!(scene.engine.counter(Counter::AlteredInPlace) >= 2);
    assert!(scene.engine.counter(Counter::BytesRelocated) > 0);
}

#[test]
fn no_increment_in_place_is_lost_while_the_number_is_moved() {
    explore(|| counted_while_it_is_moved(true));
}

#[test]
fn no_increment_in_place_is_lost_while_a_number_without_token_is_moved() {
    explore(|| counted_while_it_is_moved(false));
}

/// A growing value, with or without a cas token, is appended to while it is moved.
fn appended_to_while_it_is_moved(keeps_versions: bool) {
    let scene = Scene::with_versions(keeps_versions);
    scene.stage.set_raw(KEY, &[b'a'; 40]);
    scene.stage.append(KEY, &[b'b'; 20]).unwrap();
    scene.seal_alone(&[KEY]);
    let token = beside_a_relocation(&scene, |actor| actor.append(KEY, &[b'c'; 20])).unwrap();
    let whole = [[b'a'; 40].as_slice(), &[b'b'; 20], &[b'c'; 20]].concat();
    assert_eq!(scene.stage.raw(KEY), Some((whole, token)));
    assert!(scene.engine.counter(Counter::AlteredInPlace) > 0);
    assert!(scene.engine.counter(Counter::BytesRelocated) > 0);
}

#[test]
fn no_append_in_place_is_lost_while_the_value_is_moved() {
    explore(|| appended_to_while_it_is_moved(true));
}

#[test]
fn no_append_in_place_is_lost_while_a_value_without_token_is_moved() {
    explore(|| appended_to_while_it_is_moved(false));
}
