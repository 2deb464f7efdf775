//! A value that arrives in parts while the segment of its piece is reused.

use super::*;
use crate::interleavings::stage::scene::Crowd;
use crate::ops::large::upload::Upload;

const KEY: &[u8] = b"a key";
/// The value is one piece, because it is too long for its record.
const BYTES: usize = 8000;
/// The parts of the value. The first part has arrived when the threads start.
const PARTS: [usize; 3] = [2000, 3000, 3000];

/// Starts an upload whose first part has arrived. Returns the upload and the segment of its piece.
/// The segment contains nothing else, so the next thread that needs a segment takes it.
fn begun_upload(scene: &Scene) -> (Upload, u32) {
    scene.lay_out_ghost();
    scene.keep_a_free_segment();
    let mut upload = scene.engine.upload(KEY, BYTES).unwrap();
    assert!(scene.stage.push(&mut upload, PARTS[0], 2));
    let segment = scene.seal_alone(&[]);
    assert_eq!(upload.pieces[0].slot.segment(), segment);
    (upload, segment)
}

/// Pushes the other parts and stores the value. Returns false if it was lost.
fn bring_the_rest(actor: &Actor, mut upload: Upload) -> bool {
    if PARTS[1..].iter().all(|bytes| actor.push(&mut upload, *bytes, 2)) {
        return actor.publish(KEY, upload);
    }
    actor.engine.abort_upload(&actor.thread, upload);
    false
}

/// Checks that the values of other threads are intact.
fn assert_others_are_whole(scene: &Scene) {
    let (others, _) = scene.stage.raw(Crowd::LAST).unwrap();
    assert!(others == [0; Crowd::BYTES], "the upload wrote there");
}

#[test]
fn an_upload_writes_to_its_own_piece_or_nowhere_while_the_segment_is_put_to_other_use() {
    explore(|| {
        let scene = Scene::new();
        let (upload, segment) = begun_upload(&scene);
        let (stored, evicted) = scene.race(
            |actor| bring_the_rest(actor, upload),
            move |actor| {
                let evicted = actor.evict(segment);
                actor.need_a_segment();
                evicted
            },
        );
        assert_others_are_whole(&scene);
        assert_eq!(evicted, scene.segment_of(Crowd::LAST) == segment, "it is used at once");
        let seen = scene.stage.large(KEY);
        if evicted {
            assert_eq!(seen, None);
        } else {
            assert!(stored, "no thread evicted its pieces");
            assert_eq!(seen, Some((2, BYTES)));
        }
    });
}

#[test]
fn bytes_of_an_upload_go_to_its_own_piece_while_evictors_want_the_segment() {
    explore(|| {
        let scene = Scene::new();
        let (mut upload, segment) = begun_upload(&scene);
        let (stored, evicted) = scene.race(
            move |actor| {
                if actor.complete_direct(&mut upload, 2) {
                    return actor.publish(KEY, upload);
                }
                // An evictor was emptying the segment, and may have stopped since.
                actor.engine.abort_upload(&actor.thread, upload);
                false
            },
            move |actor| {
                let evicted = actor.evict(segment);
                actor.need_a_segment();
                evicted
            },
        );
        assert_others_are_whole(&scene);
        if stored && !evicted {
            assert_eq!(scene.stage.large(KEY), Some((2, BYTES)));
        }
    });
}

/// Plays an upload while the pin of a reader stops an evictor that wants the segment of its piece.
fn while_a_reader_turns_an_evictor_away<T: Send + 'static>(
    act: impl FnOnce(&Actor, Upload) -> T + Send + 'static,
) -> (Scene, T) {
    let scene = Scene::new();
    let (upload, segment) = begun_upload(&scene);
    assert!(scene.engine.segments().pin(segment, upload.pieces[0].sequence));
    let uploader = scene.start(|actor| act(actor, upload));
    let evictor =
        scene.start(move |actor| assert!(!actor.evict(segment), "a reader pins the segment"));
    let done = uploader.join().unwrap();
    evictor.join().unwrap();
    scene.engine.peers().unpin(segment);
    scene.end();
    (scene, done)
}

#[test]
fn an_upload_is_stored_though_an_evictor_of_its_piece_turns_back() {
    explore(|| {
        let (scene, stored) = while_a_reader_turns_an_evictor_away(bring_the_rest);
        assert!(stored, "no thread evicted its pieces");
        assert_eq!(scene.stage.large(KEY), Some((2, BYTES)));
    });
}

#[test]
fn an_upload_aborted_while_an_evictor_turns_back_leaves_no_trace_in_the_accounts() {
    explore(|| {
        let abort = |actor: &Actor, upload| actor.engine.abort_upload(&actor.thread, upload);
        while_a_reader_turns_an_evictor_away(abort);
    });
}

#[test]
fn an_upload_beside_a_flush_that_takes_its_segment_back_counts_as_stored_before() {
    explore(|| {
        let scene = Scene::new();
        let (upload, segment) = begun_upload(&scene);
        let uploader = scene.start(|actor| bring_the_rest(actor, upload));
        let flusher = scene.start(move |actor| {
            actor.engine.flush();
            actor.reclaim(segment);
            actor.need_a_segment();
        });
        assert!(uploader.join().unwrap(), "memory is not short");
        flusher.join().unwrap();
        scene.end();
        assert_others_are_whole(&scene);
        assert_eq!(scene.stage.large(KEY), None);
    });
}
