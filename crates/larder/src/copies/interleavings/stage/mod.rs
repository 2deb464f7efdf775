//! A stage: the room of the copies, with an origin, a clock, and clients that read and write.

mod explore;
mod link;
mod origin;
mod spec;
mod store;

use std::sync::Arc;
use std::task::{Wake, Waker};

use shuttle::sync::atomic::AtomicU64;
use shuttle::thread::{self, JoinHandle, Thread};

pub(crate) use self::explore::{explore, explore_all};
use self::link::Link;
pub(crate) use self::origin::{Message, Origin};
pub(crate) use self::spec::{Begun, Spec};
use self::store::Versions;
use crate::copies::sync::Ordering::SeqCst;
use crate::copies::sync::lock;
use crate::copies::{Copies, CopyLimits, Fetched, Flight, FlightResult, Place};

/// The number of keys.
pub(crate) const KEYS: usize = 3;
const BUCKETS: usize = 2;
const NAMES: [&[u8]; KEYS] = [b"a", b"b", b"c"];

/// How long after its acknowledgement a change may stay unseen.
pub(crate) const MAX_STALE_MS: u64 = 1;
/// A time after the end of every scene.
pub(crate) const LATER_MS: u64 = 1000;

/// The room of the copies and everything around it.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) copies: Copies<Versions>,
    pub(crate) origin: Origin,
    pub(crate) spec: Spec,
    /// The connection for the fetches of each key.
    links: [Link; KEYS],
    clock_ms: AtomicU64,
}

