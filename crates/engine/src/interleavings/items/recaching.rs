//! The stale mark and the recache token of an item while other threads change or move it.

use larder_item::Direction::Increment;
use larder_item::{Deadline, StoreMode};
use larder_stats::Counter;

use super::*;
use crate::interleavings::stage::scene::NOW;
use crate::ops::request::{Stale, StoreRequest, Stored};
use crate::process::operation::Operation;

const KEY: &[u8] = b"a key";

/// Stores a stale item and returns its cas token.
fn stale_item(scene: &Scene) -> u64 {
    scene.stage.set(KEY, 1);
    scene.stage.mark_stale(KEY, None).unwrap()
}

fn marks(scene: &Scene) -> (bool, bool) {
    let meta = scene.stage.peek(KEY).unwrap();
    (meta.stale, meta.token_sent)
}

#[test]
fn of_two_that_claim_a_stale_item_one_wins() {
    explore(|| {
        let scene = Scene::new();
        let token = stale_item(&scene);
        let claimers = [(); 2].map(|()| scene.start(move |actor| actor.claim(KEY, token)));
        let won = claimers.map(|claimer| claimer.join().unwrap());
        scene.end();
        assert_ne!(won[0], won[1]);
        assert_eq!(marks(&scene), (true, true));
    });
}

#[test]
fn of_two_that_claim_an_item_without_token_one_wins() {
    explore(|| {
        let scene = Scene::with_versions(false);
        scene.stage.set(KEY, 1);
        let claimers = [(); 2].map(|()| scene.start(|actor| actor.claim(KEY, 7)));
        let won = claimers.map(|claimer| claimer.join().unwrap());
        scene.end();
        assert_ne!(won[0], won[1]);
    });
}

/// Runs a thread at the same time as a thread that moves the item's segment.
fn beside_a_relocation<T: Send + 'static>(
    scene: &Scene,
    act: impl FnOnce(&Actor) -> T + Send + 'static,
) -> T {
    let segment = scene.seal_alone(&[KEY]);
    let (_, outcome) = scene
        .race(move |actor| assert!(actor.reclaim(segment), "no reader holds the segment"), act);
    outcome
}

#[test]
fn a_claim_of_an_item_that_is_being_moved_stays() {
    explore(|| {
        let scene = Scene::without_eviction();
        let token = stale_item(&scene);
        assert!(beside_a_relocation(&scene, move |actor| actor.claim(KEY, token)));
        assert_eq!(marks(&scene), (true, true));
        assert!(scene.engine.counter(Counter::BytesRelocated) > 0);
    });
}

#[test]
fn a_mark_of_an_item_that_is_being_moved_stays_and_so_does_its_token() {
    explore(|| {
        let scene = Scene::without_eviction();
        let token = stale_item(&scene);
        assert!(scene.stage.claim(KEY, token));
        let told = beside_a_relocation(&scene, |actor| actor.mark_stale(KEY, None));
        assert_eq!(marks(&scene), (true, false));
        assert_eq!(scene.stage.peek(KEY).map(|meta| meta.cas), told);
    });
}

#[test]
fn a_mark_with_a_first_deadline_of_an_item_that_is_being_moved_stays() {
    explore(|| {
        let scene = Scene::without_eviction();
        scene.stage.set(KEY, 1);
        let told = beside_a_relocation(&scene, |actor| actor.mark_stale(KEY, Some(Deadline(90))));
        let meta = scene.stage.peek(KEY).unwrap();
        assert_eq!((Some(meta.cas), meta.stale, meta.deadline), (told, true, Deadline(90)));
        assert_eq!(scene.stage.fill_of(KEY), Some(1));
    });
}

#[test]
fn a_claim_of_an_item_that_survives_an_eviction_stays() {
    explore_some(|| {
        let scene = Scene::new();
        scene.lay_out_ghost();
        let token = stale_item(&scene);
        assert_eq!(scene.stage.fill_of(KEY), Some(1));
        let segment = scene.seal(KEY);
        let evictor = scene.start(move |actor| actor.evict(segment));
        let claimer = scene.start(move |actor| actor.claim(KEY, token));
        assert!(evictor.join().unwrap() && claimer.join().unwrap());
        scene.end();
        let meta = scene.stage.peek(KEY).unwrap();
        assert!(meta.stale && meta.token_sent && meta.fetched);
    });
}

#[test]
fn a_store_ends_a_claim_and_a_claim_after_it_is_refused() {
    explore(|| {
        let scene = Scene::new();
        let token = stale_item(&scene);
        scene.race(|actor| actor.set(KEY, 2), move |actor| actor.claim(KEY, token));
        assert_eq!((marks(&scene), scene.stage.fill_of(KEY)), ((false, false), Some(2)));
    });
}

