//! Removal of all items with a prefix that were stored before the removal began.
//!
//! ```text
//! begin ─▶ the moment: every store that has ended is before it
//!      └─▶ group by group: remove items with the prefix that were stored before ─▶ end
//! ```
//!
//! A removal is exact for all stores: an item that is stored after the beginning stays, and an item
//! that was stored before it is removed, unless it leaves the cache for another reason. A change of
//! a value counts as a store, but a touch does not. Items that threads of other processes move or
//! change in place are the exception, because other processes are not aware of the removal: an item
//! that they moved since the beginning may stay, and an item that they changed in place is removed.

use std::sync::Arc;

use larder_item::Second;

use crate::engine::Engine;
use crate::error::Stuck;
use crate::index::cursor::Cursor;
use crate::index::removal::by_prefix::{PrefixRemovals, Target};
use crate::process::thread_slot::ThreadSlot;

/// A removal by prefix in progress. Dropping it stops the removal at its current position.
#[derive(Debug)]
pub struct PrefixRemoval {
    removals: Arc<PrefixRemovals>,
    target: Arc<Target>,
    cursor: Cursor,
}

impl PrefixRemoval {
    /// Returns the prefix.
    pub fn prefix(&self) -> &[u8] {
        self.target.prefix()
    }

    /// Returns the number of items that it has removed.
    pub fn removed(&self) -> u64 {
        self.target.removed()
    }

    /// Continues at this group of the index.
    #[cfg(test)]
    #[cfg(any(feature = "interleavings", miri))]
    pub(crate) fn go_to(&mut self, group: u64) {
        self.cursor.group = group;
    }
}

impl Drop for PrefixRemoval {
    fn drop(&mut self) {
        self.removals.remove(&self.target);
    }
}

impl Engine {
    /// Begins to remove the items whose keys begin with `prefix`, and the reservations that loads
    /// made for such keys. Items stored later stay.
    ///
    /// Cost: claims each appender for a moment. The number of items does not matter.
    ///
    /// # Errors
    /// [`Stuck`] if a stopped process holds an appender.
    pub fn begin_prefix_removal(
        &self,
        thread: &ThreadSlot,
        prefix: &[u8],
        now: Second,
    ) -> Result<PrefixRemoval, Stuck> {
        self.begin_prefix_removal_with(thread, prefix, || (), now).map(|(removal, ())| removal)
    }

    /// Same as [`Engine::begin_prefix_removal`], but together with a removal from the evicted items
    /// in a journal. `begin` begins the journal's removal, under the lock that orders the journal's
    /// records. From then on, the journal must not record an item for which
    /// [`Change::is_gone`](crate::Change) returns true, and the `is_current` that is passed to
    /// [`Engine::restore`] must return false for an item that the journal's removal removes.
    ///
    /// An item that is evicted at the same time is either recorded before `begin`, or reported as
    /// gone and not recorded. An item that is restored at the same time is either no longer
    /// current, or counts as stored before the removal began.
    ///
    /// # Errors
    /// [`Stuck`] if a stopped process holds an appender.
    pub fn begin_prefix_removal_with<T>(
        &self,
        thread: &ThreadSlot,
        prefix: &[u8],
        begin: impl FnOnce() -> T,
        now: Second,
    ) -> Result<(PrefixRemoval, T), Stuck> {
        let op = &self.op(thread, now);
        let removals = Arc::clone(self.index().prefix_removals());
        // Added before the moment of the removal is determined: a thread that moves an item at the
        // same time either finds the removal, or moves the item to a place that counts as stored
        // before the moment.
        let target = removals.add(prefix);
        let removal = PrefixRemoval { removals, target, cursor: Cursor::default() };
        // A thread that restores an item holds an appender while it checks whether the item is
        // current. The moment is determined after `begin`, and waits for all threads that hold an
        // appender. So either the check comes after `begin`, or the restored item counts as stored
        // before the moment.
        let begun = begin();
        removal.target.begin(self.segments().moment(op)?);
        Ok((removal, begun))
    }

    /// Removes the items in one more group of the index. Returns false at the end.
    ///
    /// The walk finds each item that has existed since the beginning: an item changes its place in
    /// the index only when its group is split, and then moves to a later group.
    ///
    /// Cost: holds the lock of the group, as a store does, for a cache miss or two for each of
    /// about ten items.
    ///
    /// # Errors
    /// [`Stuck`] if a stopped process holds the group. The next call tries the same group again.
    pub fn remove_prefix_of_group(
        &self,
        thread: &ThreadSlot,
        removal: &mut PrefixRemoval,
        now: Second,
    ) -> Result<bool, Stuck> {
        self.segments().flush_if_due(now);
        let (group, target) = (removal.cursor.group, &removal.target);
        // Loaded at each step, same as in `dump_group`, because the index may have grown.
        if group >= self.index().groups() {
            return Ok(false);
        }
        let locked = self.index().lock_group(&self.op(thread, now), group)?;
        for found in self.index().linked(group) {
            if !self.index().is_target(&found, target) {
                continue;
            }
            if self.index().death(&found, now).is_none() {
                self.index().remove_target(thread, &found, target);
            } else if self.index().reserved_until(&found).is_some() {
                self.index().unlink(thread, &found);
            }
        }
        drop(locked);
        removal.cursor.group += 1;
        self.prefetch_groups_from(removal.cursor.group);
        Ok(true)
    }

    /// Removes the item of one key if the item belongs to the removal. Returns false if it has
    /// removed nothing.
    ///
    /// # Errors
    /// [`Stuck`] if a stopped process holds the key's group.
    pub fn remove_prefix_of_key(
        &self,
        thread: &ThreadSlot,
        removal: &PrefixRemoval,
        key: &[u8],
        now: Second,
    ) -> Result<bool, Stuck> {
        let hash = self.index().hash(key);
        let locked = self.index().lock(&self.op(thread, now), hash)?;
        let found = self.index().find_locked(&locked, hash, key);
        let taken = found.filter(|found| {
            self.index().is_target(found, &removal.target)
                && self.index().death(found, now).is_none()
        });
        taken.inspect(|found| self.index().remove_target(thread, found, &removal.target));
        Ok(taken.is_some())
    }

    /// Returns the fraction of the index that a removal has passed: 0 to 1. It may become smaller
    /// while the index grows.
    pub fn progress_of(&self, removal: &PrefixRemoval) -> f64 {
        removal.cursor.group as f64 / self.index().groups() as f64
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests;
