//! Changing what is known of an item while its value stays, and removing it.
//!
//! All of it happens where the item is, under the lock of its group, but for a first deadline: for that the
//! record is written once more, with the field.
//!
//! ```text
//! writer   header with new marks │ version ← new
//! reader   version │ header
//! ```
//!
//! So a reader that is told the new version is told the new marks. One that is told the new marks with the old version
//! can do nothing with it: whoever changes the item under that version is refused.

use std::sync::atomic::Ordering::Release;

use larder_item::{Deadline, Meta, Second};

use crate::index::find::Found;
use crate::segment::appender::Reservation;
use crate::segment::record::{Draft, Header, Marks, READ_BEFORE};
use crate::{Engine, Reason, StoreError, Stuck, ThreadSlot};

/// What is to be changed of an item whose value stays.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaUpdate {
    /// Change it only if it has this cas token.
    pub cas: Option<u64>,
    /// The deadline that it shall get.
    pub deadline: Option<Deadline>,
    /// Has it been read by this, as far as [`Meta::fetched`] tells?
    pub noted: bool,
    /// Shall it be stale from now on? Then it gets another cas token, and the right to bring a new value is not
    /// given to anybody yet.
    pub stale: bool,
    /// The cas token of a stale one: as with [`StoreRequest::version`](crate::StoreRequest::version).
    pub version: Option<u64>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaOutcome {
    /// It is done, and this is known of the item now.
    Done(Meta),
    /// There is no such item.
    NotFound,
    /// The item has another cas token.
    Exists,
}

/// The outcome of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The item is removed; this was known of it.
    Deleted(Meta),
    /// There was none.
    NotFound,
    /// The item has another cas token, and stays.
    Exists,
}

