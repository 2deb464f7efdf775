//! Reading a large value piece by piece.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use larder_region::Sink;

use crate::engine::Engine;
use crate::index::find::Found;
use crate::ops::large::piece::Piece;
use crate::segment::record::{Header, PIECE_HEAD_BYTES};

/// A piece of the value was evicted before it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value was evicted while it was being read; read it again")]
pub struct Evicted;

/// A large value that is read piece by piece. Its pinned pieces stay in place until
/// [`Engine::close_large`] ends the read.
#[derive(Debug)]
pub struct LargeValue {
    value_bytes: usize,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) next: usize,
    /// The number of bytes of the next piece that were already read.
    pub(crate) read_bytes: usize,
    /// True if the read pins the segments of the next piece and all later ones.
    pub(crate) is_pinned: bool,
}

impl LargeValue {
    /// Returns a value that consists of a single piece.
    pub(crate) fn of_piece(piece: Piece) -> Self {
        Self { value_bytes: 0, pieces: vec![piece], next: 0, read_bytes: 0, is_pinned: false }
    }

    /// Returns the length of the complete value in bytes.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Returns the process memory that the read uses, in bytes: a few for each piece.
    pub fn held_bytes(&self) -> usize {
        self.pieces.capacity() * size_of::<Piece>()
    }
}

impl Engine {
    /// Opens a large value by reading its table. Returns `None` if it changed during the call.
    pub(crate) fn open_large(&self, found: &Found) -> Option<LargeValue> {
        let table = self.index().table(found);
        let pieces: Option<Vec<Piece>> = table
            .clone()
            .map(|at| {
                let slot = self.index().slot(at);
                let sequence = self.segments().sequence(slot.segment()).load(Acquire);
                (sequence != 0 && slot.is_of(sequence)).then_some(Piece { slot, sequence })
            })
            .collect();
        let pieces = pieces?;
        let value_bytes =
            self.region().word(found.record_at + found.header.value_at()).load(Relaxed);
        fence(Acquire);
        // Loads the slots of the table a second time, like the slot of a small item (see
        // `index::find`). If a slot is unchanged, the loaded sequence belongs to the use of the
        // segment that contains the piece. If that sequence is still unchanged after the piece was
        // read, the bytes belong to the piece.
        let unchanged = self.index().slot(found.slot_at).is_same(found.slot)
            && table.zip(&pieces).all(|(at, piece)| self.index().slot(at) == piece.slot);
        let value_bytes = value_bytes as usize;
        (unchanged && self.index().is_still_there(found)).then_some(LargeValue {
            value_bytes,
            pieces,
            next: 0,
            read_bytes: 0,
            is_pinned: false,
        })
    }

    /// Appends the rest of the next piece of a large value to `out`. Returns false after the last
    /// piece.
    ///
    /// # Errors
    /// [`Evicted`] if the piece was evicted; then `out` is unchanged.
    pub fn read_piece(&self, large: &mut LargeValue, out: &mut impl Sink) -> Result<bool, Evicted> {
        self.read_part(large, usize::MAX, out)
    }

    /// Appends at most `bytes_max` bytes of the next piece of a large value to `out`. Returns false
    /// after the last piece. The next read continues after these bytes.
    ///
    /// # Errors
    /// [`Evicted`] if the piece was evicted; then `out` is unchanged.
    pub fn read_part(
        &self,
        large: &mut LargeValue,
        bytes_max: usize,
        out: &mut impl Sink,
    ) -> Result<bool, Evicted> {
        let Some(piece) = large.pieces.get(large.next) else {
            return Ok(false);
        };
        let start = out.filled();
        let record_at = self.segments().record_at(piece.slot);
        let header = Header::load(self.region().memory(), record_at);
        let bytes = header.value_bytes().min(self.piece_bytes_max());
        let rest = bytes.saturating_sub(large.read_bytes);
        let part = rest.min(bytes_max);
        self.region().memory().read(record_at + PIECE_HEAD_BYTES + large.read_bytes, part, out);
        fence(Acquire);
        if self.segments().sequence(piece.slot.segment()).load(Relaxed) != piece.sequence {
            out.truncate(start);
            return Err(Evicted);
        }
        if part == rest {
            self.pass_piece(large);
        } else {
            large.read_bytes += part;
        }
        Ok(true)
    }
}
