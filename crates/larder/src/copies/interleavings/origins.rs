//! Copies of two origins in one store, which programs read in its memory.

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicU64, AtomicUsize};
use shuttle::thread;

use super::stage::explore;
use crate::copies::sync::Ordering::SeqCst;
use crate::copies::{
    Copies, CopyLimits, CopyStore, Fetched, Flight, FlightResult, Place, ReaderLimits,
};

/// The memory that both origins share, as programs see it: one copy, the limit until when it may be
/// read, and the origin that owns its key.
#[derive(Debug)]
struct Memory {
    version: AtomicU64,
    readable_until_ms: AtomicU64,
    owner: AtomicUsize,
    /// The origin that will own the key.
    next_owner: AtomicUsize,
    limits: ReaderLimits,
}

/// The store of one origin.
#[derive(Clone, Debug)]
struct Part {
    origin: usize,
    memory: Arc<Memory>,
}

impl CopyStore for Part {
    fn put(&self, _key: &[u8], copy: &Fetched, _until_ms: Option<u64>) -> bool {
        self.memory.version.store(copy.cas, SeqCst);
        true
    }

    fn remove(&self, _key: &[u8]) {
        self.memory.version.store(0, SeqCst);
    }

    fn has(&self, _key: &[u8]) -> bool {
        self.memory.version.load(SeqCst) > 0
    }

    fn clear(&self) {
        unreachable!("the store is shared");
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn owns(&self, _key: &[u8]) -> bool {
        // The next owner first: the two change in the other order.
        let next = self.memory.next_owner.load(SeqCst);
        next == self.origin && self.memory.owner.load(SeqCst) == self.origin
    }

    fn limit_readers(&self, until_ms: u64) {
        let publish = |until_ms| self.memory.readable_until_ms.store(until_ms, SeqCst);
        self.memory.limits.set(self.origin, until_ms, publish);
    }

    fn end_limit(&self) {
        let publish = |until_ms| self.memory.readable_until_ms.store(until_ms, SeqCst);
        self.memory.limits.end(self.origin, publish);
    }
}

/// Two origins, whose copies are in one memory.
#[derive(Debug)]
struct Scene {
    memory: Arc<Memory>,
    first: Copies<Part>,
    second: Copies<Part>,
}

/// Until this time the first origin is known to have reported its changes. It is over.
const PAST_MS: u64 = 1;
const NOW_MS: u64 = 2;
const LATER_MS: u64 = 1000;
const KEY: &[u8] = b"key";

impl Scene {
    fn new() -> Arc<Self> {
        let memory = Arc::new(Memory {
            version: AtomicU64::new(0),
            readable_until_ms: AtomicU64::new(0),
            owner: AtomicUsize::new(0),
            next_owner: AtomicUsize::new(0),
            limits: ReaderLimits::new(2),
        });
        let limits = CopyLimits {
            listed_bytes_max: usize::MAX,
            absent_bytes_max: usize::MAX,
            value_bytes_max: 8,
            flight_age_max_ms: LATER_MS,
        };
        let part = |origin| {
            let part = Part { origin, memory: Arc::clone(&memory) };
            Copies::new(part, limits)
        };
        Arc::new(Self { first: part(0), second: part(1), memory })
    }

    /// Reads like a program that maps the memory; `None` if it must ask by the socket.
    fn look(&self) -> Option<u64> {
        let until_ms = self.memory.readable_until_ms.load(SeqCst);
        let version = self.memory.version.load(SeqCst);
        (version > 0 && NOW_MS <= until_ms).then_some(version)
    }

    /// Fetches the item from the origin that owns the key now. The items have the versions 1 and 2.
    fn fetch_from_owner(&self) {
        let (copies, version) = match self.memory.owner.load(SeqCst) {
            0 => (&self.first, 1),
            _ => (&self.second, 2),
        };
        let flight = fly(copies);
        land(copies, &flight, version);
    }

