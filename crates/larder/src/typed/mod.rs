//! [`TypedCache`]: a view of a cache with keys and values of Rust types.

pub(crate) mod codec;
pub(crate) mod key;
#[cfg(feature = "serde")]
pub(crate) mod postcard;
#[cfg(feature = "serde")]
mod shape;
#[cfg(feature = "tokio")]
mod tasks;

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use larder_engine::{StoreError, StoreRequest};
use larder_item::StoreMode;

use crate::api::cache::Cache;
use crate::api::get::with_buffer;
use crate::api::load::{Format, LoadError, LoadOptions, Loaded, LoaderError, Wanted};
use crate::events::{Event, report};
use crate::process::codec_error::CodecError;
use codec::{Codec, Plain};
use key::{Key, KeyBuf};

/// A view of a [`Cache`] with keys of type `K` and values of type `V`.
///
/// A [`Codec`] converts values to bytes: [`Plain`] for bytes, text and numbers, `Postcard` (with
/// the feature `serde`) for types with serde's traits, or a codec of the program. The cache stores
/// encoded copies, and each get decodes a new value.
///
/// Several views can share one cache if their prefixes differ. Clones are cheap and share the
/// cache. The methods of the [`Cache`] itself work on the same items.
///
/// An item in another format counts as absent: an item of another codec, of another version of the
/// codec, or, with `Postcard`, of another type. So a view never returns a value that was stored as
/// something else, and after a change of the type a program loads its values again. The statistics
/// of the cache count a get of such an item as a hit.
///
/// ```
/// use larder::{Cache, LoadOptions, TypedCache};
/// use std::time::Duration;
///
/// let cache = Cache::builder().memory_bytes(64 << 20).open()?;
/// let names: TypedCache<u64, String> = TypedCache::new(cache.clone())
///     .prefix("name:")
///     .options(LoadOptions::new().ttl(Duration::from_secs(60)));
///
/// names.insert(&7, "Ada".to_owned())?;
/// assert_eq!(names.get(&7)?.as_deref(), Some("Ada"));
/// assert_eq!(cache.get("name:7").as_deref(), Some(&b"Ada"[..]));
///
/// let loaded = names.get_or_load(&8, || Ok::<_, std::io::Error>("Grace".to_owned()))?;
/// assert_eq!(loaded, "Grace");
/// assert!(names.remove(&8)? && !names.contains(&8)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedCache<K: ?Sized, V, C = Plain> {
    cache: Cache,
    codec: Arc<C>,
    format: Format,
    prefix: Arc<[u8]>,
    options: LoadOptions,
    skips_undecodable: bool,
    types: Types<K, V>,
}

/// A view stores no key and no value. It is covariant in both types.
type Types<K, V> = PhantomData<fn() -> (V, Box<K>)>;

/// The reason why an operation on a [`TypedCache`] failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypedError {
    /// The key is invalid, or the cache failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The codec failed.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

impl<K: Key + ?Sized, V> TypedCache<K, V>
where
    Plain: Codec<V>,
{
    /// Returns a view with the codec [`Plain`]: for values that are bytes, text or numbers.
    pub fn new(cache: Cache) -> Self {
        Self::with_codec(cache, Plain)
    }
}

impl<K: Key + ?Sized, V, C: Codec<V>> TypedCache<K, V, C> {
    /// Returns a view with this codec.
    pub fn with_codec(cache: Cache, codec: C) -> Self {
        Self {
            cache,
            format: codec.format(),
            codec: Arc::new(codec),
            prefix: Arc::default(),
            options: LoadOptions::new(),
            skips_undecodable: false,
            types: PhantomData,
        }
    }

