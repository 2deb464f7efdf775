//! The operations as a server needs them: flags, deadlines and cas tokens told one by one, values that
//! come in parts, nothing copied twice. [`get`](crate::get) and [`set`](crate::set) are made of these and are
//! what programs want.

use larder_engine::{Arithmetic, Dumped, Request, StoreError, Stored};
use larder_item::{Deadline, Direction, Meta, Second};
use std::time::Duration;

use crate::Cache;
use crate::large::{LargeValue, Read, Upload};

impl Cache {
    /// Reads an item. `head` appends to `out` whatever shall stand before the value; it is called again, with
    /// `out` as it was, where the item changed under the read, and must not use the cache. Then the value is
    /// appended, unless it is [`Read::Large`].
    ///
    /// Cost: as [`Cache::get_into`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::Read;
    /// cache.set("k", "v", None)?;
    /// let mut out = Vec::new();
    /// let read = cache.read(b"k", &mut out, |out, meta| {
    ///     out.extend_from_slice(format!("{} bytes: ", meta.value_bytes).as_bytes());
    /// });
    /// assert!(matches!(read, Read::Hit(_)));
    /// assert_eq!(out, b"1 bytes: v");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    ///
    /// Cost: as [`Cache::set`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{Deadline, Request, StoreMode, Stored};
    /// let deadline = Deadline::NEVER;
    /// let add = Request { key: b"k", mode: StoreMode::Add, cas: None, flags: 7, deadline };
    /// assert!(matches!(cache.store(&add, b"v")?, Stored::Stored { .. }));
    /// assert_eq!(cache.store(&add, b"v")?, Stored::NotStored);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store(&self, request: &Request<'_>, value: &[u8]) -> Result<Stored, StoreError> {
        let now = self.now();
        self.shared.flights.detach(request.key);
        self.with_seat(|engine, seat| engine.store(seat, request, value, now))
    }

    /// Removes the item that a plain set, which could not be done, was to replace: what
    /// [`Cache::store`] does by itself, for stores given up before they began.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{Deadline, Request, StoreMode};
    /// cache.set("k", "v", None)?;
    /// let deadline = Deadline::NEVER;
    /// let set = Request { key: b"k", mode: StoreMode::Set, cas: None, flags: 0, deadline };
    /// cache.give_up(&set);
    /// assert_eq!(cache.get("k"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_up(&self, request: &Request<'_>) {
        let now = self.now();
        self.shared.flights.detach(request.key);
        self.with_seat(|engine, seat| engine.give_up(seat, request, now));
    }

    /// Values longer than this are better stored by [`Cache::upload`]: they are kept in pieces.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.upload_bytes_min() > 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn upload_bytes_min(&self) -> usize {
        self.shared.engine.inline_bytes_max()
    }

    /// Begins a store of `value_bytes` that arrive in parts.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] and [`StoreError::Key`], before anything has arrived.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{Deadline, Request, StoreMode};
    /// let mut upload = cache.upload(b"k", 10)?;
    /// upload.push(b"first")?;
    /// upload.push(b",last")?;
    /// let deadline = Deadline::NEVER;
    /// upload.store(&Request { key: b"k", mode: StoreMode::Set, cas: None, flags: 0, deadline })?;
    /// assert_eq!(cache.get("k").as_deref(), Some(&b"first,last"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn upload(&self, key: &[u8], value_bytes: usize) -> Result<Upload, StoreError> {
        let arriving = Some(self.shared.engine.upload(key, value_bytes)?);
        Ok(Upload { cache: self.clone(), arriving })
    }

    /// Is an item with a key and a value of these lengths small enough?
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.accepts(3, 1000) && !cache.accepts(3, 1 << 30));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accepts(&self, key_bytes: usize, value_bytes: usize) -> bool {
        self.shared.engine.accepts(key_bytes, value_bytes)
    }

    /// Gives an item a new deadline; false where there is none. [`Cache::touch`] with a time from now.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] where an item stored without a deadline must be moved to get one, and cannot.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::Deadline;
    /// cache.set("k", "v", None)?;
    /// assert!(cache.touch_until(b"k", Deadline::after(cache.now(), 10))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn touch_until(&self, key: &[u8], deadline: Deadline) -> Result<bool, StoreError> {
        let now = self.now();
        self.with_seat(|engine, seat| engine.touch(seat, key, deadline, now))
    }

    /// Moves a counter: an item whose value is a decimal number.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] where the new number cannot be stored.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{Arithmetic, Direction};
    /// cache.set("n", "9", None)?;
    /// let moved = cache.arithmetic(b"n", Direction::Increment, 1)?;
    /// assert!(matches!(moved, Arithmetic::Number { number: 10, .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn arithmetic(
        &self,
        key: &[u8],
        direction: Direction,
        delta: u64,
    ) -> Result<Arithmetic, StoreError> {
        let now = self.now();
        self.shared.flights.detach(key);
        self.with_seat(|engine, seat| engine.arithmetic(seat, key, direction, delta, now))
    }

    /// The deadline a time from now, rounded up to whole seconds.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().clock(larder::Clock::Ticked).open()?;
    /// use larder::Deadline;
    /// use std::time::Duration;
    /// let deadline = cache.deadline_after(Duration::from_millis(1500));
    /// assert_eq!(deadline, Deadline(cache.now() + 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline_after(&self, ttl: Duration) -> Deadline {
        let secs = ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0));
        Deadline::after(self.now(), secs)
    }

    /// Clears the cache when its clock reaches `at`, in place of any clear that was to come. A load that is
    /// under way then is stored all the same, unlike with [`Cache::clear`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().clock(larder::Clock::Ticked).open()?;
    /// cache.set("k", "v", None)?;
    /// cache.clear_at(cache.now() + 1);
    /// cache.tick(cache.now() + 1);
    /// assert_eq!(cache.get("k"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear_at(&self, at: Second) {
        self.shared.engine.flush_at(at, self.now());
    }

    /// Shows live items to `visit` until it says no: in no particular order, and without any promise about
    /// items that change meanwhile. Walks the whole index.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// let mut keys = Vec::new();
    /// cache.dump(|dumped| {
    ///     keys.push(dumped.key);
    ///     keys.len() < 100
    /// });
    /// assert_eq!(keys, [b"k"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dump(&self, visit: impl FnMut(Dumped) -> bool) {
        self.shared.engine.dump(self.now(), visit);
    }
}