/// Wakes a thread that waits for a flight.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Stage {
    /// Creates a stage on which the time is 1, and copies are fresh until the end of the scene.
    pub(crate) fn new() -> Arc<Self> {
        let stage = Self::with_bytes(1, usize::MAX);
        stage.copies.refresh(LATER_MS);
        stage
    }

    /// Same as [`Self::new`], but copies are not fresh, the items have this version, and the lists
    /// of keys may use so much memory.
    pub(crate) fn with_bytes(version: u64, bytes_max: usize) -> Arc<Self> {
        let limits = CopyLimits {
            listed_bytes_max: bytes_max,
            absent_bytes_max: bytes_max,
            value_bytes_max: 8,
            flight_age_max_ms: MAX_STALE_MS,
        };
        Arc::new(Self {
            copies: Copies::new(Versions::default(), limits),
            origin: Origin::new(version),
            spec: Spec::default(),
            links: Default::default(),
            clock_ms: AtomicU64::new(1),
        })
    }

    /// Starts a thread.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        act: impl FnOnce(&Self) + Send + 'static,
    ) -> JoinHandle<()> {
        let stage = Arc::clone(self);
        thread::spawn(move || act(&stage))
    }

    /// Waits for the threads and delivers all messages. Then the near cache is at rest, and its
    /// state is checked.
    pub(crate) fn end<const N: usize>(&self, threads: [JoinHandle<()>; N]) {
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        while self.listen() {}
        for (key, name) in NAMES.into_iter().enumerate() {
            let current = self.origin.version(key);
            if let Some(copy) = self.copies.store().version(key) {
                assert_eq!(copy, current, "promise 1: the copy of key {key} is not current");
            }
            if self.copies.is_absent(self.place(key), name) {
                assert_eq!(current, 0, "promise 1: key {key} is not absent");
            }
            for stripe in &self.copies.stripes {
                let has_flight = lock(stripe).flight(name).is_some();
                assert!(!has_flight, "the flight of key {key} has not ended");
            }
        }
        for bucket in 0..BUCKETS {
            self.copies.invalidate_bucket(bucket.try_into().unwrap());
        }
        for key in 0..KEYS {
            let copy = self.copies.store().version(key);
            assert_eq!(copy, None, "no message can drop the copy of key {key}");
        }
        assert_eq!(self.copies.listed_bytes(), 0);
        assert_eq!(self.copies.absent_bytes.load(SeqCst), 0);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock_ms.load(SeqCst)
    }

    pub(crate) fn tick(&self) {
        self.clock_ms.fetch_add(1, SeqCst);
    }

    pub(crate) fn place(&self, key: usize) -> Place {
        let subscription = self.copies.subscription();
        Place { subscription, bucket: bucket(subscription, key) }
    }

    pub(crate) fn begin(&self, key: usize) -> Begun {
        self.spec.begin(key, self.now_ms())
    }

    /// Reads a key like a client of the near cache.
    pub(crate) fn read(&self, key: usize) {
        let begun = self.begin(key);
        let version = match self.look_for(key, true) {
            Some(version) => version,
            None => version(&self.fly(&begun)),
        };
        self.spec.judge(&begun, version);
    }

    /// Reads a key like a program that maps the memory of the near cache. A miss ends the read.
    pub(crate) fn look(&self, key: usize) {
        let begun = self.begin(key);
        if let Some(version) = self.look_for(key, false) {
            self.spec.judge(&begun, version);
        }
    }

    fn look_for(&self, key: usize, is_worker: bool) -> Option<u64> {
        // Rule: FreshBeforeLook
        let until_ms = self.copies.fresh_until_ms();
        let copy = self.copies.store().version(key);
        let is_absent = || is_worker && self.copies.is_absent(self.place(key), NAMES[key]);
        let version = copy.or_else(|| is_absent().then_some(0))?;
        // Rule: ClockAfterCopy
        (self.now_ms() <= until_ms).then_some(version)
    }

    /// Reads a key that has no fresh copy.
    fn fly(&self, begun: &Begun) -> FlightResult {
        let (flight, is_first) = self.join(begun);
        if is_first {
            self.complete(begun.key);
        }
        self.wait(&flight)
    }

    /// Joins or begins the flight of a key.
    pub(crate) fn join(&self, begun: &Begun) -> (Arc<Flight>, bool) {
        let Begun { key, now_ms, .. } = *begun;
        let joined = self.copies.join(self.place(key), NAMES[key], now_ms, Some(&waker()));
        if joined.1 {
            self.links[key].send(&joined.0);
        }
        joined
    }

    /// Has the origin answer the fetches of a key that were sent, and lands their flights.
    pub(crate) fn complete(&self, key: usize) {
        while self.answer_fetch(key) {}
        self.receive(key);
    }

    /// Has the origin answer the first fetch of a key. Returns false if there was none.
    pub(crate) fn answer_fetch(&self, key: usize) -> bool {
        self.answer_fetch_with(key, FlightResult::Value)
    }

    /// Same as [`Self::answer_fetch`], with another answer instead of the item.
    pub(crate) fn answer_fetch_with(
        &self,
        key: usize,
        answer: impl FnOnce(Arc<Fetched>) -> FlightResult,
    ) -> bool {
        self.links[key].answer(|flight| {
            self.origin.note(flight.place().subscription, key);
            let cas = self.origin.version(key);
            if cas == 0 {
                return FlightResult::Absent { is_noted: true };
            }
            let value = vec![0];
            answer(Arc::new(Fetched { value, flags: 0, cas, ttl_ms: None, is_noted: true }))
        })
    }

    /// Lands the flights of a key whose answers have arrived. Returns how many values were kept.
    pub(crate) fn receive(&self, key: usize) -> usize {
        self.links[key].receive(|flight, result| self.land(key, flight, result))
    }

    /// Lands the flight of a key whose answer has arrived first. Only one thread of the scene may
    /// land flights of the key.
    pub(crate) fn receive_first(&self, key: usize) {
        self.links[key].receive_first(|flight, result| self.land(key, flight, result));
    }

    fn land(&self, key: usize, flight: &Arc<Flight>, result: FlightResult) -> bool {
        let is_late = flight.result().is_some();
        // Rule: LateIsIgnored
        !is_late && self.copies.land(flight, self.place(key), result).is_ok()
    }

    /// Joins a flight that may be detached, and waits until it has landed.
    pub(crate) fn join_and_wait(&self, flight: &Flight) -> FlightResult {
        flight.add(&waker());
        self.wait(flight)
    }

    /// Waits until a flight that the thread has joined has landed.
    pub(crate) fn wait(&self, flight: &Flight) -> FlightResult {
        loop {
            if let Some(result) = flight.result() {
                return result.clone();
            }
            thread::park();
        }
    }

    /// Changes a key through the near cache.
    pub(crate) fn write(&self, key: usize) {
        let version = self.origin.change(key);
        self.answer(key, version);
    }

    /// Answers a change through the near cache.
    pub(crate) fn answer(&self, key: usize, version: u64) {
        // Rule: AnswerInvalidates
        self.copies.invalidate_key(self.place(key), NAMES[key]);
        self.acknowledge(key, version);
    }

    /// Changes all keys through the near cache.
    pub(crate) fn flush(&self) {
        let versions = self.origin.flush();
        // Rule: FlushInvalidates
        self.copies.invalidate_all();
        for (key, version) in versions.into_iter().enumerate() {
            self.acknowledge(key, version);
        }
    }

    fn acknowledge(&self, key: usize, version: u64) {
        self.spec.answer(key, version);
        self.spec.acknowledge(key, version, self.now_ms());
    }

    /// Changes a key at the origin.
    pub(crate) fn change(&self, key: usize) {
        let version = self.origin.change(key);
        self.spec.acknowledge(key, version, self.now_ms());
    }

    /// Sends `alive`. The origin answers it.
    pub(crate) fn send_alive(&self) {
        let sent_ms = self.now_ms();
        self.origin.send(self.copies.subscription(), Message::Alive(sent_ms));
    }

    /// Processes the next message of the origin. Returns false if there was none. Only one thread
    /// of a scene may do this.
    pub(crate) fn listen(&self) -> bool {
        match self.origin.receive(self.copies.subscription()) {
            None => return false,
            Some(Message::Bucket(bucket)) => {
                self.copies.invalidate_bucket(bucket);
            }
            Some(Message::Everything) => self.copies.invalidate_all(),
            // Rule: FreshFromSending
            Some(Message::Alive(sent_ms)) => self.copies.refresh(sent_ms + MAX_STALE_MS),
        }
        true
    }

    /// Loses the stream, and subscribes again.
    pub(crate) fn resubscribe(&self) {
        self.copies.resubscribe();
        self.copies.refresh(LATER_MS);
    }

    /// Evicts a copy.
    pub(crate) fn evict(&self, key: usize) {
        use crate::copies::CopyStore as _;
        self.copies.store().remove(NAMES[key]);
        self.copies.forget(self.place(key), NAMES[key]);
    }
}

fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// Returns the version that a flight has read.
pub(crate) fn version(result: &FlightResult) -> u64 {
    match result {
        FlightResult::Value(fetched) => fetched.cas,
        FlightResult::Absent { .. } => 0,
        FlightResult::Uncopied | FlightResult::Failed(_) => unreachable!("{result:?}"),
    }
}

/// Returns the bucket of a key. The first two keys share a bucket. Each subscription has other
/// buckets than the one before.
fn bucket(subscription: u64, key: usize) -> u32 {
    u32::from((key == 2) != (subscription % 2 == 1))
}
