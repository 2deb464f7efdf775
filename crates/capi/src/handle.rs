//! The handle that C receives, and its operations. Each operation is one method, for both a cache
//! in memory and a client of a server.
//!
//! The methods take and return types of Rust. They return the outcome as a [`Status`]: `Ok` if the
//! operation ran, even if it found no item, and `Err` for errors. The exports convert the arguments
//! from C. The comment of a method ends with the functions of the library that it calls, for a
//! cache and for a client.

use std::time::Duration;

use larder::{
    AnyCache, Basis, Cache, Client, ClientStore, ClientStored, Deadline, Lease, Lent, Sink,
    StoreMode, StoreRequest, Stored,
};

use crate::{Item, Load, Status};

/// A cache: in this process, in memory that processes share, or on a server. Any number of threads
/// may use a handle at the same time.
#[derive(Debug)]
pub enum Handle {
    /// In memory that this process has mapped.
    Cache(Cache),
    /// Another handle of a cache that this process has mapped.
    Copy(Cache),
    /// On a server on this machine.
    Client(Client),
}

/// A value to store, and the conditions of the store.
pub(crate) struct Store<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) mode: StoreMode,
    pub(crate) value: &'a [u8],
    /// 0 for an item that does not expire.
    pub(crate) ttl_secs: u32,
    pub(crate) flags: u32,
    /// The cas token that the item must have.
    pub(crate) cas: Option<u64>,
}

impl Handle {
    /// Returns the cache in memory, for operations that a client does not have.
    ///
    /// # Errors
    /// [`Status::Unsupported`] for a client; [`Status::NotOpened`] in a forked process that has no
    /// cache.
    pub(crate) fn cache(&self) -> Result<&Cache, Status> {
        match self {
            Self::Cache(cache) | Self::Copy(cache) if cache.lost().is_some() => {
                cache.usable()?;
                Ok(cache)
            }
            Self::Cache(cache) | Self::Copy(cache) => Ok(cache),
            Self::Client(_) => Err(Status::Unsupported),
        }
    }

    fn any(&self) -> &dyn AnyCache {
        match self {
            Self::Cache(cache) | Self::Copy(cache) => cache,
            Self::Client(client) => client,
        }
    }

    /// Returns whether this process uses the cache that was opened, and the reason if it does not.
    pub(crate) fn usability(&self) -> (Status, String) {
        let (Self::Cache(cache) | Self::Copy(cache)) = self else {
            return (Status::Ok, String::new());
        };
        match (cache.lost(), cache.usable()) {
            (Some(reason), _) if cache.only_reads() => {
                (Status::NotOpened, format!("{reason} (reads do not fail)"))
            }
            (Some(reason), _) => (Status::NotOpened, reason.to_string()),
            (None, Err(error)) => (error.into(), error.to_string()),
            (None, Ok(())) => (Status::Ok, String::new()),
        }
    }

    /// Copies a value into `buffer`: [`Cache::try_get_to`], [`Client::get_with`]. Calls `report`
    /// with the item, more than once if it changes during the read; the last report is valid.
    #[inline]
    pub(crate) fn get(
        &self,
        key: &[u8],
        buffer: &mut Lent<'_>,
        mut report: impl FnMut(Item),
    ) -> Result<Status, Status> {
        let is_found = match self {
            Self::Cache(cache) | Self::Copy(cache) => {
                cache.try_get_to(key, buffer, |meta| report(Item::of(cache, meta)))?
            }
            Self::Client(client) => {
                let found = client.get_with(key, |value, hit| {
                    report(Item::of_hit(value.len(), hit));
                    buffer.extend(value);
                });
                found?.is_some()
            }
        };
        if !is_found {
            report(Item::MISSING);
            return Ok(Status::Missing);
        }
        Ok(if buffer.is_whole() { Status::Ok } else { Status::TooSmall })
    }

    /// Copies a value into `buffer` as [`Handle::get`] does, but does not count the read:
    /// [`Cache::look_to`].
    pub(crate) fn look(
        &self,
        key: &[u8],
        buffer: &mut Lent<'_>,
        mut report: impl FnMut(Item),
    ) -> Result<Status, Status> {
        let cache = self.cache()?;
        if !cache.look_to(key, buffer, |meta| report(Item::of(cache, meta))) {
            report(Item::MISSING);
            return Ok(Status::Missing);
        }
        Ok(if buffer.is_whole() { Status::Ok } else { Status::TooSmall })
    }

