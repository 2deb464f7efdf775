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
use crate::large::{LargeValue, Piece};
use crate::record::{Header, PIECE_HEAD_BYTES};
use crate::slot::Slot;

/// A piece of a large value that stays where it is. Give it to [`Engine::release`] in the end.
#[derive(Debug)]
pub struct Pinned {
    slot: Slot,
    bytes: usize,
}

impl Pinned {
    fn value_at(&self, engine: &Engine) -> usize {
        engine.layout.segment_at(self.slot.segment()) + self.slot.offset() + PIECE_HEAD_BYTES
    }
}

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
            self.unpin_pieces(&large.pieces[large.next..]);
        }
    }

    /// Goes on to the next piece: that of before needs no pin any more.
    pub(crate) fn pass_piece(&self, large: &mut LargeValue) {
        if large.is_pinned {
            self.unpin(large.pieces[large.next].slot.segment());
        }
        large.next += 1;
    }

    fn unpin_pieces(&self, pieces: &[Piece]) {
        pieces.iter().for_each(|piece| self.unpin(piece.slot.segment()));
    }

    /// Takes the next piece out of a value, with its pin; none where all have been taken, or it has no pins.
    pub fn take_piece(&self, large: &mut LargeValue) -> Option<Pinned> {
        let Piece { slot, .. } = *large.pieces.get(large.next).filter(|_| large.is_pinned)?;
        let record_at = self.layout.segment_at(slot.segment()) + slot.offset();
        let bytes = Header::load(&self.memory, record_at).value_bytes();
        large.next += 1;
        Some(Pinned { slot, bytes: bytes.min(self.piece_bytes_max()) })
    }

    /// The bytes of a piece, where they are.
    pub fn bytes_of<'a>(&'a self, piece: &'a Pinned) -> &'a [u8] {
        // SAFETY: nobody writes to a record of a segment in use but to fields, tables, numbers and values that
        // grow, and a piece that a table names has none of these. The segment stays in use: it was pinned when its
        // sequence was the piece's, and that pin belongs to `piece`, which is borrowed here, until `release` takes it.
        let bytes = unsafe { self.memory.unchanging(piece.value_at(self), piece.bytes) };
        bytes.unwrap_or_default()
    }

    /// Lets go of a piece.
    pub fn release(&self, piece: Pinned) {
        self.unpin(piece.slot.segment());
    }
}
