//! A cache that a larderd keeps, used from another process: hits are read in the server's memory, without a system call
//! and without the server's doing; everything else is asked for through its unix socket.
//!
//! ```text
//! get ─▶ in the memory? ── hit ──▶ value, and one read of two is told later
//!              │
//!              └── no, or not to be believed ──▶ socket ──▶ larderd, or any memcached
//! ```
//!
//! The memory is shared with every `--local-readers` of the server, who allows it to whom it likes; without it all goes
//! through the socket, and works the same. What is read there can be believed: it is a copy that was whole at one time.
//! Should the server be gone or stopped, its clock in the memory stands still, and from three seconds on nothing is read
//! there any more. A server that was started anew is noticed at the next request, its memory taken in place of the other.
//!
//! Files in reading order: [`client`](self), `ask`, `connection`, `view`, `hints`.

mod ask;
mod connection;
mod hints;
mod view;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use larder_item::{Direction, KeyError, Second, StoreMode};
use larder_region::forks;

use crate::Cache;
use crate::get::{KEYS_AT_ONCE, with_buffer};
use crate::set::Swap;
use ask::{Ask, Outcome};
use connection::Connection;
use hints::Hints;
use view::Views;

/// The cache of a larderd, or of any memcached, at a unix socket. Clones are cheap and share everything; any number of
/// threads may use it, and children of the process, each with connections of its own.
///
/// Values carry no flags when they are stored here, and keep those that others stored.
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

/// What is known of a value that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// Bits that were stored with it.
    pub flags: u32,
    /// Its cas token, 0 where the server keeps none.
    pub cas: u64,
    /// Seconds it has to live; for ever where `None`.
    pub ttl_secs: Option<u32>,
    /// Has somebody said that it is out of date?
    pub stale: bool,
    /// Is it the caller's part to bring the new value?
    pub won: bool,
    /// Was it read in the server's memory?
    pub is_local: bool,
}

/// Why a server could not be asked, or did not do it.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody accepts connections there.
    #[error("cannot connect to {}: {source}; start `larderd -s {}`, or name another socket", path.display(), path.display())]
    Connect {
        /// Which socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The connection broke, or no answer came in time. A change may have been made all the same.
    #[error("the server does not answer: {0}; it may have been stopped, or be overloaded")]
    Io(#[from] io::Error),
    /// This is no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key with spaces or control characters in it is longer than the socket takes.
    #[error("a key with spaces or control characters may have {max} bytes, found {found}")]
    LongKey {
        /// Its length.
        found: usize,
        /// What it may be.
        max: usize,
    },
    /// The server refused.
    #[error("the server answered: {0}")]
    Server(String),
    /// What came is not what was asked for.
    #[error(
        "what the server answers is not memcached's protocol: {0:?}; is it another server's socket?"
    )]
    Protocol(String),
}

/// What the clones of a client share.
#[derive(Debug)]
struct Inner {
    path: PathBuf,
    timeout: Duration,
    views: Views,
    hints: Mutex<Hints>,
    idle: Mutex<Vec<Connection>>,
    /// Counts the beginnings and ends of attempts to connect.
    attempts: AtomicU64,
    /// When the attempt began that said last which memory is the server's. Held while that is changed, not while a
    /// server is waited for.
    told: Mutex<u64>,
    /// How many forks had led to the process that this is of.
    forks: u32,
    /// The same in a process that was forked from it, where it was used there.
    in_child: OnceLock<Arc<Self>>,
}

/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Cache {
    /// Uses the cache of a larderd at a unix socket: see [`Client`].
    ///
    /// # Errors
    /// [`ClientError::Connect`] where nobody accepts connections.
    pub fn connect(socket: impl AsRef<Path>) -> Result<Client, ClientError> {
        Client::connect(socket)
    }
}

impl Client {
    /// Connects to a unix socket.
    ///
    /// # Errors
    /// [`ClientError::Connect`] where nobody accepts connections.
    pub fn connect(socket: impl AsRef<Path>) -> Result<Self, ClientError> {
        Self::connect_within(socket, TIMEOUT)
    }

