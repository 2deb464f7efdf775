//! Concurrent writes of one key.

use larder_item::{Deadline, StoreMode};

use super::*;
use crate::ops::request::Stored;

const KEY: &[u8] = b"a key";

fn is_stored(stored: Stored) -> bool {
    matches!(stored, Stored::Stored { .. })
}

#[test]
fn of_two_stores_with_one_cas_token_one_is_done_and_the_other_finds_another_item() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let token = scene.stage.get(KEY).unwrap().cas;
        let swap = move |fill| {
            move |actor: &Actor| {
                actor.store(KEY, StoreMode::Set, Some(token), Deadline::NEVER, fill).unwrap()
            }
        };
        let (first, second) = (scene.start(swap(2)), scene.start(swap(3)));
        let outcomes = [first.join().unwrap(), second.join().unwrap()];
        scene.end();
        let (won, lost) = if is_stored(outcomes[0]) { (2, outcomes[1]) } else { (3, outcomes[0]) };
        assert_eq!(lost, Stored::Exists, "{outcomes:?}");
        let there = scene.stage.get(KEY).unwrap();
        assert_eq!(there.fill, won);
        let told =
            |stored: &Stored| matches!(stored, Stored::Stored { cas, .. } if *cas == there.cas);
        assert!(there.cas > token && outcomes.iter().any(told));
    });
}

#[test]
fn the_cas_token_of_a_key_only_ever_grows() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let first = scene.start(|actor| actor.set(KEY, 2));
        let second = scene.start(|actor| actor.set(KEY, 3));
        let reader = scene.start(|actor| [actor.get(KEY).unwrap(), actor.get(KEY).unwrap()]);
        first.join().unwrap();
        second.join().unwrap();
        let [before, after] = reader.join().unwrap();
        scene.end();
        let last = scene.stage.get(KEY).unwrap();
        for [earlier, later] in [[before, after], [after, last]] {
            let same = earlier == later;
            assert!(same || earlier.cas < later.cas, "{earlier:?}, then {later:?}");
        }
    });
}

#[test]
fn of_two_adds_of_one_key_one_stores() {
    explore(|| {
        let scene = Scene::new();
        let add = |fill| {
            move |actor: &Actor| {
                actor.store(KEY, StoreMode::Add, None, Deadline::NEVER, fill).unwrap()
            }
        };
        let (first, second) = (scene.start(add(1)), scene.start(add(2)));
        let stored = [first.join().unwrap(), second.join().unwrap()].map(is_stored);
        scene.end();
        assert_ne!(stored[0], stored[1]);
        assert_eq!(scene.stage.fill_of(KEY), Some(if stored[0] { 1 } else { 2 }));
    });
}

#[test]
fn of_two_deletes_of_one_item_one_finds_it() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let first = scene.start(|actor| actor.delete(KEY));
        let second = scene.start(|actor| actor.delete(KEY));
        assert_ne!(first.join().unwrap(), second.join().unwrap());
        scene.end();
        assert_eq!(scene.stage.get(KEY), None);
    });
}

#[test]
fn no_increment_is_lost_and_none_returns_the_same_number() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set_raw(KEY, b"5");
        let first = scene.start(|actor| actor.increment(KEY));
        let second = scene.start(|actor| actor.increment(KEY));
        let mut told = [first.join().unwrap(), second.join().unwrap()];
        scene.end();
        told.sort_unstable();
        assert_eq!(told, [Some(6), Some(7)]);
        assert_eq!(scene.stage.increment(KEY), Some(8));
    });
}

#[test]
fn a_deadline_given_while_the_item_is_incremented_stays() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set_raw(KEY, b"5");
        assert!(scene.stage.touch(KEY, 90));
        let touching = scene.start(|actor| actor.touch(KEY, 20));
        let moving = scene.start(|actor| actor.increment(KEY));
        assert!(touching.join().unwrap());
        assert_eq!(moving.join().unwrap(), Some(6));
        scene.end();
        assert_eq!(scene.stage.deadline(KEY), Deadline(20));
    });
}

#[test]
fn a_number_incremented_while_it_is_flushed_does_not_come_back() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set_raw(KEY, b"5");
        scene.fill_segment();
        let (_, told) = scene.race(|actor| actor.engine.flush(), |actor| actor.increment(KEY));
        assert!([Some(6), None].contains(&told), "{told:?}");
        assert_eq!(scene.stage.increment(KEY), None);
    });
}

#[test]
fn a_first_deadline_and_an_overwrite_leave_the_new_value() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let touching = scene.start(|actor| actor.touch(KEY, 20));
        let writer = scene.start(|actor| actor.set(KEY, 2));
        assert!(touching.join().unwrap());
        writer.join().unwrap();
        scene.end();
        let there = scene.stage.get(KEY).unwrap();
        assert_eq!(there.fill, 2);
        assert!([Deadline::NEVER, Deadline(20)].contains(&there.deadline));
    });
}
