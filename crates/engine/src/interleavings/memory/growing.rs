//! Reads while slots move: groups are split, chains grow and shrink.

use super::*;
use crate::index::group::SLOTS;
use crate::index::grow::Split;
use crate::interleavings::stage::keys::{Key, of_one_group};

/// A full group with one more item in an overflow group. A split moves the items with the keys
/// `moving` to the new group.
struct OverflowingGroup {
    scene: Scene,
    staying: Vec<Key>,
    moving: Vec<Key>,
}

impl OverflowingGroup {
    fn new(moves: usize) -> Self {
        let (mut staying, moving) = of_one_group(SLOTS + 1 - moves, moves);
        let scene = Scene::new();
        scene.split_a_group();
        let stray = staying.pop().unwrap();
        for key in moving.iter().chain(&staying).chain([&stray]) {
            scene.stage.set(key, 7);
        }
        assert_eq!(scene.engine.report().overflow_groups, 1);
        staying.push(stray);
        Self { scene, staying, moving }
    }

    /// Returns the key in the overflow group. The split moves it to the front of the chain.
    fn stray(&self) -> Key {
        self.staying[self.staying.len() - 1]
    }
}

#[test]
fn every_key_of_a_group_is_found_while_the_group_is_split() {
    explore(|| {
        let group = OverflowingGroup::new(1);
        let (stays, moves) = (group.staying[0], group.moving[0]);
        let grower = group.scene.start(Actor::split_a_group);
        let reader = group.scene.start(move |actor| [stays, moves].map(|key| actor.fill_of(&key)));
        grower.join().unwrap();
        assert_eq!(reader.join().unwrap(), [Some(7); 2]);
        group.scene.end();
    });
}

#[test]
fn a_key_is_found_while_it_is_moved_to_the_front_of_its_chain() {
    explore(|| {
        let group = OverflowingGroup::new(1);
        let stray = group.stray();
        let grower = group.scene.start(Actor::split_a_group);
        let reader = group.scene.start(move |actor| actor.fill_of(&stray));
        grower.join().unwrap();
        assert_eq!(reader.join().unwrap(), Some(7));
        group.scene.end();
        assert_eq!(group.scene.engine.report().overflow_groups, 0, "the chain was cut");
    });
}

#[test]
fn a_key_stored_and_a_key_deleted_while_their_group_is_split_are_in_one_place_and_in_none() {
    explore(|| {
        let group = OverflowingGroup::new(2);
        let [changed, deleted] = [group.moving[0], group.moving[1]];
        let grower = group.scene.start(Actor::split_a_group);
        let writer = group.scene.start(move |actor| {
            actor.set(&changed, 8);
            assert!(actor.delete(&deleted));
            [actor.fill_of(&changed), actor.fill_of(&deleted)]
        });
        grower.join().unwrap();
        assert_eq!(writer.join().unwrap(), [Some(8), None]);
        group.scene.end();
        assert_eq!(group.scene.stage.fill_of(&changed), Some(8));
    });
}

#[test]
fn a_key_in_an_overflow_group_is_found_while_the_chain_grows_and_keys_before_it_go() {
    explore(|| {
        let group = OverflowingGroup::new(2);
        let stray = group.stray();
        let [first, second] = [group.moving[0], group.moving[1]];
        let writer = group.scene.start(move |actor| {
            assert!(actor.delete(&first));
            actor.set(&second, 8);
            actor.set(&first, 9);
        });
        let reader = group.scene.start(move |actor| [actor.fill_of(&stray), actor.fill_of(&first)]);
        writer.join().unwrap();
        let [of_stray, of_first] = reader.join().unwrap();
        assert_eq!(of_stray, Some(7));
        assert!([Some(7), None, Some(9)].contains(&of_first), "{of_first:?}");
        group.scene.end();
    });
}

/// Returns the number of groups.
fn groups(scene: &Scene) -> u64 {
    scene.engine.report().groups
}

#[test]
fn two_threads_that_split_the_same_group_split_it_once() {
    explore(|| {
        let group = OverflowingGroup::new(2);
        let before = groups(&group.scene);
        let (one, other) = group.scene.race(Actor::try_to_split, Actor::try_to_split);
        let done = [one, other].into_iter().filter(|split| *split == Split::Done).count() as u64;
        assert!(done > 0, "each thread left the group to the other");
        assert_eq!(groups(&group.scene), before + done);
        for key in group.staying.iter().chain(&group.moving) {
            assert_eq!(group.scene.stage.fill_of(key), Some(7), "{key:?} got lost");
        }
    });
}

#[test]
fn two_threads_that_split_the_first_group_of_a_segment_take_one_segment_together() {
    explore_some(|| {
        let scene = Scene::new();
        let before = scene.engine.segments().segments_in_use();
        let (one, other) = scene.race(Actor::try_to_split, Actor::try_to_split);
        let done = [one, other].into_iter().filter(|split| *split == Split::Done).count() as u64;
        assert_eq!((groups(&scene) - 512, done > 0), (done, true));
        assert_eq!(scene.engine.segments().segments_in_use(), before + 1);
    });
}

#[test]
fn a_key_stored_while_two_threads_split_its_group_is_in_one_place() {
    explore_some(|| {
        let group = OverflowingGroup::new(2);
        let [changed, absent] = [group.moving[0], group.moving[1]];
        assert!(group.scene.stage.delete(&absent));
        let splitters = [(); 2].map(|()| group.scene.start(Actor::try_to_split));
        let writer = group.scene.start(move |actor| {
            actor.set(&changed, 8);
            [actor.fill_of(&changed), actor.fill_of(&absent)]
        });
        for splitter in splitters {
            splitter.join().unwrap();
        }
        assert_eq!(writer.join().unwrap(), [Some(8), None]);
        group.scene.end();
        assert_eq!(group.scene.stage.fill_of(&changed), Some(8));
    });
}

#[test]
fn overflow_groups_taken_and_freed_at_the_same_time_are_counted() {
    explore(|| {
        let group = OverflowingGroup::new(2);
        let scene = &group.scene;
        let taken = scene.stage.take_overflow().unwrap();
        let giver = scene.start(move |actor| actor.engine.index().free_overflow(taken));
        let taker = scene.start(|actor| {
            let group = actor.take_overflow().unwrap();
            actor.engine.index().free_overflow(group);
        });
        giver.join().unwrap();
        taker.join().unwrap();
        scene.end();
        let index = scene.engine.index();
        assert_eq!(index.counted_free(0), index.walked_free(0));
    });
}
