//! A limit on the lives of items with old versions.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::Store;
use super::lookup::StoredItem;
use crate::disk::Directory;

/// Items up to a version expire at a time at the latest.
#[derive(Debug, Default)]
pub(super) struct LifeLimit {
    /// 0: there is no limit.
    version_max: AtomicU64,
    until_unix_secs: AtomicU64,
}

impl LifeLimit {
    pub(super) fn set(&self, version_max: u64, until_unix_secs: u64) {
        self.until_unix_secs.store(until_unix_secs, Relaxed);
        // Pairs with the acquire in `apply`.
        self.version_max.store(version_max, Release);
    }

    /// Lowers the deadline of an item to the limit, if it is subject to it.
    pub(super) fn apply(&self, item: &mut StoredItem) {
        if item.version <= self.version_max.load(Acquire) {
            let until = self.until_unix_secs.load(Relaxed);
            let deadline = item.deadline_unix_secs.map_or(until, |deadline| deadline.min(until));
            item.deadline_unix_secs = Some(deadline);
        }
    }
}

impl<D: Directory + 'static> Store<D> {
    /// Makes items whose version is at most `version_max` expire at `until_unix_secs` at the
    /// latest.
    pub fn limit_lives(&self, version_max: u64, until_unix_secs: u64) {
        self.shared.lives.set(version_max, until_unix_secs);
    }
}
