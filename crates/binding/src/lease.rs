//! Leases and loads that end with their object. A program in a language with garbage collection can
//! lose an object at any time, for example by an exception.

use larder::{Basis, Cache, Lease, StoreError, StoreRequest, Stored};

/// The exclusive right to do something for a key, until [`OwnedLease::release`], its time, the end
/// of the process, or the end of this object.
#[derive(Debug)]
pub struct OwnedLease {
    cache: Cache,
    key: Box<[u8]>,
    /// `None` after the release.
    lease: Option<Lease>,
}

impl OwnedLease {
    /// Owns a lease that [`Cache::lease`] has returned for the key.
    pub fn new(cache: &Cache, key: &[u8], lease: Lease) -> Self {
        Self { cache: cache.clone(), key: key.into(), lease: Some(lease) }
    }

    /// Ends the lease. Returns false if it had already ended.
    ///
    /// # Errors
    /// [`StoreError::Stuck`] if a stopped process holds a lock. The lease ends when its time is
    /// over.
    pub fn release(&mut self) -> Result<bool, StoreError> {
        self.lease.take().map_or(Ok(false), |lease| self.cache.release(&*self.key, lease))
    }
}

impl Drop for OwnedLease {
    fn drop(&mut self) {
        // A lease that cannot be released ends when its time is over.
        let _ = self.release();
    }
}

/// A load in progress: its result is stored only if the key has not changed since the load began.
#[derive(Debug)]
pub struct OwnedLoad {
    cache: Cache,
    key: Box<[u8]>,
    /// `None` after the end of the load.
    basis: Option<Basis>,
}

impl OwnedLoad {
    /// Owns a load that [`Cache::begin_load`] has begun for the key.
    pub fn new(cache: &Cache, key: &[u8], basis: Basis) -> Self {
        Self { cache: cache.clone(), key: key.into(), basis: Some(basis) }
    }

    /// The cache of the load.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The key of the load.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Stores the result. `request` is for the key of the load. Returns false if the result was not
    /// stored, because the key has changed or the load has already ended.
    ///
    /// # Errors
    /// Same as [`Cache::end_load`].
    pub fn finish(&mut self, request: &StoreRequest<'_>, value: &[u8]) -> Result<bool, StoreError> {
        let Some(basis) = self.basis.take() else { return Ok(false) };
        let stored = self.cache.end_load(request, basis, value)?;
        Ok(matches!(stored, Stored::Stored { .. }))
    }

    /// Ends the load without a result.
    ///
    /// # Errors
    /// Same as [`Cache::cancel_load`].
    pub fn cancel(&mut self) -> Result<(), StoreError> {
        self.basis.take().map_or(Ok(()), |basis| self.cache.cancel_load(&self.key, basis))
    }
}

impl Drop for OwnedLoad {
    fn drop(&mut self) {
        // A reservation that cannot be removed expires by itself.
        let _ = self.cancel();
    }
}
