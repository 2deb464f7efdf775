//! Reading values: [`Cache::get`] and its variants.

use std::cell::Cell;
use std::convert::identity;

use larder_engine::LargeValue;
use larder_engine::{Engine, Miss, Operation, ReadOptions, StoreError, ThreadSlot};
use larder_item::Meta;
use larder_region::Sink;
use larder_stats::Counter;

use crate::api::cache::Cache;
use crate::backend::large::Read;

/// Number of keys that [`Cache::get_many`] prefetches together.
pub(crate) const KEYS_AT_ONCE: usize = 16;

/// Number of attempts to read a large value. Readers pin the segments that contain the value, so
/// that it stays during the read. If readers have already pinned the maximum number of segments,
/// the value may be evicted during the read, and the attempt fails. After the last attempt the read
/// is a miss.
const ATTEMPTS_MAX: usize = 8;

/// Largest buffer, in bytes, that a thread keeps for [`Cache::get_with`].
const KEPT_BUFFER_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Runs `f` with this thread's empty buffer. A nested call uses a new buffer.
pub(crate) fn with_buffer<T>(f: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // The thread-local buffer is gone while the thread exits.
    let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
    buffer.clear();
    let result = f(&mut buffer);
    if buffer.capacity() <= KEPT_BUFFER_BYTES_MAX
        && let Ok(()) = BUFFER.try_with(|kept| kept.set(buffer))
    {}
    result
}

/// End of a value in a buffer that holds several values, and the metadata of its item; `None` for a
/// miss.
type Place = Option<(usize, Meta)>;

