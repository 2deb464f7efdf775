//! Guarantees that only fail if the processor or the compiler reorders accesses: for Miri.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use super::*;
use crate::ops::large::{LargeValue, Piece};
use crate::segment::header::{State, Use};
use crate::segment::record::{Header, PIECE_HEAD_BYTES};
use crate::segment::slot::Slot;
use crate::segment::stream::{Pool, Stream};

const STREAM: Stream = Stream { pool: Pool::Small, ttl_class: 0 };

#[test]
fn a_reader_of_the_next_use_of_a_segment_sees_that_the_last_one_ended() {
    explore(|| {
        let scene = Scene::new();
        let engine = &scene.engine;
        let segment = engine.take_fresh(&scene.stage.thread, 0).unwrap();
        let sequence = engine.activate(&scene.stage.thread, segment, STREAM, scene::NOW);
        let at = engine.layout.segment_at(segment);
        engine.memory.word(at).store(1, Relaxed);
        let last_user = scene.start(move |actor| {
            actor.engine.retire(&actor.thread, segment);
            actor.engine.free(&actor.thread, segment);
        });
        let next_user = scene.start(move |actor| {
            if let Some(segment) = actor.engine.take_used(&actor.thread, 0) {
                actor.engine.memory.word(at).store(2, Relaxed);
                actor.engine.activate(&actor.thread, segment, STREAM, scene::NOW);
            }
        });
        let reader = scene.start(move |actor| {
            let seen = actor.engine.memory.word(at).load(Relaxed);
            fence(Acquire);
            let is_over = actor.engine.sequence(segment).load(Relaxed) != sequence;
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
        let segment = scene.engine.take_fresh(&scene.stage.thread, 0).unwrap();
        scene.engine.activate(&scene.stage.thread, segment, STREAM, scene::NOW);
        scene.engine.set_state(segment, State::Sealed);
        let old = scene.engine.present_use(segment);
        let emptiers = [(); 2].map(|()| {
            scene.start(move |actor| {
                let begun = actor.engine.begin_emptying(&actor.thread, old);
                if begun {
                    actor.engine.retire(&actor.thread, segment);
                    actor.engine.activate(&actor.thread, segment, STREAM, scene::NOW);
                    actor.engine.set_state(segment, State::Sealed);
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
        let segment = engine.take_fresh(&scene.stage.thread, 0).unwrap();
        let sequence = engine.activate(&scene.stage.thread, segment, STREAM, scene::NOW);
        let at = engine.layout.segment_at(segment);
        let bytes_at = at + PIECE_HEAD_BYTES;
        engine.memory.word(at).store(Header::piece(PIECE_BYTES).word(), Relaxed);
        engine.memory.write(bytes_at, &[1; PIECE_BYTES]);
        engine.set_state(segment, State::Sealed);
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
            let begun = actor.engine.begin_emptying(&actor.thread, old);
            if begun {
                actor.engine.retire(&actor.thread, segment);
                actor.engine.free(&actor.thread, segment);
                assert_eq!(actor.engine.take_used(&actor.thread, 0), Some(segment));
                actor.engine.memory.write(bytes_at, &[2; PIECE_BYTES]);
            }
            begun
        });
        let (pinned, begun) = (reader.join().unwrap(), emptier.join().unwrap());
        preempt(false);
        assert!(!engine.is_pinned(segment) && engine.pinned_segments() == 0);
        assert!(
            pinned || begun || engine.begin_emptying(&scene.stage.thread, old),
            "a segment without readers must be emptied"
        );
    });
}
