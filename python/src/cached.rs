//! Functions whose results are cached.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::arguments::{shorten, write_call};
use crate::cache::CacheBase;
use crate::errors;
use crate::finalizing::call;
use crate::key::Key;
use larder::KEY_BYTES_MAX;

/// A function that returns the cached result of another function, and calls it on a miss. The
/// package derives a class from it, which has the methods for users.
#[pyclass(frozen, subclass, module = "larder_cache._larder")]
pub(crate) struct CachedCall {
    cache: Py<CacheBase>,
    prefix: Vec<u8>,
    /// Returns the rest of the key for the arguments of a call; without it the arguments are
    /// written to the key.
    key: Option<Py<PyAny>>,
    /// The seconds at the end of an item's life in which its value is stale.
    stale: u32,
    /// Called on a miss, and for a stale value, with the key, the arguments, and the named
    /// arguments or None.
    load: Py<PyAny>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl CachedCall {
    fn key_of<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<u8>> {
        let mut key = Vec::with_capacity(KEY_BYTES_MAX);
        key.extend_from_slice(&self.prefix);
        match &self.key {
            None => write_call(&mut key, args, kwargs)?,
            Some(function) => {
                let rest = call(function.bind(py), args, kwargs)?;
                key.extend_from_slice(&Key::of(&rest)?);
                if key.len() > KEY_BYTES_MAX {
                    shorten(py, &mut key)?;
                }
            }
        }
        Ok(key)
    }

    /// Returns a fresh value, and counts the hit or the miss. A value that cannot be read is a
    /// miss: the load replaces it.
    fn fresh<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = match self.cache.get().read_fresh(py, key, self.stale) {
            Err(error) if errors::SERIALIZER.is_class_of(py, &error)? => None,
            found => found?,
        };
        (if found.is_some() { &self.hits } else { &self.misses }).fetch_add(1, Relaxed);
        Ok(found)
    }
}

#[pymethods]
impl CachedCall {
    #[new]
    fn new(
        cache: Py<CacheBase>,
        prefix: Vec<u8>,
        key: Option<Py<PyAny>>,
        stale: u32,
        load: Py<PyAny>,
    ) -> Self {
        let (hits, misses) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { cache, prefix, key, stale, load, hits, misses }
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.key_of(py, args, kwargs)?;
        match self.fresh(py, &key)? {
            Some(value) => Ok(value),
            None => {
                let arguments = (PyBytes::new(py, &key), args, kwargs).into_pyobject(py)?;
                call(self.load.bind(py), &arguments, None)
            }
        }
    }

    /// Makes the function a method if it is an attribute of a class.
    fn __get__<'py>(
        this: Bound<'py, Self>,
        instance: Option<Bound<'py, PyAny>>,
        _owner: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match instance {
            None => Ok(this.into_any()),
            Some(instance) => {
                this.py().import("types")?.getattr("MethodType")?.call1((this, instance))
            }
        }
    }

    /// Returns the key of a call.
    #[pyo3(signature = (*args, **kwargs))]
    fn cache_key<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.key_of(py, args, kwargs)?))
    }

    /// Returns the cached value of a key in a list of one, or None; counts the hit or the miss.
    fn _look<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        Ok(self.fresh(py, key)?.map(|value| (value,)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.cache)?;
        visit.call(&self.key)?;
        visit.call(&self.load)
    }

    /// The hits and the misses of this function in this process.
    fn _counts(&self) -> (u64, u64) {
        (self.hits.load(Relaxed), self.misses.load(Relaxed))
    }
}
