//! The class `CacheBase`: operations on a cache in this process or in shared memory.

use std::path::PathBuf;
use std::time::Duration;

use larder::signed::tag;
use larder::{Builder, Cache, Deadline, Deletion, StoreMode, StoreRequest, Stored};
use larder_binding::Writers;
use pyo3::exceptions::{PyKeyError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::errors;
use crate::finalizing::next;
use crate::key::Key;
use crate::load::{Lease, Load};
use crate::place::Place;
use crate::read::{DETACHED_BYTES_MIN, is_fresh};
use crate::ttl::{Ttl, deadline};
use crate::value::{Serializer, encoded};
use crate::walk::{Items, Keys};

/// The number of keys that `get_many` prefetches together.
const KEYS_AT_ONCE: usize = 16;

/// A cache in the memory of this process, or in a file that processes share.
#[pyclass(frozen, subclass, module = "larder_cache._larder")]
pub(crate) struct CacheBase {
    pub(crate) place: Place,
    serializer: Option<Serializer>,
    /// The default time to live, in seconds; `None` for no limit.
    ttl: Option<u32>,
}

impl CacheBase {
    pub(crate) fn serializer(&self) -> Option<&Serializer> {
        self.serializer.as_ref()
    }

    fn deadline(&self, cache: &Cache, ttl: Ttl) -> Deadline {
        deadline(cache, self.ttl_secs(ttl))
    }

    fn ttl_secs(&self, ttl: Ttl) -> Option<u32> {
        match ttl {
            Ttl::Omitted => self.ttl,
            Ttl::Given(ttl) => ttl,
        }
    }

    #[inline]
    fn store(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Ttl,
        mode: StoreMode,
        cas: Option<u64>,
    ) -> PyResult<Stored> {
        let py = key.py();
        let key = Key::of(key)?;
        // The serializer runs code of the program, which may close the cache.
        let (mut bytes, flags) = encoded(value, &key, self.serializer())?;
        let cache = self.place.cache(py)?;
        let deadline = self.deadline(&cache, ttl);
        let request = StoreRequest { deadline, flags, cas, ..StoreRequest::new(&key, mode) };
        bytes.with(|bytes| stored(py, &cache, &request, bytes))
    }

    /// Appends to a value or prepends to it. Only bytes and text have an end.
    fn extend(
        &self,
        key: &Bound<'_, PyAny>,
        part: &Bound<'_, PyAny>,
        mode: StoreMode,
    ) -> PyResult<bool> {
        let py = key.py();
        let is_text = part.is_instance_of::<PyString>();
        let (wanted, kind) = if is_text { (tag::TEXT, "str") } else { (tag::STRING, "bytes") };
        let part = Key::of(part)
            .map_err(|_| PyTypeError::new_err("only bytes and str can be appended or prepended"))?;
        let key = Key::of(key)?;
        let cache = self.place.cache(py)?;
        let found = cache.try_peek(&key).map_err(|error| errors::store(py, error))?;
        if found.is_some_and(|meta| meta.flags != wanted) {
            return Err(PyTypeError::new_err(format!(
                "the value of b'{}' is not {kind}, so {kind} cannot be added to it",
                key.escape_ascii()
            )));
        }
        let stored = stored(py, &cache, &StoreRequest::new(&key, mode), &part)?;
        Ok(matches!(stored, Stored::Stored { .. }))
    }

    /// Adds to a counter. An absent counter starts at `initial`, or is an error without it.
    fn add(
        &self,
        key: &Bound<'_, PyAny>,
        delta: i64,
        initial: Option<i64>,
        ttl: Ttl,
    ) -> PyResult<i128> {
        let py = key.py();
        let name = Key::of(key)?;
        let cache = self.place.cache(py)?;
        let deadline = self.deadline(&cache, ttl);
        let added = larder_binding::add(&cache, &name, delta, initial, deadline);
        match added.map_err(|error| errors::add(py, &name, error))? {
            Some(number) => Ok(number),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }
}

/// Stores bytes; releases the GIL for many.
#[inline]
fn stored(
    py: Python<'_>,
    cache: &Cache,
    request: &StoreRequest<'_>,
    bytes: &[u8],
) -> PyResult<Stored> {
    let stored = if bytes.len() < DETACHED_BYTES_MIN {
        cache.store_counted(request, bytes)
    } else {
        py.detach(|| cache.store_counted(request, bytes))
    };
    stored.map_err(|error| errors::store(py, error))
}

fn or_none<'py>(py: Python<'py>, value: Option<Bound<'py, PyAny>>) -> Bound<'py, PyAny> {
    value.unwrap_or_else(|| py.None().into_bound(py))
}

#[pymethods]
impl CacheBase {
    #[new]
    #[pyo3(signature = (*, memory, path, item_max, cas, evict, processes, permissions, children,
        serializer, ttl, unpickles))]
    #[expect(clippy::too_many_arguments, reason = "Python passes each by name")]
    fn new(
        py: Python<'_>,
        memory: u64,
        path: Option<PathBuf>,
        item_max: Option<u64>,
        cas: bool,
        evict: bool,
        processes: u32,
        permissions: u32,
        children: bool,
        serializer: Option<Bound<'_, PyAny>>,
        ttl: Ttl,
        unpickles: bool,
    ) -> PyResult<Self> {
        let mut builder = Builder::default()
            .memory_bytes(memory)
            .cas(cas)
            .evict(evict)
            .processes_max(processes)
            .permissions(permissions)
            .substitute(false)
            .anonymous_shared(children);
        if let Some(bytes) = item_max {
            builder = builder.item_bytes_max(bytes);
        }
        if let Some(path) = &path {
            builder = builder.shared(path).replaces_unusable(true);
        }
        let ttl = match ttl {
            Ttl::Omitted => None,
            Ttl::Given(ttl) => ttl,
        };
        let writers = if unpickles { Writers::Trusted } else { Writers::OfMode(permissions) };
        let place = Place::open(py, builder, path, writers)?;
        Ok(Self { place, serializer: Serializer::of(serializer)?, ttl })
    }

    /// Returns the value of a key, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        Ok(match self.read(py, &Key::of(key)?)? {
            Some((value, _)) => value,
            None => or_none(py, default),
        })
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.read(key.py(), &Key::of(key)?)? {
            Some((value, _)) => Ok(value),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Returns the value of a key and its cas token, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn gets<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let cache = self.place.cache(py)?;
        check_cas(py, &cache)?;
        Ok(match self.read_in(py, &cache, &Key::of(key)?)? {
            Some((value, meta)) => (value, meta.cas).into_pyobject(py)?.into_any(),
            None => or_none(py, default),
        })
    }

    /// Returns the value of a key and True if its time to live exceeds `stale` seconds; None if the
    /// key is absent.
    fn _get_fresh<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        stale: u32,
    ) -> PyResult<Option<(Bound<'py, PyAny>, bool)>> {
        let py = key.py();
        let cache = self.place.cache(py)?;
        let found = self.read_in(py, &cache, &Key::of(key)?)?;
        Ok(found.map(|(value, meta)| (value, is_fresh(&cache, &meta, stale))))
    }

    /// Returns the values of several keys as a dict, without the keys that are absent.
    fn get_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let py = keys.py();
        let found = PyDict::new(py);
        let names = keys.try_iter()?;
        let mut group = Vec::with_capacity(KEYS_AT_ONCE);
        loop {
            group.clear();
            while group.len() < KEYS_AT_ONCE
                && let Some(name) = next(&names)?
            {
                group.push(name);
            }
            if group.is_empty() {
                return Ok(found);
            }
            let keys = group.iter().map(Key::of).collect::<PyResult<Vec<_>>>()?;
            let cache = self.place.cache(py)?;
            cache.prefetch(keys.iter().map(|key| &**key));
            for (name, key) in group.iter().zip(&keys) {
                if let Some((value, _)) = self.read_in(py, &cache, key)? {
                    found.set_item(name, value)?;
                }
            }
        }
    }

    /// Stores a value.
    #[pyo3(signature = (key, value, ttl=Ttl::Omitted))]
    fn set(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, ttl: Ttl) -> PyResult<()> {
        self.store(key, value, ttl, StoreMode::Set, None).map(drop)
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.store(key, value, Ttl::Omitted, StoreMode::Set, None).map(drop)
    }

    /// Stores a value if the key is absent. Returns False if it is present.
    #[pyo3(name = "add", signature = (key, value, ttl=Ttl::Omitted))]
    fn store_absent(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Ttl,
    ) -> PyResult<bool> {
        let stored = self.store(key, value, ttl, StoreMode::Add, None)?;
        Ok(matches!(stored, Stored::Stored { .. }))
    }

    /// Stores a value if the key is present. Returns False if it is absent.
    #[pyo3(signature = (key, value, ttl=Ttl::Omitted))]
    fn replace(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Ttl,
    ) -> PyResult<bool> {
        let stored = self.store(key, value, ttl, StoreMode::Replace, None)?;
        Ok(matches!(stored, Stored::Stored { .. }))
    }

    /// Stores a value if the item still has this cas token. Returns False if the item has changed,
    /// and None if it is gone.
    #[pyo3(signature = (key, value, token, ttl=Ttl::Omitted))]
    fn cas(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        token: u64,
        ttl: Ttl,
    ) -> PyResult<Option<bool>> {
        check_cas(key.py(), &*self.place.cache(key.py())?)?;
        Ok(match self.store(key, value, ttl, StoreMode::Set, Some(token))? {
            Stored::Stored { .. } => Some(true),
            Stored::Exists => Some(false),
            Stored::NotFound | Stored::NotStored => None,
        })
    }

    /// Appends to a value of the same type, bytes or str. Returns False if the key is absent.
    fn append(&self, key: &Bound<'_, PyAny>, part: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.extend(key, part, StoreMode::Append)
    }

    /// Same as `append`, in front of the value.
    fn prepend(&self, key: &Bound<'_, PyAny>, part: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.extend(key, part, StoreMode::Prepend)
    }

    /// Removes an item. Returns False if the key is absent.
    fn delete(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = key.py();
        let cache = self.place.cache(py)?;
        cache.delete(&*Key::of(key)?).map_err(|error| errors::store(py, error))
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.delete(key)? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Removes an item and returns its value in a tuple of one; None if the key is absent.
    fn _pop<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        let py = key.py();
        let (cache, key) = (self.place.cache(py)?, Key::of(key)?);
        loop {
            let Some((value, meta)) = self.read_in(py, &cache, &key)? else {
                // As any delete, this also ends a load of the key that is in progress.
                cache.delete(&*key).map_err(|error| errors::store(py, error))?;
                return Ok(None);
            };
            let token = cache.keeps_cas().then_some(meta.cas);
            match cache.delete_if(&key, token).map_err(|error| errors::store(py, error))? {
                Deletion::Deleted(_) => return Ok(Some((value,))),
                Deletion::NotFound => return Ok(None),
                // The item was stored again since the read.
                Deletion::Exists => {}
            }
        }
    }

    /// Gives an item a new time to live. Returns False if the key is absent.
    #[pyo3(signature = (key, ttl=Ttl::Omitted))]
    fn touch(&self, key: &Bound<'_, PyAny>, ttl: Ttl) -> PyResult<bool> {
        let py = key.py();
        let cache = self.place.cache(py)?;
        let deadline = self.deadline(&cache, ttl);
        let touched = cache.touch_until(&Key::of(key)?, deadline);
        Ok(touched.map_err(|error| errors::store(py, error))?.is_some())
    }

    /// Adds to a counter, and returns its new value. An absent counter starts at `initial` with
    /// the time to live; with `initial=None` it is a KeyError. A counter has 64 bits: after
    /// 2**63 - 1 follows -2**63, as in the other languages.
    #[pyo3(signature = (key, delta=1, *, initial=Some(0), ttl=Ttl::Omitted))]
    fn incr(
        &self,
        key: &Bound<'_, PyAny>,
        delta: i64,
        initial: Option<i64>,
        ttl: Ttl,
    ) -> PyResult<i128> {
        self.add(key, delta, initial, ttl)
    }

    /// Subtracts from a counter: same as `incr` with the negative number.
    #[pyo3(signature = (key, delta=1, *, initial=Some(0), ttl=Ttl::Omitted))]
    fn decr(
        &self,
        key: &Bound<'_, PyAny>,
        delta: i64,
        initial: Option<i64>,
        ttl: Ttl,
    ) -> PyResult<i128> {
        let overflow = || PyOverflowError::new_err("a counter is an int of 64 bits");
        self.add(key, delta.checked_neg().ok_or_else(overflow)?, initial, ttl)
    }

    /// Removes all items whose keys begin with `prefix`, and returns their number.
    fn remove_prefix(&self, prefix: &Bound<'_, PyAny>) -> PyResult<u64> {
        let py = prefix.py();
        let prefix = Key::of(prefix)?;
        let (cache, prefix) = (self.place.cache(py)?, &*prefix);
        let cache: &Cache = &cache;
        py.detach(|| cache.remove_prefix(prefix)).map_err(|error| errors::store(py, error))
    }

    /// Removes all items.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let cache = self.place.cache(py)?;
        let cache: &Cache = &cache;
        py.detach(|| cache.try_clear()).map_err(|error| errors::store(py, error))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.place.cache(key.py())?.contains(&*Key::of(key)?))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(usize::try_from(self.place.cache(py)?.len())?)
    }

    fn _keys(&self, prefix: &Bound<'_, PyAny>) -> PyResult<Keys> {
        let cache = self.place.cache(prefix.py())?;
        Ok(Keys::new(cache.keys_with_prefix(&*Key::of(prefix)?)))
    }

    fn _items(this: PyRef<'_, Self>, prefix: &Bound<'_, PyAny>) -> PyResult<Items> {
        let prefix = Key::of(prefix)?;
        let walk = this.place.cache(this.py())?.keys_with_prefix(&*prefix);
        Ok(Items::new(walk, this.into()))
    }

    /// Returns the remaining time to live in seconds; None if the item does not expire.
    fn ttl_of(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        let py = key.py();
        let cache = self.place.cache(py)?;
        let found = cache.try_peek(&Key::of(key)?).map_err(|error| errors::store(py, error))?;
        let meta = found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))?;
        let left = || meta.deadline.0.saturating_sub(cache.now());
        Ok((meta.deadline != Deadline::NEVER).then(left))
    }

    /// Returns the statistics of the cache as a dict of numbers.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let numbers = PyDict::new(py);
        for stat in self.place.cache(py)?.stats() {
            numbers.set_item(stat.name, stat.value)?;
        }
        Ok(numbers)
    }

    /// Returns the memory of the cache in bytes: its limit, and how much of it is in use, by items,
    /// and by the index.
    fn memory_usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let memory = self.place.cache(py)?.memory();
        let numbers = PyDict::new(py);
        numbers.set_item("limit", memory.limit)?;
        numbers.set_item("used", memory.used)?;
        numbers.set_item("items", memory.items)?;
        numbers.set_item("index", memory.index)?;
        Ok(numbers)
    }

    /// True if items have cas tokens.
    #[getter]
    fn has_cas(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.place.cache(py)?.keeps_cas())
    }

    /// Closes the cache. Its memory is returned as soon as no other thread uses it.
    fn close(&self) {
        self.place.close();
    }

    /// True after `close`.
    #[getter]
    fn closed(&self) -> bool {
        self.place.is_closed()
    }

    /// Takes the exclusive right to do something for a key; None if another process or thread has
    /// it. `seconds` is the longest time until it ends.
    fn lease(&self, key: &Bound<'_, PyAny>, seconds: f64) -> PyResult<Option<Lease>> {
        let py = key.py();
        let Ok(time) = Duration::try_from_secs_f64(seconds) else {
            return Err(no_duration(seconds));
        };
        let (cache, key) = (self.place.cache(py)?, Key::of(key)?);
        let lease = cache.lease(&*key, time).map_err(|error| errors::store(py, error))?;
        Ok(lease.map(|lease| Lease::new(&cache, &key, lease)))
    }

    /// Begins a load: `Load.finish` stores its result unless the key has changed since.
    fn _begin_load(this: PyRef<'_, Self>, key: &Bound<'_, PyAny>, seconds: u32) -> PyResult<Load> {
        let py = this.py();
        let (cache, key) = (this.place.cache(py)?, Key::of(key)?);
        let basis = cache.begin_load(&key, Duration::from_secs(seconds.into()));
        let basis = basis.map_err(|error| errors::store(py, error))?;
        let load = |owner| Load::new(owner, &cache, &key, basis);
        Ok(load(this.into()))
    }

    /// Returns a time to live in whole seconds; None for no limit.
    fn _ttl_secs(&self, ttl: Ttl) -> Option<u32> {
        self.ttl_secs(ttl)
    }

    /// The default time to live, in seconds; None for no limit.
    #[getter]
    fn default_ttl(&self) -> Option<u32> {
        self.ttl
    }
}

#[cold]
fn no_duration(seconds: f64) -> PyErr {
    PyValueError::new_err(format!(
        "a lease takes a number of seconds from 0 to 2**64, found {seconds:e}"
    ))
}

fn check_cas(py: Python<'_>, cache: &Cache) -> PyResult<()> {
    match cache.keeps_cas() {
        true => Ok(()),
        false => Err(errors::CAS.with(
            py,
            "the cache has no cas tokens: it was created with cas=False, or by another program",
        )),
    }
}