impl Engine {
    /// Removes an item; with a token, only the one that has it.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn delete(
        &self,
        thread: &ThreadSlot,
        key: &[u8],
        cas: Option<u64>,
        now: Second,
    ) -> Result<Deletion, Stuck> {
        self.flush_if_due(now);
        let hash = self.hash(key);
        let locked = self.lock(thread, hash)?;
        let Some(found) = self.find_locked(&locked, hash, key) else {
            return Ok(Deletion::NotFound);
        };
        if let Some(death) = self.death(&found, now) {
            self.remove_dead(thread, &found, death);
            return Ok(Deletion::NotFound);
        }
        if cas.is_some_and(|cas| cas != self.version(&found)) {
            return Ok(Deletion::Exists);
        }
        let meta = self.meta(&found, self.value_bytes(&found), now);
        self.report_removal(&found, Reason::Deleted);
        self.unlink(thread, &found);
        Ok(Deletion::Deleted(meta))
    }

    /// Gives the right to bring an item's new value to the caller, if nobody has it yet and the item is still the one
    /// with this version. Where items have none, any will do.
    pub fn claim(&self, thread: &ThreadSlot, key: &[u8], cas: u64, now: Second) -> bool {
        self.flush_if_due(now);
        let hash = self.hash(key);
        let Ok(locked) = self.lock(thread, hash) else {
            return false;
        };
        let found = self.find_locked(&locked, hash, key);
        let Some(found) = found.filter(|found| self.death(found, now).is_none()) else {
            return false;
        };
        let may_win =
            !found.header.is_token_sent() && (!self.keeps_versions || self.version(&found) == cas);
        if may_win {
            let marks = Marks { token_sent: true, stale: found.header.is_stale() };
            self.set_header(&found, found.header.with_marks(marks));
        }
        may_win
    }

    /// Changes what is known of an item.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] where an item stored without a deadline must be moved to get one, and
    /// cannot.
    pub fn update_meta(
        &self,
        thread: &ThreadSlot,
        key: &[u8],
        update: &MetaUpdate,
        now: Second,
    ) -> Result<MetaOutcome, StoreError> {
        self.flush_if_due(now);
        let hash = self.hash(key);
        let mut room: Option<(Reservation<'_>, Header)> = None;
        loop {
            let locked = self.lock(thread, hash)?;
            let found = self.find_locked(&locked, hash, key);
            let Some(found) = found.filter(|found| self.death(found, now).is_none()) else {
                return Ok(MetaOutcome::NotFound);
            };
            if update.cas.is_some_and(|cas| cas != self.version(&found)) {
                return Ok(MetaOutcome::Exists);
            }
            let Some(deadline) = first_deadline(&found, update) else {
                return Ok(MetaOutcome::Done(self.update_meta_here(thread, &found, update, now)));
            };
            // Nobody looks for room while holding a group: the item may be another one by then.
            match room.take() {
                Some((room, seen)) if seen.is_same_form(found.header) => {
                    let copy = self.copy_with_deadline(&room, &found, key, hash, deadline);
                    let meta = self.update_meta_here(thread, &copy, update, now);
                    self.relink(thread, &room, &found, deadline, found.slot.freq());
                    drop(locked);
                    return Ok(MetaOutcome::Done(meta));
                }
                unfit => {
                    drop(locked);
                    drop(unfit);
                    // A deadline, and the alignment behind it, are at most so much longer.
                    let bytes = found.header.record_bytes() + 16;
                    let stream =
                        self.stream_of(self.stream(found.slot.segment()).pool, deadline, now);
                    let reserved = self.reserve(thread, stream, bytes, bytes, now)?;
                    room = Some((reserved, found.header));
                }
            }
        }
    }

    /// Changes a record that has room for all of it: one that readers find, or its copy. Under the lock of its group.
    fn update_meta_here(
        &self,
        thread: &ThreadSlot,
        found: &Found,
        update: &MetaUpdate,
        now: Second,
    ) -> Meta {
        self.set_deadline(found, update.deadline);
        let header = match update.noted {
            true => found.header.with_used(now),
            false => found.header,
        };
        if !update.stale {
            let is_news = update.noted && !found.is_fetched();
            self.set_header(
                found,
                if is_news { header.with_initial_freq(READ_BEFORE) } else { header },
            );
            return self.meta(found, self.value_bytes(found), now);
        }
        if header.version_at().is_some() {
            self.intend_to_change(thread, found.record_at, self.version(found));
        }
        self.set_header(found, header.with_marks(Marks { stale: true, token_sent: false }));
        if let Some(at) = header.version_at() {
            let new = self.give_version(thread, update.version, self.version(found));
            // Pairs with the acquire in `Header::version`: see `meta`.
            self.memory.word(found.record_at + at).store(new, Release);
            self.end_change(thread);
        }
        self.meta(found, self.value_bytes(found), now)
    }

    /// Writes a found item once more, with a deadline field. Under the lock of its group.
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
        self.memory.read(value_at, found.header.value_bytes(), &mut value);
        let draft = Draft {
            key,
            hash,
            flags: found.header.flags(&self.memory, found.record_at),
            deadline: Some(deadline),
            versioned: found.header.version_at().is_some(),
            value: &value,
            form: found.header.form_of_copy(),
        };
        draft.write(&self.memory, room.at());
        let header = draft.header().keeping_identity_of(found.header);
        self.memory.word(room.at()).store(header.word(), Release);
        if let Some(at) = header.version_at() {
            self.memory.word(room.at() + at).store(self.version(found), Release);
        }
        let slot = room.slot().tagged(found.slot.tag(), found.slot.freq());
        let (slot_at, sequence, record_at) = (found.slot_at, room.sequence, room.at());
        Found { slot_at, slot, sequence, record_at, header }
    }
}

/// The deadline for which a found record has no room, where it is to get one.
fn first_deadline(found: &Found, update: &MetaUpdate) -> Option<Deadline> {
    let wanted = update.deadline.filter(|deadline| *deadline != Deadline::NEVER);
    wanted.filter(|_| found.header.deadline_at().is_none())
}
