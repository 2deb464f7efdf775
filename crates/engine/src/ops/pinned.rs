//! Large values that are being read stay where they are.
//!
//! A reader pins the segments of all pieces: until it is done they are not emptied, whatever becomes of the item.
//! So what it began to read it can read to its end, and without a copy: a piece never changes, and its segment
//! is not put to other use. This is the engine's one file with `unsafe` code.
//!
//! All readers together pin a quarter of the segments at most. A value beyond that is read without pins: if it
//! is evicted meanwhile, its next piece is an error.
//!
//! The same goes for what is still to come of a value that arrives: where its room is pinned, the system can write there
//! by itself. A peer may take its time, so half as much is for that: the rest is for readers.
#![allow(unsafe_code, reason = "the bytes of a pinned piece are read where they are")]

use std::ops::Range;
use std::ptr::NonNull;

use larder_item::Second;

use crate::index::slot::Slot;
use crate::ops::large::{LargeValue, Piece, Upload};
use crate::segment::record::{Header, PIECE_HEAD_BYTES};
use crate::{Engine, ThreadSlot};

/// A piece of a large value that stays where it is. Give it to [`Engine::release`] in the end.
#[derive(Debug)]
pub struct Pinned {
    slot: Slot,
    /// The first of its bytes that is shown.
    from: usize,
    bytes: usize,
}

impl Pinned {
    fn value_at(&self, engine: &Engine) -> usize {
        engine.layout.segment_at(self.slot.segment())
            + self.slot.offset()
            + PIECE_HEAD_BYTES
            + self.from
    }
}

/// Room for the next bytes of a value that arrives. It stays what it is, whatever becomes of the upload; give it to
/// [`Engine::complete_direct`] or [`Engine::cancel_direct`] in the end.
#[derive(Debug)]
pub struct DirectBuffer {
    piece: Piece,
    pub(crate) room: Range<usize>,
}

/// Readers may pin one segment of so many …
const PINNED_PART: u64 = 4;
/// … and who waits for bytes from elsewhere fewer: those of idle uploads must leave room for readers.
const DIRECT_PART: u64 = 2 * PINNED_PART;

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
        let are_there = pinned == large.pieces.len();
        // Other readers may have pinned segments since the first look: the pins count before the second one.
        large.is_pinned = are_there && self.pinned_segments() <= room;
        if !large.is_pinned {
            self.unpin_pieces(&large.pieces[..pinned]);
        }
        are_there
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
        large.read_bytes = 0;
    }

    fn unpin_pieces(&self, pieces: &[Piece]) {
        pieces.iter().for_each(|piece| self.unpin(piece.slot.segment()));
    }

    /// Takes what has not been read of the next piece out of a value, with its pin; none where all have been taken, or it
    /// has no pins.
    pub fn take_piece(&self, large: &mut LargeValue) -> Option<Pinned> {
        let Piece { slot, .. } = *large.pieces.get(large.next).filter(|_| large.is_pinned)?;
        let record_at = self.layout.segment_at(slot.segment()) + slot.offset();
        let bytes = Header::load(&self.memory, record_at).value_bytes().min(self.piece_bytes_max());
        let from = std::mem::take(&mut large.read_bytes).min(bytes);
        large.next += 1;
        Some(Pinned { slot, from, bytes: bytes - from })
    }

    /// The bytes of a piece, where they are.
    pub fn bytes_of<'a>(&'a self, piece: &'a Pinned) -> &'a [u8] {
        // SAFETY: nobody writes to a record of a segment in use but to fields, tables, numbers and values that
        // grow, and a piece that a table names, which has come as a whole, has none of these. The segment stays in use: it was pinned when its
        // sequence was the piece's, and that pin belongs to `piece`, which is borrowed here, until `release` takes it.
        let bytes = unsafe { self.memory.unchanging(piece.value_at(self), piece.bytes) };
        bytes.unwrap_or_default()
    }

    /// Room for the next bytes of an upload, as long as its piece; none where they had better be pushed, since too much
    /// is pinned or the upload is lost.
    pub fn direct_buffer(
        &self,
        thread: &ThreadSlot,
        upload: &mut Upload,
        now: Second,
    ) -> Option<DirectBuffer> {
        self.flush_if_due(now);
        let (piece, room) = self.gap(thread, upload, now).ok()?;
        let segments_max = self.segments_max() / DIRECT_PART;
        if self.pinned_segments() >= segments_max || !self.pin(piece.slot.segment(), piece.sequence)
        {
            return None;
        }
        // As in `pin_large`: the pin counts before the second look.
        let is_allowed = self.pinned_segments() <= segments_max;
        if !is_allowed {
            self.unpin(piece.slot.segment());
        }
        is_allowed.then_some(DirectBuffer { piece, room })
    }

    /// Where the bytes are to be written, and how many.
    pub fn room_of(&self, direct_buffer: &DirectBuffer) -> Option<(NonNull<u8>, usize)> {
        let bytes = direct_buffer.room.len();
        Some((self.memory.address(direct_buffer.room.start, bytes)?, bytes))
    }

    /// The first `bytes` of the room have been written: they are those of the upload that it was made for.
    pub fn complete_direct(&self, upload: &mut Upload, direct_buffer: DirectBuffer, bytes: usize) {
        upload.note_arrived(&direct_buffer.room, bytes);
        self.cancel_direct(direct_buffer);
    }

    /// Nobody will write there.
    pub fn cancel_direct(&self, direct_buffer: DirectBuffer) {
        self.unpin(direct_buffer.piece.slot.segment());
    }

    /// Lets go of a piece.
    pub fn release(&self, piece: Pinned) {
        self.unpin(piece.slot.segment());
    }
}