    /// Sets the bytes before each key. Without a prefix, all views of a cache have the same keys.
    #[must_use]
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.prefix = prefix.as_ref().into();
        self
    }

    /// Sets the options of [`TypedCache::get_or_load`]. Their ttl and their stale period also apply
    /// to [`TypedCache::insert`]. By default values never expire.
    #[must_use]
    pub fn options(mut self, options: LoadOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets whether values that the codec cannot decode count as misses, so that they are loaded
    /// again. By default they are errors, because something else stores values in this format under
    /// these keys, or the codec is wrong.
    #[must_use]
    pub fn skip_undecodable(mut self, skips: bool) -> Self {
        self.skips_undecodable = skips;
        self
    }

    /// Returns the cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the value of a key; `None` if the item is absent, expired, or in another format.
    ///
    /// Cost: same as [`Cache::get_with`], and the codec's.
    ///
    /// # Errors
    /// [`TypedError`]: the key is invalid, the codec cannot decode the value, or a disk tier does
    /// not return the item ([`Cache::try_get_to`]).
    pub fn get<Q: Key + ?Sized>(&self, key: &Q) -> Result<Option<V>, TypedError>
    where
        K: Borrow<Q>,
    {
        let key = self.key(key);
        let key = key.bytes().map_err(StoreError::Key)?;
        with_buffer(|bytes| {
            let mut flags = 0;
            if !self.cache.try_get_to(key, bytes, |meta| flags = meta.flags)? {
                return Ok(None);
            }
            self.decoded(key, flags, bytes)
        })
    }

    /// Returns the values of several keys, in their order. An item that a disk tier does not return
    /// counts as a miss.
    ///
    /// Cost: same as [`Cache::get_many_with`], and the codec's; an allocation for the keys.
    ///
    /// # Errors
    /// The first error of a key: an invalid key, or a value that the codec cannot decode.
    ///
    /// ```
    /// # use larder::{Cache, TypedCache};
    /// let ages: TypedCache<str, u8> = TypedCache::new(Cache::builder().open()?);
    /// ages.insert("ada", 36)?;
    /// assert_eq!(ages.get_many(&["ada", "grace"])?, [Some(36), None]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_many<Q: Key + ?Sized>(&self, keys: &[&Q]) -> Result<Vec<Option<V>>, TypedError>
    where
        K: Borrow<Q>,
    {
        let buffers: Vec<KeyBuf> = keys.iter().map(|key| self.key(*key)).collect();
        let keys: Result<Vec<&[u8]>, _> = buffers.iter().map(KeyBuf::bytes).collect();
        let keys = keys.map_err(StoreError::Key)?;
        let (mut values, mut failed) = (Vec::with_capacity(keys.len()), None);
        self.cache.get_many_with(&keys, |at, found| {
            let decoded = found.map(|(bytes, meta)| self.decoded(keys[at], meta.flags, bytes));
            match decoded.transpose() {
                Ok(value) => values.push(value.flatten()),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        });
        failed.map_or(Ok(values), Err)
    }

    /// True if [`TypedCache::get`] finds a value in this view's format. The value is not decoded,
    /// and the call does not count as a read.
    ///
    /// # Errors
    /// [`TypedError`] as with [`TypedCache::get`].
    pub fn contains<Q: Key + ?Sized>(&self, key: &Q) -> Result<bool, TypedError>
    where
        K: Borrow<Q>,
    {
        let key = self.key(key);
        let meta = self.cache.try_peek(key.bytes().map_err(StoreError::Key)?)?;
        Ok(meta.is_some_and(|meta| self.format.accepts(meta.flags)))
    }

    /// Stores a value with the ttl of the view's options. Replaces the existing item.
    ///
    /// Cost: same as [`Cache::set`], and the codec's.
    ///
    /// # Errors
    /// [`TypedError`]. Except for an invalid key, the failed insert also removes the existing item,
    /// so that readers never receive an outdated value.
    pub fn insert<Q: Key + ?Sized>(&self, key: &Q, value: impl Borrow<V>) -> Result<(), TypedError>
    where
        K: Borrow<Q>,
    {
        self.insert_for(key, value.borrow(), self.options.ttl)
    }

    /// Same as [`TypedCache::insert`], with another ttl. The stale period of the options is added
    /// to it.
    ///
    /// # Errors
    /// Same as [`TypedCache::insert`].
    ///
    /// ```
    /// # use larder::{Cache, TypedCache};
    /// # use std::time::Duration;
    /// let codes: TypedCache<str, u32> = TypedCache::new(Cache::builder().open()?);
    /// codes.insert_with_ttl("ada", 123_456, Duration::from_secs(30))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert_with_ttl<Q: Key + ?Sized>(
        &self,
        key: &Q,
        value: impl Borrow<V>,
        ttl: Duration,
    ) -> Result<(), TypedError>
    where
        K: Borrow<Q>,
    {
        self.insert_for(key, value.borrow(), Some(ttl))
    }

    /// Removes the item of a key, in any format. Returns false if the key is absent.
    ///
    /// # Errors
    /// [`TypedError::Store`]
    pub fn remove<Q: Key + ?Sized>(&self, key: &Q) -> Result<bool, TypedError>
    where
        K: Borrow<Q>,
    {
        let key = self.key(key);
        Ok(self.cache.delete(key.bytes().map_err(StoreError::Key)?)?)
    }

    /// Returns the value of a key; on a miss, calls `loader` and stores its result. Of all callers
    /// that request the key at the same time, one loads; see [`Cache::get_or_load`]. An item in
    /// another format is replaced.
    ///
    /// Cost: same as [`Cache::get_or_load`], and the codec's. The caller that loads decodes
    /// nothing.
    ///
    /// # Errors
    /// [`LoadError`]. If the loader returns an error, the callers that wait receive it as well.
    ///
    /// ```
    /// use larder::{Cache, LoadError, TypedCache};
    ///
    /// let numbers: TypedCache<str, u64> = TypedCache::new(Cache::builder().open()?);
    /// assert_eq!(numbers.get_or_load("12", || "12".parse())?, 12);
    /// let failed = numbers.get_or_load("twelve", || "twelve".parse());
    /// assert!(matches!(failed, Err(LoadError::Failed(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_or_load<Q, E>(
        &self,
        key: &Q,
        loader: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, LoadError<E>>
    where
        K: Borrow<Q>,
        Q: Key + ?Sized,
        E: Send + Sync + 'static,
    {
        let key = self.key(key);
        let key = key.bytes()?;
        let mut loader = Some(loader);
        with_buffer(|bytes| {
            for is_last in [false, true] {
                let mut own = None;
                bytes.clear();
                self.cache.load_into(self.wanted(key), bytes, || {
                    let loader = loader.take().expect("a load that calls its loader is the last");
                    let value = loader().map_err(LoaderError::Failed)?;
                    let loaded = self.encoded(key, &value).map_err(LoaderError::Codec)?;
                    own = Some(value);
                    Ok(loaded)
                })?;
                let is_last = is_last || loader.is_none();
                if let Some(result) = self.landed(key, own, bytes, is_last) {
                    return result.map_err(LoadError::Codec);
                }
            }
            unreachable!("the last attempt has a result")
        })
    }

    fn key<Q: Key + ?Sized>(&self, key: &Q) -> KeyBuf {
        let mut buffer = KeyBuf::new(&self.prefix);
        key.append_to(&mut buffer);
        buffer
    }

    fn wanted<'a>(&'a self, key: &'a [u8]) -> Wanted<'a> {
        Wanted { key, options: &self.options, format: Some(self.format) }
    }

    fn insert_for<Q: Key + ?Sized>(
        &self,
        key: &Q,
        value: &V,
        ttl: Option<Duration>,
    ) -> Result<(), TypedError> {
        let key = self.key(key);
        let request = StoreRequest {
            flags: self.format.flags(),
            deadline: self.cache.load_deadline(ttl, self.options.stale),
            ..StoreRequest::new(key.bytes().map_err(StoreError::Key)?, StoreMode::Set)
        };
        with_buffer(|bytes| {
            if let Err(cause) = self.codec.encode(value, bytes) {
                self.cache.delete(request.key)?;
                return Err(CodecError::new(self.codec.name(), request.key, false, cause).into());
            }
            self.cache.store_counted(&request, bytes)?;
            Ok(())
        })
    }

    fn encoded(&self, key: &[u8], value: &V) -> Result<Loaded, CodecError> {
        let mut bytes = Vec::new();
        match self.codec.encode(value, &mut bytes) {
            Ok(()) => Ok(Loaded::new(bytes).flags(self.format.flags())),
            Err(cause) => Err(CodecError::new(self.codec.name(), key, false, cause)),
        }
    }

    fn decode(&self, key: &[u8], bytes: &[u8]) -> Result<V, CodecError> {
        let decoded = self.codec.decode(bytes);
        decoded.map_err(|cause| CodecError::new(self.codec.name(), key, true, cause))
    }

    /// Returns the value of an item. `None` if it counts as a miss.
    fn decoded(&self, key: &[u8], flags: u32, bytes: &[u8]) -> Result<Option<V>, TypedError> {
        if !self.format.accepts(flags) {
            report(Event::OtherFormat { key, flags });
            return Ok(None);
        }
        match self.decode(key, bytes) {
            Ok(value) => Ok(Some(value)),
            Err(_) if self.skips_undecodable => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the result of a load: this caller's own value, or the decoded bytes. Returns `None`
    /// if the caller has to load again, because the bytes cannot be decoded.
    fn landed(
        &self,
        key: &[u8],
        own: Option<V>,
        bytes: &[u8],
        is_last: bool,
    ) -> Option<Result<V, CodecError>> {
        let decoded = own.map_or_else(|| self.decode(key, bytes), Ok);
        if decoded.is_err() && self.skips_undecodable && !is_last {
            // If another caller has already replaced the item, the cost is an unnecessary load. If
            // the item cannot be removed, the next attempt receives its bytes again.
            let _ = self.cache.delete(key);
            return None;
        }
        Some(decoded)
    }
}

impl<K: ?Sized, V, C> Clone for TypedCache<K, V, C> {
    fn clone(&self) -> Self {
        Self {
            cache: self.cache.clone(),
            codec: Arc::clone(&self.codec),
            format: self.format,
            prefix: Arc::clone(&self.prefix),
            options: self.options,
            skips_undecodable: self.skips_undecodable,
            types: PhantomData,
        }
    }
}

impl<K: ?Sized, V, C> fmt::Debug for TypedCache<K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedCache")
            .field("prefix", &self.prefix.escape_ascii().to_string())
            .field("format", &self.format)
            .field("options", &self.options)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}