    /// The same, where an answer is waited for so long; 5 seconds by default.
    ///
    /// # Errors
    /// As [`Client::connect`].
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

    /// Are hits read in the server's memory, as things are?
    pub fn reads_memory(&self) -> bool {
        self.inner().views.is_live()
    }

    /// The value of a key; none where there is no item.
    ///
    /// Cost: where it is in the server's memory that of [`Cache::get`], else the way to the server and back.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, ClientError> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.map(|_| value))
    }

    /// Appends the value of a key to `out`, and says what else is known of it. Where there is none, or an error, `out`
    /// stays as it was.
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

    /// Shows the value of a key to `look`, and gives what it makes of it; none where there is no item. What `look` sees
    /// is a copy.
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

    /// The values of several keys, in their order. Those that are not in the server's memory are asked for together.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>, ClientError> {
        let inner = self.inner();
        let mut values = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(KEYS_AT_ONCE) {
            inner.views.prefetch(chunk.iter().map(AsRef::as_ref));
            values.extend(chunk.iter().map(|key| {
                let mut value = Vec::new();
                inner.look_up(key.as_ref(), &mut value).map(|_| value)
            }));
        }
        inner.fetch_missing(keys, &mut values)?;
        Ok(values)
    }

    /// As [`Client::get`]; the item lives for `ttl` from now.
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

    /// Stores a value, for ever or for a time.
    ///
    /// # Errors
    /// [`ClientError`]: after most of them nobody knows whether it has been stored.
    pub fn set(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<(), ClientError> {
        self.put(key.as_ref(), StoreMode::Set, value.as_ref(), ttl).map(drop)
    }

    /// Stores a value where there is none. False where there is one.
    ///
    /// # Errors
    /// As [`Client::set`].
    pub fn add(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<bool, ClientError> {
        self.put(key.as_ref(), StoreMode::Add, value.as_ref(), ttl)
    }

    /// Stores a value where there is one. False where there is none.
    ///
    /// # Errors
    /// As [`Client::set`].
    pub fn replace(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<bool, ClientError> {
        self.put(key.as_ref(), StoreMode::Replace, value.as_ref(), ttl)
    }

    /// Appends to a value. False where there is none.
    ///
    /// # Errors
    /// As [`Client::set`].
    pub fn append(
        &self,
        key: impl AsRef<[u8]>,
        part: impl AsRef<[u8]>,
    ) -> Result<bool, ClientError> {
        self.put(key.as_ref(), StoreMode::Append, part.as_ref(), None)
    }

    /// Puts something before a value. False where there is none.
    ///
    /// # Errors
    /// As [`Client::set`].
    pub fn prepend(
        &self,
        key: impl AsRef<[u8]>,
        part: impl AsRef<[u8]>,
    ) -> Result<bool, ClientError> {
        self.put(key.as_ref(), StoreMode::Prepend, part.as_ref(), None)
    }

    /// Stores a value if the item is the one with this cas token: see [`Hit::cas`].
    ///
    /// # Errors
    /// As [`Client::set`].
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
        cas: u64,
    ) -> Result<Swap, ClientError> {
        let store = Ask { cas: Some(cas), ttl: Some(ttl), ..Ask::of(b"ms", key.as_ref()) };
        match self.inner().store(&store, value.as_ref())? {
            Outcome::Done { cas } => Ok(Swap::Stored { cas }),
            Outcome::Changed => Ok(Swap::Changed),
            Outcome::Missing | Outcome::NotDone => Ok(Swap::Missing),
        }
    }

    /// Removes an item. False where there is none.
    ///
    /// # Errors
    /// As [`Client::set`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, ClientError> {
        self.inner().change(&Ask::of(b"md", key.as_ref()))
    }

    /// Gives an item another time to live. False where there is none.
    ///
    /// # Errors
    /// As [`Client::set`].
    pub fn touch(&self, key: impl AsRef<[u8]>, ttl: Option<Duration>) -> Result<bool, ClientError> {
        self.inner().change(&Ask { ttl: Some(ttl), ..Ask::of(b"mg", key.as_ref()) })
    }

    /// Adds to a number. None where there is no item.
    ///
    /// # Errors
    /// As [`Client::set`]; [`ClientError::Server`] where the value is no number.
    pub fn increment(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, ClientError> {
        self.inner().count(key.as_ref(), Direction::Increment, delta)
    }

    /// Takes from a number, down to 0. None where there is no item.
    ///
    /// # Errors
    /// As [`Client::increment`].
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
        let keeps_time = matches!(mode, StoreMode::Append | StoreMode::Prepend);
        let ttl = if keeps_time { None } else { Some(ttl) };
        let store = Ask { mode: Some(mode), ttl, ..Ask::of(b"ms", key) };
        Ok(matches!(self.inner().store(&store, value)?, Outcome::Done { .. }))
    }

    #[inline]
    fn inner(&self) -> &Inner {
        if self.inner.is_of_this_process() { &self.inner } else { self.inner.in_this_process() }
    }
}

