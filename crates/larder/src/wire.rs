//! The operations in the form that a server needs: explicit flags, deadlines and cas tokens, values
//! that arrive in parts, no value copied twice. Programs use [`get`](crate::get) and
//! [`set`](crate::set), which are built on these operations.

use larder_engine::{
    Arithmetic, ArithmeticRequest, Deletion, MetaOutcome, MetaUpdate, Reading, StoreError,
    StoreRequest, Stored,
};
use larder_item::{Deadline, Direction, Meta, Second};
use larder_region::Sink;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::Cache;
use crate::large::{LargeValue, Read, Upload};

impl Cache {
    /// Reads an item. `head` appends to `out` the bytes that precede the value, then the value is
    /// appended unless it is [`Read::Large`]. If the item changes during the read, `out` is reset
    /// and `head` is called again. `head` must not use the cache.
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
    pub fn read<S: Sink>(&self, key: &[u8], out: &mut S, head: impl FnMut(&mut S, &Meta)) -> Read {
        let now = self.now();
        self.with_thread_slot(|engine, thread| {
            self.outcome(engine.read(thread, key, now, out, head))
        })
    }

    /// Reads an item as [`Cache::read`] does, but without recording the read, or without the value.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{Read, Reading};
    /// cache.set("k", "v", None)?;
    /// let (mut out, unnoted) = (Vec::new(), Reading { noted: false, value: true });
    /// for _ in 0..2 {
    ///     let read = cache.read_as(b"k", unnoted, &mut out, |_, _| ());
    ///     assert!(matches!(read, Read::Hit(meta) if !meta.fetched));
    /// }
    /// assert_eq!(out, b"vv");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn read_as<S: Sink>(
        &self,
        key: &[u8],
        reading: Reading,
        out: &mut S,
        head: impl FnMut(&mut S, &Meta),
    ) -> Read {
        let now = self.now();
        self.with_thread_slot(|engine, thread| {
            self.outcome(engine.read_as(thread, key, reading, now, out, head))
        })
    }

    #[inline]
    fn outcome(&self, read: larder_engine::Read) -> Read {
        match read {
            larder_engine::Read::Hit(meta) => Read::Hit(meta),
            larder_engine::Read::Large(meta, pieces) => Read::Large(
                meta,
                Box::new(LargeValue { shared: Arc::clone(self.shared()), pieces }),
            ),
            larder_engine::Read::Miss(miss) => Read::Miss(miss),
        }
    }

    /// Returns the metadata of an item, large ones included; `None` if it is absent. Does not count
    /// as a read.
    ///
    /// Cost: as [`Cache::get_into`], without the value.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "value", None)?;
    /// let meta = cache.peek(b"k").ok_or("k is absent")?;
    /// assert_eq!((meta.value_bytes, meta.fetched, meta.stale), (5, false, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek(&self, key: &[u8]) -> Option<Meta> {
        self.shared().engine.peek(key, self.now())
    }

    /// Gives the caller the recache token of an item that is stale or about to expire. Returns true
    /// for one caller only, until the item is stored again or marked stale again. `cas` is the
    /// token of the item as the caller read it; in a cache without cas tokens any live item
    /// matches.
    ///
    /// Cost: that of a [`Cache::touch`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().cas(true).open()?;
    /// cache.set("k", "v", None)?;
    /// let meta = cache.peek(b"k").ok_or("k is absent")?;
    /// assert!(cache.claim(b"k", meta.cas));
    /// assert!(!cache.claim(b"k", meta.cas));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn claim(&self, key: &[u8], cas: u64) -> bool {
        let now = self.now();
        self.with_thread_slot(|engine, thread| engine.claim(thread, key, cas, now))
    }

    /// Removes an item; with a token, only if the item has it.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().cas(true).open()?;
    /// use larder::Deletion;
    /// cache.set("k", "v", None)?;
    /// let token = cache.peek(b"k").map_or(0, |meta| meta.cas);
    /// assert_eq!(cache.delete_if(b"k", Some(token + 1))?, Deletion::Exists);
    /// assert!(matches!(cache.delete_if(b"k", Some(token))?, Deletion::Deleted(_)));
    /// assert_eq!(cache.delete_if(b"k", None)?, Deletion::NotFound);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Stuck`] as with [`Cache::delete`].
    pub fn delete_if(&self, key: &[u8], cas: Option<u64>) -> Result<Deletion, StoreError> {
        let now = self.now();
        self.shared().flights.detach(key);
        Ok(self.with_thread_slot(|engine, thread| engine.delete(thread, key, cas, now))?)
    }

    /// Marks an item's value as stale. The item stays, with a new cas token or with `version`, and
    /// with a new deadline if one is given. The next [`Cache::claim`] succeeds. With a `cas` token,
    /// only an item that has it is marked.
    ///
    /// # Errors
    /// As [`Cache::touch_until`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().cas(true).open()?;
    /// use larder::MetaOutcome;
    /// cache.set("k", "v", None)?;
    /// let MetaOutcome::Done(meta) = cache.mark_stale(b"k", None, None, None)? else {
    ///     return Err("k is absent".into());
    /// };
    /// assert!(meta.stale);
    /// assert!(!meta.token_sent);
    /// assert!(cache.claim(b"k", meta.cas));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mark_stale(
        &self,
        key: &[u8],
        cas: Option<u64>,
        version: Option<u64>,
        deadline: Option<Deadline>,
    ) -> Result<MetaOutcome, StoreError> {
        let now = self.now();
        self.shared().flights.detach(key);
        let update = MetaUpdate { cas, deadline, noted: false, stale: true, version };
        self.with_thread_slot(|engine, thread| engine.update_meta(thread, key, &update, now))
    }

    /// Prefetches the memory that operations on some keys will read into the processor's caches.
    /// Useful before operations on several keys: their cache misses overlap. Changes nothing.
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
        self.shared().engine.prefetch(keys);
    }

    /// Stores an item according to a request.
    ///
    /// # Errors
    /// [`StoreError`]. A plain set that fails removes the existing item.
    ///
    /// Cost: as [`Cache::set`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{StoreRequest, StoreMode, Stored};
    /// let add = StoreRequest { flags: 7, ..StoreRequest::new(b"k", StoreMode::Add) };
    /// assert!(matches!(cache.store(&add, b"v")?, Stored::Stored { .. }));
    /// assert_eq!(cache.store(&add, b"v")?, Stored::NotStored);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store(&self, request: &StoreRequest<'_>, value: &[u8]) -> Result<Stored, StoreError> {
        let now = self.now();
        self.shared().flights.detach(request.key);
        self.with_thread_slot(|engine, thread| engine.store(thread, request, value, now))
    }

    /// Removes the item that a failed plain set was to replace. [`Cache::store`] does so itself;
    /// this is for stores abandoned before they began.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{StoreRequest, StoreMode};
    /// cache.set("k", "v", None)?;
    /// cache.give_up(&StoreRequest::new(b"k", StoreMode::Set));
    /// assert_eq!(cache.get("k"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_up(&self, request: &StoreRequest<'_>) {
        let now = self.now();
        self.shared().flights.detach(request.key);
        self.with_thread_slot(|engine, thread| engine.give_up(thread, request, now));
    }

    /// Returns the largest value that is not stored in pieces, in bytes. Store longer values with
    /// [`Cache::upload`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.upload_bytes_min() > 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn upload_bytes_min(&self) -> usize {
        self.shared().engine.inline_bytes_max()
    }

    /// Begins a store of `value_bytes` that arrive in parts.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] and [`StoreError::Key`], before any bytes have arrived.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{StoreRequest, StoreMode};
    /// let mut upload = cache.upload(b"k", 10)?;
    /// upload.push(b"first")?;
    /// upload.push(b",last")?;
    /// upload.store(&StoreRequest::new(b"k", StoreMode::Set))?;
    /// assert_eq!(cache.get("k").as_deref(), Some(&b"first,last"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn upload(&self, key: &[u8], value_bytes: usize) -> Result<Upload, StoreError> {
        let arriving = Some(self.shared().engine.upload(key, value_bytes)?);
        Ok(Upload { shared: Arc::clone(self.shared()), arriving })
    }

    /// True if an item with a key and a value of these lengths is within the size limit.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.accepts(3, 1000));
    /// assert!(!cache.accepts(3, 1 << 30));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accepts(&self, key_bytes: usize, value_bytes: usize) -> bool {
        self.shared().engine.accepts(key_bytes, value_bytes)
    }

    /// Gives an item a new deadline and returns its updated metadata; `None` if the item is absent.
    /// [`Cache::touch`] takes a time from now instead.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] if an item stored without a deadline must be relocated to get one,
    /// and no memory is free.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::Deadline;
    /// cache.set("k", "v", None)?;
    /// let deadline = Deadline::after(cache.now(), 10);
    /// assert_eq!(cache.touch_until(b"k", deadline)?.map(|meta| meta.deadline), Some(deadline));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn touch_until(&self, key: &[u8], deadline: Deadline) -> Result<Option<Meta>, StoreError> {
        self.touch_as(key, deadline, true)
    }

    /// Touches an item as [`Cache::touch_until`] does. As in memcached, the touch counts as a read
    /// if `noted` is true.
    ///
    /// # Errors
    /// As [`Cache::touch_until`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// let touched = cache.touch_as(b"k", larder::Deadline::NEVER, false)?;
    /// assert!(touched.is_some_and(|meta| !meta.fetched));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn touch_as(
        &self,
        key: &[u8],
        deadline: Deadline,
        noted: bool,
    ) -> Result<Option<Meta>, StoreError> {
        let now = self.now();
        let update = MetaUpdate { deadline: Some(deadline), noted, ..MetaUpdate::default() };
        self.with_thread_slot(|engine, thread| {
            Ok(match engine.update_meta(thread, key, &update, now)? {
                MetaOutcome::Done(meta) => Some(meta),
                // The request names no token, so no token can differ.
                MetaOutcome::NotFound | MetaOutcome::Exists => None,
            })
        })
    }

    /// Increments or decrements a counter: an item whose value is a decimal number.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] if the new number cannot be stored.
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
        self.arithmetic_as(&ArithmeticRequest::new(key, direction, delta))
    }

    /// Changes a counter as [`Cache::arithmetic`] does, with all options. If the counter is absent,
    /// the caller creates it with [`StoreMode::Add`](crate::StoreMode::Add).
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] as with [`Cache::arithmetic`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().cas(true).open()?;
    /// use larder::{Arithmetic, ArithmeticRequest, Direction};
    /// cache.set("n", "9", None)?;
    /// let counting = ArithmeticRequest::new(b"n", Direction::Increment, 1);
    /// let moved = cache.arithmetic_as(&ArithmeticRequest { version: Some(1000), ..counting })?;
    /// assert!(matches!(moved, Arithmetic::Number { number: 10, meta } if meta.cas == 1000));
    /// let refused = cache.arithmetic_as(&ArithmeticRequest { cas: Some(999), ..counting })?;
    /// assert_eq!(refused, Arithmetic::Exists);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn arithmetic_as(
        &self,
        counting: &ArithmeticRequest<'_>,
    ) -> Result<Arithmetic, StoreError> {
        let now = self.now();
        self.shared().flights.detach(counting.key);
        self.with_thread_slot(|engine, thread| engine.arithmetic(thread, counting, now))
    }

    /// Returns the deadline a duration from now, rounded up to whole seconds.
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

    /// Clears the cache when its clock reaches `at`, and replaces any clear scheduled before.
    /// Unlike [`Cache::clear`], a load in progress at that moment is still stored.
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
        self.shared().engine.flush_at(at, self.now());
    }

    /// Clears the cache, and also items stored until its clock advances. For servers whose protocol
    /// cannot distinguish times within a second.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().clock(larder::Clock::Ticked).open()?;
    /// cache.clear_second();
    /// cache.set("k", "v", None)?;
    /// assert_eq!(cache.get("k"), None);
    /// cache.tick(cache.now() + 1);
    /// cache.set("k", "v", None)?;
    /// assert!(cache.get("k").is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear_second(&self) {
        self.shared().engine.flush_second(self.now());
    }
}
