//! A cache whose location a program leaves open: in the process, or on a server.

use std::fmt::Debug;
use std::time::Duration;

use larder_engine::{Lease, StoreError};

use crate::api::cache::Cache;
use crate::api::get::KEYS_AT_ONCE;
use crate::api::set::{CountError, Swap, SwapError};
use crate::client::{Client, ClientError};

/// The operations that [`Cache`] and [`Client`] have in common, for programs and bindings whose
/// users choose whether the cache is in the process or on a server.
///
/// Each method calls the method of the same name. A time to live is counted from now, and `None`
/// means no expiry.
///
/// ```
/// use larder::{AnyCache, AnyCacheError, Cache};
///
/// fn count_visit(cache: &dyn AnyCache, page: &[u8]) -> Result<u64, AnyCacheError> {
///     cache.add(page, b"0", None)?;
///     Ok(cache.increment(page, 1)?.unwrap_or(0))
/// }
///
/// let cache: Box<dyn AnyCache> = match std::env::var_os("CACHE_SOCKET") {
///     Some(socket) => Box::new(Cache::connect(socket)?),
///     None => Box::new(Cache::builder().open()?),
/// };
/// assert_eq!(count_visit(&*cache, b"/index.html")?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AnyCache: Debug + Send + Sync {
    /// Returns the value of a key; `None` if the item is absent. Unlike [`Cache::get`], it returns
    /// an error if a disk tier does not return an item that it holds.
    ///
    /// # Errors
    /// Same as [`Cache::try_get_to`] or [`Client::get`].
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, AnyCacheError>;

    /// Returns the values of several keys, in their order; `None` for absent items.
    ///
    /// # Errors
    /// Same as [`AnyCache::get`].
    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, AnyCacheError>;

    /// Returns the value of a key, and sets the time to live of its item.
    ///
    /// # Errors
    /// Same as [`AnyCache::get`] and [`AnyCache::touch`].
    fn get_and_touch(
        &self,
        key: &[u8],
        ttl: Option<Duration>,
    ) -> Result<Option<Vec<u8>>, AnyCacheError>;

    /// Stores a value.
    ///
    /// # Errors
    /// [`StoreError`], [`ClientError`]
    fn set(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), AnyCacheError>;

    /// Stores a value if the key is absent. Returns false if it is present.
    ///
    /// # Errors
    /// Same as [`AnyCache::set`].
    fn add(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<bool, AnyCacheError>;

    /// Stores a value if the key is present. Returns false if it is absent.
    ///
    /// # Errors
    /// Same as [`AnyCache::set`].
    fn replace(
        &self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
    ) -> Result<bool, AnyCacheError>;

    /// Appends to a value. Returns false if the key is absent.
    ///
    /// # Errors
    /// Same as [`AnyCache::set`].
    fn append(&self, key: &[u8], part: &[u8]) -> Result<bool, AnyCacheError>;

    /// Inserts bytes before a value. Returns false if the key is absent.
    ///
    /// # Errors
    /// Same as [`AnyCache::set`].
    fn prepend(&self, key: &[u8], part: &[u8]) -> Result<bool, AnyCacheError>;

    /// Stores a value if the item still has this cas token.
    ///
    /// # Errors
    /// Same as [`AnyCache::set`]. [`AnyCacheError::NoTokens`] if a cache in this process was opened
    /// without cas tokens.
    fn compare_and_set(
        &self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
        cas: u64,
    ) -> Result<Swap, AnyCacheError>;

    /// Removes an item. Returns false if the key is absent.
    ///
    /// # Errors
    /// Same as [`AnyCache::set`].
    fn delete(&self, key: &[u8]) -> Result<bool, AnyCacheError>;

    /// Sets the time to live of an item. Returns false if the key is absent.
    ///
    /// # Errors
    /// Same as [`AnyCache::set`].
    fn touch(&self, key: &[u8], ttl: Option<Duration>) -> Result<bool, AnyCacheError>;

    /// Adds to a counter, and returns its new value; `None` if the key is absent.
    ///
    /// # Errors
    /// Same as [`AnyCache::set`]. [`AnyCacheError::NotANumber`] if the value is not a number, for a
    /// cache in this process.
    fn increment(&self, key: &[u8], delta: u64) -> Result<Option<u64>, AnyCacheError>;

    /// Subtracts from a counter, down to 0, and returns its new value; `None` if the key is
    /// absent.
    ///
    /// # Errors
    /// Same as [`AnyCache::increment`].
    fn decrement(&self, key: &[u8], delta: u64) -> Result<Option<u64>, AnyCacheError>;

    /// Takes the lease of a key for a time; `None` if another caller holds the lease.
    ///
    /// # Errors
    /// Same as [`AnyCache::set`].
    fn lease(&self, key: &[u8], time: Duration) -> Result<Option<Lease>, AnyCacheError>;

    /// Ends a lease. Returns false if it has already ended.
    ///
    /// # Errors
    /// Same as [`AnyCache::set`].
    fn release(&self, key: &[u8], lease: Lease) -> Result<bool, AnyCacheError>;
}

/// The reason why an operation of [`AnyCache`] failed.
#[derive(Debug, thiserror::Error)]
pub enum AnyCacheError {
    /// A cache in this process has refused the operation.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Same as [`SwapError::NoTokens`].
    #[error("{}", SwapError::NoTokens)]
    NoTokens,
    /// Same as [`CountError::NotANumber`].
    #[error("{}", CountError::NotANumber)]
    NotANumber,
    /// The request to a server failed.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<SwapError> for AnyCacheError {
    fn from(error: SwapError) -> Self {
        match error {
            SwapError::NoTokens => Self::NoTokens,
            SwapError::Store(error) => error.into(),
        }
    }
}

