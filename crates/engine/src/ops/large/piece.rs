//! Pieces of large values, and their accounts while no record names them.

use std::sync::atomic::Ordering::Acquire;

use crate::engine::Engine;
use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::Wait;
use crate::segment::header::{Account, State};
use crate::segment::record::{Header, PIECE_HEAD_BYTES};
use crate::segment::slot::Slot;

/// A piece, and the sequence of the segment when it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) slot: Slot,
    pub(crate) sequence: u64,
}

impl Engine {
    /// Returns the length of the longest part of a value in a piece.
    pub(crate) fn piece_bytes_max(&self) -> usize {
        self.region().segment_bytes() / 8 - PIECE_HEAD_BYTES
    }

    /// Abandons a piece without subtracting it from its segment's account of live bytes. The
    /// account is too high until a recount of the segment, which this requests.
    pub(crate) fn leave_behind(&self, piece: &Piece) {
        let segment = piece.slot.segment();
        // While the segment is pinned, its use cannot end. After the end of the use, no piece would
        // be arriving.
        if self.segments().pin(segment, piece.sequence) {
            self.peers().note_arrived(segment);
            self.segments().suspect(segment);
            self.peers().unpin(segment);
        }
    }

    /// Subtracts a piece that no item will name from the accounts. Returns false if the piece is
    /// lost or its segment is being emptied. The caller holds the lock of the group of its key.
    pub(crate) fn give_back_piece(&self, thread: &ThreadSlot, piece: &Piece) -> bool {
        let is_kept = self.is_kept(piece);
        if is_kept {
            let record_at = self.segments().record_at(piece.slot);
            let account = Account::of(Header::load(self.region().memory(), record_at));
            self.peers().intend_to_replace(thread, piece.slot.0);
            // When the account shows no live bytes, the segment may immediately start another use,
            // in which no piece is arriving.
            self.peers().note_arrived(piece.slot.segment());
            self.segments().discharge(piece.slot.segment(), account);
        }
        is_kept
    }

    /// Waits while another thread empties a piece's segment. Returns true if the piece is still in
    /// place afterwards, because emptying may stop at a pin or for lack of memory. The caller holds
    /// neither group nor appender.
    pub(crate) fn outlasts(&self, piece: &Piece) -> bool {
        let segment = piece.slot.segment();
        let mut wait = Wait::default();
        while self.segments().sequence(segment).load(Acquire) == piece.sequence {
            if self.segments().state(segment) != State::Emptying {
                return true;
            }
            if self.wait_for_peers(&mut wait).is_err() {
                break;
            }
        }
        false
    }

    /// True if a piece's segment is in use and not being emptied. The caller holds the lock of the
    /// group of the piece's key. An evictor that starts later needs that lock to unlink the item.
    pub(crate) fn is_kept(&self, piece: &Piece) -> bool {
        let segment = piece.slot.segment();
        // The state is loaded first: after the sequence, it could be the state of the segment's
        // next use.
        self.segments().state(segment) != State::Emptying
            && self.segments().sequence(segment).load(Acquire) == piece.sequence
    }
}
