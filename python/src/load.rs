//! Leases and loads, with which the package computes a value in one process at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use larder::{Basis, Cache, StoreMode, StoreRequest};
use larder_binding::{OwnedLease, OwnedLoad};
use pyo3::prelude::*;

use crate::cache::CacheBase;
use crate::errors;
use crate::ttl::deadline;
use crate::value::encoded;

/// The exclusive right to do something for a key, until `release`, its time, the end of the
/// process, or the end of this object.
#[pyclass(frozen, module = "larder_cache._larder")]
pub(crate) struct Lease(Mutex<OwnedLease>);

impl Lease {
    pub(crate) fn new(cache: &Cache, key: &[u8], lease: larder::Lease) -> Self {
        Self(Mutex::new(OwnedLease::new(cache, key, lease)))
    }
}

#[pymethods]
impl Lease {
    /// Ends the lease. Returns False if it had already ended.
    fn release(&self, py: Python<'_>) -> PyResult<bool> {
        let mut lease = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lease.release().map_err(|error| errors::store(py, error))
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
    load: Mutex<OwnedLoad>,
}

impl Load {
    pub(crate) fn new(owner: Py<CacheBase>, cache: &Cache, key: &[u8], basis: Basis) -> Self {
        Self { owner, load: Mutex::new(OwnedLoad::new(cache, key, basis)) }
    }

    fn lock(&self) -> MutexGuard<'_, OwnedLoad> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Load {
    /// Stores the result with a time to live in seconds, or None for no limit. Returns False if it
    /// was not stored, because the key has changed or the load has already ended.
    #[pyo3(signature = (value, ttl))]
    fn finish(&self, value: &Bound<'_, PyAny>, ttl: Option<u32>) -> PyResult<bool> {
        let py = value.py();
        // The serializer runs code of the program, so the load is not locked during its call.
        let key: Box<[u8]> = self.lock().key().into();
        let (mut bytes, flags) = encoded(value, &key, self.owner.get().serializer())?;
        let mut load = self.lock();
        let deadline = deadline(load.cache(), ttl);
        let request = StoreRequest { deadline, flags, ..StoreRequest::new(&key, StoreMode::Set) };
        let stored = bytes.with(|bytes| load.finish(&request, bytes));
        stored.map_err(|error| errors::store(py, error))
    }

    /// Ends the load without a result.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.lock().cancel().map_err(|error| errors::store(py, error))
    }
}
