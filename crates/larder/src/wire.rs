//! The operations as a server needs them: flags, deadlines and cas tokens told one by one, values that
//! come in parts, nothing copied twice. [`get`](crate::get) and [`set`](crate::set) are made of these and are
//! what programs want.

use larder_engine::{
    Arithmetic, ArithmeticRequest, Deletion, MetaOutcome, MetaUpdate, Reading, StoreError,
    StoreRequest, Stored,
};
use larder_item::{Deadline, Direction, Meta, Second};
use larder_region::Sink;
use std::sync::Arc;
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
    pub fn read<S: Sink>(&self, key: &[u8], out: &mut S, head: impl FnMut(&mut S, &Meta)) -> Read {
        let now = self.now();
        self.with_thread_slot(|engine, thread| {
            self.outcome(engine.read(thread, key, now, out, head))
        })
    }

    /// As [`Cache::read`], but without a note that the item was read, or without its value.
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

    /// What is known of an item, large ones too; none where there is none. It does not count as a read.
    ///
    /// Cost: as [`Cache::get_into`], without the value.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "value", None)?;
    /// let meta = cache.peek(b"k").ok_or("there is no k")?;
    /// assert_eq!((meta.value_bytes, meta.fetched, meta.stale), (5, false, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek(&self, key: &[u8]) -> Option<Meta> {
        self.shared().engine.peek(key, self.now())
    }

    /// Gives the caller the right to bring the new value of an item that is stale or about to expire: true for one
    /// caller alone, until the item is stored again or marked stale again. The token is that of the item as it was
    /// read; where the cache keeps none, any live item will do.
    ///
    /// Cost: that of a [`Cache::touch`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().cas(true).open()?;
    /// cache.set("k", "v", None)?;
    /// let meta = cache.peek(b"k").ok_or("there is no k")?;
    /// assert!(cache.claim(b"k", meta.cas) && !cache.claim(b"k", meta.cas));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn claim(&self, key: &[u8], cas: u64) -> bool {
        let now = self.now();
        self.with_thread_slot(|engine, thread| engine.claim(thread, key, cas, now))
    }

    /// Removes an item; with a token, only the one that has it.
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
    /// [`StoreError::Stuck`].
    pub fn delete_if(&self, key: &[u8], cas: Option<u64>) -> Result<Deletion, StoreError> {
        let now = self.now();
        self.shared().flights.detach(key);
        Ok(self.with_thread_slot(|engine, thread| engine.delete(thread, key, cas, now))?)
    }

    /// Says that an item's value is out of date. It stays, with a new cas token, or the one asked for, and where one
    /// is given with a new deadline; the first [`Cache::claim`] after it succeeds. With a token only the item that
    /// has it is marked.
    ///
    /// # Errors
    /// As [`Cache::touch_until`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().cas(true).open()?;
    /// use larder::MetaOutcome;
    /// cache.set("k", "v", None)?;
    /// let MetaOutcome::Done(meta) = cache.mark_stale(b"k", None, None, None)? else {
    ///     return Err("there is no k".into());
    /// };
    /// assert!(meta.stale && !meta.won && cache.claim(b"k", meta.cas));
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
        self.shared().engine.prefetch(keys);
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

    /// Removes the item that a plain set, which could not be done, was to replace: what
    /// [`Cache::store`] does by itself, for stores given up before they began.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{StoreRequest, StoreMode};
    /// cache.set("k", "v", None)?;
    /// cache.give_up(&Request::new(b"k", StoreMode::Set));
    /// assert_eq!(cache.get("k"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_up(&self, request: &StoreRequest<'_>) {
        let now = self.now();
        self.shared().flights.detach(request.key);
        self.with_thread_slot(|engine, thread| engine.give_up(thread, request, now));
    }

    /// Values longer than this are better stored by [`Cache::upload`]: they are kept in pieces.
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
    /// [`StoreError::TooLarge`] and [`StoreError::Key`], before anything has arrived.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{StoreRequest, StoreMode};
    /// let mut upload = cache.upload(b"k", 10)?;
    /// upload.push(b"first")?;
    /// upload.push(b",last")?;
    /// upload.store(&Request::new(b"k", StoreMode::Set))?;
    /// assert_eq!(cache.get("k").as_deref(), Some(&b"first,last"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn upload(&self, key: &[u8], value_bytes: usize) -> Result<Upload, StoreError> {
        let arriving = Some(self.shared().engine.upload(key, value_bytes)?);
        Ok(Upload { shared: Arc::clone(self.shared()), arriving })
    }

    /// Is an item with a key and a value of these lengths small enough?
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.accepts(3, 1000) && !cache.accepts(3, 1 << 30));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accepts(&self, key_bytes: usize, value_bytes: usize) -> bool {
        self.shared().engine.accepts(key_bytes, value_bytes)
    }

    /// Gives an item a new deadline, and says what is known of it then; none where there is none.
    /// [`Cache::touch`] with a time from now.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] where an item stored without a deadline must be moved to get one, and cannot.
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

    /// As [`Cache::touch_until`], which counts as a read, as in memcached; or not.
    ///
    /// # Errors
    /// As there.
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
                // Any token will do, so there is no other one.
                MetaOutcome::NotFound | MetaOutcome::Exists => None,
            })
        })
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
        self.arithmetic_as(&ArithmeticRequest::new(key, direction, delta))
    }

    /// As [`Cache::arithmetic`], with everything that can come with it. Where there is no counter it is for the caller
    /// to make one, by a [`StoreMode::Add`](crate::StoreMode::Add).
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] as there.
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
        self.shared().engine.flush_at(at, self.now());
    }

    /// Clears the cache, and whatever is stored until its clock moves on: what a server has to do that tells
    /// nothing within a second apart.
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
