//! What becomes of a segment while a large value in it is read where it is.

use super::*;

const KEY: &[u8] = b"a key";

/// More than two pieces.
const BYTES: usize = 18_000;

/// A large value by itself in a segment.
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
        let evictor = scene.start(move |actor| {
            let evicted = actor.evict(segment);
            actor.need_a_segment();
            evicted
        });
        let reader = scene.start(|actor| actor.large_in_place(KEY));
        let evicted = evictor.join().unwrap();
        let seen = reader.join().unwrap();
        scene.end();
        assert!(seen == Some((1, BYTES)) || evicted && seen.is_none(), "{seen:?}");
        if !evicted {
            assert_eq!(scene.stage.large(KEY), Some((1, BYTES)));
            assert!(scene.stage.evict(segment), "nobody reads there any more");
            scene.end();
        }
    });
}

#[test]
fn a_deleted_value_stays_as_it_is_for_its_reader_while_its_segment_is_wanted_back() {
    explore(|| {
        let scene = Scene::new();
        let segment = large_value_alone(&scene);
        let writer = scene.start(move |actor| {
            assert!(actor.delete(KEY));
            actor.win_back(segment);
            actor.need_a_segment();
        });
        let reader = scene.start(|actor| actor.large_in_place(KEY));
        writer.join().unwrap();
        let seen = reader.join().unwrap();
        scene.end();
        assert!([Some((1, BYTES)), None].contains(&seen), "{seen:?}");
        let is_left = scene.engine.live(segment) == 0 && scene.is_sealed(segment);
        assert!(!is_left || scene.stage.win_back(segment), "nobody reads there any more");
        assert_eq!(scene.stage.large(KEY), None);
    });
}

#[test]
fn an_overwritten_value_is_read_to_its_end() {
    explore(|| {
        let scene = Scene::new();
        let segment = large_value_alone(&scene);
        let writer = scene.start(move |actor| {
            actor.set_large(KEY, BYTES / 2, 2);
            actor.win_back(segment);
            actor.need_a_segment();
        });
        let reader = scene.start(|actor| actor.large_in_place(KEY));
        writer.join().unwrap();
        let seen = reader.join().unwrap();
        scene.end();
        assert!([Some((1, BYTES)), Some((2, BYTES / 2))].contains(&seen), "{seen:?}");
        assert_eq!(scene.stage.large(KEY), Some((2, BYTES / 2)));
    });
}

#[test]
fn an_upload_is_whole_or_not_stored_while_a_reader_turns_an_evictor_away_from_its_pieces() {
    // The uploader may wait for the evictor at any place: every order of the three would be too many.
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
            assert!(published, "nobody took its pieces away");
            assert_eq!(scene.stage.large(b"another"), Some((2, BYTES)));
        }
    });
}
