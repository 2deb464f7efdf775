//! Reports changes to the journal, which records them for the disk tier. The engine calls these
//! functions under the lock of the item's group, before it makes the change.

use std::sync::atomic::Ordering::Acquire;

use larder_item::{Deadline, KEY_BYTES_MAX, Second, check_key};

use crate::engine::Engine;
use crate::error::StoreError;
use crate::index::cursor::Cursor;
use crate::index::find::Found;
use crate::journal::{Change, Entry, Journal};
use crate::ops::condition::{Condition, RestoredItem};
use crate::ops::large::piece::Piece;
use crate::ops::publish::{Publication, PublishFailure};
use crate::ops::request::{StoreRequest, Stored};
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;

/// The metadata of a found item after a change.
#[derive(Clone, Copy)]
pub(crate) struct MetaChange {
    pub(crate) deadline: Option<Deadline>,
    pub(crate) version: Option<u64>,
    pub(crate) stale: bool,
}

impl Engine {
    /// Records a new item that is written but not yet published. The caller holds the lock of its
    /// group.
    pub(crate) fn record_new(
        &self,
        op: &Op<'_>,
        publication: &Publication<'_>,
        new: &Found,
        is_resident: bool,
    ) -> Result<(), PublishFailure> {
        let Some(journal) = self.journal_of(op) else { return Ok(()) };
        let Publication { draft, pieces, condition, .. } = publication;
        let key = draft.key;
        let is_flushed = || self.segments().is_flushed(new.sequence);
        let change = Change { now: op.now, is_resident, is_gone: &is_flushed };
        match condition {
            Condition::Restored(_) => return Ok(()),
            // The disk does not store leases.
            Condition::Reserve(_) if key.len() > KEY_BYTES_MAX => return Ok(()),
            Condition::Reserve(_) => {
                return journal.absence(key, &change).map_err(|why| StoreError::from(why).into());
            }
            Condition::Requested(_) | Condition::Replace(_) | Condition::Loaded(_) => {}
        }
        if !journal.records_stores() {
            return journal.removal(key, &change).map_err(|why| StoreError::from(why).into());
        }
        let value = self.value_under_lock(new).ok_or(PublishFailure::PieceLost)?;
        // The pieces of an upload are not linked yet, so an evictor may have emptied their
        // segments.
        if !pieces.iter().all(|piece| self.is_kept(piece)) {
            return Err(PublishFailure::PieceLost);
        }
        let entry = self.index().entry(key, new, &value);
        journal.item(&entry, &change).map_err(|why| StoreError::from(why).into())
    }

    /// Records a change of a found item's metadata. The journal needs the item's value. If a piece
    /// of the value is lost because its segment is being emptied, removes the item from memory and
    /// returns false. The caller holds the lock of its group.
    pub(crate) fn record_altered(
        &self,
        op: &Op<'_>,
        key: &[u8],
        found: &Found,
        altered: &MetaChange,
    ) -> Result<bool, StoreError> {
        let Some(journal) = self.journal_of(op) else { return Ok(true) };
        if altered.deadline.is_none() && !altered.stale {
            return Ok(true);
        }
        if !journal.records_stores() {
            self.record_removal(op, key, found)?;
            return Ok(true);
        }
        let Some(value) = self.value_under_lock(found) else {
            self.index().unlink(op.thread, found);
            return Ok(false);
        };
        let present = self.index().entry(key, found, &value);
        let entry = Entry {
            deadline: altered.deadline.unwrap_or(present.deadline),
            version: altered.version.unwrap_or(present.version),
            stale: present.stale || altered.stale,
            token_sent: present.token_sent && !altered.stale,
            ..present
        };
        self.with_change_of(journal, op.now, found, |journal, change| {
            journal.item(&entry, change)
        })?;
        Ok(true)
    }

    /// Records that a found item is removed. The caller holds the lock of its group.
    pub(crate) fn record_removal(
        &self,
        op: &Op<'_>,
        key: &[u8],
        found: &Found,
    ) -> Result<(), StoreError> {
        let Some(journal) = self.journal_of(op) else { return Ok(()) };
        self.with_change_of(journal, op.now, found, |journal, change| journal.removal(key, change))
    }

    fn with_change_of(
        &self,
        journal: &dyn Journal,
        now: Second,
        found: &Found,
        record: impl FnOnce(&dyn Journal, &Change<'_>) -> Result<(), crate::journal::Refusal>,
    ) -> Result<(), StoreError> {
        let is_flushed = || self.segments().is_flushed(found.sequence);
        let change = Change { now, is_resident: true, is_gone: &is_flushed };
        record(journal, &change).map_err(StoreError::from)
    }

    /// Returns the value of a record whose group is locked, or `None` if another thread is emptying
    /// the segment of a piece. That can happen because the pieces of an upload are not linked yet.
    fn value_under_lock(&self, found: &Found) -> Option<Vec<u8>> {
        if !found.header.is_large() {
            return Some(self.index().linked_value(found));
        }
        let pieces: Vec<Piece> = (self.index().table(found))
            .map(|at| self.index().slot(at))
            .map(|slot| Piece {
                slot,
                sequence: self.segments().sequence(slot.segment()).load(Acquire),
            })
            .collect();
        let value = self.index().linked_value(found);
        pieces.iter().all(|piece| self.is_kept(piece)).then_some(value)
    }

    /// Passes the live items of one group of the index to the journal of evictions, and advances
    /// the cursor unless the journal refused an item. The items also stay in memory. Returns false
    /// at the end of the walk, and if the engine has no such journal.
    ///
    /// Cost: holds the lock of the group while its items are copied.
    pub fn demote_group(&self, thread: &ThreadSlot, cursor: &mut Cursor, now: Second) -> bool {
        self.segments().flush_if_due(now);
        self.reclaimer().demote_group(&self.op(thread, now), cursor)
    }

    /// True if almost no segment is free, so that restoring an item would evict another one.
    ///
    /// Cost: a few loads.
    pub fn is_memory_full(&self) -> bool {
        self.segments().free_segments() <= self.segments().free_segments_high()
    }

    /// Stores an item that was found outside memory, under the version of the request and without
    /// recording it in the journal. Returns [`Stored::NotStored`] if memory has a live item of the
    /// key, and [`Stored::NotFound`] if `is_current`, called under the lock of the key's group,
    /// returns false because the item is no longer the one that was found.
    ///
    /// Cost: same as [`Engine::store`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn restore(
        &self,
        thread: &ThreadSlot,
        request: &StoreRequest<'_>,
        value: &[u8],
        is_current: &dyn Fn() -> bool,
        now: Second,
    ) -> Result<Stored, StoreError> {
        let op = &self.op(thread, now);
        check_key(request.key)?;
        let condition = Condition::Restored(RestoredItem { request, is_current });
        let stored = self.place(op, request, value, &condition);
        self.index().grow_if_due(op);
        Ok(stored?)
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests;
