//! Changes, removals and clears for bindings.

use std::time::Duration;

use larder_engine::{Arithmetic, ArithmeticRequest, Deletion, MetaOutcome, MetaUpdate, StoreError};
use larder_item::{Deadline, Direction, Meta, Second};

use super::cache::Cache;
use crate::backend::waited;

impl Cache {
    /// Removes an item. With a cas token, removes it only if the item has this token.
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
        waited(self.blocking().delete(key, cas))
    }

    /// Marks an item's value as stale. The item stays. Its cas token becomes `version`, or a new
    /// token if that is `None`, and its deadline becomes `deadline` if one is given. The next
    /// [`Cache::claim`] succeeds. With a `cas` token, the item is marked only if it has this token.
    ///
    /// # Errors
    /// Same as [`Cache::touch_until`].
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
        let update = MetaUpdate { cas, deadline, noted: false, stale: true, version };
        waited(self.blocking().update(key, &update))
    }

    /// Gives an item a new deadline and returns its updated metadata; `None` if the item is absent.
    /// [`Cache::touch`] is the same with a time to live.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] if an item stored without a deadline must be relocated to add one,
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
    /// Same as [`Cache::touch_until`].
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
        let update = MetaUpdate { deadline: Some(deadline), noted, ..MetaUpdate::default() };
        Ok(match waited(self.blocking().update(key, &update))? {
            MetaOutcome::Done(meta) => Some(meta),
            // The request contains no cas token, so a mismatch is impossible.
            MetaOutcome::NotFound | MetaOutcome::Exists => None,
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
        waited(self.blocking().arithmetic(counting))
    }

    /// Returns the deadline `ttl` from now, rounded up to whole seconds.
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
        // Without a disk tier nothing fails.
        let _ = self.try_clear_at(at);
    }

    /// Same as [`Cache::clear_at`], but reports errors of the disk tier.
    ///
    /// # Errors
    /// [`StoreError::Journal`] if the log does not accept changes; then nothing is scheduled.
    pub fn try_clear_at(&self, at: Second) -> Result<(), StoreError> {
        self.blocking().clear_at(at)
    }

    /// Clears the cache, including items that are stored later in the same second. For servers
    /// whose protocol cannot distinguish times within a second.
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
        // Without a disk tier nothing fails.
        let _ = self.try_clear_second();
    }

    /// Same as [`Cache::clear_second`], but reports errors of the disk tier. With a disk tier,
    /// items that are stored later in the same second stay visible until the clock advances.
    ///
    /// # Errors
    /// Same as [`Cache::try_clear_at`].
    pub fn try_clear_second(&self) -> Result<(), StoreError> {
        self.blocking().clear_second()
    }
}
