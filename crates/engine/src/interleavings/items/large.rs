//! Reads of a value in pieces while the pieces are evicted, moved and replaced.

use larder_stats::Counter;

use super::*;
use crate::interleavings::stage::scene::Crowd;

const KEY: &[u8] = b"a key";

/// The value has more than two pieces.
const BYTES: usize = 18_000;

#[test]
fn a_large_value_read_without_pins_is_whole_or_not_there_while_its_segment_is_put_to_other_use() {
    explore(|| {
        let scene = Scene::new();
        scene.lay_out_ghost();
        scene.keep_a_free_segment();
        scene.stage.set_large(KEY, BYTES, 1);
        let old_segment = scene.seal_alone(&[KEY]);
        scene.others_pin_all_they_may();
        let evictor = scene.start(move |actor| {
            assert!(actor.evict(old_segment), "no reader holds the segment");
            actor.need_a_segment();
        });
        let reader = scene.start(|actor| actor.large_fill_of(KEY));
        evictor.join().unwrap();
        let seen = reader.join().unwrap();
        scene.others_unpin();
        scene.end();
        // If the read happens before the eviction, the value is kept: its pieces take the free
        // segment.
        let is_kept = scene.engine.counter(Counter::MovesToCold) > 0;
        let is_reused = scene.segment_of(Crowd::LAST) == old_segment;
        assert!(is_kept || is_reused, "the segment is not in use again");
        assert!(!is_kept || seen == Some(1), "the value is lost though it was kept");
        assert!([Some(1), None].contains(&seen), "{seen:?}");
    });
}

#[test]
fn a_large_value_is_found_whole_while_its_pieces_are_moved() {
    explore(|| {
        let scene = Scene::without_eviction();
        scene.stage.set_large(KEY, BYTES / 2, 1);
        let segment = scene.seal_alone(&[KEY]);
        scene.others_pin_all_they_may();
        let mover = scene
            .start(move |actor| assert!(actor.compact(segment), "no reader holds the segment"));
        let reader = scene.start(|actor| actor.large_fill_of(KEY));
        mover.join().unwrap();
        assert_eq!(reader.join().unwrap(), Some(1));
        scene.others_unpin();
        scene.end();
        assert!(scene.engine.counter(Counter::SegmentsCompacted) > 0, "the segment was compacted");
        assert_eq!(scene.stage.large_fill_of(KEY), Some(1));
    });
}

#[test]
fn a_large_value_overwritten_while_its_pieces_are_moved_is_the_new_one() {
    explore(|| {
        let scene = Scene::without_eviction();
        scene.stage.set_large(KEY, BYTES / 2, 1);
        scene.seal_alone(&[KEY]);
        let segment = scene.segment_of(KEY);
        let mover = scene
            .start(move |actor| assert!(actor.compact(segment), "no reader holds the segment"));
        let writer = scene.start(|actor| actor.set(KEY, 2));
        mover.join().unwrap();
        writer.join().unwrap();
        scene.end();
        assert_eq!(scene.stage.fill_of(KEY), Some(2));
    });
}

#[test]
fn the_table_of_a_deleted_value_is_read_before_its_segment_is_given_to_other_use() {
    explore(|| {
        let scene = Scene::new();
        scene.keep_a_free_segment();
        let upload = scene.stage.upload(KEY, 2 * scene.engine.piece_bytes_max(), 1);
        scene.fill_segment();
        scene.stage.publish(KEY, upload);
        let old_segment = scene.seal_alone(&[KEY]);
        scene.race(|actor| assert!(actor.delete(KEY)), Actor::need_a_segment);
        assert!(scene.segment_of(Crowd::LAST) != old_segment || scene.stage.get(KEY).is_none());
    });
}

#[test]
fn an_upload_published_while_the_segment_of_its_pieces_is_evicted_is_whole_or_not_stored() {
    explore(|| {
        let scene = Scene::new();
        let upload = scene.stage.upload(KEY, BYTES / 2, 1);
        let segment = scene.seal_written();
        scene.race(
            move |actor| actor.publish(KEY, upload),
            move |actor| assert!(actor.evict(segment), "no reader holds the segment"),
        );
        assert!([Some(1), None].contains(&scene.stage.large_fill_of(KEY)));
    });
}

#[test]
fn a_large_value_deleted_while_reclaimable_segments_are_taken_back_leaves_no_trace_in_the_accounts()
{
    explore(|| {
        let scene = Scene::new();
        scene.stage.set_large(KEY, BYTES / 2, 1);
        scene.seal_alone(&[KEY]);
        scene.race(
            |actor| assert!(actor.delete(KEY)),
            |actor| {
                actor.engine.maintain(&actor.thread, scene::NOW);
                actor.need_a_segment();
            },
        );
        assert_eq!(scene.stage.get(KEY), None);
    });
}
