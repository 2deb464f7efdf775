//! Scenes: a small engine and the threads that use it at the same time.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use larder_item::Second;
use larder_stats::Counter;

use crate::engine::Engine;
use crate::fixtures;
use crate::interleavings::stage::actor::Actor;
use crate::interleavings::stage::{preempt, thread};
use crate::open::Config;
use crate::segment::header::State;

/// The second at which every scene takes place.
pub(crate) const NOW: Second = 10;

/// An engine, and the actor `stage` that sets it up and checks it at the end. The setup is one
/// step: no preemption happens before threads start.
pub(crate) struct Scene {
    pub(crate) engine: Arc<Engine>,
    pub(crate) stage: Actor,
}

/// The smallest engine: 14 segments for records, and an index of 512 groups.
const SMALL: Config = Config { item_bytes_max: 1 << 19, ..fixtures::SMALL };

/// Returns an engine that hashes keys in the same way as the engine of every scene.
pub(crate) fn small_engine() -> Engine {
    Engine::create(&SMALL).unwrap()
}

impl Scene {
    /// Returns a scene with eviction.
    pub(crate) fn new() -> Self {
        Self::of(&SMALL)
    }

    /// Returns a scene that moves items instead of evicting them.
    pub(crate) fn without_eviction() -> Self {
        Self::of(&Config { evicts: false, ..SMALL })
    }

    /// Returns a scene without eviction, with or without cas tokens.
    pub(crate) fn with_versions(keeps_versions: bool) -> Self {
        Self::of(&Config { evicts: false, keeps_versions, ..SMALL })
    }

    /// Returns a scene with enough segments for two concurrent evictors.
    pub(crate) fn with_places_for_two_evictors() -> Self {
        let memory_bytes_max = 80 << 20;
        let scene = Self::of(&Config { memory_bytes_max, ..SMALL });
        scene.engine.set_memory_limit(&scene.stage.thread, memory_bytes_max).unwrap();
        assert_eq!(scene.engine.segments().spare_segments(), 2);
        scene
    }

    fn of(config: &Config) -> Self {
        let engine = Arc::new(Engine::create(config).unwrap());
        let stage = Actor::on(&engine);
        Self { engine, stage }
    }