#[test]
fn a_mark_ends_a_claim_and_a_claim_after_it_needs_the_new_token() {
    explore(|| {
        let scene = Scene::new();
        let token = stale_item(&scene);
        let (new, _) = scene.race(
            |actor| actor.mark_stale(KEY, None).unwrap(),
            move |actor| actor.claim(KEY, token),
        );
        assert_eq!(marks(&scene), (true, false));
        assert!(scene.stage.claim(KEY, new) && !scene.stage.claim(KEY, new));
    });
}

#[test]
fn a_reader_that_sees_the_token_of_a_mark_sees_the_mark() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let (token, seen) = scene.race(
            |actor| actor.mark_stale(KEY, None).unwrap(),
            |actor| [(); 2].map(|()| actor.peek(KEY).unwrap()),
        );
        assert!(seen.iter().all(|meta| meta.stale || meta.cas < token), "{seen:?}");
        assert!(seen.is_sorted_by_key(|meta| meta.stale), "{seen:?}");
    });
}

#[test]
fn a_touch_and_a_claim_of_one_item_are_both_done() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set_until(KEY, 1, 20);
        let token = scene.stage.peek(KEY).unwrap().cas;
        let touching = scene.start(|actor| actor.touch(KEY, 90));
        let claimer = scene.start(move |actor| actor.claim(KEY, token));
        assert!(touching.join().unwrap() && claimer.join().unwrap());
        scene.end();
        let meta = scene.stage.peek(KEY).unwrap();
        assert!(meta.token_sent && meta.fetched && meta.deadline == Deadline(90));
    });
}

#[test]
fn a_number_that_is_marked_while_it_is_counted_has_both() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set_raw(KEY, b"5");
        assert_eq!(scene.stage.increment(KEY), Some(6));
        let (marked, (number, counted)) = scene.race(
            |actor| actor.mark_stale(KEY, None).unwrap(),
            |actor| actor.count(KEY, Increment).unwrap(),
        );
        assert_eq!((number, marks(&scene)), (7, (true, false)));
        assert_eq!(scene.stage.raw(KEY), Some((b"7".to_vec(), marked.max(counted))));
    });
}

#[test]
fn a_number_that_is_marked_and_counted_is_read_under_the_token_that_belongs_to_it() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set_raw(KEY, b"5");
        let (_, first) = scene.stage.count(KEY, Increment).unwrap();
        let ((marked, counted), seen) = scene.race(
            |actor| (actor.mark_stale(KEY, None).unwrap(), actor.count(KEY, Increment).unwrap().1),
            |actor| actor.raw(KEY).unwrap(),
        );
        let history = [(b"6", first), (b"6", marked), (b"7", counted)];
        assert!(history.iter().any(|(text, token)| seen == (text.to_vec(), *token)), "{seen:?}");
    });
}

#[test]
fn an_append_in_place_ends_a_claim() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set_raw(KEY, b"a");
        let token = scene.stage.append(KEY, b"b").unwrap();
        let (token, _) =
            scene.race(|actor| actor.append(KEY, b"c"), move |actor| actor.claim(KEY, token));
        assert_eq!(marks(&scene), (false, false));
        assert_eq!(scene.stage.raw(KEY), Some((b"abc".to_vec(), token.unwrap())));
    });
}

#[test]
fn a_late_value_keeps_the_claim_of_the_item_that_it_replaces() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let token = stale_item(&scene);
        let writer = scene.start(move |actor| {
            let (cas, stale) = (Some(token - 1), Stale::IfOlder);
            let request = StoreRequest { cas, stale, ..StoreRequest::new(KEY, StoreMode::Set) };
            actor.engine.store(&Operation::new(&actor.thread, NOW), &request, b"late").unwrap()
        });
        let claimer = scene.start(move |actor| actor.claim(KEY, token));
        assert!(matches!(writer.join().unwrap(), Stored::Stored { .. }));
        let won = claimer.join().unwrap();
        scene.end();
        assert_eq!(marks(&scene), (true, won), "claimed before, or not at all");
        assert_eq!(scene.stage.raw(KEY).unwrap().0, b"late");
    });
}

#[test]
fn a_later_store_gets_a_higher_token_than_a_requested_one() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let asked = scene.stage.peek(KEY).unwrap().cas + 5_000;
        let asking = scene.start(move |actor| {
            let request =
                StoreRequest { version: Some(asked), ..StoreRequest::new(KEY, StoreMode::Set) };
            actor.engine.store(&Operation::new(&actor.thread, NOW), &request, b"asked").unwrap()
        });
        let writer =
            scene.start(|actor| [(); 2].map(|()| actor.extend(KEY, StoreMode::Prepend, b"x")));
        assert_eq!(asking.join().unwrap(), Stored::Stored { cas: asked, value_bytes: 5 });
        let tokens = writer.join().unwrap().map(Option::unwrap);
        scene.end();
        assert!(tokens[0] < tokens[1] && !tokens.contains(&asked));
        let (value, token) = scene.stage.raw(KEY).unwrap();
        assert_eq!(value != b"asked", token > asked, "{value:?} under {token}");
    });
}
