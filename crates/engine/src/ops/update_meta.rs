//! Changes of an item's metadata, and deletes.
//!
//! All changes happen in place under the lock of the item's group, with one exception: if an item
//! without a deadline field receives its first deadline, its record is copied to a new one with the
//! field.
//!
//! ```text
//! writer   header with new marks │ version ← new
//! reader   version │ header
//! ```
//!
//! A reader that loads the new version therefore also loads the new marks. The new marks with the
//! old version are harmless, because a change under that version is refused.

use std::sync::atomic::Ordering::Release;

use larder_item::{Deadline, Meta};

use crate::engine::Engine;
use crate::error::StoreError;
use crate::index::find::Found;
use crate::index::removal::Reason;
use crate::ops::journaled::MetaChange;
use crate::process::op::Op;
use crate::process::operation::Operation;
use crate::process::thread_slot::InPlace;
use crate::segment::appender::Reservation;
use crate::segment::header::Account;
use crate::segment::record::{Draft, Marks, READ_BEFORE};

/// A change of an item's metadata.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaUpdate {
    /// The cas token that the item must have, if any.
    pub cas: Option<u64>,
    /// The new deadline of the item, if any.
    pub deadline: Option<Deadline>,
    /// True if the change counts as a read for [`Meta::fetched`].
    pub noted: bool,
    /// True to mark the item stale. The item then has a new cas token, and its recache token can be
    /// claimed again.
    pub stale: bool,
    /// The cas token to give to the stale item, as in
    /// [`StoreRequest::version`](crate::StoreRequest::version).
    pub version: Option<u64>,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaOutcome {
    /// The change is done. Holds the metadata after it.
    Done(Meta),
    /// The key has no item.
    NotFound,
    /// The item has another cas token.
    Exists,
}

/// The outcome of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The item was removed. Holds its last metadata.
    Deleted(Meta),
    /// The key has no item.
    NotFound,
    /// The item has another cas token, and was not removed.
    Exists,
}

impl Engine {
    /// Removes an item. If a cas token is given, removes the item only if it has that token.
    ///
    /// # Errors
    /// [`StoreError::Stuck`], and [`StoreError::Journal`] if the cache has a journal.
    pub fn delete(
        &self,
        operation: &Operation<'_>,
        key: &[u8],
        cas: Option<u64>,
    ) -> Result<Deletion, StoreError> {
        let (op, now) = (&self.op_of(operation), operation.now);
        self.segments().flush_if_due(now);
        let hash = self.index().hash(key);
        let locked = self.index().lock(op, hash)?;
        let Some(found) = self.index().find_locked(&locked, hash, key) else {
            return Ok(Deletion::NotFound);
        };
        if let Some(death) = self.index().death(&found, now) {
            self.index().remove_dead(op.thread, &found, death);
            return Ok(Deletion::NotFound);
        }
        if cas.is_some_and(|cas| cas != self.index().cas(&found)) {
            return Ok(Deletion::Exists);
        }
        let meta = self.index().meta(&found, self.index().value_bytes(&found), now);
        self.record_removal(op, key, &found)?;
        self.index().report_removal(&found, Reason::Deleted);
        self.index().unlink(op.thread, &found);
        Ok(Deletion::Deleted(meta))
    }

    /// Claims the recache token of the item with this version: the caller then has the task to
    /// store a new value. Returns false if the token was already claimed, or if the item has
    /// changed. Without versions, any item of the key matches.
    pub fn claim(&self, operation: &Operation<'_>, key: &[u8], cas: u64) -> bool {
        let (op, now) = (&self.op_of(operation), operation.now);
        self.segments().flush_if_due(now);
        let hash = self.index().hash(key);
        let Ok(locked) = self.index().lock(op, hash) else {
            return false;
        };
        let found = self.index().find_locked(&locked, hash, key);
        let Some(found) = found.filter(|found| self.index().death(found, now).is_none()) else {
            return false;
        };
        let may_win = !found.header.is_token_sent()
            && (!self.segments().keeps_versions() || self.index().version(&found) == cas);
        if may_win {
            let marks = Marks { token_sent: true, stale: found.header.is_stale() };
            self.index().set_header(&found, found.header.with_marks(marks));
        }
        may_win
    }

