//! Leases: one process at a time computes something.

use std::time::Duration;

use larder_engine::{Lease, LeaseTime, StoreError};

use crate::api::cache::Cache;
use crate::system::clock::monotonic_ms;

impl Cache {
    /// Takes the lease of a key for a time, so that one process at a time computes what belongs to
    /// the key. Returns `None` if it is held, also if by another thread of this process: try again
    /// later, or go on without.
    ///
    /// The lease ends with [`Cache::release`], after `time`, or when its process dies: the next
    /// caller of this method notices that. It also ends with [`Cache::clear`], and if eviction
    /// needs its memory, which is that of a small item. Until then it counts in [`Cache::len`]. It
    /// does not matter whether the key has an item. A forked child does not have the leases of its
    /// parent. With a disk tier, leases are in memory only.
    ///
    /// Cost: that of a store; if the lease is held, that of a delete and a system call.
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
    /// [`StoreError`], also if no memory is free for the lease.
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

    /// Ends a lease. Returns false if it had ended before, or is that of another process.
    ///
    /// # Errors
    /// [`StoreError::Stuck`]; the lease ends with its time.
    pub fn release(&self, key: impl AsRef<[u8]>, lease: Lease) -> Result<bool, StoreError> {
        self.usable()?;
        Ok(self
            .with_thread_slot(|engine, thread| engine.release_lease(thread, key.as_ref(), lease))?)
    }
}
