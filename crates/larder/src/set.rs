//! Storing, changing and removing items.

use std::time::Duration;

use larder_engine::{Arithmetic, Deletion, Engine, StoreError, StoreRequest, Stored, ThreadSlot};
use larder_item::{Deadline, Direction, StoreMode};
use larder_stats::Counter;

use crate::Cache;

/// What became of [`Cache::compare_and_set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The value is stored, under this new token.
    Stored {
        /// The item's cas token.
        cas: u64,
    },
    /// Somebody has stored another value since the token was read: read again.
    Changed,
    /// There is no item any more.
    Missing,
}

/// Why a compare-and-set could not be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// The cache keeps no cas tokens.
    #[error("the cache keeps no cas tokens; open it with Builder::cas(true)")]
    NoTokens,
    /// The value could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a counter could not be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// The value that is there is none.
    #[error("the value is no counter: expected a decimal number from 0 to 18446744073709551615")]
    NotANumber,
    /// The new number could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Cache {
    /// Stores a value, for ever or for a time. It replaces the value that is there, and its time.
    ///
    /// Time is counted in seconds: a part of one counts as a whole, and an item lives up to a second less
    /// than its `ttl`. A `ttl` of zero is over at once.
    ///
    /// Cost: one copy of the value; where no free memory is left, the removal of what must go.
    ///
    /// # Errors
    /// [`StoreError`]: the key is empty or longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX), the item is
    /// too large, or there is no memory and eviction is off. But for the wrong key, the item that was there is
    /// gone then: nobody reads what was to be replaced.
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

    /// Stores a value where the key has none; false where it has one, which stays.
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

    /// Stores a value where the key has one; false where it has none.
    ///
    /// # Errors
    /// [`StoreError`] as with [`Cache::set`]; the value that is there stays.
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

    /// Puts bytes behind the value of a key, which keeps its time; false where there is none. No append is
    /// lost, whoever else changes the item.
    ///
    /// Cost: the whole value is copied.
    ///
    /// # Errors
    /// [`StoreError`] as with [`Cache::set`]; the value that is there stays.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("log", "one", None)?;
    /// assert!(cache.append("log", ",two")? && cache.prepend("log", "zero,")?);
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

    /// Puts bytes before the value of a key: see [`Cache::append`].
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

    /// Stores a value over the one that has this cas token, and no other: of several threads that read a
    /// value and store what they made of it, one succeeds. The token comes from [`Cache::get_into`] or
    /// [`Cache::get_with`].
    ///
    /// # Errors
    /// [`SwapError::NoTokens`] where the cache was opened without [`Builder::cas`](crate::Builder::cas), else
    /// [`StoreError`] as with [`Cache::set`]; the value that is there stays.
    ///
    /// ```
    /// use larder::{Cache, Swap};
    ///
    /// let cache = Cache::builder().cas(true).open()?;
    /// cache.set("list", "a", None)?;
    /// let doubled = loop {
    ///     let (list, cas) = cache
    ///         .get_with("list", |list, meta| (list.repeat(2), meta.cas))
    ///         .ok_or("nothing to double")?;
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

    /// Removes an item; false where there is none.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// assert!(cache.delete("k")? && !cache.delete("k")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Stuck`] where another process that shares the cache has been stopped at the wrong moment.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        Ok(matches!(self.delete_if(key.as_ref(), None)?, Deletion::Deleted(_)))
    }

    /// Gives an item a new time from now on, or none; false where there is no item. Its cas token stays.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] where an item stored without a time must be moved to get one, and cannot.
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

    /// The value of a key, whose item gets a new time from now on: a read, then a [`Cache::touch`]. With a
    /// `ttl` of zero the item is seen for the last time.
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

    /// Adds to a counter and gives its new state; none where there is no item. A counter is an item whose
    /// value is a decimal number: [`Cache::add`] makes one. It wraps at 2⁶⁴ and keeps its time. Every
    /// increment counts, whoever else moves the counter.
    ///
    /// # Errors
    /// [`CountError`]: the value is no number, or the new one could not be stored.
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

    /// Takes from a counter, which stops at 0: see [`Cache::increment`]. As in memcached the value keeps its
    /// length: after the 9 that follows 10 it is `"9 "`.
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

    /// As [`Cache::store`], and the statistics count a refusal, as they do for the methods of this module: for bindings.
    ///
    /// # Errors
    /// [`StoreError`] as with [`Cache::set`].
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
            // Any token will do, so there is no other one.
            Arithmetic::NotFound | Arithmetic::Exists => Ok(None),
            Arithmetic::NonNumeric => Err(CountError::NotANumber),
        }
    }
}

/// A server counts refusals by the rules of its wire, so the operations it uses do not.
#[cold]
pub(crate) fn count_refusal(engine: &Engine, thread: &ThreadSlot, error: StoreError) {
    match error {
        StoreError::TooLarge => engine.bump(thread, Counter::StoreTooLarge, 1),
        StoreError::NoMemory => engine.bump(thread, Counter::StoreNoMemory, 1),
        StoreError::Key(_) | StoreError::Stuck(_) => {}
    }
}
