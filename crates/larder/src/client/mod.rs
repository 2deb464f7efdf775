//! A client for the cache of a larderd in another process. It reads hits directly in the server's
//! memory, without a system call and without any work by the server. All other requests go through
//! the server's unix socket.
//!
//! ```text
//! get ─▶ in the memory? ── hit ──▶ value; one in two reads is reported later
//!              │
//!              └── no, or memory not trusted ──▶ socket ──▶ larderd, or any memcached
//! ```
//!
//! The server shares its memory with the users that `--local-readers` allows. Without that option
//! all requests go through the socket, with the same results. Values read in memory are consistent:
//! each is a complete copy from one moment. If the server ends or is stopped, its clock in the
//! memory stands still, and after three seconds the client stops reading the memory. The client
//! detects a restarted server at the next request, and then uses the new memory.
//!
//! Files in reading order: [`client`](self), `store`, `lease`, `inner`, `exchange`, `ask`,
//! `connection`, `view`, `hints`. Requests return the types in `error` and `hit`.

mod ask;
mod connection;
mod error;
mod exchange;
mod hints;
mod hit;
mod inner;
mod lease;
mod store;
mod view;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use larder_item::{Direction, StoreMode};

use crate::api::cache::Cache;
use crate::api::get::{KEYS_AT_ONCE, with_buffer};
use crate::api::set::Swap;
use ask::MetaRequest;
use inner::Inner;

pub use error::ClientError;
pub use hit::Hit;
pub use store::{ClientStore, ClientStored};

/// A client of a larderd, or of any memcached, at a unix socket. Clones are cheap and share
/// everything. Any number of threads may use a client. Forked children of the process may also use
/// it; each opens its own connections.
///
/// [`Client::store`] stores values with flags; the other methods set the flags to 0.
///
/// ```no_run
/// use larder::Cache;
///
/// let cache = Cache::connect("/run/larder.sock")?;
/// cache.set("greeting", "hello", None)?;
/// assert_eq!(cache.get("greeting")?.as_deref(), Some(&b"hello"[..]));
/// # Ok::<(), larder::ClientError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

/// Longest wait for a reply, by default.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Cache {
    /// Connects to the cache of a larderd at a unix socket; see [`Client`].
    ///
    /// # Errors
    /// [`ClientError::Connect`] if no server accepts connections.
    pub fn connect(socket: impl AsRef<Path>) -> Result<Client, ClientError> {
        Client::connect(socket)
    }
}

impl Client {
    /// Connects to a unix socket.
    ///
    /// # Errors
    /// [`ClientError::Connect`] if no server accepts connections.
    pub fn connect(socket: impl AsRef<Path>) -> Result<Self, ClientError> {
        Self::connect_within(socket, TIMEOUT)
    }

    /// Connects with a given timeout for replies; the default is 5 seconds.
    ///
    /// # Errors
    /// Same as [`Client::connect`].
    pub fn connect_within(
        socket: impl AsRef<Path>,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let timeout = timeout.max(Duration::from_millis(1));
        let inner = Inner::new(socket.as_ref().into(), timeout);
        let connection = inner.connection()?.0;
        inner.put_back(connection);
        Ok(Self { inner: Arc::new(inner) })
    }

    /// True if the client currently reads hits in the server's memory.
    pub fn reads_memory(&self) -> bool {
        self.inner().views.is_live()
    }

