//! Reads of `CacheBase`.

use std::mem::MaybeUninit;
use std::slice;

use larder::signed::tag;
use larder::{Cache, Deadline, Lent, Meta, Sink};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cache::CacheBase;
use crate::errors;
use crate::sink::{Announced, ValueSink};
use crate::value::{decoded, new_bytes};

/// Shortest value, in bytes, for whose copy the GIL is released. The copy of a shorter one takes
/// less time than another thread needs to take the GIL.
pub(crate) const DETACHED_BYTES_MIN: usize = 64 << 10;

/// How often a large value is read again if it changes during the read.
const ATTEMPTS_MAX: usize = 8;

/// A value and the metadata of its item.
pub(crate) type Found<'py> = (Bound<'py, PyAny>, Meta);

impl CacheBase {
    /// Reads a value, and counts the read.
    #[inline]
    pub(crate) fn read<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Found<'py>>> {
        let cache = self.place.cache(py)?;
        self.read_in(py, &cache, key)
    }

    #[inline]
    pub(crate) fn read_in<'py>(
        &self,
        py: Python<'py>,
        cache: &Cache,
        key: &[u8],
    ) -> PyResult<Option<Found<'py>>> {
        let announced = Announced::default();
        let mut sink = ValueSink::new(py, &announced, DETACHED_BYTES_MIN);
        let found = cache.try_get_to(key, &mut sink, |meta| announced.set(meta));
        if !found.map_err(|error| errors::store(py, error))? {
            return Ok(None);
        }
        let meta = announced.meta();
        if let Some(bytes) = sink.take_object(py) {
            return Ok(Some((bytes, meta)));
        }
        if !sink.is_whole() {
            return self.read_large(py, cache, key, meta);
        }
        let value = decoded(py, sink.bytes(), meta.flags, key, self.serializer())?;
        Ok(Some((value, meta)))
    }

    /// Reads a value that has more than `stale` seconds left.
    #[inline]
    pub(crate) fn read_fresh<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        stale: u32,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let cache = self.place.cache(py)?;
        let found = self.read_in(py, &cache, key)?;
        Ok(found.filter(|(_, meta)| is_fresh(&cache, meta, stale)).map(|(value, _)| value))
    }

    /// Reads a value without the GIL. `meta` is the metadata of the item a moment ago.
    #[cold]
    fn read_large<'py>(
        &self,
        py: Python<'py>,
        cache: &Cache,
        key: &[u8],
        mut meta: Meta,
    ) -> PyResult<Option<Found<'py>>> {
        for _ in 0..ATTEMPTS_MAX {
            let length = meta.value_bytes;
            let (object, memory) = new_bytes(py, length)?;
            // SAFETY: the object is new, so that this function has the only reference, and has
            // `length` bytes.
            let room =
                unsafe { slice::from_raw_parts_mut(memory.cast::<MaybeUninit<u8>>(), length) };
            let read = py.detach(|| {
                let (mut lent, mut now) = (Lent::uninit(room), meta);
                let found = cache.try_get_to(key, &mut lent, |meta| now = *meta);
                found.map(|found| (found, lent.is_whole() && lent.filled() == length, now))
            });
            let (is_found, is_whole, now) = read.map_err(|error| errors::store(py, error))?;
            if !is_found {
                return Ok(None);
            }
            meta = now;
            if is_whole && meta.flags == tag::STRING {
                return Ok(Some((object, meta)));
            }
            if is_whole {
                let bytes = object.cast::<PyBytes>()?.as_bytes();
                return Ok(Some((decoded(py, bytes, meta.flags, key, self.serializer())?, meta)));
            }
        }
        Ok(None)
    }

    /// Reads a value without counting the read.
    pub(crate) fn peek<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Found<'py>>> {
        let cache = self.place.cache(py)?;
        let (mut value, mut meta) = (Vec::new(), Meta::default());
        if !cache.look_to(key, &mut value, |now| meta = *now) {
            return Ok(None);
        }
        Ok(Some((decoded(py, &value, meta.flags, key, self.serializer())?, meta)))
    }
}

/// True if an item has more than `stale` seconds left.
pub(crate) fn is_fresh(cache: &Cache, meta: &Meta, stale: u32) -> bool {
    stale == 0
        || meta.deadline == Deadline::NEVER
        || meta.deadline.0.saturating_sub(cache.now()) > stale
}