impl Inner {
    fn new(path: PathBuf, timeout: Duration) -> Self {
        Self {
            path,
            timeout,
            views: Views::default(),
            hints: Mutex::default(),
            idle: Mutex::default(),
            attempts: AtomicU64::new(0),
            told: Mutex::default(),
            forks: forks(),
            in_child: OnceLock::new(),
        }
    }

    #[inline]
    fn is_of_this_process(&self) -> bool {
        self.forks == forks()
    }

    /// What takes its place in a process that was forked: connections would be answered in the parent's stead, and what
    /// another thread held at the fork is held for ever.
    #[cold]
    fn in_this_process(&self) -> &Self {
        let mut last = self;
        loop {
            let new = || Arc::new(Self::new(self.path.clone(), self.timeout));
            last = last.in_child.get_or_init(new);
            if last.is_of_this_process() {
                return last;
            }
        }
    }

    /// Reads an item in the server's memory.
    #[inline]
    fn look_up(&self, key: &[u8], out: &mut Vec<u8>) -> Option<Hit> {
        let (hit, told_at) = self.views.look_up(key, out)?;
        if let Some(now) = told_at {
            self.note(key, now);
        }
        Some(hit)
    }

    /// Remembers that an item was read, and sends what has been remembered if it is time. Waits for nobody.
    fn note(&self, key: &[u8], now: Second) {
        let Ok(mut hints) = self.hints.try_lock() else { return };
        if !hints.push(key, now) {
            return;
        }
        let Some(mut connection) = self.idle.try_lock().ok().and_then(|mut idle| idle.pop()) else {
            return;
        };
        let is_there = connection.send_aside(&mut hints);
        drop(hints);
        if is_there {
            self.put_back(connection);
        } else {
            // Whoever is there next says which memory is his.
            self.views.close();
        }
    }

    /// A connection that nobody uses, or a new one; and whether it is new.
    fn connection(&self) -> Result<(Connection, bool), ClientError> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(connection) if connection.is_alive() => return Ok((connection, false)),
                Some(_) => {}
                None => return Ok((self.open()?, true)),
            }
        }
    }

    /// Opens a connection. Threads that do it at the same time wait for the server side by side.
    fn open(&self) -> Result<Connection, ClientError> {
        let begun = self.attempts.fetch_add(1, Relaxed) + 1;
        let opened = Connection::open(&self.path, self.timeout);
        let ended = self.attempts.fetch_add(1, Relaxed) + 1;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // An attempt that began after the end of this one knows better. Of two that overlap either may be right; memory
        // of a server that is gone is not believed for more than seconds.
        if *told < ended {
            *told = begun.max(*told);
            match &opened {
                Ok((_, Some((region, file)))) => self.views.open(region, file),
                Ok((_, None)) | Err(_) => self.views.close(),
            }
        }
        drop(told);
        let path = || self.path.clone();
        opened
            .map(|(connection, _)| connection)
            .map_err(|source| ClientError::Connect { path: path(), source })
    }

    fn put_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}

/// So many connections are kept while nobody uses them.
const IDLE_MAX: usize = 8;
