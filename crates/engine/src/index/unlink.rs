//! Unlinking records: clearing the slot that names a record, so that readers no longer find it, and
//! subtracting the record from its segment's account of live items and bytes.

use larder_stats::Counter;

use crate::index::Index;
use crate::index::find::Found;
use crate::index::life::Miss;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::header::Account;
use crate::segment::record::Header;
use crate::segment::slot::Slot;

/// Slots of a large value's table of pieces that the table of the extended value takes over.
#[derive(Clone, Copy)]
pub(crate) struct CarriedSlots {
    pub(crate) count: usize,
    /// The index of the first such slot in the old table.
    pub(crate) from: usize,
    /// The index of the first such slot in the new table.
    pub(crate) to: usize,
}

impl CarriedSlots {
    fn holds(&self, piece: usize) -> bool {
        (self.from..self.from + self.count).contains(&piece)
    }
}

impl Index {
    /// Removes a record of a locked group from the index.
    pub(crate) fn unlink(&self, thread: &ThreadSlot, found: &Found) {
        self.clear_slot(thread, found);
        self.discharge_item(found, None);
    }

    /// Same as [`Self::unlink`] for a caller that discharges the item afterwards.
    pub(crate) fn clear_slot(&self, thread: &ThreadSlot, found: &Found) {
        self.peers().intend_to_replace(thread, found.slot.0);
        self.set_slot(found.slot_at, Slot::EMPTY);
        self.peers().note_slots(thread, -1);
    }

    /// Subtracts an item's record and its pieces from the accounts, except pieces that are carried
    /// over. The caller holds the lock of the item's group. The record is subtracted after the
    /// pieces: as soon as it is subtracted, its segment may be reused, which overwrites the table
    /// that names the pieces.
    pub(crate) fn discharge_item(&self, found: &Found, carried: Option<CarriedSlots>) {
        if found.header.is_large() {
            let is_carried = |piece| carried.is_some_and(|carried| carried.holds(piece));
            for (_, at) in self.table(found).enumerate().filter(|(piece, _)| !is_carried(*piece)) {
                let piece = self.slot(at);
                let record_at = self.segments().record_at(piece);
                self.segments().discharge(
                    piece.segment(),
                    Account::of(Header::load(self.region().memory(), record_at)),
                );
            }
        }
        self.segments().discharge(found.slot.segment(), Account::of(found.header));
    }

    /// Removes an item that is expired or flushed.
    pub(crate) fn remove_dead(&self, thread: &ThreadSlot, found: &Found, death: Miss) {
        self.report_removal(found, death.into());
        self.peers().bump(thread, Counter::Reclaimed, 1);
        self.unlink_dead(thread, found);
    }

    /// Same as [`Self::remove_dead`] for an item that the expiry sweep found.
    pub(crate) fn sweep_up(&self, thread: &ThreadSlot, found: &Found, death: Miss) {
        self.report_swept(found, death.into());
        self.peers().bump(thread, Counter::CrawlerReclaimed, 1);
        self.unlink_dead(thread, found);
    }

    fn unlink_dead(&self, thread: &ThreadSlot, found: &Found) {
        self.unlink(thread, found);
        self.peers().bump(thread, Counter::ExpiredUnfetched, u64::from(!found.is_fetched()));
    }
}