impl Cache {
    /// Returns the value of a key; `None` if the item is absent or expired.
    ///
    /// Cost: the cache misses for the index and the record, one copy, one allocation.
    /// [`Cache::get_into`] and [`Cache::get_with`] avoid the allocation.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// assert_eq!(cache.get("k"), Some(b"v".to_vec()));
    /// assert_eq!(cache.get("other"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        self.look_up_or_miss(key.as_ref(), &mut value).map(|_| value)
    }

    /// Appends the value of a key to `out`, and returns the metadata of the item: its flags,
    /// deadline and cas token. On a miss, `out` is unchanged.
    ///
    /// Cost: same as [`Cache::get`], without the allocation if `out` has enough capacity.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "value", None)?;
    /// let mut out = b"k=".to_vec();
    /// let meta = cache.get_into("k", &mut out).ok_or("k is absent")?;
    /// assert_eq!((&out[..], meta.value_bytes), (&b"k=value"[..], 5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Option<Meta> {
        self.look_up_or_miss(key.as_ref(), out)
    }

    /// Reads a value as [`Cache::get_into`] does, into any kind of memory. Returns false on a miss.
    /// A value that does not fit into borrowed memory ([`Lent`](crate::Lent)) is not copied, and
    /// the get is not counted. `observe` receives the metadata of the item, and receives it again
    /// if the item changes during the read.
    ///
    /// Cost: same as [`Cache::get_into`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{Lent, Sink};
    /// cache.set("k", "value", None)?;
    /// let (mut memory, mut value_bytes) = ([0; 8], 0);
    /// let mut lent = Lent::new(&mut memory);
    /// let is_there = cache.get_to("k", &mut lent, |meta| value_bytes = meta.value_bytes);
    /// assert!(is_there);
    /// assert!(lent.is_whole());
    /// assert_eq!(&memory[..value_bytes], b"value");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn get_to(
        &self,
        key: impl AsRef<[u8]>,
        out: &mut impl Sink,
        observe: impl FnMut(&Meta),
    ) -> bool {
        self.try_get_to(key, out, observe).unwrap_or(false)
    }

    /// Same as [`Cache::get_to`], but reports errors of the disk tier, which may fail to return an
    /// item that it holds. The other get methods report such an item as absent.
    ///
    /// # Errors
    /// [`StoreError::Journal`] if the disk did not return the item, the item is damaged, or the log
    /// failed before the item was durable. [`StoreError::NoMemory`] if the item is evicted again
    /// each time the read promotes it to memory. After an error `out` is unchanged.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// use larder::{Cache, DiskTier};
    /// let disk = DiskTier::new(folder.path().join("store"), 64 << 20);
    /// let cache = Cache::builder().tier(disk).open()?;
    /// cache.set("k", "value", None)?;
    /// let mut out = Vec::new();
    /// assert!(cache.try_get_to("k", &mut out, |_| ())?);
    /// assert_eq!(out, b"value");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_get_to(
        &self,
        key: impl AsRef<[u8]>,
        out: &mut impl Sink,
        observe: impl FnMut(&Meta),
    ) -> Result<bool, StoreError> {
        // The metadata is dropped where it is found: returning it would cost a tenth of the time.
        Ok(self.look_up(key.as_ref(), out, observe, drop)?.is_some())
    }

    /// Reads a value as [`Cache::get_to`] does, but counts the read neither in the statistics nor
    /// for eviction. With a disk tier the read is counted.
    ///
    /// Cost: same as [`Cache::get_into`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "value", None)?;
    /// let mut out = Vec::new();
    /// assert!(cache.look_to("k", &mut out, |_| ()));
    /// assert_eq!(out, b"value");
    /// assert!(!cache.peek(b"k").ok_or("k is absent")?.fetched);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn look_to<S: Sink>(
        &self,
        key: impl AsRef<[u8]>,
        out: &mut S,
        mut observe: impl FnMut(&Meta),
    ) -> bool {
        let key = key.as_ref();
        if !self.shared().tier.is_none() {
            return self.get_to(key, out, observe);
        }
        let (now, unnoted) = (self.now(), ReadOptions { noted: false, value: true });
        self.with_thread_slot(|engine, thread| {
            let mut observe = |_: &mut S, meta: &Meta| observe(meta);
            let read = |out: &mut S| engine.read_as(thread, key, unnoted, now, out, &mut observe);
            read_whole_by(engine, out, read, drop).is_ok()
        })
    }

    /// Passes the value of a key to `look`, and returns the result of `look`; `None` on a miss.
    ///
    /// `look` receives a copy: the value as it was at one moment, whatever other threads do to the
    /// item. No lock is held while `look` runs, so it may be slow and may use the cache.
    ///
    /// Cost: same as [`Cache::get`], without the allocation: the copy is in a buffer of up to 1 MiB
    /// that the thread keeps.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("line", "a,b,c", None)?;
    /// let commas = cache.get_with("line", |line, _| line.iter().filter(|byte| **byte == b',').count());
    /// assert_eq!(commas, Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_with<T>(
        &self,
        key: impl AsRef<[u8]>,
        look: impl FnOnce(&[u8], &Meta) -> T,
    ) -> Option<T> {
        with_buffer(|value| {
            let meta = self.look_up_or_miss(key.as_ref(), value)?;
            Some(look(value, &meta))
        })
    }

    /// Returns the values of several keys, in their order, with `None` for misses. Each value is
    /// from some moment during the call, but not all values are from the same moment.
    ///
    /// Cost: the cache misses of 16 keys overlap, so where memory latency dominates, the call takes
    /// less than half the time of as many [`Cache::get`]s. One allocation per value.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("a", "1", None)?;
    /// cache.set("c", "3", None)?;
    /// let values = cache.get_many(&["a", "b", "c"]);
    /// assert_eq!(values, [Some(b"1".to_vec()), None, Some(b"3".to_vec())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Option<Vec<u8>>> {
        let mut values = Vec::with_capacity(keys.len());
        self.get_many_with(keys, |_, found| values.push(found.map(|(value, _)| value.to_vec())));
        values
    }

    /// Passes the values of several keys to `look`, in the keys' order: the position of the key in
    /// `keys`, and its value, or `None` on a miss. As with [`Cache::get_with`], `look` receives
    /// copies and may use the cache.
    ///
    /// Cost: same as [`Cache::get_many`], without an allocation.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("a", "1", None)?;
    /// cache.set("c", "345", None)?;
    /// let (mut bytes, mut missing) = (0, Vec::new());
    /// cache.get_many_with(&["a", "b", "c"], |place, found| match found {
    ///     Some((value, _)) => bytes += value.len(),
    ///     None => missing.push(place),
    /// });
    /// assert_eq!((bytes, missing), (4, vec![1]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut look: impl FnMut(usize, Option<(&[u8], &Meta)>),
    ) {
        with_buffer(|values| {
            for (chunk, first) in keys.chunks(KEYS_AT_ONCE).zip((0..).step_by(KEYS_AT_ONCE)) {
                let mut together: [&[u8]; KEYS_AT_ONCE] = [&[]; KEYS_AT_ONCE];
                together.iter_mut().zip(chunk).for_each(|(bytes, key)| *bytes = key.as_ref());
                values.clear();
                let places = self.look_up_together(&together[..chunk.len()], values);
                let mut start = 0;
                for (place, found) in places[..chunk.len()].iter().enumerate() {
                    let value = found.as_ref().map(|(end, meta)| (&values[start..*end], meta));
                    look(first + place, value);
                    start = found.map_or(start, |(end, _)| end);
                }
            }
        });
    }

    /// True if a live item has the key. Cost: same as [`Cache::get_with`], but a large value is not
    /// read, and the statistics do not count the call.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(!cache.contains("k"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        with_buffer(|value| {
            let read = self.read(key.as_ref(), value, |_, _| ());
            matches!(read, Read::Hit(_) | Read::Large(..))
        })
    }

    /// Appends the value of a key to `out`, and counts the get. Returns the result of `keep` for
    /// the item's metadata.
    #[inline]
    fn look_up<T>(
        &self,
        key: &[u8],
        out: &mut impl Sink,
        observe: impl FnMut(&Meta),
        keep: impl Fn(Meta) -> T,
    ) -> Result<Option<T>, StoreError> {
        if !self.shared().tier.is_none() {
            let found = self.blocking().backend.read_whole(key, out, observe)?.map(keep);
            return Ok(self.with_thread_slot(|engine, thread| count(engine, thread, found, out)));
        }
        Ok(self.blocking().backend.in_memory(|engine, operation| {
            let found = read_whole(engine, operation, key, out, observe, keep);
            count(engine, operation.thread, found, out)
        }))
    }

    /// Appends the value of a key to `out`, and counts the get. An item that the disk does not
    /// return is a miss.
    #[inline]
    pub(crate) fn look_up_or_miss(&self, key: &[u8], out: &mut Vec<u8>) -> Option<Meta> {
        self.look_up(key, out, |_| (), identity).ok().flatten()
    }

    /// Appends the value of a key to `out`, without counting. An item that the disk does not return
    /// is a miss.
    pub(crate) fn read_whole(&self, key: &[u8], out: &mut Vec<u8>) -> Option<Meta> {
        if !self.shared().tier.is_none() {
            return self.blocking().backend.read_whole(key, out, |_| ()).ok()?.ok();
        }
        let read = |engine: &Engine, operation: &Operation<'_>| {
            read_whole(engine, operation, key, out, |_| (), identity)
        };
        self.blocking().backend.in_memory(read).ok()
    }

    /// Looks up at most [`KEYS_AT_ONCE`] keys.
    fn look_up_together(&self, keys: &[&[u8]], values: &mut Vec<u8>) -> [Place; KEYS_AT_ONCE] {
        self.shared().engine.prefetch(keys.iter().copied());
        let mut places = [None; KEYS_AT_ONCE];
        if !self.shared().tier.is_none() {
            for (place, key) in places.iter_mut().zip(keys) {
                *place = self.look_up_or_miss(key, values).map(|meta| (values.len(), meta));
            }
            return places;
        }
        self.blocking().backend.in_memory(|engine, operation| {
            for (place, key) in places.iter_mut().zip(keys) {
                let found = read_whole(engine, operation, key, values, |_| (), identity);
                let found = count(engine, operation.thread, found, values);
                *place = found.map(|meta| (values.len(), meta));
            }
        });
        places
    }
}

