//! Guarantees that are broken only if the processor or the compiler reorders accesses. These are
//! tests for Miri.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use super::*;
use crate::ops::large::piece::Piece;
use crate::ops::large::value::LargeValue;
use crate::segment::header::{State, Use};
use crate::segment::record::{Header, PIECE_HEAD_BYTES};
use crate::segment::slot::Slot;
use crate::segment::stream::{Pool, Stream};

const STREAM: Stream = Stream { pool: Pool::Small, ttl_class: 0 };

/// Starts a use of a fresh segment.
fn activated(scene: &Scene) -> Use {
    let (segments, thread) = (scene.engine.segments(), &scene.stage.thread);
    let segment = segments.take_fresh(thread, 0).unwrap();
    let sequence = segments.activate(&scene.engine.op(thread, scene::NOW), segment, STREAM);
    Use { sequence, segment }
}

#[test]
fn a_reader_of_the_next_use_of_a_segment_sees_that_the_last_one_ended() {
    explore(|| {
        let scene = Scene::new();
        let engine = &scene.engine;
        let Use { sequence, segment } = activated(&scene);
        let at = engine.region().segment_at(segment);
        engine.region().word(at).store(1, Relaxed);
        let last_user = scene.start(move |actor| {
            actor.engine.segments().retire(&actor.thread, segment);
            actor.engine.segments().free(&actor.thread, segment);
        });
        let next_user = scene.start(move |actor| {
            if let Some(segment) = actor.engine.segments().take_used(&actor.thread, 0) {
                actor.engine.region().word(at).store(2, Relaxed);
                actor.engine.segments().activate(
                    &actor.engine.op(&actor.thread, scene::NOW),
                    segment,
                    STREAM,
                );
            }
        });
        let reader = scene.start(move |actor| {
            let seen = actor.engine.region().word(at).load(Relaxed);
            fence(Acquire);
            let is_over = actor.engine.segments().sequence(segment).load(Relaxed) != sequence;
            assert!(seen == 1 || is_over, "bytes of the next use count as those of the last");
        });
        last_user.join().unwrap();
        next_user.join().unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn an_evictor_leaves_the_next_use_of_its_segment_alone() {
    explore(|| {
        let scene = Scene::new();
        let segment = scene.engine.segments().take_fresh(&scene.stage.thread, 0).unwrap();
        scene.engine.segments().activate(
            &scene.engine.op(&scene.stage.thread, scene::NOW),
            segment,
            STREAM,
        );
        scene.engine.segments().set_state(segment, State::Sealed);
        let old = scene.engine.segments().present_use(segment);
        let emptiers = [(); 2].map(|()| {
            scene.start(move |actor| {
                let begun = actor.engine.segments().begin_emptying(&actor.thread, old);
                if begun {
                    actor.engine.segments().retire(&actor.thread, segment);
                    actor.engine.segments().activate(
                        &actor.engine.op(&actor.thread, scene::NOW),
                        segment,
                        STREAM,
                    );
                    actor.engine.segments().set_state(segment, State::Sealed);
                }
                begun
            })
        });
        let begun = emptiers.map(|emptier| emptier.join().unwrap());
        preempt(false);
        assert!(begun[0] != begun[1], "a use ends once: {begun:?}");
    });
}

#[test]
fn a_segment_is_pinned_or_emptied_and_its_pinned_bytes_stay() {
    explore(|| {
        const PIECE_BYTES: usize = 40;
        let scene = Scene::new();
        let engine = &scene.engine;
        let Use { sequence, segment } = activated(&scene);
        let at = engine.region().segment_at(segment);
        let bytes_at = at + PIECE_HEAD_BYTES;
        engine.region().word(at).store(Header::piece(PIECE_BYTES).word(), Relaxed);
        engine.region().memory().write(bytes_at, &[1; PIECE_BYTES]);
        engine.segments().set_state(segment, State::Sealed);
        let piece = Piece { slot: Slot::new(segment, 0, sequence), sequence };
        let old = Use { sequence, segment };
        let reader = scene.start(move |actor| {
            let mut large = LargeValue::of_piece(piece);
            let pinned = actor.engine.pin_large(&mut large);
            if pinned {
                let piece = actor.engine.take_piece(&mut large).unwrap();
                for _ in 0..2 {
                    assert_eq!(actor.engine.bytes_of(&piece), [1; PIECE_BYTES]);
                    actor.engine.now(); // A point where other threads may run.
                }
                actor.engine.release(piece);
                actor.engine.close_large(&mut large);
            }
            pinned
        });
        let emptier = scene.start(move |actor| {
            let begun = actor.engine.segments().begin_emptying(&actor.thread, old);
            if begun {
                actor.engine.segments().retire(&actor.thread, segment);
                actor.engine.segments().free(&actor.thread, segment);
                assert_eq!(actor.engine.segments().take_used(&actor.thread, 0), Some(segment));
                actor.engine.region().memory().write(bytes_at, &[2; PIECE_BYTES]);
            }
            begun
        });
        let (pinned, begun) = (reader.join().unwrap(), emptier.join().unwrap());
        preempt(false);
        assert!(!engine.peers().is_pinned(segment) && engine.peers().pinned_segments() == 0);
        assert!(
            pinned || begun || engine.segments().begin_emptying(&scene.stage.thread, old),
            "a segment without readers must be emptied"
        );
    });
}
