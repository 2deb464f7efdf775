//! Demotion: an item that eviction removes from memory is passed to the journal of evictions. This
//! is a journal that records items only when they are evicted; see [`Journal::records_stores`].

use std::sync::Arc;

use larder_item::Second;

use crate::index::cursor::Cursor;
use crate::index::find::Found;
use crate::journal::{Change, Journal};
use crate::process::op::Op;
use crate::reclaim::Reclaimer;

impl Reclaimer {
    /// Sets the journal of evictions.
    pub(crate) fn set_eviction_journal(&mut self, eviction_journal: Arc<dyn Journal>) {
        self.eviction_journal = Some(eviction_journal);
    }

    /// Demotes a live item that is about to be evicted. The caller holds the lock of its group.
    #[inline]
    pub(crate) fn demote(&self, found: &Found, was_read: bool) {
        if let Some(eviction_journal) = &self.eviction_journal
            && self.index().reserved_until(found).is_none()
        {
            self.demote_to(eviction_journal.as_ref(), found, was_read, self.region().now());
        }
    }

    fn demote_to(
        &self,
        eviction_journal: &dyn Journal,
        found: &Found,
        was_read: bool,
        now: Second,
    ) -> bool {
        let (key, value) = (self.index().key(found), self.index().linked_value(found));
        let is_gone =
            || self.segments().is_flushed(found.sequence) || self.index().is_being_removed(found);
        let change = Change { now, is_resident: true, is_gone: &is_gone };
        eviction_journal.eviction(&self.index().entry(&key, found, &value), &change, was_read)
    }

    /// Demotes the live items of one group of the index. The items also stay in memory. Advances
    /// the cursor unless the journal refused an item. Returns false at the end of the walk.
    pub(crate) fn demote_group(&self, op: &Op<'_>, cursor: &mut Cursor) -> bool {
        let Some(eviction_journal) = &self.eviction_journal else { return false };
        if cursor.group >= self.index().groups() {
            return false;
        }
        let Ok(_locked) = self.index().lock_walked_group(op, cursor.group) else {
            // A stopped process holds the group.
            cursor.group += 1;
            return true;
        };
        let is_demoted = |found: &Found| {
            self.index().death(found, op.now).is_none()
                && self.index().reserved_until(found).is_none()
        };
        let mut demoted = self.index().linked(cursor.group).filter(is_demoted);
        if demoted.all(|found| self.demote_to(eviction_journal.as_ref(), &found, true, op.now)) {
            cursor.group += 1;
        }
        true
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests;