/// Counts a get and returns its result. A value that did not fit into borrowed memory is not
/// counted.
#[inline]
fn count<T>(
    engine: &Engine,
    thread: &ThreadSlot,
    found: Result<T, Miss>,
    out: &impl Sink,
) -> Option<T> {
    if found.is_ok() && !out.is_whole() {
        return found.ok();
    }
    engine.bump(thread, if found.is_ok() { Counter::GetHits } else { Counter::GetMisses }, 1);
    match found {
        Ok(_) | Err(Miss::Absent) => {}
        Err(Miss::Expired) => engine.bump(thread, Counter::GetExpired, 1),
        Err(Miss::Flushed) => engine.bump(thread, Counter::GetFlushed, 1),
    }
    found.ok()
}

/// Appends a value to `out`, a large one piece by piece. Reports a large value that is evicted
/// during each of [`ATTEMPTS_MAX`] reads as absent.
#[inline]
fn read_whole<S: Sink, T>(
    engine: &Engine,
    operation: &Operation<'_>,
    key: &[u8],
    out: &mut S,
    mut observe: impl FnMut(&Meta),
    keep: impl Fn(Meta) -> T,
) -> Result<T, Miss> {
    let &Operation { thread, now, .. } = operation;
    let read = |out: &mut S| engine.read(thread, key, now, out, |_, meta| observe(meta));
    read_whole_by(engine, out, read, keep)
}

/// Same as [`read_whole`], with `read` for each attempt.
#[inline]
fn read_whole_by<S: Sink, T>(
    engine: &Engine,
    out: &mut S,
    mut read: impl FnMut(&mut S) -> larder_engine::Read,
    keep: impl Fn(Meta) -> T,
) -> Result<T, Miss> {
    let start = out.filled();
    for _ in 0..ATTEMPTS_MAX {
        match read(out) {
            larder_engine::Read::Hit(meta) => return Ok(keep(meta)),
            larder_engine::Read::Miss(miss) => return Err(miss),
            larder_engine::Read::Large(meta, mut pieces) => {
                if read_pieces(engine, &mut pieces, out) {
                    return Ok(keep(meta));
                }
                // Evicted or relocated during the read: look the key up again.
                out.truncate(start);
            }
        }
    }
    // Each version of the value was evicted before it could be copied.
    Err(Miss::Absent)
}

/// Appends the pieces of a large value to `out`. Returns false if a piece was evicted.
#[cold]
fn read_pieces(engine: &Engine, pieces: &mut LargeValue, out: &mut impl Sink) -> bool {
    let is_whole = loop {
        match engine.read_piece(pieces, out) {
            Ok(true) => {}
            Ok(false) => break true,
            Err(_) => break false,
        }
    };
    engine.close_large(pieces);
    is_whole
}
