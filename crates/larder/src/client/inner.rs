//! The state of a client in one process: connections, the view of the server's memory, and hints.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use larder_item::Second;
use larder_region::forks;

use super::connection::Connection;
use super::error::ClientError;
use super::hints::Hints;
use super::hit::Hit;
use super::view::Views;

/// Number of idle connections that are kept.
const IDLE_MAX: usize = 8;

/// The state that the clones of a client share.
#[derive(Debug)]
pub(super) struct Inner {
    path: PathBuf,
    timeout: Duration,
    /// The mapped memory of the server, if the server shares it.
    pub(super) views: Views,
    pub(super) hints: Mutex<Hints>,
    /// Connections that no request uses.
    pub(super) idle: Mutex<Vec<Connection>>,
    /// The number of starts and ends of connection attempts so far. It shows which of two attempts
    /// is newer.
    attempts: AtomicU64,
    /// The start, as a value of `attempts`, of the newest attempt whose result was used: it
    /// determined which memory the client reads. Locked while the view of the memory is replaced,
    /// but not while waiting for the server.
    newest: Mutex<u64>,
    /// Number of forks between the first process and the process that owns this state.
    forks: u32,
    /// The state for a child that was forked from the process of this state. The child creates it
    /// at first use.
    in_child: OnceLock<Arc<Self>>,
}

impl Inner {
    pub(super) fn new(path: PathBuf, timeout: Duration) -> Self {
        Self {
            path,
            timeout,
            views: Views::default(),
            hints: Mutex::default(),
            idle: Mutex::default(),
            attempts: AtomicU64::new(0),
            newest: Mutex::default(),
            forks: forks(),
            in_child: OnceLock::new(),
        }
    }

    #[inline]
    pub(super) fn is_of_this_process(&self) -> bool {
        self.forks == forks()
    }

    /// Returns the state that replaces this one in a forked process. The child cannot use the
    /// parent's state: on the parent's connections, replies could reach the wrong process, and
    /// locks that other threads held at the fork are never released in the child.
    #[cold]
    pub(super) fn in_this_process(&self) -> &Self {
        let mut last = self;
        loop {
            let new = || Arc::new(Self::new(self.path.clone(), self.timeout));
            last = last.in_child.get_or_init(new);
            if last.is_of_this_process() {
                return last;
            }
        }
    }

    /// Looks an item up in the server's memory.
    #[inline]
    pub(super) fn look_up(&self, key: &[u8], out: &mut Vec<u8>) -> Option<Hit> {
        let (hit, noted_at) = self.views.look_up(key, out)?;
        if let Some(now) = noted_at {
            self.note(key, now);
        }
        Some(hit)
    }

    /// Records a read of an item, and sends the recorded reads if they are due. Never waits.
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
            // The next new connection requests the server's memory again.
            self.views.close();
        }
    }

    /// Returns an idle connection or a new one, and true if it is new.
    pub(super) fn connection(&self) -> Result<(Connection, bool), ClientError> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(connection) if connection.is_alive() => return Ok((connection, false)),
                Some(_) => {}
                None => return Ok((self.open()?, true)),
            }
        }
    }

    /// Opens a connection. Several threads can wait for the server in parallel.
    fn open(&self) -> Result<Connection, ClientError> {
        let begun = self.attempts.fetch_add(1, Relaxed) + 1;
        let opened = Connection::open(&self.path, self.timeout);
        let ended = self.attempts.fetch_add(1, Relaxed) + 1;
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        // An attempt that began after the end of this attempt has newer information. If two
        // attempts overlap, either may be right. If the wrong one wins, the memory of a server that
        // is gone is used for a few seconds at most.
        if *newest < ended {
            *newest = begun.max(*newest);
            match &opened {
                Ok((_, Some((region, file)))) => self.views.open(region, file),
                Ok((_, None)) | Err(_) => self.views.close(),
            }
        }
        drop(newest);
        let path = || self.path.clone();
        opened
            .map(|(connection, _)| connection)
            .map_err(|source| ClientError::Connect { path: path(), source })
    }

    pub(super) fn put_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}
