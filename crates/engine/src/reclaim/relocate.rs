//! Moving a live record to another place without readers noticing.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::Deadline;
use larder_stats::Counter;

use crate::error::StoreError;
use crate::index::find::Found;
use crate::index::group::Locked;
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::reclaim::Reclaimer;
use crate::reclaim::empty::Record;
use crate::segment::appender::Reservation;
use crate::segment::header::Account;
use crate::segment::record::{HEADER_BYTES, Header};
use crate::segment::slot::Slot;
use crate::segment::stream::Stream;

impl Reclaimer {
    /// Makes the slot of a found record name its copy. The caller holds the lock of its group.
    pub(crate) fn relink(
        &self,
        thread: &ThreadSlot,
        room: &Reservation<'_>,
        found: &Found,
        deadline: Deadline,
        freq: u64,
    ) {
        let header = Header::load(self.region().memory(), room.at());
        room.fill(header.record_bytes());
        self.segments().note_deadline(room.segment, deadline);
        self.segments().charge(room.segment, Account::of(header));
        self.peers().intend_to_replace(thread, found.slot.0);
        self.index().set_slot(found.slot_at, room.slot().tagged(found.slot.tag(), freq));
        self.segments().discharge(found.slot.segment(), Account::of(found.header));
    }

    /// Moves a live record, or a live piece, to a stream. Does nothing if the record is dead by
    /// now. `freq_after` maps the record's freq.
    ///
    /// The flush is checked under the lock, after the new place is found: an item that is flushed
    /// meanwhile does not return under a younger sequence.
    pub(crate) fn relocate(
        &self,
        op: &Op<'_>,
        record: &Record,
        to: Stream,
        freq_after: impl Fn(u64) -> u64,
    ) -> Result<(), StoreError> {
        let Record { slot, hash, header } = *record;
        let from = self.segments().record_at(slot);
        let bytes = header.record_bytes();
        let room = self.segments().reserve_for_survivor(op, to, bytes)?;
        self.region().memory().copy(from, room.at(), bytes);
        let locked = self.index().lock(op, hash)?;
        if header.is_piece() {
            self.relocate_piece(op.thread, &room, &locked, record);
        } else if let Some(found) = self.index().find_location(&locked, hash, slot) {
            if let Some(death) = self.index().death(&found, op.now) {
                self.index().remove_dead(op.thread, &found, death);
                return Ok(());
            }
            // What may have changed since the copy: version and deadline, the table of a large
            // value, all of a record that changes in place, and the header's marks.
            let fields = header.key_at() - HEADER_BYTES;
            self.region().memory().copy(from + HEADER_BYTES, room.at() + HEADER_BYTES, fields);
            if header.is_large() {
                let at = header.value_at();
                self.region().memory().copy(from + at, room.at() + at, header.value_bytes());
            } else if header.changes_in_place() {
                self.region().memory().copy(from, room.at(), bytes);
            }
            let counted = self.index().slot(found.slot_at).freq();
            let freq = freq_after(counted);
            let header = found.header.with_freq_changed(counted, freq);
            self.region().word(room.at()).store(header.word(), Relaxed);
            self.relink(op.thread, &room, &found, self.index().deadline(&found), freq);
            self.peers().bump(op.thread, Counter::BytesRelocated, bytes as u64);
        }
        Ok(())
    }

    fn relocate_piece(
        &self,
        thread: &ThreadSlot,
        room: &Reservation<'_>,
        locked: &Locked<'_>,
        piece: &Record,
    ) {
        let Record { slot, hash, header } = *piece;
        let bytes = header.record_bytes();
        if let Some((_, table_at)) = self.find_owner(locked, hash, slot) {
            room.fill(bytes);
            self.segments().note_deadline(room.segment, Deadline::NEVER);
            let account = Account { items: 0, bytes };
            self.segments().charge(room.segment, account);
            self.peers().intend_to_replace(thread, slot.0);
            self.index().set_slot(table_at, room.slot());
            self.segments().discharge(slot.segment(), account);
            self.peers().bump(thread, Counter::BytesRelocated, bytes as u64);
        }
    }

    /// Finds the large item of a locked group that a piece belongs to, and the word of its table
    /// that names the piece.
    pub(crate) fn find_owner(
        &self,
        locked: &Locked<'_>,
        hash: u64,
        piece: Slot,
    ) -> Option<(Found, usize)> {
        let tag = self.index().tag_of(hash);
        locked.slots(hash).filter(|at| self.index().slot(*at).has_tag(tag)).find_map(|at| {
            let found = self.index().named_by(at, self.index().slot(at));
            let named =
                |table_at: &usize| self.index().slot(*table_at).location() == piece.location();
            let table_at =
                found.header.is_large().then(|| self.index().table(&found).find(named))??;
            Some((found, table_at))
        })
    }
}
