//! Removal of all items with a prefix that were stored before it began.
//!
//! ```text
//! begin ─▶ the moment: every store that has ended is before it
//!      └─▶ group by group: remove what has the prefix and was stored before ─▶ end
//! ```
//!
//! It is exact for all stores: an item stored after the beginning stays, one stored before it is
//! removed, unless it leaves the cache otherwise. A change of a value counts as a store, a touch
//! does not. Items that threads of other processes move or change in place are the exception: these
//! do not know of the removal, so an item that they have moved since the beginning may stay, and
//! one that they have changed in place is removed.

use std::sync::Arc;

use larder_item::Second;

use crate::engine::Engine;
use crate::error::Stuck;
use crate::index::cursor::Cursor;
use crate::index::removal::by_prefix::{PrefixRemovals, Target};
use crate::process::thread_slot::ThreadSlot;

/// A removal by prefix in progress. Dropping it ends the removal where it is.
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

    /// Returns how many items it has removed.
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
    /// Begins to remove the items whose keys begin with `prefix`, and the keys with this prefix
    /// that loads have reserved. Those stored later stay.
    ///
    /// Cost: claims each appender for a moment; no more than that, however many items there are.
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

    /// As [`Engine::begin_prefix_removal`], with a removal from what a journal keeps of evicted
    /// items. `begin` begins that one, under the lock that orders the journal's records. From then
    /// on the journal must not keep an item that [`Change::is_gone`](crate::Change) reports, and
    /// [`Engine::restore`] must not find an item current that the journal's removal takes.
    ///
    /// An item that is evicted meanwhile is recorded before `begin`, or reported and not recorded.
    /// One that returns meanwhile is not found current, or its place is before the moment.
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
        // Before the moment: a thread that moves an item meanwhile sees the removal, or moves it
        // to a place that the moment covers.
        let target = removals.add(prefix);
        let removal = PrefixRemoval { removals, target, cursor: Cursor::default() };
        // A thread that restores an item holds an appender while it asks whether that is current.
        let begun = begin();
        removal.target.begin(self.segments().moment(op)?);
        Ok((removal, begun))
    }

    /// Removes the items of one more group of the index. Returns false at the end.
    ///
    /// Every item that exists from the beginning on is met: an item changes its place in the index
    /// only when its group is split, and then moves to a later group.
    ///
    /// Cost: holds the lock of the group, as a store does, for a cache miss or two for each of
    /// about ten items.
    ///
    /// # Errors
    /// [`Stuck`] if a stopped process holds the group. The next call tries it again.
    pub fn remove_prefix_of_group(
        &self,
        thread: &ThreadSlot,
        removal: &mut PrefixRemoval,
        now: Second,
    ) -> Result<bool, Stuck> {
        self.segments().flush_if_due(now);
        let (group, target) = (removal.cursor.group, &removal.target);
        // Loaded at each step, as by `dump_group`: the index may have grown.
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

    /// Removes the item of one key, if the removal takes it. Returns false if there is none.
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

    /// Returns how much of the index a removal has passed: 0 to 1. It may fall while the index
    /// grows.
    pub fn progress_of(&self, removal: &PrefixRemoval) -> f64 {
        removal.cursor.group as f64 / self.index().groups() as f64
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests;
