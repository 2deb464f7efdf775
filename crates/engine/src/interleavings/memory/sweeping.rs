//! Items in a segment while the segment is swept for expired items.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::Deadline;
use larder_region::layout::global;
use larder_stats::Counter;

use super::*;
use crate::interleavings::stage::scene::NOW;
use crate::ops::update_meta::{MetaOutcome, MetaUpdate};
use crate::process::operation::Operation;
use crate::reclaim::sweep::SLICE_WORK;

const KEY: &[u8] = b"a key";

/// Stores an item that expires now, as the only item of the segment that is swept next.
fn about_to_be_swept() -> (Scene, u32) {
    let scene = Scene::new();
    scene.lay_out_ghost();
    scene.stage.set_until(KEY, 1, NOW);
    let segment = scene.seal(KEY);
    scene.engine.region().word(global::SWEEP_NEXT).store(u64::from(segment), Relaxed);
    (scene, segment)
}

fn sweep(actor: &Actor) {
    actor.engine.reclaimer().sweep_next(&actor.engine.op(&actor.thread, NOW));
}

#[test]
fn an_expired_item_is_swept_while_other_threads_read_it() {
    explore(|| {
        let (scene, _) = about_to_be_swept();
        let sweeper = scene.start(sweep);
        let reader = scene.start(|actor| actor.fill_of(KEY));
        sweeper.join().unwrap();
        assert_eq!(reader.join().unwrap(), None);
        scene.end();
        assert_eq!(scene.engine.segments().total().items, 0);
        // Exactly one of the two threads removes the item.
        let counters = [Counter::Reclaimed, Counter::CrawlerReclaimed];
        assert_eq!(counters.map(|counter| scene.engine.counter(counter)).iter().sum::<u64>(), 1);
    });
}

#[test]
fn an_item_touched_in_time_by_a_thread_whose_second_is_not_over_is_not_swept() {
    explore(|| {
        let (scene, _) = about_to_be_swept();
        let (_, touched) = scene.race(sweep, |actor| {
            let update =
                MetaUpdate { deadline: Some(Deadline(90)), noted: true, ..MetaUpdate::default() };
            let touched = actor
                .engine
                .update_meta(&Operation::new(&actor.thread, NOW - 1), KEY, &update)
                .unwrap();
            touched != MetaOutcome::NotFound
        });
        assert_eq!(scene.stage.fill_of(KEY), touched.then_some(1));
    });
}

#[test]
fn an_item_stored_while_its_expired_forerunner_is_swept_stays() {
    explore(|| {
        let (scene, _) = about_to_be_swept();
        scene.race(sweep, |actor| actor.set(KEY, 2));
        assert_eq!(scene.stage.fill_of(KEY), Some(2));
    });
}

#[test]
fn a_segment_that_is_swept_is_not_put_to_other_use_meanwhile() {
    explore(|| {
        let (scene, segment) = about_to_be_swept();
        let (_, evicted) = scene.race(sweep, move |actor| {
            let evicted = actor.evict(segment);
            actor.need_a_segment();
            evicted
        });
        assert_eq!(scene.stage.fill_of(KEY), None);
        // A thread that needed a segment may have taken this one since.
        let is_left = !evicted && scene.is_sealed(segment);
        assert!(!is_left || scene.stage.evict(segment), "no sweep holds it any more");
    });
}

#[test]
fn two_sweeps_of_all_segments_leave_nothing_that_expired_and_remove_it_once() {
    explore(|| {
        let (scene, _) = about_to_be_swept();
        let sweep_all = |actor: &Actor| {
            actor.engine.reclaimer().sweep(&actor.engine.op(&actor.thread, NOW), SLICE_WORK)
        };
        assert_eq!(scene.race(sweep_all, sweep_all), (false, false), "more work is due");
        assert_eq!(scene.engine.segments().total().items, 0, "an expired item is left");
        assert_eq!(scene.engine.counter(Counter::CrawlerReclaimed), 1);
    });
}
