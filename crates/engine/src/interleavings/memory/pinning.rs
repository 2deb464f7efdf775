//! Segments with a large value that is read in place.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::*;

const KEY: &[u8] = b"a key";

/// The value has more than two pieces.
const BYTES: usize = 18_000;

/// Stores a large value as the only item of a segment.
fn large_value_alone(scene: &Scene) -> u32 {
    scene.lay_out_ghost();
    scene.stage.set_large(KEY, BYTES, 1);
    scene.seal_alone(&[KEY])
}

#[test]
fn a_value_stays_as_it_is_for_its_reader_while_others_want_to_evict_it() {
    explore(|| {
        let scene = Scene::new();
        let segment = large_value_alone(&scene);
        let (evicted, seen) = scene.race(
            move |actor| {
                let evicted = actor.evict(segment);
                actor.need_a_segment();
                evicted
            },
            |actor| actor.large_in_place(KEY),
        );
        assert!(seen == Some((1, BYTES)) || evicted && seen.is_none(), "{seen:?}");
        if !evicted {
            assert_eq!(scene.stage.large(KEY), Some((1, BYTES)));
            assert!(scene.stage.evict(segment), "no reader pins it any more");
            scene.end();
        }
    });
}

#[test]
fn a_deleted_value_stays_as_it_is_for_its_reader_while_its_segment_is_wanted_back() {
    explore(|| {
        let scene = Scene::new();
        let segment = large_value_alone(&scene);
        let (_, seen) = scene.race(
            move |actor| {
                assert!(actor.delete(KEY));
                actor.reclaim(segment);
                actor.need_a_segment();
            },
            |actor| actor.large_in_place(KEY),
        );
        assert!([Some((1, BYTES)), None].contains(&seen), "{seen:?}");
        let is_left = scene.engine.segments().live(segment) == 0 && scene.is_sealed(segment);
        assert!(!is_left || scene.stage.reclaim(segment), "no reader pins it any more");
        assert_eq!(scene.stage.large(KEY), None);
    });
}

#[test]
fn an_overwritten_value_is_read_to_its_end() {
    explore(|| {
        let scene = Scene::new();
        let segment = large_value_alone(&scene);
        let (_, seen) = scene.race(
            move |actor| {
                actor.set_large(KEY, BYTES / 2, 2);
                actor.reclaim(segment);
                actor.need_a_segment();
            },
            |actor| actor.large_in_place(KEY),
        );
        assert!([Some((1, BYTES)), Some((2, BYTES / 2))].contains(&seen), "{seen:?}");
        assert_eq!(scene.stage.large(KEY), Some((2, BYTES / 2)));
    });
}

#[test]
fn an_upload_is_whole_or_not_stored_while_a_reader_turns_an_evictor_away_from_its_pieces() {
    // The uploader may wait for the evictor at any point, so the three threads have too many orders
    // to play all.
    explore_some(|| {
        let scene = Scene::new();
        scene.lay_out_ghost();
        scene.stage.set_large(KEY, BYTES, 1);
        let upload = scene.stage.upload(b"another", BYTES, 2);
        let segment = scene.seal_written();
        assert_eq!(scene.segment_of(KEY), segment);
        let uploader = scene.start(move |actor| actor.publish(b"another", upload));
        let evictor = scene.start(move |actor| actor.evict(segment));
        let reader = scene.start(|actor| actor.large_in_place(KEY));
        let published = uploader.join().unwrap();
        let evicted = evictor.join().unwrap();
        reader.join().unwrap();
        scene.end();
        if !evicted {
            assert!(published, "no thread evicted its pieces");
            assert_eq!(scene.stage.large(b"another"), Some((2, BYTES)));
        }
    });
}

#[test]
fn readers_that_pin_at_the_same_time_stay_within_their_quota() {
    explore(|| {
        let scene = Scene::new();
        let keys: [&[u8]; 2] = [b"one", b"two"];
        for (fill, key) in (1..).zip(keys) {
            scene.stage.set_large(key, BYTES, fill);
            scene.seal_alone(&[key]);
        }
        // Each reader may pin its segments if the other does not, but both together may not.
        let pinned = scene.engine.segments().segments_max() / 4 - 2;
        scene.engine.peers().pretend_pinned(|_| pinned);
        let holders = Arc::new(AtomicU64::new(0));
        assert_eq!(keys.map(|key| scene.stage.hold_large(key, &holders)), [1, 1]);
        let readers = keys.map(|key| {
            let holders = Arc::clone(&holders);
            scene.start(move |actor| actor.hold_large(key, &holders))
        });
        let held_max = readers.map(|reader| reader.join().unwrap()).into_iter().max();
        assert!(held_max <= Some(1), "{held_max:?} readers hold a value each");
        assert_eq!(scene.engine.peers().pinned_segments(), pinned, "all pins are given back");
        scene.engine.peers().pretend_pinned(|_| 0);
        scene.end();
    });
}
