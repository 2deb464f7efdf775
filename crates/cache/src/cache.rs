//! The cache.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use larder_engine::{
    Arithmetic, Broken, Dumped, Engine, LimitError, Report, Request, Seat, StoreError, Stored,
};
use larder_item::{Deadline, Direction, Epoch, Meta, Second, StoreMode};
use larder_stats::Counter;

use crate::clock::Time;
use crate::large::{LargeValue, Read, Upload};
use crate::{Builder, Clock, seats};

/// A cache. Clones are cheap and share everything; the memory is given back with the last one.
///
/// Every operation costs a hash of the key and a cache miss or two. Writers of keys that share one of the
/// index's groups wait for each other for a few dozen instructions; readers wait for nobody.
#[derive(Clone, Debug)]
pub struct Cache {
    pub(crate) shared: Arc<Shared>,
}

/// What the clones of a cache share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    time: Time,
    pub(crate) shared_seat: Mutex<Seat>,
}

impl Cache {
    /// The settings of a cache that is to be opened.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(engine: Engine, time: Time) -> Self {
        let shared_seat = seats::shared_seat(&engine);
        Self { shared: Arc::new(Shared { engine, time, shared_seat }) }
    }

    /// The value of a key.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set(b"k", b"v", None)?;
    /// assert_eq!(cache.get(b"k"), Some(b"v".to_vec()));
    /// assert_eq!(cache.get(b"other"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        self.get_into(key, &mut value).map(|_| value)
    }

    /// Appends the value of a key to `out`, and says what else is known of the item. Where there is none,
    /// `out` stays as it was.
    pub fn get_into(&self, key: &[u8], out: &mut Vec<u8>) -> Option<Meta> {
        let start = out.len();
        loop {
            match self.read(key, out, |_, _| ()) {
                Read::Hit(meta) => return Some(meta),
                Read::Miss(_) => return None,
                Read::Large(meta, mut large) => loop {
                    match large.next_piece(out) {
                        Ok(true) => {}
                        Ok(false) => return Some(meta),
                        Err(_) => {
                            // Evicted or moved under the read: see what is there now.
                            out.truncate(start);
                            break;
                        }
                    }
                },
            }
        }
    }

    /// Stores a value, for ever or for a time. Less than a second counts as one.
    ///
    /// # Errors
    /// [`StoreError`]: the item is too large, or there is no memory and eviction is off. The item that was
    /// there is gone then.
    pub fn set(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), StoreError> {
        let deadline = ttl.map_or(Deadline::NEVER, |ttl| self.deadline_after(ttl));
        let request = Request { key, mode: StoreMode::Set, cas: None, flags: 0, deadline };
        self.store(&request, value).map(|_| ())
    }

    /// The deadline a time from now, rounded up to whole seconds.
    pub fn deadline_after(&self, ttl: Duration) -> Deadline {
        let secs = ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0));
        Deadline::after(self.now(), secs)
    }

    /// Reads an item. `head` appends to `out` whatever shall stand before the value; it is called again, with
    /// `out` as it was, where the item changed under the read, and must not use the cache. Then the value is
    /// appended, unless it is [`Read::Large`].
    pub fn read(
        &self,
        key: &[u8],
        out: &mut Vec<u8>,
        head: impl FnMut(&mut Vec<u8>, &Meta),
    ) -> Read {
        let now = self.now();
        self.with_seat(|engine, seat| match engine.read(seat, key, now, out, head) {
            larder_engine::Read::Hit(meta) => Read::Hit(meta),
            larder_engine::Read::Large(meta, pieces) => {
                Read::Large(meta, LargeValue { cache: self.clone(), pieces })
            }
            larder_engine::Read::Miss(miss) => Read::Miss(miss),
        })
    }

    /// Brings what operations on some keys will look at into the processor's caches. Worth its while for
    /// several keys that are operated on at once: they wait for the memory together, not one after the
    /// other. Changes nothing.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    /// cache.prefetch(keys.into_iter());
    /// let values = keys.map(|key| cache.get(key));
    /// # assert_eq!(values, [None, None, None]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        self.shared.engine.prefetch(keys);
    }

    /// Stores an item as a request says.
    ///
    /// # Errors
    /// [`StoreError`]. A plain set that fails removes the item that was there.
    pub fn store(&self, request: &Request<'_>, value: &[u8]) -> Result<Stored, StoreError> {
        let now = self.now();
        self.with_seat(|engine, seat| engine.store(seat, request, value, now))
    }

    /// Removes the item that a plain set, which could not be done, was to replace: what
    /// [`Cache::store`] does by itself, for stores given up before they began.
    pub fn give_up(&self, request: &Request<'_>) {
        let now = self.now();
        self.with_seat(|engine, seat| engine.give_up(seat, request, now));
    }

    /// Values longer than this are better stored by [`Cache::upload`]: they are kept in pieces.
    pub fn upload_bytes_min(&self) -> usize {
        self.shared.engine.inline_bytes_max()
    }

    /// Begins a store of `value_bytes` that arrive in parts.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] and [`StoreError::Key`], before anything has arrived.
    pub fn upload(&self, key: &[u8], value_bytes: usize) -> Result<Upload, StoreError> {
        let arriving = Some(self.shared.engine.upload(key, value_bytes)?);
        Ok(Upload { cache: self.clone(), arriving })
    }

    /// Is an item with a key and a value of these lengths small enough?
    pub fn accepts(&self, key_bytes: usize, value_bytes: usize) -> bool {
        self.shared.engine.accepts(key_bytes, value_bytes)
    }

    /// Removes an item; false where there is none.
    pub fn delete(&self, key: &[u8]) -> bool {
        let now = self.now();
        self.with_seat(|engine, seat| engine.delete(seat, key, now))
    }

    /// Gives an item a new deadline; false where there is none.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] where an item stored without a deadline must be moved to get one, and cannot.
    pub fn touch(&self, key: &[u8], deadline: Deadline) -> Result<bool, StoreError> {
        let now = self.now();
        self.with_seat(|engine, seat| engine.touch(seat, key, deadline, now))
    }

    /// Moves a counter: an item whose value is a decimal number.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] where the new number cannot be stored.
    pub fn arithmetic(
        &self,
        key: &[u8],
        direction: Direction,
        delta: u64,
    ) -> Result<Arithmetic, StoreError> {
        let now = self.now();
        self.with_seat(|engine, seat| engine.arithmetic(seat, key, direction, delta, now))
    }

    /// Makes everything stored so far invisible, in constant time. [`Cache::maintain`] takes its memory back;
    /// so do stores that need it.
    pub fn clear(&self) {
        self.shared.engine.flush();
    }

    /// Clears the cache when its clock reaches `at`, in place of any clear that was to come.
    pub fn clear_at(&self, at: Second) {
        self.shared.engine.flush_at(at, self.now());
    }

    /// Takes back memory of items that expired or were cleared. Nothing depends on it being called; a server
    /// does so every second. A call does a bounded amount of work, a few milliseconds.
    pub fn maintain(&self) {
        let now = self.now();
        self.with_seat(|engine, seat| engine.maintain(seat, now));
    }

    /// How many items are stored. Those that expired or were cleared count until they are read or their
    /// memory is taken back.
    pub fn len(&self) -> u64 {
        self.counter(Counter::ItemsCurrent)
    }

    /// Is nothing stored?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The current second of the cache's clock.
    #[inline]
    pub fn now(&self) -> Second {
        match self.shared.time.clock {
            Clock::System => self.shared.time.system_second(),
            Clock::Ticked => self.shared.engine.now(),
        }
    }

    /// The second of the cache's life by the system's clock, for whoever ticks the cache in real time.
    pub fn system_second(&self) -> Second {
        self.shared.time.system_second()
    }

    /// Moves a [`Clock::Ticked`] clock forward; it never goes back.
    pub fn tick(&self, now: Second) {
        self.shared.engine.tick(now);
    }

    /// The tie between the cache's seconds and Unix time.
    pub fn epoch(&self) -> Epoch {
        self.shared.engine.epoch()
    }

    /// One of the counters that the engine keeps, summed over threads.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.shared.engine.counter(counter)
    }

    /// Sets the counters that count events back to 0.
    pub fn reset_counters(&self) {
        self.shared.engine.reset_counters();
    }

    /// Changes how much memory the cache may use, up to what it was opened with. Less than is in use takes
    /// effect with the next stores and calls of [`Cache::maintain`]: the oldest items are evicted and their
    /// memory goes back to the system.
    ///
    /// # Errors
    /// [`LimitError`] names the bounds.
    pub fn set_memory_limit(&self, bytes: u64) -> Result<(), LimitError> {
        self.shared.engine.set_memory_limit(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// How much memory the cache may use, in bytes.
    pub fn memory_limit(&self) -> u64 {
        self.shared.engine.memory_limit() as u64
    }

    /// Shows live items to `visit` until it says no: in no particular order, and without any promise about
    /// items that change meanwhile. Walks the whole index.
    pub fn dump(&self, visit: impl FnMut(Dumped) -> bool) {
        self.shared.engine.dump(self.now(), visit);
    }

    /// The sizes of the cache's parts.
    pub fn report(&self) -> Report {
        self.shared.engine.report()
    }

    /// How many items there are of each size, rounded up to 32 bytes. Walks the whole index.
    pub fn sizes(&self) -> BTreeMap<u64, u64> {
        self.shared.engine.sizes()
    }

    /// Checks every invariant of the cache's memory. For tests and fuzzers: no other operation may be under
    /// way, and it walks everything.
    ///
    /// # Errors
    /// The first invariant found broken.
    pub fn validate(&self) -> Result<(), Broken> {
        self.shared.engine.validate()
    }

    #[inline]
    pub(crate) fn with_seat<T>(&self, f: impl FnOnce(&Engine, &Seat) -> T) -> T {
        seats::with_seat(&self.shared, f)
    }
}
