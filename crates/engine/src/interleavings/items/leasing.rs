//! Several threads take and release leases of one key.

use super::*;
use crate::interleavings::stage::scene::NOW;
use crate::ops::load::lease::{Lease, LeaseTime};

const KEY: &[u8] = b"a key";
const MS: u64 = 1_000_000;

fn lease_at(actor: &Actor, now_ms: u64) -> Option<Lease> {
    let time = LeaseTime { now: NOW, now_ms, ms: 1000 };
    actor.engine.lease(&actor.thread, KEY, time).unwrap()
}

fn release(actor: &Actor, lease: Lease) -> bool {
    actor.engine.release_lease(&actor.thread, KEY, lease).unwrap()
}

/// Plays with and without a lease that has already ended at the start, and with and without cas
/// tokens.
fn each_beginning(play: impl Fn(&Scene) + Copy + Send + Sync + 'static) {
    for (versions, is_held) in [(false, false), (false, true), (true, false), (true, true)] {
        explore(move || {
            let scene = Scene::with_versions(versions);
            if is_held {
                assert!(lease_at(&scene.stage, MS - 1000).is_some());
            }
            play(&scene);
        });
    }
}

#[test]
fn one_of_two_threads_gets_a_lease_that_is_free_or_has_ended() {
    each_beginning(|scene| {
        let takers = [(); 2].map(|()| scene.start(|actor| lease_at(actor, MS).is_some()));
        let taken = takers.map(|taker| taker.join().unwrap());
        scene.end();
        assert_ne!(taken[0], taken[1]);
        assert_eq!(lease_at(&scene.stage, MS + 999), None);
    });
}

#[test]
fn no_two_threads_have_a_lease_at_the_same_time() {
    each_beginning(|scene| {
        let takers = [(); 2].map(|()| {
            scene.start(|actor| {
                lease_at(actor, MS).is_none_or(|lease| {
                    // If another thread had the lease now, it would have ended this lease.
                    release(actor, lease)
                })
            })
        });
        assert_eq!(takers.map(|taker| taker.join().unwrap()), [true; 2]);
        scene.end();
        assert!(lease_at(&scene.stage, MS).is_some(), "all have released it");
    });
}

#[test]
fn a_store_and_a_delete_of_the_key_leave_its_lease() {
    each_beginning(|scene| {
        let taker = scene.start(|actor| lease_at(actor, MS));
        let writer = scene.start(|actor| {
            actor.set(KEY, 1);
            actor.delete(KEY)
        });
        let lease = taker.join().unwrap();
        assert!(writer.join().unwrap());
        scene.end();
        assert!(release(&scene.stage, lease.expect("no other thread takes the lease")));
    });
}
