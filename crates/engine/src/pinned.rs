//! Large values that are being read stay where they are.
//!
//! A reader pins the segments of all pieces: until it is done they are not emptied, whatever becomes of the item.
//! So what it began to read it can read to its end, and without a copy: a piece never changes, and its segment
//! is not put to other use. This is the engine's one file with `unsafe` code.
//!
//! All readers together pin a quarter of the segments at most. A value beyond that is read without pins: if it
//! is evicted meanwhile, its next piece is an error.
#![allow(unsafe_code, reason = "the bytes of a pinned piece are read where they are")]

use crate::Engine;
use crate::large::{Evicted, LargeValue, Piece};
use crate::record::{Header, PIECE_HEAD_BYTES};

/// Readers may pin one segment of so many.
const PINNED_PART: u64 = 4;

impl Engine {
    /// Pins a value that has just been opened; false where it changed meanwhile.
    pub(crate) fn pin_large(&self, large: &mut LargeValue) -> bool {
        let room = self.segments_max() / PINNED_PART;
        // Pieces that follow each other mostly lie in one segment.
        let same = |pieces: &&[Piece]| pieces[0].slot.segment() == pieces[1].slot.segment();
        let segments = large.pieces.len() - large.pieces.windows(2).filter(same).count();
        if self.pinned_segments() + segments as u64 > room {
            return true; // Without pins.
        }
        let pins = |piece: &Piece| self.pin(piece.slot.segment(), piece.sequence);
        let pinned = large.pieces.iter().take_while(|piece| pins(piece)).count();
        if pinned < large.pieces.len() {
            self.unpin_pieces(&large.pieces[..pinned]);
            return false;
        }
        large.is_pinned = true;
        true
    }

    /// Ends the reading of a large value.
    pub fn close_large(&self, large: &mut LargeValue) {
        if std::mem::take(&mut large.is_pinned) {
            self.unpin_pieces(&large.pieces);
        }
    }

    fn unpin_pieces(&self, pieces: &[Piece]) {
        pieces.iter().for_each(|piece| self.unpin(piece.slot.segment()));
    }

    /// Shows the next piece of a large value to `f`, where it is; none where all have been read. Of a value
    /// read without pins it shows a copy.
    ///
    /// # Errors
    /// [`Evicted`] if the piece is gone, which happens only to a value read without pins.
    pub fn with_piece<T>(
        &self,
        large: &mut LargeValue,
        f: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, Evicted> {
        let piece = large.pieces.get(large.next).filter(|_| large.is_pinned);
        let Some(Piece { slot, .. }) = piece else {
            let mut copy = Vec::new();
            return Ok(self.read_piece(large, &mut copy)?.then(|| f(&copy)));
        };
        let record_at = self.layout.segment_at(slot.segment()) + slot.offset();
        let bytes = Header::load(&self.memory, record_at).value_bytes();
        // SAFETY: nobody writes to a record of a segment in use but to fields, tables, numbers and values that
        // grow, and a piece has none of these. The segment stays in use: it is pinned, since its sequence was
        // the piece's, until `close_large`, which needs the value that is borrowed here.
        let piece = unsafe { self.memory.unchanging(record_at + PIECE_HEAD_BYTES, bytes) };
        large.next += 1;
        piece.map(|piece| Some(f(piece))).ok_or(Evicted)
    }
}
