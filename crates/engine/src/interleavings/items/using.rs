//! The time of the last use, which a reader writes while other threads use the item.

use larder_item::Direction;
use larder_stats::Counter;

use super::*;
use crate::interleavings::stage::scene::{Crowd, NOW};

const KEY: &[u8] = b"a key";

const BEFORE: &[u8] = b"before";

/// The second of the reads. By then the stored time must be updated.
const LATER: u32 = NOW + 1000;

/// Checks that the reported last use is the store or the read.
fn assert_use_is_known(scene: &Scene) {
    let seen = scene.engine.peek(KEY, LATER).unwrap().seen;
    assert!(seen == LATER || (NOW..NOW + 8).contains(&seen), "{seen}");
}

#[test]
fn one_of_two_readers_writes_when_an_item_is_used() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let readers = [(); 2].map(|()| scene.start(|actor| actor.fill_at(KEY, LATER)));
        assert_eq!(readers.map(|reader| reader.join().unwrap()), [Some(1), Some(1)]);
        scene.end();
        assert_eq!(scene.engine.peek(KEY, LATER).unwrap().seen, LATER);
    });
}

#[test]
fn a_mark_that_an_item_gets_while_its_use_is_written_stays() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let reader = scene.start(|actor| actor.fill_at(KEY, LATER));
        let marker = scene.start(|actor| {
            let token = actor.mark_stale(KEY, None).unwrap();
            actor.claim(KEY, token)
        });
        assert_eq!(reader.join().unwrap(), Some(1));
        assert!(marker.join().unwrap());
        scene.end();
        let meta = scene.stage.peek(KEY).unwrap();
        assert!(meta.stale && meta.token_sent, "{meta:?}");
        assert_use_is_known(&scene);
    });
}

#[test]
fn a_number_that_is_counted_while_its_use_is_written_is_counted_once() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set_raw(KEY, b"5");
        assert_eq!(scene.stage.increment(KEY), Some(6));
        let reader = scene.start(|actor| actor.read_at(KEY, LATER));
        let writer = scene.start(|actor| actor.count(KEY, Direction::Increment));
        let seen = reader.join().unwrap().unwrap();
        let (number, token) = writer.join().unwrap().unwrap();
        scene.end();
        assert!([&b"6"[..], b"7"].contains(&&seen[..]), "{seen:?}");
        assert_eq!((number, scene.stage.raw(KEY)), (7, Some((b"7".to_vec(), token))));
        assert_use_is_known(&scene);
    });
}

#[test]
fn an_item_whose_use_is_written_while_it_is_moved_is_moved_whole() {
    explore(|| {
        let scene = Scene::without_eviction();
        scene.stage.set(KEY, 1);
        let segment = scene.seal_alone(&[KEY]);
        let mover = scene.start(move |actor| assert!(actor.reclaim(segment)));
        let reader = scene.start(|actor| actor.fill_at(KEY, LATER));
        mover.join().unwrap();
        assert_eq!(reader.join().unwrap(), Some(1));
        scene.end();
        assert!(scene.engine.counter(Counter::BytesRelocated) > 0);
        assert_eq!(scene.stage.fill_of(KEY), Some(1));
        assert_use_is_known(&scene);
    });
}

#[test]
fn a_use_is_not_written_into_a_segment_that_was_given_to_others() {
    explore(|| {
        let scene = Scene::new();
        scene.keep_a_free_segment();
        // This item is stored before the key's, so that another record's value is where the key's
        // header was.
        scene.stage.set(BEFORE, 7);
        scene.stage.set(KEY, 1);
        let old_segment = scene.seal_alone(&[BEFORE, KEY]);
        assert!(scene.stage.delete(BEFORE));
        let (_, seen) = scene.race(
            |actor| {
                actor.set(KEY, 2);
                actor.need_a_segment();
            },
            |actor| actor.fill_at(KEY, LATER),
        );
        assert_eq!(scene.segment_of(Crowd::LAST), old_segment, "the segment is in use again");
        assert!([Some(1), Some(2)].contains(&seen), "{seen:?}");
        assert_eq!(scene.stage.raw(Crowd::LAST).unwrap().0, [0; Crowd::BYTES]);
        assert_eq!(scene.stage.fill_of(KEY), Some(2));
    });
}
