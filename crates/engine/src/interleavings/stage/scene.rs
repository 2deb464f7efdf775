//! A scene: one small engine and the threads that meet on it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use larder_item::{Epoch, Second};
use larder_stats::Counter;

use crate::interleavings::stage::actor::Actor;
use crate::interleavings::stage::{preempt, thread};
use crate::segment::header::State;
use crate::{Config, Engine};

/// The second in which every scene plays.
pub(crate) const NOW: Second = 10;

/// An engine and whoever sets it up. Until threads start nobody is stopped: what comes before is one step.
pub(crate) struct Scene {
    pub(crate) engine: Arc<Engine>,
    pub(crate) stage: Actor,
}

/// The smallest engine there is: 14 segments for records, and an index of 512 groups.
const SMALL: Config = Config {
    memory_bytes: 1 << 20,
    memory_bytes_max: 1 << 20,
    huge_pages: false,
    item_bytes_max: 1 << 19,
    keeps_versions: true,
    evicts: true,
    hash_seed: 1,
    epoch: Epoch { unix_secs: 0 },
};

/// An engine that hashes keys as that of every scene does.
pub(crate) fn small_engine() -> Engine {
    Engine::create(&SMALL).unwrap()
}

impl Scene {
    /// A scene in which items may be evicted.
    pub(crate) fn new() -> Self {
        Self::of(&SMALL)
    }

    /// A scene in which items are moved, not evicted.
    pub(crate) fn without_eviction() -> Self {
        Self::of(&Config { evicts: false, ..SMALL })
    }

    /// A scene in which items are moved, not evicted, and have cas tokens or none.
    pub(crate) fn with_versions(keeps_versions: bool) -> Self {
        Self::of(&Config { evicts: false, keeps_versions, ..SMALL })
    }

    /// A scene with so many segments that two threads may evict at the same time.
    pub(crate) fn with_places_for_two_evictors() -> Self {
        let memory_bytes_max = 80 << 20;
        let scene = Self::of(&Config { memory_bytes_max, ..SMALL });
        scene.engine.set_memory_limit(&scene.stage.thread, memory_bytes_max).unwrap();
        assert_eq!(scene.engine.spare_segments(), 2);
        scene
    }

    fn of(config: &Config) -> Self {
        let engine = Arc::new(Engine::create(config).unwrap());
        let stage = Actor::on(&engine);
        Self { engine, stage }
    }

