//! Moving a live record to another place without anybody noticing.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::{Deadline, Second};
use larder_stats::Counter;

use crate::empty::Record;
use crate::find::Found;
use crate::group::Locked;
use crate::head::Reservation;
use crate::lane::Lane;
use crate::record::{Draft, HEADER_BYTES, Header};
use crate::slot::Slot;
use crate::{Engine, NoMemory, Seat, StoreError};

impl Engine {
    /// Moves an item that was stored without a deadline into a record that has one.
    pub(crate) fn give_deadline_field(
        &self,
        seat: &Seat,
        hash: u64,
        key: &[u8],
        deadline: Deadline,
        now: Second,
    ) -> Result<bool, StoreError> {
        loop {
            let Some(seen) = self.find(hash, key) else {
                return Ok(false);
            };
            // A deadline, and the alignment behind it, are at most so much longer.
            let room_bytes = seen.header.record_bytes() + 16;
            let lane = self.lane_of(self.lane(seen.slot.segment()).pool, deadline, now);
            let room = self.reserve(seat, lane, room_bytes, room_bytes, now)?;
            let locked = self.lock(seat, hash);
            let found = self.find_locked(&locked, hash, key);
            let Some(found) = found.filter(|found| self.death(found, now).is_none()) else {
                return Ok(false);
            };
            if found.header != seen.header || found.header.deadline_at().is_some() {
                continue;
            }
            self.copy_with_deadline(&room, &found, key, hash, deadline);
            self.relink(seat, &room, &found, deadline, found.slot.freq());
            drop(locked);
            return Ok(true);
        }
    }

    /// Writes a found item once more, with a deadline field. Under the lock of its group.
    fn copy_with_deadline(
        &self,
        room: &Reservation<'_>,
        found: &Found,
        key: &[u8],
        hash: u64,
        deadline: Deadline,
    ) {
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
        if let Some(at) = draft.header().version_at() {
            self.memory.word(room.at() + at).store(self.version(found), Relaxed);
        }
    }

    /// Makes the slot of a found record name its copy. Under the lock of its group.
    fn relink(
        &self,
        seat: &Seat,
        room: &Reservation<'_>,
        found: &Found,
        deadline: Deadline,
        freq: u64,
    ) {
        let bytes = Header::load(&self.memory, room.at()).record_bytes();
        room.fill(bytes);
        self.note_deadline(room.segment, deadline);
        self.add_live(room.segment, bytes);
        self.set_slot(found.slot_at, room.slot().tagged(found.slot.tag(), freq));
        let old_bytes = found.header.record_bytes();
        self.subtract_live(found.slot.segment(), old_bytes);
        let change = (bytes as u64).wrapping_sub(old_bytes as u64);
        self.count(seat, Counter::BytesLive, change);
    }

    /// Moves a live record, or a live piece, to a lane; nothing happens where it is dead by now. `freq_after` is
    /// what becomes of a record's freq.
    ///
    /// The flush is looked at under the lock, after the new place is found: an item flushed meanwhile does not
    /// come back under a younger sequence.
    pub(crate) fn relocate(
        &self,
        seat: &Seat,
        record: &Record,
        to: Lane,
        freq_after: impl Fn(u64) -> u64,
        now: Second,
    ) -> Result<(), NoMemory> {
        let Record { slot, hash, header } = *record;
        let from = self.layout.segment_at(slot.segment()) + slot.offset();
        let bytes = header.record_bytes();
        let room = self.reserve_for_survivor(seat, to, bytes, now)?;
        self.memory.copy(from, room.at(), bytes);
        let locked = self.lock(seat, hash);
        if header.is_piece() {
            self.relocate_piece(seat, &room, &locked, hash, slot, bytes);
        } else if let Some(found) = self.find_location(&locked, hash, slot) {
            if let Some(death) = self.death(&found, now) {
                self.reclaim(seat, &found, death);
                return Ok(());
            }
            // What may have changed since the copy: the deadline, the table of a large value, all of a record
            // that changes in place.
            let fields = header.key_at() - HEADER_BYTES;
            self.memory.copy(from + HEADER_BYTES, room.at() + HEADER_BYTES, fields);
            if header.is_large() {
                let at = header.value_at();
                self.memory.copy(from + at, room.at() + at, header.value_bytes());
            } else if header.changes_in_place() {
                self.memory.copy(from, room.at(), bytes);
            }
            let freq = freq_after(self.slot(found.slot_at).freq());
            self.relink(seat, &room, &found, self.deadline(&found), freq);
            self.count(seat, Counter::BytesRelocated, bytes as u64);
        }
        Ok(())
    }

    fn relocate_piece(
        &self,
        seat: &Seat,
        room: &Reservation<'_>,
        locked: &Locked<'_>,
        hash: u64,
        slot: Slot,
        bytes: usize,
    ) {
        if let Some((_, table_at)) = self.find_owner(locked, hash, slot) {
            room.fill(bytes);
            self.note_deadline(room.segment, Deadline::NEVER);
            self.add_live(room.segment, bytes);
            self.set_slot(table_at, room.slot());
            self.subtract_live(slot.segment(), bytes);
            self.count(seat, Counter::BytesRelocated, bytes as u64);
        }
    }

    /// The large item of a locked group that a piece belongs to, and the word of its table that names the
    /// piece.
    pub(crate) fn find_owner(
        &self,
        locked: &Locked<'_>,
        hash: u64,
        piece: Slot,
    ) -> Option<(Found, usize)> {
        let tag = self.tag_of(hash);
        locked.slots(hash).filter(|at| self.slot(*at).has_tag(tag)).find_map(|at| {
            let found = self.named_by(at, self.slot(at));
            let named = |table_at: &usize| self.slot(*table_at).location() == piece.location();
            let table_at = found.header.is_large().then(|| self.table(&found).find(named))??;
            Some((found, table_at))
        })
    }
}
