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
        let version_max = self.version_max.load(Acquire);
        if version_max > 0 && item.version <= version_max {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_items_up_to_the_version_of_a_limit_expire_earlier() {
        let limit = LifeLimit::default();
        let item = |version, deadline_unix_secs| StoredItem {
            version,
            deadline_unix_secs,
            ..StoredItem::default()
        };
        let applied = |version, deadline| {
            let mut item = item(version, deadline);
            limit.apply(&mut item);
            item.deadline_unix_secs
        };
        // A cache without cas tokens gives its items version 0.
        assert_eq!(applied(0, None), None);
        limit.set(7, 100);
        assert_eq!(applied(7, None), Some(100));
        assert_eq!(applied(7, Some(50)), Some(50));
        assert_eq!(applied(8, Some(500)), Some(500));
    }
}