    /// Copies a value into `buffer` and sets its time to live: [`Handle::get`], [`Handle::touch`].
    pub(crate) fn get_and_touch(
        &self,
        key: &[u8],
        ttl_secs: u32,
        buffer: &mut Lent<'_>,
        mut report: impl FnMut(Item),
    ) -> Result<Status, Status> {
        let status = self.get(key, buffer, |item| report(Item { ttl_secs, ..item }))?;
        if status != Status::Missing {
            self.touch(key, ttl_secs)?;
        }
        Ok(status)
    }

    /// Returns the attributes of an item, or [`Item::MISSING`]: [`Cache::try_peek`]. A client also
    /// reads the value, with [`Client::get_with`].
    pub(crate) fn peek(&self, key: &[u8]) -> Result<Item, Status> {
        let found = match self {
            Self::Cache(cache) | Self::Copy(cache) => {
                cache.try_peek(key)?.map(|meta| Item::of(cache, &meta))
            }
            Self::Client(client) => {
                client.get_with(key, |value, hit| Item::of_hit(value.len(), hit))?
            }
        };
        Ok(found.unwrap_or(Item::MISSING))
    }

    /// Copies the values of several keys into `buffer`, one after the other, and calls `report`
    /// with each item and the index of its key: [`Cache::prefetch`] and [`Handle::get`], or
    /// [`Client::get_many_with`]. For a client, each item is first reported as missing. A value
    /// that does not fit is skipped, and the next values use the space.
    pub(crate) fn get_many(
        &self,
        keys: &[&[u8]],
        buffer: &mut Lent<'_>,
        mut report: impl FnMut(usize, Item),
    ) -> Result<(), Status> {
        match self {
            Self::Cache(cache) | Self::Copy(cache) => {
                cache.prefetch(keys.iter().copied());
                for (at, key) in keys.iter().enumerate() {
                    let (value_at, left) = (buffer.filled(), buffer.left());
                    if let Err(status) =
                        self.get(key, buffer, |item| report(at, item.at(value_at, left)))
                    {
                        report(at, Item { status, ..Item::MISSING });
                    }
                    drop_partial(buffer, value_at);
                }
            }
            Self::Client(client) => {
                (0..keys.len()).for_each(|at| report(at, Item::MISSING));
                client.get_many_with(keys, |at, value, hit| {
                    let (value_at, left) = (buffer.filled(), buffer.left());
                    report(at, Item::of_hit(value.len(), hit).at(value_at, left));
                    buffer.extend(value);
                    drop_partial(buffer, value_at);
                })?;
            }
        }
        Ok(())
    }

    /// Stores a value, and returns the outcome with the new cas token, or 0 without a token:
    /// [`Cache::store_counted`], [`Client::store`].
    ///
    /// # Errors
    /// [`Status::NoTokens`] if `store.cas` is given and the cache was opened without cas tokens.
    #[inline]
    pub(crate) fn store(&self, store: &Store<'_>) -> Result<(Status, u64), Status> {
        match self {
            Self::Cache(cache) | Self::Copy(cache) => store.in_cache(cache),
            Self::Client(client) => store.by_server(client),
        }
    }

    /// Removes an item: [`Cache::delete`], [`Client::delete`].
    pub(crate) fn delete(&self, key: &[u8]) -> Result<Status, Status> {
        Ok(ok_or_missing(self.any().delete(key)?))
    }

    /// Sets the time to live of an item: [`Cache::touch`], [`Client::touch`].
    pub(crate) fn touch(&self, key: &[u8], ttl_secs: u32) -> Result<Status, Status> {
        Ok(ok_or_missing(self.any().touch(key, ttl(ttl_secs))?))
    }

    /// Adds to a counter and returns its new value: [`Cache::increment`], [`Client::increment`].
    ///
    /// # Errors
    /// [`Status::Missing`] if the key has no item.
    pub(crate) fn increment(&self, key: &[u8], delta: u64) -> Result<u64, Status> {
        self.any().increment(key, delta)?.ok_or(Status::Missing)
    }

    /// Subtracts from a counter and returns its new value: [`Cache::decrement`],
    /// [`Client::decrement`].
    ///
    /// # Errors
    /// [`Status::Missing`] if the key has no item.
    pub(crate) fn decrement(&self, key: &[u8], delta: u64) -> Result<u64, Status> {
        self.any().decrement(key, delta)?.ok_or(Status::Missing)
    }

