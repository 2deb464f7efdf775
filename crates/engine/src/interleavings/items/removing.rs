//! Items that are stored, moved and changed during a removal by prefix.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use super::*;
use crate::interleavings::stage::scene::NOW;
use crate::ops::remove_prefix::PrefixRemoval;

const KEY: &[u8] = b"a key";

/// Runs the removal on the group of the key, and ends the removal.
fn remove(actor: &Actor, mut removal: PrefixRemoval) {
    let engine = &actor.engine;
    removal.go_to(engine.index().group_of(engine.index().hash(KEY)));
    assert!(engine.remove_prefix_of_group(&actor.thread, &mut removal, NOW).unwrap());
}

fn begin(actor: &Actor) -> PrefixRemoval {
    actor.engine.begin_prefix_removal(&actor.thread, b"a ", NOW).unwrap()
}

#[test]
fn a_store_after_the_beginning_survives_and_what_it_replaces_does_not() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let removal = begin(&scene.stage);
        scene.race(move |actor| remove(actor, removal), |actor| actor.set(KEY, 2));
        assert_eq!(scene.stage.fill_of(KEY), Some(2));
    });
}

/// A store that begins after the removal has begun survives. A store that overlaps the beginning
/// may survive.
fn stored_beside_the_beginning(keeps_versions: bool) {
    let scene = Scene::with_versions(keeps_versions);
    scene.stage.set(KEY, 1);
    let accepted = Arc::new(AtomicBool::new(false));
    let is_accepted = accepted.clone();
    let (_, is_later) = scene.race(
        move |actor| {
            let removal = begin(actor);
            accepted.store(true, SeqCst);
            remove(actor, removal);
        },
        move |actor| {
            let is_later = is_accepted.load(SeqCst);
            actor.set(KEY, 2);
            is_later
        },
    );
    let there = scene.stage.fill_of(KEY);
    assert!(there == Some(2) || there.is_none() && !is_later, "{there:?}, later: {is_later}");
}

#[test]
fn a_store_that_begins_after_the_acceptance_survives() {
    explore_some(|| stored_beside_the_beginning(true));
    explore_some(|| stored_beside_the_beginning(false));
}

#[test]
fn an_item_that_is_moved_beside_the_beginning_is_removed() {
    explore_some(|| {
        let scene = Scene::with_versions(false);
        scene.stage.set(KEY, 1);
        scene.seal_alone(&[KEY]);
        let segment = scene.segment_of(KEY);
        scene.race(|actor| remove(actor, begin(actor)), move |actor| actor.reclaim(segment));
        assert_eq!(scene.stage.fill_of(KEY), None);
    });
}

#[test]
fn an_item_that_is_moved_by_a_first_deadline_beside_the_beginning_is_removed() {
    explore_some(|| {
        let scene = Scene::with_versions(false);
        scene.stage.set(KEY, 1);
        scene.race(|actor| remove(actor, begin(actor)), |actor| actor.touch(KEY, 20));
        assert_eq!(scene.stage.fill_of(KEY), None);
    });
}

#[test]
fn a_number_that_is_counted_after_the_beginning_survives_or_is_not_found() {
    explore(|| {
        let scene = Scene::with_versions(false);
        scene.stage.set_raw(KEY, b"5");
        assert_eq!(scene.stage.increment(KEY), Some(6));
        let removal = begin(&scene.stage);
        let (_, told) =
            scene.race(move |actor| remove(actor, removal), |actor| actor.increment(KEY));
        assert_eq!(scene.stage.raw(KEY).is_some(), told.is_some(), "told {told:?}");
    });
}

#[test]
fn an_item_whose_group_is_split_meanwhile_is_removed() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let engine = &scene.engine;
        // Split groups until the next group to split is the key's.
        let next = engine.index().hash(KEY) & 511;
        while engine.index().groups() & 511 != next {
            scene.split_a_group();
        }
        let removal = begin(&scene.stage);
        // The walk consists only of the steps at the two groups that the key can be in.
        let walk = |actor: &Actor, mut removal: PrefixRemoval| {
            let group = actor.engine.index().hash(KEY) & 511;
            for group in [group, group + 512] {
                removal.go_to(group);
                actor.engine.remove_prefix_of_group(&actor.thread, &mut removal, NOW).unwrap();
            }
        };
        scene.race(move |actor| walk(actor, removal), Actor::split_a_group);
        assert_eq!(scene.stage.fill_of(KEY), None);
    });
}
