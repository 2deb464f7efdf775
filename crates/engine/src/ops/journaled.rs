//! Changes as the journal gets them.

use std::sync::atomic::Ordering::Acquire;

use larder_item::{Deadline, Second, check_key};

use crate::engine::Engine;
use crate::error::StoreError;
use crate::index::find::Found;
use crate::journal::{Change, Entry, Journal};
use crate::ops::condition::{Condition, Restored};
use crate::ops::large::piece::Piece;
use crate::ops::publish::Unpublished;
use crate::ops::request::{StoreRequest, Stored};
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::record::{Header, PIECE_HEAD_BYTES};

/// What a change of its metadata gives a found item.
#[derive(Clone, Copy)]
pub(crate) struct Altered {
    pub(crate) deadline: Option<Deadline>,
    pub(crate) version: Option<u64>,
    pub(crate) stale: bool,
}

impl Engine {
    /// Records a new item that is written and not yet published. The caller holds the lock of its
    /// group.
    pub(crate) fn record_new(
        &self,
        op: &Op<'_>,
        (key, new): (&[u8], &Found),
        condition: &Condition<'_>,
        is_resident: bool,
        pieces: &[Piece],
    ) -> Result<(), Unpublished> {
        let Some(journal) = self.journal() else { return Ok(()) };
        let is_flushed = || self.segments().is_flushed(new.sequence);
        let change = Change { now: op.now, is_resident, is_flushed: &is_flushed };
        match condition {
            Condition::Restored(_) => return Ok(()),
            Condition::Reserve(_) => {
                return journal.absence(key, &change).map_err(|why| StoreError::from(why).into());
            }
            Condition::Requested(_) | Condition::Replace(_) | Condition::Loaded(_) => {}
        }
        let value = self.value_under_lock(new).ok_or(Unpublished::PieceLost)?;
        // The pieces of an upload are not linked yet: an evictor may have emptied them meanwhile.
        if !pieces.iter().all(|piece| self.is_kept(piece)) {
            return Err(Unpublished::PieceLost);
        }
        let entry = self.entry(key, new, &value);
        journal.item(&entry, &change).map_err(|why| StoreError::from(why).into())
    }

    /// Records a change of a found item's metadata. Returns false if the item's value is lost: the
    /// item is then removed from memory. The caller holds the lock of its group.
    pub(crate) fn record_altered(
        &self,
        op: &Op<'_>,
        key: &[u8],
        found: &Found,
        altered: &Altered,
    ) -> Result<bool, StoreError> {
        let Some(journal) = self.journal() else { return Ok(true) };
        if altered.deadline.is_none() && !altered.stale {
            return Ok(true);
        }
        let Some(value) = self.value_under_lock(found) else {
            self.index().unlink(op.thread, found);
            return Ok(false);
        };
        let present = self.entry(key, found, &value);
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
        now: Second,
        key: &[u8],
        found: &Found,
    ) -> Result<(), StoreError> {
        let Some(journal) = self.journal() else { return Ok(()) };
        self.with_change_of(journal, now, found, |journal, change| journal.removal(key, change))
    }

    fn with_change_of(
        &self,
        journal: &dyn Journal,
        now: Second,
        found: &Found,
        record: impl FnOnce(&dyn Journal, &Change<'_>) -> Result<(), crate::journal::Refusal>,
    ) -> Result<(), StoreError> {
        let is_flushed = || self.segments().is_flushed(found.sequence);
        let change = Change { now, is_resident: true, is_flushed: &is_flushed };
        record(journal, &change).map_err(StoreError::from)
    }

    fn entry<'a>(&self, key: &'a [u8], found: &Found, value: &'a [u8]) -> Entry<'a> {
        Entry {
            key,
            value,
            flags: found.header.flags(self.region().memory(), found.record_at),
            deadline: self.index().deadline(found),
            version: self.index().version(found),
            stale: found.header.is_stale(),
            token_sent: found.header.is_token_sent(),
            number: found.header.is_number(),
        }
    }

    /// Returns the value of a record whose group is locked; `None` if another thread is emptying
    /// the segment of a piece.
    fn value_under_lock(&self, found: &Found) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        if !found.header.is_large() {
            self.index().read_value(found, &mut value);
            return Some(value);
        }
        for at in self.index().table(found) {
            let slot = self.index().slot(at);
            let sequence = self.segments().sequence(slot.segment()).load(Acquire);
            let record_at = self.segments().record_at(slot);
            let bytes = Header::load(self.region().memory(), record_at).value_bytes();
            self.region().memory().read(record_at + PIECE_HEAD_BYTES, bytes, &mut value);
            if !self.is_kept(&Piece { slot, sequence }) {
                return None;
            }
        }
        Some(value)
    }

    /// Stores an item that was found outside memory, under the version of the request and without a
    /// record in the journal: if memory has no live item of the key ([`Stored::NotStored`]), and if
    /// `is_current` says under the lock of the key's group that the item is still the one that was
    /// found ([`Stored::NotFound`]).
    ///
    /// Cost: as [`Engine::store`].
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
        let condition = Condition::Restored(Restored { request, is_current });
        let stored = self.place(op, request, value, &condition);
        self.index().grow_if_due(op);
        Ok(stored?)
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests;
