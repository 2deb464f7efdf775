//! Appends to a large value while other threads use it.

use larder_item::StoreMode;
use larder_stats::Counter;

use super::*;

const KEY: &[u8] = b"a key";
/// The appended part. The last piece is joined with it, and the pieces before are carried over.
const PART: [u8; 600] = [1; 600];
const SHORT_BYTES: usize = 500;

/// Stores a value of two full pieces and a short one, whose record is in another segment than the
/// full pieces. Returns their segment.
fn large_value(scene: &Scene) -> u32 {
    let upload = scene.stage.upload(KEY, 2 * scene.engine.piece_bytes_max(), 1);
    let segment = scene.seal_written();
    scene.stage.publish(KEY, upload);
    scene.stage.append(KEY, &[1; SHORT_BYTES]).unwrap();
    assert_ne!(scene.segment_of(KEY), segment);
    segment
}

/// Returns the bytes of the value after `parts` extensions.
fn bytes_after(scene: &Scene, parts: usize) -> usize {
    2 * scene.engine.piece_bytes_max() + SHORT_BYTES + parts * PART.len()
}

#[test]
fn a_value_is_extended_while_its_pieces_are_moved() {
    explore(|| {
        let scene = Scene::without_eviction();
        let segment = large_value(&scene);
        let mover = scene
            .start(move |actor| assert!(actor.compact(segment), "no reader holds the segment"));
        let writer = scene.start(|actor| actor.append(KEY, &PART));
        mover.join().unwrap();
        assert!(writer.join().unwrap().is_some());
        scene.end();
        let moved_bytes = scene.engine.counter(Counter::BytesRelocated) as usize;
        assert!(moved_bytes >= 2 * scene.engine.piece_bytes_max(), "{moved_bytes} were moved");
        assert_eq!(scene.stage.large(KEY), Some((1, bytes_after(&scene, 1))));
    });
}

#[test]
fn a_value_is_extended_while_its_record_and_its_last_piece_are_moved() {
    explore(|| {
        let scene = Scene::without_eviction();
        large_value(&scene);
        let segment = scene.seal_written();
        assert_eq!(scene.segment_of(KEY), segment);
        let mover = scene.start(move |actor| actor.compact(segment));
        let writer = scene.start(|actor| actor.append(KEY, &PART));
        assert!(mover.join().unwrap());
        assert!(writer.join().unwrap().is_some());
        scene.end();
        assert_eq!(scene.stage.large(KEY), Some((1, bytes_after(&scene, 1))));
    });
}

#[test]
fn a_value_extended_while_it_is_evicted_is_whole_or_gone() {
    explore(|| {
        let scene = Scene::new();
        scene.lay_out_ghost();
        let segment = large_value(&scene);
        scene.race(
            move |actor| assert!(actor.evict(segment), "no reader holds the segment"),
            |actor| actor.append(KEY, &PART).is_some(),
        );
        // An append counts as a use of the item, so eviction may keep the item.
        let found = scene.stage.large(KEY);
        assert!([None, Some((1, bytes_after(&scene, 1)))].contains(&found), "{found:?}");
    });
}

#[test]
fn a_value_is_read_with_or_without_what_is_appended() {
    explore(|| {
        let scene = Scene::new();
        large_value(&scene);
        let (_, seen) = scene.race(
            |actor| actor.append(KEY, &PART).unwrap(),
            |actor| [actor.large_in_place(KEY), actor.large(KEY)],
        );
        let history = [0, 1].map(|parts| Some((1, bytes_after(&scene, parts))));
        let times = seen.map(|seen| history.iter().position(|there| *there == seen));
        assert!(times[0].is_some() && times.is_sorted(), "{seen:?}");
    });
}

#[test]
fn a_value_appended_to_and_prepended_to_at_the_same_time_has_both_parts() {
    explore(|| {
        let scene = Scene::new();
        large_value(&scene);
        let appending = scene.start(|actor| actor.append(KEY, &PART));
        let prepending = scene.start(|actor| actor.extend(KEY, StoreMode::Prepend, &PART));
        assert!(appending.join().unwrap().is_some() && prepending.join().unwrap().is_some());
        scene.end();
        assert_eq!(scene.stage.large(KEY), Some((1, bytes_after(&scene, 2))));
    });
}