    /// Returns the value of a key; `None` if the item is absent.
    ///
    /// Cost: same as [`Cache::get`] if the value is in the server's memory; otherwise a round trip
    /// to the server.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, ClientError> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.map(|_| value))
    }

    /// Appends the value of a key to `out`, and returns its metadata. On a miss or an error, `out`
    /// is unchanged.
    ///
    /// # Errors
    /// [`ClientError`]
    #[inline]
    pub fn get_into(
        &self,
        key: impl AsRef<[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Hit>, ClientError> {
        let (key, inner) = (key.as_ref(), self.inner());
        match inner.look_up(key, out) {
            Some(hit) => Ok(Some(hit)),
            None => inner.fetch(key, None, out),
        }
    }

    /// Appends the value of a key to `out` if the item is in the server's memory, and returns its
    /// metadata. Otherwise returns `None` and leaves `out` unchanged: the server may still have the
    /// item. For bindings that have their own connections. Never waits.
    #[inline]
    pub fn look(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Option<Hit> {
        self.inner().look_up(key.as_ref(), out)
    }

    /// Opens a connection if none is idle, and with it the memory of a server that was restarted.
    /// [`Client::look`] never opens a connection itself.
    ///
    /// # Errors
    /// Same as [`Client::connect`].
    pub fn refresh(&self) -> Result<(), ClientError> {
        let inner = self.inner();
        inner.put_back(inner.connection()?.0);
        Ok(())
    }

    /// Passes the value of a key to `look`, and returns the result of `look`; `None` if the item is
    /// absent. `look` receives a copy.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn get_with<T>(
        &self,
        key: impl AsRef<[u8]>,
        look: impl FnOnce(&[u8], &Hit) -> T,
    ) -> Result<Option<T>, ClientError> {
        with_buffer(|value| Ok(self.get_into(key, value)?.map(|hit| look(value, &hit))))
    }

    /// Returns the values of several keys, in their order. Keys that are not found in the server's
    /// memory are requested together.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>, ClientError> {
        let mut values = vec![None; keys.len()];
        self.get_many_with(keys, |place, value, _| values[place] = Some(value.to_vec()))?;
        Ok(values)
    }

    /// Passes the values of several keys to `look`, each with the position of its key in `keys`:
    /// first the values in the server's memory, then the others, which are requested together.
    ///
    /// # Errors
    /// [`ClientError`]; `look` may already have received some of the values.
    pub fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut look: impl FnMut(usize, &[u8], &Hit),
    ) -> Result<(), ClientError> {
        let (inner, mut missing) = (self.inner(), Vec::new());
        with_buffer(|value| {
            for (chunk, first) in keys.chunks(KEYS_AT_ONCE).zip((0..).step_by(KEYS_AT_ONCE)) {
                inner.views.prefetch(chunk.iter().map(AsRef::as_ref));
                for (place, key) in (first..).zip(chunk) {
                    value.clear();
                    match inner.look_up(key.as_ref(), value) {
                        Some(hit) => look(place, value, &hit),
                        None => missing.push(place),
                    }
                }
            }
        });
        inner.fetch_many(keys, &missing, look)
    }

    /// Returns the value of a key as [`Client::get`] does, and gives the item a time to live of
    /// `ttl` from now.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn get_and_touch(
        &self,
        key: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        let mut value = Vec::new();
        let found = self.inner().fetch(key.as_ref(), Some(ttl), &mut value)?;
        Ok(found.map(|_| value))
    }

    /// Stores a value with a time to live; `None` means no expiry.
    ///
    /// # Errors
    /// [`ClientError`]. After most of these errors it is unknown whether the value was stored.
    pub fn set(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<(), ClientError> {
        self.put(key.as_ref(), StoreMode::Set, value.as_ref(), ttl).map(drop)
    }

    /// Stores a value if the key is absent. Returns false if it is present.
    ///
    /// # Errors
    /// Same as [`Client::set`].
    pub fn add(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<bool, ClientError> {
        self.put(key.as_ref(), StoreMode::Add, value.as_ref(), ttl)
    }

    /// Stores a value if the key is present. Returns false if it is absent.
    ///
    /// # Errors
    /// Same as [`Client::set`].
    pub fn replace(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<bool, ClientError> {
        self.put(key.as_ref(), StoreMode::Replace, value.as_ref(), ttl)
    }

    /// Appends to a value. Returns false if the key is absent.
    ///
    /// # Errors
    /// Same as [`Client::set`].
    pub fn append(
        &self,
        key: impl AsRef<[u8]>,
        part: impl AsRef<[u8]>,
    ) -> Result<bool, ClientError> {
        self.put(key.as_ref(), StoreMode::Append, part.as_ref(), None)
    }

    /// Prepends to a value. Returns false if the key is absent.
    ///
    /// # Errors
    /// Same as [`Client::set`].
    pub fn prepend(
        &self,
        key: impl AsRef<[u8]>,
        part: impl AsRef<[u8]>,
    ) -> Result<bool, ClientError> {
        self.put(key.as_ref(), StoreMode::Prepend, part.as_ref(), None)
    }

    /// Stores a value if the item still has this cas token; see [`Hit::cas`].
    ///
    /// # Errors
    /// Same as [`Client::set`].
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
        cas: u64,
    ) -> Result<Swap, ClientError> {
        let set = ClientStore::new(key.as_ref(), StoreMode::Set);
        match self.store(&ClientStore { ttl, cas: Some(cas), ..set }, value.as_ref())? {
            ClientStored::Stored { cas } => Ok(Swap::Stored { cas }),
            ClientStored::Exists => Ok(Swap::Changed),
            ClientStored::NotFound | ClientStored::NotStored => Ok(Swap::Missing),
        }
    }

    /// Removes an item. Returns false if the key is absent.
    ///
    /// # Errors
    /// Same as [`Client::set`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, ClientError> {
        self.inner().change(&MetaRequest::of(b"md", key.as_ref()))
    }

    /// Gives an item a new time to live. Returns false if the key is absent.
    ///
    /// # Errors
    /// Same as [`Client::set`].
    pub fn touch(&self, key: impl AsRef<[u8]>, ttl: Option<Duration>) -> Result<bool, ClientError> {
        self.inner().change(&MetaRequest { ttl: Some(ttl), ..MetaRequest::of(b"mg", key.as_ref()) })
    }

    /// Adds to a number. Returns `None` if the key is absent.
    ///
    /// # Errors
    /// Same as [`Client::set`], and [`ClientError::Server`] if the value is not a number.
    pub fn increment(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, ClientError> {
        self.inner().count(key.as_ref(), Direction::Increment, delta)
    }

    /// Subtracts from a number, down to 0. Returns `None` if the key is absent.
    ///
    /// # Errors
    /// Same as [`Client::increment`].
    pub fn decrement(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, ClientError> {
        self.inner().count(key.as_ref(), Direction::Decrement, delta)
    }

    fn put(
        &self,
        key: &[u8],
        mode: StoreMode,
        value: &[u8],
        ttl: Option<Duration>,
    ) -> Result<bool, ClientError> {
        let store = ClientStore { ttl, ..ClientStore::new(key, mode) };
        Ok(matches!(self.store(&store, value)?, ClientStored::Stored { .. }))
    }

    #[inline]
    fn inner(&self) -> &Inner {
        if self.inner.is_of_this_process() { &self.inner } else { self.inner.in_this_process() }
    }
}
