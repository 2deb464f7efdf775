//! Pins of large values. A pin is a mark on a segment that keeps other threads from emptying it.
//!
//! A reader pins the segments of all pieces. Until the reader ends, no thread empties these
//! segments, whatever happens to the item. The reader can therefore finish its read without a copy:
//! a piece never changes, and its segment is not reused. This is the engine's only file with
//! `unsafe` code.
//!
//! All readers together pin at most a quarter of the segments. Beyond that limit a value is read
//! without pins. If such a value is evicted during the read, reading the next piece returns an
//! error.
//!
//! A direct receive, in which the kernel writes bytes from a socket to the value's final place,
//! works in the same way: the kernel can write to the space of an arriving value while the space is
//! pinned. A client that sends slowly keeps such a pin for a long time, so direct receives may pin
//! only half as many segments. The rest is reserved for readers.
#![allow(unsafe_code, reason = "the bytes of a pinned piece are read where they are")]

use std::ops::Range;
use std::ptr::NonNull;

use larder_item::Second;

use crate::engine::Engine;
use crate::ops::large::piece::Piece;
use crate::ops::large::upload::Upload;
use crate::ops::large::value::LargeValue;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::record::{Header, PIECE_HEAD_BYTES};
use crate::segment::slot::Slot;

/// A pinned piece of a large value. [`Engine::release`] drops the pin.
#[derive(Debug)]
pub struct PinnedPiece {
    slot: Slot,
    /// The offset of the first byte to send.
    from: usize,
    bytes: usize,
}

impl PinnedPiece {
    fn value_at(&self, engine: &Engine) -> usize {
        engine.region().segment_at(self.slot.segment())
            + self.slot.offset()
            + PIECE_HEAD_BYTES
            + self.from
    }
}

/// Pinned space for the next bytes of an arriving value. It stays valid whatever happens to the
/// upload. [`Engine::complete_direct`] or [`Engine::cancel_direct`] drops the pin.
#[derive(Debug)]
pub struct DirectBuffer {
    piece: Piece,
    pub(crate) room: Range<usize>,
}

/// Readers may pin one segment out of this many …
const PINNED_PART: u64 = 4;
/// … and direct receives fewer, because idle uploads must leave pins for readers.
const DIRECT_PART: u64 = 2 * PINNED_PART;

impl Engine {
    /// Pins a value that was just opened. Returns false if it changed since.
    pub(crate) fn pin_large(&self, large: &mut LargeValue) -> bool {
        let room = self.segments().segments_max() / PINNED_PART;
        // Consecutive pieces usually share a segment.
        let same = |pieces: &&[Piece]| pieces[0].slot.segment() == pieces[1].slot.segment();
        let segments = large.pieces.len() - large.pieces.windows(2).filter(same).count();
        if self.peers().pinned_segments() + segments as u64 > room {
            return true; // The value is read without pins.
        }
        let pins = |piece: &Piece| self.segments().pin(piece.slot.segment(), piece.sequence);
        let pinned = large.pieces.iter().take_while(|piece| pins(piece)).count();
        let are_there = pinned == large.pieces.len();
        // Other readers may have pinned segments since the first check. The second check comes
        // after this reader's pins are counted, so of two readers at least one finds the pins of
        // the other.
        large.is_pinned = are_there && self.peers().pinned_segments() <= room;
        if !large.is_pinned {
            self.unpin_pieces(&large.pieces[..pinned]);
        }
        are_there
    }

    /// Ends the read of a large value.
    pub fn close_large(&self, large: &mut LargeValue) {
        if std::mem::take(&mut large.is_pinned) {
            self.unpin_pieces(&large.pieces[large.next..]);
        }
    }

    /// Advances to the next piece and drops the pin of the last one.
    pub(crate) fn pass_piece(&self, large: &mut LargeValue) {
        if large.is_pinned {
            self.peers().unpin(large.pieces[large.next].slot.segment());
        }
        large.next += 1;
        large.read_bytes = 0;
    }

    fn unpin_pieces(&self, pieces: &[Piece]) {
        pieces.iter().for_each(|piece| self.peers().unpin(piece.slot.segment()));
    }

    /// Takes the unread rest of the next piece, with its pin, out of a value. Returns `None` after
    /// the last piece, or if the value is not pinned.
    pub fn take_piece(&self, large: &mut LargeValue) -> Option<PinnedPiece> {
        let Piece { slot, .. } = *large.pieces.get(large.next).filter(|_| large.is_pinned)?;
        let record_at = self.segments().record_at(slot);
        let bytes = Header::load(self.region().memory(), record_at)
            .value_bytes()
            .min(self.piece_bytes_max());
        let from = std::mem::take(&mut large.read_bytes).min(bytes);
        large.next += 1;
        Some(PinnedPiece { slot, from, bytes: bytes - from })
    }

    /// Returns the bytes of a piece in place.
    pub fn bytes_of<'a>(&'a self, piece: &'a PinnedPiece) -> &'a [u8] {
        // SAFETY: writers change only fields, tables, numbers and growing values of records in use.
        // A complete piece that a table names does not contain any of these parts. The segment
        // stays in use: it was pinned while its sequence was the piece's, and `piece`, which is
        // borrowed here, owns that pin until `release` takes it.
        let bytes = unsafe { self.region().memory().unchanging(piece.value_at(self), piece.bytes) };
        bytes.unwrap_or_default()
    }

    /// Returns space for the next bytes of an upload, at most up to the end of its piece. Returns
    /// `None` if the caller should call [`Engine::push`] instead, because too many segments are
    /// pinned or the upload is lost.
    pub fn direct_buffer(
        &self,
        thread: &ThreadSlot,
        upload: &mut Upload,
        now: Second,
    ) -> Option<DirectBuffer> {
        let op = &self.op(thread, now);
        self.segments().flush_if_due(now);
        let (piece, room) = self.gap(op, upload).ok()?;
        let segments_max = self.segments().segments_max() / DIRECT_PART;
        if self.peers().pinned_segments() >= segments_max
            || !self.segments().pin(piece.slot.segment(), piece.sequence)
        {
            return None;
        }
        // Same as in `pin_large`: the pin counts before the second check.
        let is_allowed = self.peers().pinned_segments() <= segments_max;
        if !is_allowed {
            self.peers().unpin(piece.slot.segment());
        }
        is_allowed.then_some(DirectBuffer { piece, room })
    }

    /// Returns the address and the length of the space.
    pub fn room_of(&self, direct_buffer: &DirectBuffer) -> Option<(NonNull<u8>, usize)> {
        let bytes = direct_buffer.room.len();
        Some((self.region().memory().address(direct_buffer.room.start, bytes)?, bytes))
    }

    /// Ends a direct receive: the first `bytes` of the space contain the next bytes of the upload.
    pub fn complete_direct(&self, upload: &mut Upload, direct_buffer: DirectBuffer, bytes: usize) {
        upload.note_arrived(&direct_buffer.room, bytes);
        self.cancel_direct(direct_buffer);
    }

    /// Ends a direct receive without data.
    pub fn cancel_direct(&self, direct_buffer: DirectBuffer) {
        self.peers().unpin(direct_buffer.piece.slot.segment());
    }

    /// Drops the pin of a piece.
    pub fn release(&self, piece: PinnedPiece) {
        self.peers().unpin(piece.slot.segment());
    }
}
