//! Leases and loads, with which the package computes a value in one process at a time.

use std::sync::{Mutex, PoisonError};

use larder::{Basis, Cache, StoreMode, StoreRequest, Stored};
use pyo3::prelude::*;

use crate::cache::CacheBase;
use crate::errors;
use crate::ttl::deadline;
use crate::value::encoded;

/// The exclusive right to do something for a key, until `release`, its time, the end of the
/// process, or the end of this object.
#[pyclass(frozen, module = "larder_cache._larder")]
pub(crate) struct Lease {
    cache: Cache,
    key: Box<[u8]>,
    /// `None` after the release.
    lease: Mutex<Option<larder::Lease>>,
}

impl Lease {
    pub(crate) fn new(cache: &Cache, key: &[u8], lease: larder::Lease) -> Self {
        Self { cache: cache.clone(), key: key.into(), lease: Mutex::new(Some(lease)) }
    }
}

impl Drop for Lease {
    /// A lease whose object is lost, for example by an exception of a signal handler, ends.
    fn drop(&mut self) {
        let lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(lease) = lease {
            // If a stopped process holds a lock, the lease ends when its time is over.
            let _ = self.cache.release(&*self.key, lease);
        }
    }
}

#[pymethods]
impl Lease {
    /// Ends the lease. Returns False if it had already ended.
    fn release(&self, py: Python<'_>) -> PyResult<bool> {
        let lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(lease) = lease else { return Ok(false) };
        self.cache.release(&*self.key, lease).map_err(|error| errors::store(py, error))
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        self.release(py).map(drop)
    }
}

/// A load in progress: its result is stored only if the key has not changed since the load began.
#[pyclass(frozen, module = "larder_cache._larder")]
pub(crate) struct Load {
    owner: Py<CacheBase>,
    cache: Cache,
    key: Box<[u8]>,
    /// `None` after the end of the load.
    basis: Mutex<Option<Basis>>,
}

impl Load {
    pub(crate) fn new(owner: Py<CacheBase>, cache: &Cache, key: &[u8], basis: Basis) -> Self {
        Self { owner, cache: cache.clone(), key: key.into(), basis: Mutex::new(Some(basis)) }
    }

    fn take(&self) -> Option<Basis> {
        self.basis.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Load {
    /// Stores the result with a time to live in seconds, or None for no limit. Returns False if it
    /// was not stored, because the key has changed or the load has already ended.
    #[pyo3(signature = (value, ttl))]
    fn finish(&self, value: &Bound<'_, PyAny>, ttl: Option<u32>) -> PyResult<bool> {
        let py = value.py();
        let (mut bytes, flags) = encoded(value, &self.key, self.owner.get().serializer())?;
        let Some(basis) = self.take() else { return Ok(false) };
        let deadline = deadline(&self.cache, ttl);
        let request =
            StoreRequest { deadline, flags, ..StoreRequest::new(&self.key, StoreMode::Set) };
        let stored = bytes.with(|bytes| self.cache.end_load(&request, basis, bytes));
        let stored = stored.map_err(|error| errors::store(py, error))?;
        Ok(matches!(stored, Stored::Stored { .. }))
    }

    /// Ends the load without a result.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        match self.take() {
            Some(basis) => {
                let cancelled = self.cache.cancel_load(&self.key, basis);
                cancelled.map_err(|error| errors::store(py, error))
            }
            None => Ok(()),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(basis) = self.take() {
            // A reservation that cannot be removed expires by itself.
            let _ = self.cache.cancel_load(&self.key, basis);
        }
    }
}