    /// Changes an item's metadata.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] if an item must be copied because it has no deadline field and no
    /// memory is available; [`StoreError::Stuck`]; [`StoreError::Journal`] if the cache has a
    /// journal.
    pub fn update_meta(
        &self,
        operation: &Operation<'_>,
        key: &[u8],
        update: &MetaUpdate,
    ) -> Result<MetaOutcome, StoreError> {
        let (op, now) = (&self.op_of(operation), operation.now);
        self.segments().flush_if_due(now);
        let hash = self.index().hash(key);
        loop {
            let locked = self.index().lock(op, hash)?;
            let found = self.index().find_locked(&locked, hash, key);
            let Some(found) = found.filter(|found| self.index().death(found, now).is_none()) else {
                return Ok(MetaOutcome::NotFound);
            };
            if update.cas.is_some_and(|cas| cas != self.index().cas(&found)) {
                return Ok(MetaOutcome::Exists);
            }
            let Some(deadline) = first_deadline(&found, update) else {
                let version = self.version_of_stale(op, &found, update);
                let altered =
                    MetaChange { deadline: update.deadline, version, stale: update.stale };
                if !self.record_altered(op, key, &found, &altered)? {
                    return Ok(MetaOutcome::NotFound);
                }
                return Ok(MetaOutcome::Done(self.update_meta_here(op, &found, update, version)));
            };
            // A deadline field and its alignment add at most this.
            let bytes = found.header.record_bytes() + 16;
            let pool = self.segments().stream(found.slot.segment()).pool;
            let stream = self.segments().stream_of(pool, deadline, now);
            if let Some(room) = self.segments().try_reserve(op, stream, bytes)? {
                // If a flush happened since the lookup, it hides the item. The copy must not show
                // the item again.
                if self.segments().is_flushed(found.sequence) {
                    return Ok(MetaOutcome::NotFound);
                }
                // The copy must not hide the item from a removal by prefix either.
                if self.index().remove_condemned(op.thread, &found) {
                    return Ok(MetaOutcome::NotFound);
                }
                let version = self.version_of_stale(op, &found, update);
                let altered =
                    MetaChange { deadline: update.deadline, version, stale: update.stale };
                if !self.record_altered(op, key, &found, &altered)? {
                    return Ok(MetaOutcome::NotFound);
                }
                let copy = self.copy_with_deadline(&room, &found, key, hash, deadline);
                let meta = self.update_meta_here(op, &copy, update, version);
                self.reclaimer().relink(op.thread, &room, &found, deadline, found.slot.freq());
                self.segments().discharge(found.slot.segment(), Account::of(found.header));
                return Ok(MetaOutcome::Done(meta));
            }
            // Waits until there is space for the copy, and then looks the item up again.
            drop(locked);
            drop(self.segments().reserve(op, stream, bytes, bytes)?);
        }
    }

    /// Returns the new version of an item that becomes stale, if the item has a version.
    fn version_of_stale(&self, op: &Op<'_>, found: &Found, update: &MetaUpdate) -> Option<u64> {
        let old = || self.index().version(found);
        let is_given = update.stale && found.header.version_at().is_some();
        is_given.then(|| self.give_version(op.thread, update.version, old()))
    }

    /// Changes a record that has all needed fields: the current record or its copy. The caller
    /// holds the lock of its group.
    fn update_meta_here(
        &self,
        op: &Op<'_>,
        found: &Found,
        update: &MetaUpdate,
        version: Option<u64>,
    ) -> Meta {
        self.index().set_deadline(found, update.deadline);
        let header = match update.noted {
            true => found.header.with_used(op.now),
            false => found.header,
        };
        if !update.stale {
            let is_news = update.noted && !found.is_fetched();
            self.index().set_header(
                found,
                if is_news { header.with_initial_freq(READ_BEFORE) } else { header },
            );
            return self.index().meta(found, self.index().value_bytes(found), op.now);
        }
        if header.version_at().is_some() {
            let old = self.index().version(found);
            self.peers().intend_to_change(op.thread, found.record_at, old, InPlace::Update);
        }
        self.index().set_header(found, header.with_marks(Marks { stale: true, token_sent: false }));
        if let (Some(at), Some(new)) = (header.version_at(), version) {
            // Pairs with the acquire in `Header::version`: see `meta`.
            self.region().word(found.record_at + at).store(new, Release);
            self.peers().end_change(op.thread);
        }
        self.index().meta(found, self.index().value_bytes(found), op.now)
    }

    /// Copies a found item with a deadline field. The caller holds the lock of its group.
    fn copy_with_deadline(
        &self,
        room: &Reservation<'_>,
        found: &Found,
        key: &[u8],
        hash: u64,
        deadline: Deadline,
    ) -> Found {
        let mut value = Vec::new();
        let value_at = found.record_at + found.header.value_at();
        self.region().memory().read(value_at, found.header.value_bytes(), &mut value);
        let draft = Draft {
            key,
            hash,
            flags: found.header.flags(self.region().memory(), found.record_at),
            deadline: Some(deadline),
            versioned: found.header.version_at().is_some(),
            value: &value,
            form: found.header.form_of_copy(),
        };
        draft.write(self.region().memory(), room.at());
        let header = draft.header().keeping_identity_of(found.header);
        self.region().word(room.at()).store(header.word(), Release);
        if let Some(at) = header.version_at() {
            self.region().word(room.at() + at).store(self.index().version(found), Release);
        }
        let slot = room.slot().tagged(found.slot.tag(), found.slot.freq());
        let (slot_at, sequence, record_at) = (found.slot_at, room.sequence, room.at());
        Found { slot_at, slot, sequence, record_at, header }
    }
}

/// Returns the new deadline if the found record has no deadline field.
fn first_deadline(found: &Found, update: &MetaUpdate) -> Option<Deadline> {
    let wanted = update.deadline.filter(|deadline| *deadline != Deadline::NEVER);
    wanted.filter(|_| found.header.deadline_at().is_none())
}