    /// Starts a thread. From here on, any access to the region may be preempted.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Actor) -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        preempt(false);
        let actor = Actor::on(&self.engine);
        preempt(true);
        thread::spawn(move || act(&actor))
    }

    /// Runs two threads at the same time, and ends the scene. Returns the results of both.
    pub(crate) fn race<A: Send + 'static, B: Send + 'static>(
        &self,
        first: impl FnOnce(&Actor) -> A + Send + 'static,
        second: impl FnOnce(&Actor) -> B + Send + 'static,
    ) -> (A, B) {
        let (first, second) = (self.start(first), self.start(second));
        let outcomes = (first.join().unwrap(), second.join().unwrap());
        self.end();
        outcomes
    }

    /// Leaves one free segment, which the engine keeps for survivors, so that the next segment that
    /// becomes free is used immediately.
    pub(crate) fn keep_a_free_segment(&self) {
        self.seal_written();
        self.engine.maintain(&self.stage.thread, NOW);
        assert!(self.free_used_segments() > 0);
    }

    fn free_used_segments(&self) -> u64 {
        self.engine.segments().used_segments() - self.engine.segments().segments_in_use()
    }

    /// Seals the segment that contains the items of these keys and nothing else. They must be the
    /// items that were stored last. Afterwards the current segment has space only for small
    /// records. Returns the sealed segment.
    pub(crate) fn seal_alone(&self, keys: &[&[u8]]) -> u32 {
        let segment = self.seal_written();
        Crowd::new(self).fill_segment();
        assert!(keys.iter().all(|key| self.segment_of(key) == segment));
        segment
    }

    /// Frees a few segments, so that the next allocations take them without compaction.
    pub(crate) fn free_some_segments(&self) {
        let taken =
            [(); 4].map(|()| self.engine.segments().take_fresh(&self.stage.thread, 0).unwrap());
        taken
            .into_iter()
            .for_each(|segment| self.engine.segments().free(&self.stage.thread, segment));
    }

    /// Seals the segment that holds the record of a key and that an appender writes to. Returns the
    /// segment.
    pub(crate) fn seal(&self, key: &[u8]) -> u32 {
        let segment = self.segment_of(key);
        assert_eq!(
            (self.engine.segments().state(segment), self.engine.region().layout().stripes),
            (State::Active, 1)
        );
        self.engine.segments().detach_segment(
            &self.stage.thread,
            self.engine.segments().appender_at(self.engine.segments().stream(segment), 0),
            segment,
        );
        segment
    }

    /// Fills the current segment with items, seals it, deletes them, and returns the segment.
    pub(crate) fn seal_written(&self) -> u32 {
        let mut crowd = Crowd::new(self);
        let segment = crowd.add();
        while self.engine.segments().state(segment) != State::Sealed {
            crowd.add();
        }
        crowd.leave();
        segment
    }

    /// Fills the current segment to the last byte.
    pub(crate) fn fill_segment(&self) {
        let segment = Crowd::new(self).fill_segment();
        let room_bytes =
            self.engine.region().segment_bytes() - self.engine.segments().filled(segment);
        let (key, fields_bytes) = (b"the last", 16);
        self.stage.set_raw(key, &vec![0; room_bytes - fields_bytes - key.len()]);
        assert_eq!(self.engine.segments().filled(segment), self.engine.region().segment_bytes());
    }

    /// Fills all memory except the spare segments, so that a thread that needs a segment must
    /// evict.
    pub(crate) fn fill_memory(&self) {
        let evicted = self.engine.counter(Counter::SegmentsEvicted);
        let kept = self.engine.segments().spare_segments();
        let mut crowd = Crowd::new(self);
        while self.engine.segments().free_segments() > kept {
            crowd.add();
        }
        crowd.fill_segment();
        assert_eq!(self.engine.counter(Counter::SegmentsEvicted), evicted);
    }

    /// Returns the segment that holds the record of a key.
    pub(crate) fn segment_of(&self, key: &[u8]) -> u32 {
        self.engine.index().find(self.engine.index().hash(key), key).unwrap().slot.segment()
    }

    /// True if a segment is sealed.
    pub(crate) fn is_sealed(&self, segment: u32) -> bool {
        self.engine.segments().state(segment) == State::Sealed
    }

    /// Splits the next group.
    pub(crate) fn split_a_group(&self) {
        self.stage.split_a_group();
    }

    /// Gives the ghost its segment, as the first eviction would do, so that later evictions leave
    /// the segment that they empty free.
    pub(crate) fn lay_out_ghost(&self) {
        self.engine.index().extend_ghost(&self.stage.thread);
    }

    /// Simulates other threads that have pinned as many segments as readers may pin, so that large
    /// values are read without pins.
    pub(crate) fn others_pin_all_they_may(&self) {
        self.engine.peers().pretend_pinned(|_| self.engine.segments().segments_max());
    }

    /// Drops these pins.
    pub(crate) fn others_unpin(&self) {
        self.engine.peers().pretend_pinned(|pinned| pinned - self.engine.segments().segments_max());
    }

    /// Ends the scene. Checks that no thread holds anything and that no invariant is broken.
    pub(crate) fn end(&self) {
        preempt(false);
        let in_use = |segment: &u32| self.engine.segments().sequence(*segment).load(Relaxed) != 0;
        let held = self
            .engine
            .segments()
            .segment_numbers()
            .filter(in_use)
            .filter(|at| self.engine.peers().is_held(*at));
        assert_eq!(
            (held.count(), self.engine.peers().pinned_segments()),
            (0, 0),
            "segments are held, or counted so"
        );
        let unfiled = self.engine.segments().unfiled(NOW);
        assert!(unfiled.is_empty(), "no search finds the segments {unfiled:?}");
        // Under Miri, a walk over the index takes longer than everything else.
        if !cfg!(miri) {
            self.engine.validate().unwrap();
        }
    }
}

/// A crowd: large items that no thread reads, which a scene stores to fill segments.
pub(crate) struct Crowd<'a> {
    scene: &'a Scene,
    keys: Vec<Vec<u8>>,
}

impl<'a> Crowd<'a> {
    /// The key of the item that [`Actor::need_a_segment`] stores.
    pub(crate) const LAST: &'static [u8] = b"last of the crowd";
    /// The length of an item. Nine items of a crowd leave more than one kilobyte of a segment free.
    pub(crate) const BYTES: usize = 7000;

    fn new(scene: &'a Scene) -> Self {
        Self { scene, keys: Vec::new() }
    }

    /// Adds one item and returns its segment.
    fn add(&mut self) -> u32 {
        let key = format!("{} of the crowd", self.scene.engine.counter(Counter::ItemsTotal));
        self.keys.push(key.into_bytes());
        let key = self.keys.last().unwrap();
        self.scene.stage.set_raw(key, &[0; Self::BYTES]);
        self.scene.segment_of(key)
    }

    /// Adds items until the current segment has no space for another one. Returns that segment.
    fn fill_segment(&mut self) -> u32 {
        let segment = self.add();
        let (engine, whole) = (&self.scene.engine, self.scene.engine.region().segment_bytes());
        while whole - engine.segments().filled(segment) > Self::BYTES + 100 {
            self.add();
        }
        assert!(whole - engine.segments().filled(segment) > 1000);
        segment
    }

    /// Deletes all items of the crowd.
    fn leave(self) {
        self.keys.iter().for_each(|key| assert!(self.scene.stage.delete(key)));
    }
}
