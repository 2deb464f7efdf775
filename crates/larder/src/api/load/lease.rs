//! Leases: only one process at a time performs an expensive computation.

use std::time::Duration;

use larder_engine::{Lease, LeaseTime, StoreError};

use crate::api::cache::Cache;
use crate::system::clock::monotonic_ms;

impl Cache {
    /// Takes the lease of a key for a time, so that only one process at a time computes the value
    /// of the key. Returns `None` if another process, or another thread of this process, holds the
    /// lease: try again later, or continue without it.
    ///
    /// The lease ends with [`Cache::release`], after `time`, or when its process dies, which the
    /// next caller of this method notices. It also ends with [`Cache::clear`], or when it is
    /// evicted: a lease uses the memory of a small item. Until then it counts in [`Cache::len`].
    /// The key may have an item or not. A forked child does not inherit the leases of its parent.
    /// With a disk tier, leases are in memory only.
    ///
    /// Cost: about the same as a store; if the lease is held, a delete and a system call.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use std::time::Duration;
    /// let lease = cache.lease("page", Duration::from_secs(2))?.ok_or("held")?;
    /// assert!(cache.lease("page", Duration::from_secs(2))?.is_none());
    /// cache.add("page", "computed", None)?;
    /// assert!(cache.release("page", lease)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError`], for example if no memory is free for the lease.
    pub fn lease(
        &self,
        key: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<Option<Lease>, StoreError> {
        self.usable()?;
        let ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let time = LeaseTime { now: self.now(), now_ms: monotonic_ms(), ms };
        self.with_thread_slot(|engine, thread| engine.lease(thread, key.as_ref(), time))
    }

    /// Ends a lease. Returns false if it had already ended, or belongs to another process.
    ///
    /// # Errors
    /// [`StoreError::Stuck`]; then the lease ends when its time is over.
    pub fn release(&self, key: impl AsRef<[u8]>, lease: Lease) -> Result<bool, StoreError> {
        self.usable()?;
        Ok(self
            .with_thread_slot(|engine, thread| engine.release_lease(thread, key.as_ref(), lease))?)
    }
}
