//! Iterators over the keys and the items of a cache.

use std::sync::{Mutex, PoisonError};

use larder::Keys as Walk;
use pyo3::prelude::*;

use crate::cache::CacheBase;
use crate::key::text_of;

/// The keys of the records about failed loads begin with these bytes. They are not items of the
/// program.
pub(crate) const INTERNAL: &[u8] = b"larder.failed.";

/// An iterator over keys. Several threads may use it; each key goes to one of them.
#[pyclass(frozen, module = "larder_cache._larder")]
pub(crate) struct Keys(Mutex<Walk>);

impl Keys {
    pub(crate) fn new(walk: Walk) -> Self {
        Self(Mutex::new(walk))
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut walk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        walk.find(|key| !key.starts_with(INTERNAL))
    }
}

#[pymethods]
impl Keys {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.next().map(|key| text_of(py, &key)).transpose()
    }
}

/// An iterator over pairs of a key and its value. An item that is removed after the walk has found
/// its key is left out.
#[pyclass(frozen, module = "larder_cache._larder")]
pub(crate) struct Items {
    keys: Keys,
    cache: Py<CacheBase>,
}

impl Items {
    pub(crate) fn new(walk: Walk, cache: Py<CacheBase>) -> Self {
        Self { keys: Keys::new(walk), cache }
    }
}

/// A key and its value.
type Item<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

#[pymethods]
impl Items {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Item<'py>>> {
        while let Some(key) = self.keys.next() {
            if let Some((value, _)) = self.cache.get().peek(py, &key)? {
                return Ok(Some((text_of(py, &key)?, value)));
            }
        }
        Ok(None)
    }
}
