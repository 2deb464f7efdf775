//! Storing, changing and removing items.

use std::time::Duration;

use larder_engine::{Arithmetic, Deletion, Engine, StoreError, StoreRequest, Stored, ThreadSlot};
use larder_item::{Deadline, Direction, StoreMode};
use larder_stats::Counter;

use crate::api::cache::Cache;
use crate::events::{Event, report};

/// The outcome of [`Cache::compare_and_set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The value was stored, with this new token.
    Stored {
        /// The item's cas token.
        cas: u64,
    },
    /// Another value was stored since the token was read; the caller reads again.
    Changed,
    /// The item is absent.
    Missing,
}

/// The reason why a compare-and-set failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// The cache was opened without cas tokens.
    #[error("the cache does not use cas tokens; open it with Builder::cas(true)")]
    NoTokens,
    /// The value could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The error of a counter operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// The stored value is not a number.
    #[error("the value is not a counter: expected a decimal number from 0 to 18446744073709551615")]
    NotANumber,
    /// The new number could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Cache {
    /// Stores a value with a time to live; `None` means no expiry. Replaces the existing value and
    /// its time to live.
    ///
    /// Time is counted in seconds: a fraction rounds up to a whole second, and an item lives up to
    /// a second less than its `ttl`. An item with a `ttl` of zero expires immediately.
    ///
    /// Cost: one copy of the value. If no memory is free, the caller also evicts other items.
    ///
    /// # Errors
    /// [`StoreError`]: the key is empty or longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX), the
    /// item is too large, or memory is full and eviction is off. Except for an invalid key, the
    /// failed store also removes the existing item, so that readers never see an outdated value.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("for ever", "v", None)?;
    /// cache.set("for a minute", "v", Some(Duration::from_secs(60)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<(), StoreError> {
        self.put(key.as_ref(), StoreMode::Set, value.as_ref(), ttl).map(|_| ())
    }

    /// Stores a value if the key is absent. If it is present, returns false and keeps the existing
    /// value.
    ///
    /// # Errors
    /// [`StoreError`] as with [`Cache::set`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.add("k", "first", None)?);
    /// assert!(!cache.add("k", "second", None)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        self.put(key.as_ref(), StoreMode::Add, value.as_ref(), ttl)
    }

    /// Stores a value if the key is present. Returns false if it is absent.
    ///
    /// # Errors
    /// [`StoreError`] as with [`Cache::set`]; the existing value is kept.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(!cache.replace("k", "v", None)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        self.put(key.as_ref(), StoreMode::Replace, value.as_ref(), ttl)
    }

    /// Appends bytes to the value of a key and keeps its time to live. Returns false if the key is
    /// absent. Concurrent changes of the item never lose an append.
    ///
    /// Cost: a copy of the entire value.
    ///
    /// # Errors
    /// [`StoreError`] as with [`Cache::set`]; the existing value is kept.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("log", "one", None)?;
    /// assert!(cache.append("log", ",two")?);
    /// assert!(cache.prepend("log", "zero,")?);
    /// assert_eq!(cache.get("log").as_deref(), Some(&b"zero,one,two"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append(
        &self,
        key: impl AsRef<[u8]>,
        part: impl AsRef<[u8]>,
    ) -> Result<bool, StoreError> {
        self.put(key.as_ref(), StoreMode::Append, part.as_ref(), None)
    }

    /// Prepends bytes to the value of a key; see [`Cache::append`].
    ///
    /// # Errors
    /// [`StoreError`] as with [`Cache::append`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(!cache.prepend("nothing", "part")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepend(
        &self,
        key: impl AsRef<[u8]>,
        part: impl AsRef<[u8]>,
    ) -> Result<bool, StoreError> {
        self.put(key.as_ref(), StoreMode::Prepend, part.as_ref(), None)
    }

    /// Stores a value only if the item still has this cas token. If several threads read a value
    /// and each stores a new one, only one of them succeeds. The token is in the metadata that
    /// [`Cache::get_into`] and [`Cache::get_with`] return.
    ///
    /// # Errors
    /// [`SwapError::NoTokens`] if the cache was opened without
    /// [`Builder::cas`](crate::Builder::cas), otherwise [`StoreError`] as with [`Cache::set`]; the
    /// existing value is kept.
    ///
    /// ```
    /// use larder::{Cache, Swap};
    ///
    /// let cache = Cache::builder().cas(true).open()?;
    /// cache.set("list", "a", None)?;
    /// let doubled = loop {
    ///     let (list, cas) = cache
    ///         .get_with("list", |list, meta| (list.repeat(2), meta.cas))
    ///         .ok_or("list is absent")?;
    ///     if let Swap::Stored { .. } = cache.compare_and_set("list", &list, None, cas)? {
    ///         break list;
    ///     }
    /// };
    /// assert_eq!(doubled, b"aa");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
        cas: u64,
    ) -> Result<Swap, SwapError> {
        if !self.keeps_cas() {
            return Err(SwapError::NoTokens);
        }
        let mut request = self.request(key.as_ref(), StoreMode::Set, ttl);
        request.cas = Some(cas);
        Ok(match self.store_counted(&request, value.as_ref())? {
            Stored::Stored { cas, .. } => Swap::Stored { cas },
            Stored::Exists => Swap::Changed,
            Stored::NotFound | Stored::NotStored => Swap::Missing,
        })
    }

    /// Removes an item. Returns false if the key is absent.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// assert!(cache.delete("k")?);
    /// assert!(!cache.delete("k")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Stuck`] if another process that shares the cache was stopped while it held a
    /// lock.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        Ok(matches!(self.delete_if(key.as_ref(), None)?, Deletion::Deleted(_)))
    }

    /// Gives an item a new time to live from now, or removes its limit. Returns false if the key is
    /// absent. The cas token stays the same.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] if an item stored without a time to live must be relocated to add
    /// one, and no memory is free.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", Some(Duration::from_secs(1)))?;
    /// assert!(cache.touch("k", Some(Duration::from_secs(60)))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn touch(&self, key: impl AsRef<[u8]>, ttl: Option<Duration>) -> Result<bool, StoreError> {
        let touched = self.touch_until(key.as_ref(), self.deadline_of(ttl))?;
        Ok(touched.is_some())
    }

    /// Returns the value of a key and gives its item a new time to live from now: a read followed
    /// by a [`Cache::touch`]. With a `ttl` of zero the item expires immediately after this read.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] as with [`Cache::touch`].
    ///
    /// ```
    /// use std::time::Duration;
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("session", "ada", Some(Duration::from_secs(10)))?;
    /// let session = cache.get_and_touch("session", Some(Duration::from_secs(10)))?;
    /// assert_eq!(session.as_deref(), Some(&b"ada"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_and_touch(
        &self,
        key: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let key = key.as_ref();
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        self.touch(key, ttl)?;
        Ok(Some(value))
    }

    /// Adds to a counter and returns its new value; `None` if the key is absent. A counter is an
    /// item whose value is a decimal number; [`Cache::add`] creates one. It wraps at 2⁶⁴ and keeps
    /// its time to live. Concurrent increments are all counted.
    ///
    /// # Errors
    /// [`CountError`]: the value is not a number, or the new number could not be stored.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert_eq!(cache.increment("hits", 1)?, None);
    /// cache.add("hits", "0", None)?;
    /// assert_eq!(cache.increment("hits", 5)?, Some(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn increment(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, CountError> {
        self.count(key.as_ref(), Direction::Increment, delta)
    }

    /// Subtracts from a counter, down to 0; see [`Cache::increment`]. As in memcached, the value
    /// keeps its length: decrementing 10 leaves `"9 "`.
    ///
    /// # Errors
    /// [`CountError`] as with [`Cache::increment`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("left", "10", None)?;
    /// assert_eq!(cache.decrement("left", 1)?, Some(9));
    /// assert_eq!(cache.decrement("left", 100)?, Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decrement(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, CountError> {
        self.count(key.as_ref(), Direction::Decrement, delta)
    }

    fn put(
        &self,
        key: &[u8],
        mode: StoreMode,
        value: &[u8],
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let stored = self.store_counted(&self.request(key, mode, ttl), value)?;
        Ok(matches!(stored, Stored::Stored { .. }))
    }

    /// Stores an item as [`Cache::store`] does, and counts a refused store in the statistics as the
    /// methods of this module do. For bindings.
    ///
    /// # Errors
    /// [`StoreError`] as with [`Cache::set`].
    #[inline]
    pub fn store_counted(
        &self,
        request: &StoreRequest<'_>,
        value: &[u8],
    ) -> Result<Stored, StoreError> {
        self.store(request, value).inspect_err(|error| {
            self.with_thread_slot(|engine, thread| count_refusal(engine, thread, *error));
        })
    }

    fn request<'k>(
        &self,
        key: &'k [u8],
        mode: StoreMode,
        ttl: Option<Duration>,
    ) -> StoreRequest<'k> {
        StoreRequest { deadline: self.deadline_of(ttl), ..StoreRequest::new(key, mode) }
    }

    fn deadline_of(&self, ttl: Option<Duration>) -> Deadline {
        ttl.map_or(Deadline::NEVER, |ttl| self.deadline_after(ttl))
    }

    fn count(
        &self,
        key: &[u8],
        direction: Direction,
        delta: u64,
    ) -> Result<Option<u64>, CountError> {
        match self.arithmetic(key, direction, delta)? {
            Arithmetic::Number { number, .. } => Ok(Some(number)),
            // The request contains no cas token, so a mismatch is impossible.
            Arithmetic::NotFound | Arithmetic::Exists => Ok(None),
            Arithmetic::NonNumeric => Err(CountError::NotANumber),
        }
    }
}

/// Counts a refused store. The operations for servers do not call it: a server counts refusals
/// according to its protocol.
#[cold]
pub(crate) fn count_refusal(engine: &Engine, thread: &ThreadSlot, error: StoreError) {
    report(Event::StoreRefused(error));
    match error {
        StoreError::TooLarge => engine.bump(thread, Counter::StoreTooLarge, 1),
        StoreError::NoMemory => engine.bump(thread, Counter::StoreNoMemory, 1),
        StoreError::Key(_) | StoreError::Stuck(_) | StoreError::Journal(_) => {}
    }
}
