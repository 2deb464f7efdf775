//! Moving a live record to another place without readers noticing.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::Deadline;
use larder_stats::Counter;

use crate::index::find::Found;
use crate::index::group::Locked;
use crate::process::thread_slot::ThreadSlot;
use crate::reclaim::Reclaimer;
use crate::reclaim::empty::Record;
use crate::segment::appender::Reservation;
use crate::segment::header::Account;
use crate::segment::record::Header;
use crate::segment::slot::Slot;

impl Reclaimer {
    /// Makes the slot of a found record name its copy. The caller holds the lock of its group, and
    /// discharges the record afterwards.
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
    }

    /// Moves the record of a live item to reserved space. The caller holds the lock of its group,
    /// so the copy is consistent: only the item's freq may change during the copy. `freq_after`
    /// returns the new freq. The caller discharges the record afterwards.
    pub(crate) fn relocate(
        &self,
        thread: &ThreadSlot,
        room: &Reservation<'_>,
        found: &Found,
        freq_after: impl Fn(u64) -> u64,
    ) {
        let bytes = found.header.record_bytes();
        room.prefetch_ahead();
        self.region().memory().copy(found.record_at, room.at(), bytes);
        let counted = self.index().slot(found.slot_at).freq();
        let freq = freq_after(counted);
        let header = found.header.with_freq_changed(counted, freq);
        self.region().word(room.at()).store(header.word(), Relaxed);
        let deadline = self.index().swept_at(found.header, found.record_at);
        self.relink(thread, room, found, deadline, freq);
        self.peers().bump(thread, Counter::BytesRelocated, bytes as u64);
    }

    /// Same as [`Self::relocate`], for a piece of a live item.
    pub(crate) fn relocate_piece(
        &self,
        thread: &ThreadSlot,
        room: &Reservation<'_>,
        piece: &Record,
        owner: &Found,
    ) {
        // This happens only in a damaged region.
        let Some(table_at) = self.naming_word(owner, piece.slot) else {
            return;
        };
        let bytes = piece.header.record_bytes();
        self.region().memory().copy(self.segments().record_at(piece.slot), room.at(), bytes);
        room.fill(bytes);
        self.segments().note_deadline(room.segment, Deadline::NEVER);
        let account = Account { items: 0, bytes };
        self.segments().charge(room.segment, account);
        self.peers().intend_to_replace(thread, piece.slot.0);
        self.index().set_slot(table_at, room.slot());
        self.peers().bump(thread, Counter::BytesRelocated, bytes as u64);
    }

    /// Finds the large item of a locked group that a piece belongs to.
    pub(crate) fn find_owner(&self, locked: &Locked<'_>, hash: u64, piece: Slot) -> Option<Found> {
        let tag = self.index().tag_of(hash);
        let slots = locked.slots(hash).filter(|at| self.index().slot(*at).has_tag(tag));
        slots
            .map(|at| self.index().named_by(at, self.index().slot(at)))
            .find(|found| self.naming_word(found, piece).is_some())
    }

    /// Returns the word of an item's table that names a piece.
    fn naming_word(&self, found: &Found, piece: Slot) -> Option<usize> {
        let names = |at: &usize| self.index().slot(*at).location() == piece.location();
        found.header.is_large().then(|| self.index().table(found).find(names)).flatten()
    }
}
