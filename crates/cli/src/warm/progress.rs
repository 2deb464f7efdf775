//! The state that the threads of a copy share: its numbers, and how it ends.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};

#[derive(Debug, Default)]
pub(super) struct Shared {
    listed: AtomicU64,
    copied: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    left_out: AtomicU64,
    unreadable: AtomicU64,
    /// Sources whose items are copied.
    complete: AtomicU64,
    /// Set by a signal.
    pub(super) is_interrupted: Arc<AtomicBool>,
    /// True once the sources must catch up and end.
    is_ending: AtomicBool,
    /// True once a source has failed.
    has_failed: AtomicBool,
    /// The first error of a source.
    error: Mutex<Option<anyhow::Error>>,
}

/// The numbers of a copy so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    /// Keys of the sources that were examined.
    pub(super) listed: u64,
    pub(super) copied: u64,
    /// Bytes of their keys and values.
    pub(super) bytes: u64,
    /// Copied items that were removed because their originals had changed.
    pub(super) dropped: u64,
    /// Items that are stale, too large, or not reported.
    pub(super) left_out: u64,
    /// Items that the disks of the sources did not return.
    pub(super) unreadable: u64,
    pub(super) complete: u64,
}

impl Shared {
    /// # Errors
    /// Another source has failed, or the user has interrupted a copy that is not complete.
    pub(super) fn check(&self) -> Result<()> {
        match self.has_failed.load(Relaxed) {
            true => bail!("another source has failed"),
            false => Ok(()),
        }
    }

    pub(super) fn listed(&self, keys: u64) {
        self.listed.fetch_add(keys, Relaxed);
    }

    pub(super) fn copied(&self, bytes: usize) {
        self.copied.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn dropped(&self, items: usize) {
        self.dropped.fetch_add(items as u64, Relaxed);
    }

    pub(super) fn left_out(&self, items: u64) {
        self.left_out.fetch_add(items, Relaxed);
    }

    pub(super) fn unreadable(&self, items: u64) {
        self.unreadable.fetch_add(items, Relaxed);
    }

    /// Notes that all items of a source are copied.
    pub(super) fn complete(&self) {
        self.complete.fetch_add(1, Relaxed);
    }

    /// Requests that the sources catch up and end.
    pub(super) fn end(&self) {
        self.is_ending.store(true, Relaxed);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    /// Notes that the copy has failed. Only the first error counts.
    pub(super) fn fail(&self, error: anyhow::Error) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        self.has_failed.store(true, Relaxed);
    }

    /// Returns the first error.
    pub(super) fn error(&self) -> Option<anyhow::Error> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    pub(super) fn numbers(&self) -> Numbers {
        Numbers {
            listed: self.listed.load(Relaxed),
            copied: self.copied.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            left_out: self.left_out.load(Relaxed),
            unreadable: self.unreadable.load(Relaxed),
            complete: self.complete.load(Relaxed),
        }
    }
}
