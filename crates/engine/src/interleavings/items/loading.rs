//! Loads end while other threads change their key, or move and evict their basis.

use larder_item::{Deadline, StoreMode};

use super::*;
use crate::interleavings::stage::scene::NOW;
use crate::ops::basis::Basis;
use crate::ops::request::{StoreRequest, Stored};
use crate::process::operation::Operation;

const KEY: &[u8] = b"a key";
const LOADED: u8 = 9;

fn begin(scene: &Scene) -> Basis {
    let until = Some(Deadline(NOW + 30));
    scene.engine.begin_load(&Operation::new(&scene.stage.thread, NOW), KEY, until).unwrap()
}

/// Ends a load. Returns true if its value was stored.
fn end(actor: &Actor, basis: Basis) -> bool {
    let value = actor::value(KEY, LOADED);
    let request = StoreRequest::new(KEY, StoreMode::Set);
    let stored =
        actor.engine.end_load(&Operation::new(&actor.thread, NOW), &request, basis, &value);
    matches!(stored, Ok(Stored::Stored { .. }))
}

/// Plays with and without an item at the start, and with and without cas tokens.
fn each_beginning(play: impl Fn(&Scene, Basis) + Copy + Send + Sync + 'static) {
    for (versions, is_held) in [(false, false), (false, true), (true, false), (true, true)] {
        explore(move || {
            let scene = Scene::with_versions(versions);
            if is_held {
                scene.stage.set(KEY, 1);
            }
            let basis = begin(&scene);
            play(&scene, basis);
        });
    }
}

#[test]
fn a_set_during_a_load_is_what_is_there_after_both() {
    each_beginning(|scene, basis| {
        scene.race(|actor| actor.set(KEY, 2), move |actor| end(actor, basis));
        assert_eq!(scene.stage.fill_of(KEY), Some(2));
    });
}

#[test]
fn a_delete_during_a_load_leaves_nothing_after_both() {
    each_beginning(|scene, basis| {
        scene.race(|actor| actor.delete(KEY), move |actor| end(actor, basis));
        assert_eq!(scene.stage.fill_of(KEY), None);
    });
}

#[test]
fn a_set_that_is_deleted_during_a_load_leaves_nothing() {
    each_beginning(|scene, basis| {
        scene.race(
            |actor| {
                actor.set(KEY, 2);
                actor.delete(KEY)
            },
            move |actor| end(actor, basis),
        );
        assert_eq!(scene.stage.fill_of(KEY), None);
    });
}

#[test]
fn of_two_loads_on_one_basis_one_is_stored() {
    each_beginning(|scene, basis| {
        let loaders = [(); 2].map(|()| scene.start(move |actor| end(actor, basis)));
        let stored = loaders.map(|loader| loader.join().unwrap());
        scene.end();
        assert_ne!(stored[0], stored[1]);
        assert_eq!(scene.stage.fill_of(KEY), Some(LOADED));
    });
}

#[test]
fn readers_of_a_key_that_is_loaded_see_nothing_until_it_is_stored() {
    explore(|| {
        let scene = Scene::with_versions(false);
        let basis = begin(&scene);
        let reader = scene.start(|actor| [actor.fill_of(KEY), actor.fill_of(KEY)]);
        let loader = scene.start(move |actor| end(actor, basis));
        let seen = reader.join().unwrap();
        assert!(loader.join().unwrap(), "a look is no change");
        scene.end();
        assert!(seen.is_sorted() && seen.iter().flatten().all(|fill| *fill == LOADED));
    });
}

#[test]
fn a_basis_that_is_moved_meanwhile_does_not_let_a_load_win_over_a_delete() {
    explore_some(|| {
        let scene = Scene::without_eviction();
        scene.stage.set(KEY, 1);
        let segment = scene.seal_alone(&[KEY]);
        let basis = begin(&scene);
        let mover = scene.start(move |actor| actor.reclaim(segment));
        let loader = scene.start(move |actor| {
            assert!(actor.delete(KEY));
            end(actor, basis)
        });
        mover.join().unwrap();
        assert!(!loader.join().unwrap());
        scene.end();
        assert_eq!(scene.stage.fill_of(KEY), None);
    });
}
