//! The servers of the cluster, which clients discover with `config get cluster`.
//!
//! The list comes from a file or from a DNS name. A source that cannot be read, or that is empty,
//! changes nothing: the last list stays in effect, so that clients never receive an empty list.
//!
//! A client uses a new list only if its version is higher than that of its current one. The version
//! is stated in the file, or it is the time of the change: see `list.rs`.

mod file;
mod list;
mod names;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_options::{ClusterName, Discovery as Source, Options};

use crate::clock::monotonic_us;
pub(crate) use list::List;
use list::{Nodes, Stamp};
pub(crate) use names::Resolver;

/// The list of servers, and its source.
#[derive(Debug)]
pub(crate) struct Discovery {
    source: Source,
    /// `None` until the name is resolved for the first time.
    list: Mutex<Option<Arc<List>>>,
    /// True after a failure, until the source can be read again.
    is_failing: AtomicBool,
    /// Since when the name is being resolved, on the monotonic clock; 0 while it is not.
    resolving_since_us: AtomicI64,
}

/// The reason why the servers of the cluster cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("option --cluster-file: {}: {what}", path.display())]
pub struct DiscoveryError {
    path: PathBuf,
    what: String,
}

impl Discovery {
    /// Reads the file. A name is resolved later, because the name server may not respond. Returns
    /// `None` if the options name no source.
    ///
    /// # Errors
    /// Fails if the file cannot be used.
    pub(crate) fn of(options: &Options) -> Result<Option<Arc<Self>>, DiscoveryError> {
        let Some(source) = options.discovery.clone() else { return Ok(None) };
        let list = match &source {
            Source::File(path) => Some(Arc::new(first(path)?)),
            Source::Name(_) => None,
        };
        Ok(Some(Arc::new(Self {
            source,
            list: Mutex::new(list),
            is_failing: AtomicBool::new(false),
            resolving_since_us: AtomicI64::new(0),
        })))
    }

    /// Continues with the list of the predecessor of an upgrade.
    ///
    /// # Errors
    /// Fails if the file states a version that is too low.
    pub(crate) fn inherit(&self, body: &str) -> Result<(), DiscoveryError> {
        let Some(handed) = List::handed(body) else { return Ok(()) };
        let mut list = self.lock();
        let own = list.take().map(Arc::unwrap_or_clone);
        let next = own.map_or(Ok(handed.clone()), |own| own.after(handed));
        *list = Some(Arc::new(next.map_err(|error| self.failure(error.to_string()))?));
        Ok(())
    }

    /// Returns the path of the file; `None` if the source is a name.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Name(_) => None,
        }
    }

    fn name(&self) -> Option<&ClusterName> {
        match &self.source {
            Source::File(_) => None,
            Source::Name(name) => Some(name),
        }
    }

    /// Returns the current list; `None` until the name is resolved for the first time.
    pub(crate) fn list(&self) -> Option<Arc<List>> {
        self.lock().clone()
    }

    /// Reads the file again. Returns the new list; `None` if it is the current one.
    ///
    /// # Errors
    /// Fails if the file cannot be used. The current list stays in effect.
    pub(crate) fn reload(&self) -> Result<Option<Arc<List>>, DiscoveryError> {
        let Some(path) = self.path() else { return Ok(None) };
        let (nodes, stamp) = file::read(path).map_err(|what| self.failure(what))?;
        self.adopt(nodes, stamp).map_err(|what| self.failure(what))
    }

    /// Puts a list into effect. Returns it; `None` if it is the current one.
    ///
    /// # Errors
    /// Returns why it cannot follow the current list, which stays in effect.
    fn adopt(&self, nodes: Nodes, stamp: Stamp) -> Result<Option<Arc<List>>, String> {
        let mut list = self.lock();
        let next = match list.as_deref() {
            None => Some(List::first(nodes, stamp)),
            Some(current) => current.next(nodes, stamp).map_err(|error| error.to_string())?,
        };
        self.is_failing.store(false, Relaxed);
        let next = next.map(Arc::new);
        if let Some(next) = &next {
            *list = Some(Arc::clone(next));
        }
        Ok(next)
    }

    /// Records that the source could not be read.
    pub(crate) fn note_failure(&self) {
        self.is_failing.store(true, Relaxed);
    }

    /// True if the list may be out of date: the source cannot be read, or the name server has not
    /// responded for a long time.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_failing.load(Relaxed) || self.is_resolving_long() || self.lock().is_none()
    }

    fn is_resolving_long(&self) -> bool {
        let since_us = self.resolving_since_us.load(Relaxed);
        since_us != 0 && monotonic_us() - since_us > LONG_US
    }

    fn failure(&self, what: String) -> DiscoveryError {
        DiscoveryError { path: self.path().map(Path::to_owned).unwrap_or_default(), what }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<List>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the list of a file, for a start or a check.
///
/// # Errors
/// Fails if the file cannot be used.
pub(crate) fn first(path: &Path) -> Result<List, DiscoveryError> {
    let read = file::read(path);
    let (nodes, stamp) = read.map_err(|what| DiscoveryError { path: path.to_owned(), what })?;
    Ok(List::first(nodes, stamp))
}

/// Resolving that takes longer means that the name server does not respond.
const LONG_US: i64 = 10_000_000;