    fn spawn(self: &Arc<Self>, act: impl FnOnce(&Self) + Send + 'static) -> thread::JoinHandle<()> {
        let scene = Arc::clone(self);
        thread::spawn(move || act(&scene))
    }
}

fn place(copies: &Copies<Part>) -> Place {
    Place { subscription: copies.subscription(), bucket: 0 }
}

fn fly(copies: &Copies<Part>) -> Arc<Flight> {
    copies.join(place(copies), KEY, NOW_MS, None).0
}

fn land(copies: &Copies<Part>, flight: &Arc<Flight>, version: u64) {
    let fetched = Fetched { value: vec![0], flags: 0, cas: version, ttl_ms: None, is_noted: true };
    let _ = copies.land(flight, place(copies), FlightResult::Value(Arc::new(fetched)));
}

#[test]
fn an_origin_is_lost_while_the_other_lives() {
    explore(|| {
        let scene = Scene::new();
        scene.first.refresh(PAST_MS);
        let flight = fly(&scene.first);
        land(&scene.first, &flight, 1);
        // A second fetch of the key is under way.
        let late = fly(&scene.first);
        let threads = [
            scene.spawn(|scene| {
                scene.first.resubscribe();
            }),
            scene.spawn(|scene| scene.second.refresh(LATER_MS)),
            scene.spawn(move |scene| land(&scene.first, &late, 1)),
            scene.spawn(|scene| {
                // The first origin has not reported that the item has changed.
                assert_eq!(scene.look(), None, "a reader has found a copy that may be old");
            }),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(scene.look(), None, "a copy of the lost origin is left");
        let until_ms = scene.memory.readable_until_ms.load(SeqCst);
        assert_eq!(until_ms, LATER_MS, "the lost origin limits the other");
    });
}

/// A reader that began while the first origin did not limit it may find a copy of that origin.
#[test]
fn an_origin_comes_back_while_a_program_reads() {
    explore(|| {
        let scene = Scene::new();
        scene.first.resubscribe();
        scene.second.refresh(LATER_MS);
        let (item, clock_ms) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(PAST_MS)));
        let (fetched, changed) = (Arc::clone(&item), Arc::clone(&clock_ms));
        let threads = [
            scene.spawn(move |scene| {
                let flight = fly(&scene.first);
                let version = fetched.load(SeqCst);
                land(&scene.first, &flight, version);
            }),
            scene.spawn(|scene| scene.first.refresh(PAST_MS)),
            scene.spawn(move |_| {
                item.store(2, SeqCst);
                // More than the longest time for which a copy may be stale.
                changed.store(NOW_MS, SeqCst);
            }),
            scene.spawn(move |scene| {
                let began_ms = clock_ms.load(SeqCst);
                let is_old = scene.look() == Some(1);
                assert!(began_ms < NOW_MS || !is_old, "the reader began after the change");
            }),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_key_moves_to_the_other_origin() {
    explore(|| {
        let scene = Scene::new();
        scene.first.refresh(LATER_MS);
        scene.second.refresh(LATER_MS);
        let flight = fly(&scene.first);
        land(&scene.first, &flight, 1);
        let threads = [
            scene.spawn(|scene| {
                scene.memory.next_owner.store(1, SeqCst);
                scene.first.drop_moved();
                scene.memory.owner.store(1, SeqCst);
                assert_ne!(scene.look(), Some(1), "the copy of the old owner is left");
            }),
            // A write through the new owner, which has no stream: it finds no copy to drop.
            scene.spawn(|scene| {
                if scene.memory.owner.load(SeqCst) == 1 {
                    assert_ne!(scene.look(), Some(1), "a read after the write");
                }
            }),
            scene.spawn(Scene::fetch_from_owner),
            scene.spawn(Scene::fetch_from_owner),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_ne!(scene.look(), Some(1), "the copy of the old owner came back");
    });
}