    /// Takes a lease; `None` if it is held: [`Cache::lease`], [`Client::lease`].
    pub(crate) fn lease(&self, key: &[u8], ms: u32) -> Result<Option<Lease>, Status> {
        let time = Duration::from_millis(ms.into());
        Ok(self.any().lease(key, time)?)
    }

    /// Ends a lease: [`Cache::release`], [`Client::release`].
    pub(crate) fn release(&self, key: &[u8], lease: Lease) -> Result<Status, Status> {
        Ok(ok_or_missing(self.any().release(key, lease)?))
    }

    /// Begins a load: [`Cache::begin_load`].
    ///
    /// # Errors
    /// [`Status::Unsupported`] for a client.
    pub(crate) fn begin_load(&self, key: &[u8], timeout_secs: u32) -> Result<Load, Status> {
        let timeout = Duration::from_secs(timeout_secs.into());
        Ok(Load { words: self.cache()?.begin_load(key, timeout)?.words() })
    }

    /// Stores the result of a load, unless the item has changed: [`Cache::end_load`], which ignores
    /// `store.mode` and `store.cas`.
    ///
    /// # Errors
    /// [`Status::Unsupported`] for a client.
    pub(crate) fn end_load(&self, store: &Store<'_>, load: &Load) -> Result<Status, Status> {
        let cache = self.cache()?;
        let stored =
            cache.end_load(&store.request(cache), Basis::of_words(load.words), store.value)?;
        Ok(match stored {
            Stored::Stored { .. } => Status::Ok,
            Stored::Exists | Stored::NotStored | Stored::NotFound => Status::Changed,
        })
    }

    /// Ends a load without a value: [`Cache::cancel_load`].
    ///
    /// # Errors
    /// [`Status::Unsupported`] for a client.
    pub(crate) fn cancel_load(&self, key: &[u8], load: &Load) -> Result<Status, Status> {
        self.cache()?.cancel_load(key, Basis::of_words(load.words))?;
        Ok(Status::Ok)
    }
}

impl Store<'_> {
    #[inline]
    fn request(&self, cache: &Cache) -> StoreRequest<'_> {
        let Self { key, mode, ttl_secs, flags, cas, .. } = *self;
        let deadline = ttl(ttl_secs).map_or(Deadline::NEVER, |ttl| cache.deadline_after(ttl));
        StoreRequest { deadline, flags, cas, ..StoreRequest::new(key, mode) }
    }

    #[inline]
    fn in_cache(&self, cache: &Cache) -> Result<(Status, u64), Status> {
        if self.cas.is_some() && !cache.keeps_cas() {
            return Err(Status::NoTokens);
        }
        Ok(match cache.store_counted(&self.request(cache), self.value)? {
            Stored::Stored { cas, .. } => (Status::Ok, cas),
            Stored::Exists => (Status::Changed, 0),
            Stored::NotStored if self.mode == StoreMode::Add => (Status::Exists, 0),
            Stored::NotStored | Stored::NotFound => (Status::Missing, 0),
        })
    }

    fn by_server(&self, client: &Client) -> Result<(Status, u64), Status> {
        let Self { key, mode, flags, cas, .. } = *self;
        let store = ClientStore { key, mode, ttl: ttl(self.ttl_secs), flags, cas };
        Ok(match client.store(&store, self.value)? {
            ClientStored::Stored { cas } => (Status::Ok, cas),
            ClientStored::Exists => (Status::Changed, 0),
            ClientStored::NotStored if mode == StoreMode::Add => (Status::Exists, 0),
            ClientStored::NotStored | ClientStored::NotFound => (Status::Missing, 0),
        })
    }
}

/// Returns a time to live; `None`, which means no expiry, for 0.
pub(crate) fn ttl(secs: u32) -> Option<Duration> {
    (secs != 0).then(|| Duration::from_secs(secs.into()))
}

fn ok_or_missing(is_done: bool) -> Status {
    if is_done { Status::Ok } else { Status::Missing }
}

/// Discards the last value if it did not fit, so that a shorter value can be written at the same
/// offset.
fn drop_partial(buffer: &mut Lent<'_>, value_at: usize) {
    if !buffer.is_whole() {
        buffer.truncate(value_at);
    }
}