    /// Starts a thread. From here on whoever accesses the region may be stopped.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Actor) -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        preempt(false);
        let actor = Actor::on(&self.engine);
        preempt(true);
        thread::spawn(move || act(&actor))
    }

    /// Leaves one segment on the free stack, which the engine keeps for survivors: the next one that becomes
    /// free is used at once.
    pub(crate) fn keep_a_free_segment(&self) {
        self.seal_written();
        self.engine.maintain(&self.stage.thread, NOW);
        assert!(self.free_used_segments() > 0);
    }

    fn free_used_segments(&self) -> u64 {
        self.engine.used_segments() - self.engine.segments_in_use()
    }

    /// Brings about that the items of these keys, just stored, are alone in their segment, and that the
    /// segment written to now has room for small records only. Returns the first one.
    pub(crate) fn seal_alone(&self, keys: &[&[u8]]) -> u32 {
        let segment = self.seal_written();
        Crowd::new(self).fill_segment();
        assert!(keys.iter().all(|key| self.segment_of(key) == segment));
        segment
    }

    /// Puts a few segments on the free stack: those that are needed next are taken from there, and nothing is
    /// compacted for them.
    pub(crate) fn free_some_segments(&self) {
        let taken = [(); 4].map(|()| self.engine.take_fresh(&self.stage.thread, 0).unwrap());
        taken.into_iter().for_each(|segment| self.engine.free(&self.stage.thread, segment));
    }

    /// Seals the segment that holds the record of a key, which is being written to, as it is. Tells it.
    pub(crate) fn seal(&self, key: &[u8]) -> u32 {
        let segment = self.segment_of(key);
        assert_eq!((self.engine.state(segment), self.engine.layout.stripes), (State::Active, 1));
        self.engine.detach_segment(
            &self.stage.thread,
            self.engine.appender_at(self.engine.stream(segment), 0),
            segment,
        );
        segment
    }

    /// Fills and seals the segment written to with what is then deleted, and tells which it was.
    pub(crate) fn seal_written(&self) -> u32 {
        let mut crowd = Crowd::new(self);
        let segment = crowd.add();
        while self.engine.state(segment) != State::Sealed {
            crowd.add();
        }
        crowd.leave();
        segment
    }

    /// Fills the segment written to, to the last byte.
    pub(crate) fn fill_segment(&self) {
        let segment = Crowd::new(self).fill_segment();
        let room_bytes = self.engine.layout.segment_bytes - self.engine.filled(segment);
        let (key, fields_bytes) = (b"the last", 16);
        self.stage.set_raw(key, &vec![0; room_bytes - fields_bytes - key.len()]);
        assert_eq!(self.engine.filled(segment), self.engine.layout.segment_bytes);
    }

    /// Fills all memory but what the engine keeps for survivors: who needs a segment must evict.
    pub(crate) fn fill_memory(&self) {
        let evicted = self.engine.counter(Counter::SegmentsEvicted);
        let kept = self.engine.spare_segments();
        let mut crowd = Crowd::new(self);
        while self.engine.free_segments() > kept {
            crowd.add();
        }
        crowd.fill_segment();
        assert_eq!(self.engine.counter(Counter::SegmentsEvicted), evicted);
    }

    /// The segment that holds the record of a key.
    pub(crate) fn segment_of(&self, key: &[u8]) -> u32 {
        self.engine.find(self.engine.hash(key), key).unwrap().slot.segment()
    }

    /// Is a segment left as it was when it was full?
    pub(crate) fn is_sealed(&self, segment: u32) -> bool {
        self.engine.state(segment) == State::Sealed
    }

    /// Splits the next group.
    pub(crate) fn split_a_group(&self) {
        self.stage.split_a_group();
    }

    /// Gives the ghost its segment, which the first eviction would do: later ones leave what they empty free.
    pub(crate) fn lay_out_ghost(&self) {
        self.engine.extend_ghost(&self.stage.thread);
    }

    /// As if others had pinned as many segments as readers may: large values are read without pins.
    pub(crate) fn others_pin_all_they_may(&self) {
        self.engine.pretend_pinned(|_| self.engine.segments_max());
    }

    /// These others are done.
    pub(crate) fn others_unpin(&self) {
        self.engine.pretend_pinned(|pinned| pinned - self.engine.segments_max());
    }

    /// The end of the scene: all threads have been joined, and nothing is broken or still held.
    pub(crate) fn end(&self) {
        preempt(false);
        let in_use = |segment: &u32| self.engine.sequence(*segment).load(Relaxed) != 0;
        let held = self.engine.segments().filter(in_use).filter(|at| self.engine.is_held(*at));
        assert_eq!(
            (held.count(), self.engine.pinned_segments()),
            (0, 0),
            "segments are held, or counted so"
        );
        // Walking all of the index takes Miri longer than everything else.
        if !cfg!(miri) {
            self.engine.validate().unwrap();
        }
    }
}

/// Large items that nobody reads: they fill segments.
pub(crate) struct Crowd<'a> {
    scene: &'a Scene,
    keys: Vec<Vec<u8>>,
}

impl<'a> Crowd<'a> {
    /// The key of the item that [`Actor::need_a_segment`] stores.
    pub(crate) const LAST: &'static [u8] = b"last of the crowd";
    /// Nine of a crowd leave more than one kilobyte of a segment.
    pub(crate) const BYTES: usize = 7000;

    fn new(scene: &'a Scene) -> Self {
        Self { scene, keys: Vec::new() }
    }

    /// Adds one more and tells its segment.
    fn add(&mut self) -> u32 {
        let key = format!("{} of the crowd", self.scene.engine.counter(Counter::ItemsTotal));
        self.keys.push(key.into_bytes());
        let key = self.keys.last().unwrap();
        self.scene.stage.set_raw(key, &[0; Self::BYTES]);
        self.scene.segment_of(key)
    }

    /// Adds until the segment written to, which it tells, has no room for another.
    fn fill_segment(&mut self) -> u32 {
        let segment = self.add();
        let (engine, whole) = (&self.scene.engine, self.scene.engine.layout.segment_bytes);
        while whole - engine.filled(segment) > Self::BYTES + 100 {
            self.add();
        }
        assert!(whole - engine.filled(segment) > 1000);
        segment
    }

    /// Deletes them all.
    fn leave(self) {
        self.keys.iter().for_each(|key| assert!(self.scene.stage.delete(key)));
    }
}