impl From<CountError> for AnyCacheError {
    fn from(error: CountError) -> Self {
        match error {
            CountError::NotANumber => Self::NotANumber,
            CountError::Store(error) => error.into(),
        }
    }
}

impl AnyCache for Cache {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, AnyCacheError> {
        let mut value = Vec::new();
        Ok(self.try_get_to(key, &mut value, |_| ())?.then_some(value))
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, AnyCacheError> {
        let mut values = Vec::with_capacity(keys.len());
        // A prefetch of all keys of a long list would be evicted again before they are read.
        for chunk in keys.chunks(KEYS_AT_ONCE) {
            self.prefetch(chunk.iter().copied());
            for key in chunk {
                values.push(AnyCache::get(self, key)?);
            }
        }
        Ok(values)
    }

    fn get_and_touch(
        &self,
        key: &[u8],
        ttl: Option<Duration>,
    ) -> Result<Option<Vec<u8>>, AnyCacheError> {
        Ok(Self::get_and_touch(self, key, ttl)?)
    }

    fn set(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), AnyCacheError> {
        Ok(Self::set(self, key, value, ttl)?)
    }

    fn add(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<bool, AnyCacheError> {
        Ok(Self::add(self, key, value, ttl)?)
    }

    fn replace(
        &self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
    ) -> Result<bool, AnyCacheError> {
        Ok(Self::replace(self, key, value, ttl)?)
    }

    fn append(&self, key: &[u8], part: &[u8]) -> Result<bool, AnyCacheError> {
        Ok(Self::append(self, key, part)?)
    }

    fn prepend(&self, key: &[u8], part: &[u8]) -> Result<bool, AnyCacheError> {
        Ok(Self::prepend(self, key, part)?)
    }

    fn compare_and_set(
        &self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
        cas: u64,
    ) -> Result<Swap, AnyCacheError> {
        Ok(Self::compare_and_set(self, key, value, ttl, cas)?)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, AnyCacheError> {
        Ok(Self::delete(self, key)?)
    }

    fn touch(&self, key: &[u8], ttl: Option<Duration>) -> Result<bool, AnyCacheError> {
        Ok(Self::touch(self, key, ttl)?)
    }

    fn increment(&self, key: &[u8], delta: u64) -> Result<Option<u64>, AnyCacheError> {
        Ok(Self::increment(self, key, delta)?)
    }

    fn decrement(&self, key: &[u8], delta: u64) -> Result<Option<u64>, AnyCacheError> {
        Ok(Self::decrement(self, key, delta)?)
    }

    fn lease(&self, key: &[u8], time: Duration) -> Result<Option<Lease>, AnyCacheError> {
        Ok(Self::lease(self, key, time)?)
    }

    fn release(&self, key: &[u8], lease: Lease) -> Result<bool, AnyCacheError> {
        Ok(Self::release(self, key, lease)?)
    }
}

impl AnyCache for Client {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, AnyCacheError> {
        Ok(Self::get(self, key)?)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, AnyCacheError> {
        Ok(Self::get_many(self, keys)?)
    }

    fn get_and_touch(
        &self,
        key: &[u8],
        ttl: Option<Duration>,
    ) -> Result<Option<Vec<u8>>, AnyCacheError> {
        Ok(Self::get_and_touch(self, key, ttl)?)
    }

    fn set(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), AnyCacheError> {
        Ok(Self::set(self, key, value, ttl)?)
    }

    fn add(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<bool, AnyCacheError> {
        Ok(Self::add(self, key, value, ttl)?)
    }

    fn replace(
        &self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
    ) -> Result<bool, AnyCacheError> {
        Ok(Self::replace(self, key, value, ttl)?)
    }

    fn append(&self, key: &[u8], part: &[u8]) -> Result<bool, AnyCacheError> {
        Ok(Self::append(self, key, part)?)
    }

    fn prepend(&self, key: &[u8], part: &[u8]) -> Result<bool, AnyCacheError> {
        Ok(Self::prepend(self, key, part)?)
    }

    fn compare_and_set(
        &self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
        cas: u64,
    ) -> Result<Swap, AnyCacheError> {
        Ok(Self::compare_and_set(self, key, value, ttl, cas)?)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, AnyCacheError> {
        Ok(Self::delete(self, key)?)
    }

    fn touch(&self, key: &[u8], ttl: Option<Duration>) -> Result<bool, AnyCacheError> {
        Ok(Self::touch(self, key, ttl)?)
    }

    fn increment(&self, key: &[u8], delta: u64) -> Result<Option<u64>, AnyCacheError> {
        Ok(Self::increment(self, key, delta)?)
    }

    fn decrement(&self, key: &[u8], delta: u64) -> Result<Option<u64>, AnyCacheError> {
        Ok(Self::decrement(self, key, delta)?)
    }

    fn lease(&self, key: &[u8], time: Duration) -> Result<Option<Lease>, AnyCacheError> {
        Ok(Self::lease(self, key, time)?)
    }

    fn release(&self, key: &[u8], lease: Lease) -> Result<bool, AnyCacheError> {
        Ok(Self::release(self, key, lease)?)
    }
}
