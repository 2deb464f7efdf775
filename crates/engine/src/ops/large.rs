//! Large values: pieces in many segments, and one record that names them.
//!
//! ```text
//! record of the item   │ header, fields, key │ value bytes u64 │ slot of piece 0 │ slot of piece 1 │ …
//! record of a piece    │ header │ hash of the key u64 │ part of the value │
//! ```
//!
//! A writer writes the pieces as they arrive and the record last: before its publication no reader
//! sees anything. A piece gets all its room and its header before its first byte; then the writer
//! releases the appender, because the peer may be slow. The bytes are written in place, each part
//! under a pin of the segment, which may have been emptied and reused since the last part. When a
//! segment with one of the pieces is emptied, the whole item goes.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use larder_item::{Deadline, Second, StoreMode, check_key};
use larder_region::Sink;
use larder_stats::Counter;

use crate::engine::Engine;
use crate::error::StoreError;
use crate::index::find::Found;
use crate::ops::publish::{Condition, Publication, Unpublished};
use crate::ops::store::{StoreRequest, Stored};
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::Wait;
use crate::segment::header::{Account, State};
use crate::segment::record::{Draft, Form, Header, PIECE_HEAD_BYTES};
use crate::segment::slot::Slot;
use crate::segment::stream::Stream;

/// A shorter piece is not worth a record: a segment with less room is sealed.
const PIECE_BYTES_MIN: usize = 512;

/// A piece of the value was evicted before it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value was evicted while it was being read; read it again")]
pub struct Evicted;

/// A piece, and the use of the segment in which it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) slot: Slot,
    pub(crate) sequence: u64,
}

/// A large value that is read piece by piece. [`Engine::close_large`] ends the read; until then its
/// pinned pieces stay in place.
#[derive(Debug)]
pub struct LargeValue {
    value_bytes: usize,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) next: usize,
    /// The bytes of the next piece that were read.
    pub(crate) read_bytes: usize,
    /// True if the read pins the segments from the next piece on.
    pub(crate) is_pinned: bool,
}

impl LargeValue {
    /// Returns a single piece.
    pub(crate) fn of_piece(piece: Piece) -> Self {
        Self { value_bytes: 0, pieces: vec![piece], next: 0, read_bytes: 0, is_pinned: false }
    }

    /// Returns the length of the whole value in bytes.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }
}

/// A large value that is arriving. It ends with [`Engine::publish_upload`] or
/// [`Engine::abort_upload`].
#[derive(Debug)]
pub struct Upload {
    pub(crate) hash: u64,
    /// The stream of its records. The deadline is unknown yet, so it is the one for items without a
    /// deadline.
    pub(crate) stream: Stream,
    value_bytes: usize,
    arrived_bytes: usize,
    pub(crate) pieces: Vec<Piece>,
    /// The unwritten room of the last piece, as offsets in the region.
    gap: Range<usize>,
}

/// Returns the table of a value in these pieces.
pub(crate) fn table_of(value_bytes: usize, pieces: impl Iterator<Item = Slot>) -> Vec<u8> {
    let words = std::iter::once(value_bytes as u64).chain(pieces.map(|piece| piece.0));
    words.flat_map(u64::to_le_bytes).collect()
}

impl Engine {
    /// Returns the length of the longest part of a value in a piece.
    pub(crate) fn piece_bytes_max(&self) -> usize {
        self.region().segment_bytes() / 8 - PIECE_HEAD_BYTES
    }

    /// Opens a large value by reading its table. Returns `None` if it changed meanwhile.
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
        // As with the slot of a small item: a slot that the table still names was there since the
        // sequences were loaded, if they are unchanged after the pieces were read.
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
    /// [`Evicted`] if the piece is gone; `out` is unchanged then.
    pub fn read_piece(&self, large: &mut LargeValue, out: &mut impl Sink) -> Result<bool, Evicted> {
        self.read_part(large, usize::MAX, out)
    }

    /// Appends at most `bytes_max` bytes of the next piece of a large value to `out`. Returns false
    /// after the last piece. The next read continues behind them.
    ///
    /// # Errors
    /// [`Evicted`] if the piece is gone; `out` is unchanged then.
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

    /// Starts a store of `value_bytes` that arrive in parts.
    ///
    /// # Errors
    /// As [`Engine::store`], before any part has arrived.
    pub fn upload(&self, key: &[u8], value_bytes: usize) -> Result<Upload, StoreError> {
        check_key(key)?;
        if !self.accepts(key.len(), value_bytes) {
            return Err(StoreError::TooLarge);
        }
        let hash = self.index().hash(key);
        Ok(Upload {
            hash,
            stream: self.stream_for(hash, Deadline::NEVER, self.now()),
            value_bytes,
            arrived_bytes: 0,
            pieces: Vec::new(),
            gap: 0..0,
        })
    }

    /// Writes the next bytes of an upload in place.
    ///
    /// Cost: copies the bytes once. A new piece takes an appender for a few instructions and, if no
    /// segment is free, empties one first.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] if no segment is available, or a piece was evicted before its last
    /// byte arrived; [`StoreError::TooLarge`] for bytes beyond the announced length. The caller
    /// then aborts the upload.
    pub fn push(
        &self,
        thread: &ThreadSlot,
        upload: &mut Upload,
        bytes: &[u8],
        now: Second,
    ) -> Result<(), StoreError> {
        let op = &self.op(thread, now);
        self.segments().flush_if_due(now);
        Ok(self.take_in(op, upload, bytes)?)
    }

    /// As [`Self::push`]; the error distinguishes a lost piece.
    pub(crate) fn take_in(
        &self,
        op: &Op<'_>,
        upload: &mut Upload,
        mut bytes: &[u8],
    ) -> Result<(), Unpublished> {
        if bytes.len() > upload.value_bytes - upload.arrived_bytes {
            return Err(StoreError::TooLarge.into());
        }
        while !bytes.is_empty() {
            let (piece, gap) = self.gap(op, upload)?;
            let (part, rest) = bytes.split_at(bytes.len().min(gap.len()));
            self.write_part(&piece, gap.start, part)?;
            upload.note_arrived(&gap, part.len());
            bytes = rest;
        }
        Ok(())
    }

    /// Returns the current piece, or the next one, and its unwritten room.
    pub(crate) fn gap(
        &self,
        op: &Op<'_>,
        upload: &mut Upload,
    ) -> Result<(Piece, Range<usize>), StoreError> {
        let piece = match upload.pieces.last() {
            Some(piece) if !upload.gap.is_empty() => *piece,
            _ => self.begin_piece(op, upload)?,
        };
        Ok((piece, upload.gap.clone()))
    }

    /// Reserves room for the next piece: for the rest of the value, the maximal length of a piece,
    /// or the rest of the segment, whichever is shortest. From now on, walks see a complete record.
    fn begin_piece(&self, op: &Op<'_>, upload: &mut Upload) -> Result<Piece, StoreError> {
        let wanted_bytes = (upload.value_bytes - upload.arrived_bytes).min(self.piece_bytes_max());
        let whole = (PIECE_HEAD_BYTES + wanted_bytes).next_multiple_of(8);
        let bytes_min = whole.min(PIECE_BYTES_MIN);
        let room = self.segments().reserve(op, upload.stream, whole, bytes_min)?;
        let piece_bytes = wanted_bytes.min(room.bytes - PIECE_HEAD_BYTES);
        let header = Header::piece(piece_bytes);
        self.region().word(room.at()).store(header.word(), Relaxed);
        self.region().word(room.at() + 8).store(upload.hash, Relaxed);
        room.fill(header.record_bytes());
        // The item's deadline is not known yet.
        self.segments().note_deadline(room.segment, Deadline::NEVER);
        self.peers().note_arriving(room.segment);
        self.segments().charge(room.segment, Account::of(header));
        self.bump(op.thread, Counter::BytesWritten, header.record_bytes() as u64);
        let piece = Piece { slot: room.slot(), sequence: room.sequence };
        let piece_at = room.at() + PIECE_HEAD_BYTES;
        upload.pieces.push(piece);
        upload.gap = piece_at..piece_at + piece_bytes;
        Ok(piece)
    }

    /// Writes a part of an arriving piece, unless the piece is lost. A flushed piece counts as
    /// written: the store happened before the flush.
    fn write_part(&self, piece: &Piece, at: usize, part: &[u8]) -> Result<(), Unpublished> {
        while !self.segments().pin(piece.slot.segment(), piece.sequence) {
            if !self.outlasts(piece) {
                let is_flushed = self.segments().is_flushed(piece.sequence);
                return if is_flushed { Ok(()) } else { Err(Unpublished::PieceLost) };
            }
        }
        self.region().memory().write(at, part);
        self.peers().unpin(piece.slot.segment());
        Ok(())
    }

    /// Ends an upload by storing the item.
    ///
    /// # Errors
    /// As [`Engine::store`]; also [`StoreError::NoMemory`] if a piece was evicted before the last
    /// byte arrived.
    pub fn publish_upload(
        &self,
        thread: &ThreadSlot,
        upload: Upload,
        request: &StoreRequest<'_>,
        now: Second,
    ) -> Result<Stored, StoreError> {
        let op = &self.op(thread, now);
        self.segments().flush_if_due(now);
        let extends = matches!(request.mode, StoreMode::Append | StoreMode::Prepend);
        if extends && self.is_long_part(upload.value_bytes) {
            let stored = self.extend_with(op, upload, request);
            self.index().grow_if_due(op);
            return Ok(stored?);
        }
        if extends || upload.value_bytes <= self.inline_bytes_max() {
            return match self.take_back(op, upload) {
                Some(part) => self.store(thread, request, &part, now),
                // A flush hides both the upload and the item to extend.
                None if extends && self.peek(request.key, now).is_none() => Ok(Stored::NotStored),
                None => Err(StoreError::NoMemory),
            };
        }
        let condition = Condition::Requested(request);
        let stored = loop {
            let stored = self.finish(op, &upload, request, &condition);
            let is_lost = stored == Err(Unpublished::PieceLost);
            if !is_lost || !upload.pieces.iter().all(|piece| self.outlasts(piece)) {
                break stored;
            }
        };
        if !matches!(stored, Ok(Stored::Stored { .. })) {
            self.abort_upload(thread, upload);
        }
        self.index().grow_if_due(op);
        if stored.is_err_and(|error| !matches!(error, Unpublished::Refused(StoreError::Stuck(_)))) {
            self.give_up(thread, request, now);
        }
        Ok(stored?)
    }

    /// Returns the bytes of an upload that becomes a part of another value or is short enough for
    /// one record. Returns `None` if pieces were evicted.
    fn take_back(&self, op: &Op<'_>, upload: Upload) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let read = |piece: &Piece| self.read_piece(&mut LargeValue::of_piece(*piece), &mut value);
        let is_whole = upload.pieces.iter().map(read).all(|read| read.is_ok());
        self.give_back(op, &upload);
        is_whole.then_some(value)
    }

    /// Writes and publishes the record of a complete upload.
    pub(crate) fn finish(
        &self,
        op: &Op<'_>,
        upload: &Upload,
        request: &StoreRequest<'_>,
        condition: &Condition<'_>,
    ) -> Result<Stored, Unpublished> {
        debug_assert!(upload.is_complete(), "a part of the value is missing");
        let table = table_of(upload.value_bytes, upload.pieces.iter().map(|piece| piece.slot));
        let draft = self.draft_of_table(request, upload.hash, &table, condition)?;
        let publication = Publication { draft: &draft, pieces: &upload.pieces, carried: None };
        self.write_and_publish(op, &publication, upload.stream, condition)
    }

    /// Returns the record of a large value, unless it names more pieces than a segment can hold.
    pub(crate) fn draft_of_table<'a>(
        &self,
        request: &StoreRequest<'a>,
        hash: u64,
        table: &'a [u8],
        condition: &Condition<'_>,
    ) -> Result<Draft<'a>, StoreError> {
        let draft = Draft {
            key: request.key,
            hash,
            flags: request.flags,
            deadline: condition.deadline_field(request),
            versioned: self.segments().keeps_versions(),
            value: table,
            form: Form::Table,
        };
        let segment_bytes = self.region().segment_bytes();
        let fits = table.len() < segment_bytes && draft.header().record_bytes() <= segment_bytes;
        fits.then_some(draft).ok_or(StoreError::TooLarge)
    }

    /// Frees the pieces that an upload has written.
    pub fn abort_upload(&self, thread: &ThreadSlot, upload: Upload) {
        let op = &self.op(thread, self.now());
        self.bump(thread, Counter::UploadsAborted, 1);
        self.give_back(op, &upload);
    }

    pub(crate) fn give_back(&self, op: &Op<'_>, upload: &Upload) {
        let times_stuck = self.peers().times_stuck();
        for piece in &upload.pieces {
            while self.outlasts(piece) {
                if self.peers().times_stuck() != times_stuck {
                    self.leave_behind(piece);
                    break;
                }
                // The lock of the item's group excludes other changes of the piece's account.
                if let Ok(_locked) = self.index().lock(op, upload.hash)
                    && self.give_back_piece(op.thread, piece)
                {
                    break;
                }
            }
        }
    }

    /// Leaves a piece to the recount of its segment, whose account is too high until then.
    fn leave_behind(&self, piece: &Piece) {
        let segment = piece.slot.segment();
        // While the segment is pinned, its use cannot end, after which no piece would be arriving.
        if self.segments().pin(segment, piece.sequence) {
            self.peers().note_arrived(segment);
            self.segments().suspect(segment);
            self.peers().unpin(segment);
        }
    }

    /// Subtracts a piece that no item will name from the accounts. Returns false if the piece is
    /// lost or about to be. The caller holds the lock of the group of its key.
    pub(crate) fn give_back_piece(&self, thread: &ThreadSlot, piece: &Piece) -> bool {
        let is_kept = self.is_kept(piece);
        if is_kept {
            let record_at = self.segments().record_at(piece.slot);
            let account = Account::of(Header::load(self.region().memory(), record_at));
            self.peers().intend_to_replace(thread, piece.slot.0);
            // As soon as the account shows no live bytes, the segment may start another use, in
            // which nothing arrives.
            self.peers().note_arrived(piece.slot.segment());
            self.segments().discharge(piece.slot.segment(), account);
        }
        is_kept
    }

    /// Waits while another thread empties a piece's segment. Returns true if the piece is still
    /// there then: emptying may stop because of a pin or missing memory. The caller holds neither
    /// group nor appender.
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
    /// group of the piece's key, which a later evictor needs to unlink the item.
    pub(crate) fn is_kept(&self, piece: &Piece) -> bool {
        let segment = piece.slot.segment();
        // The state first: loaded after the sequence, it could be that of the segment's next use.
        self.segments().state(segment) != State::Emptying
            && self.segments().sequence(segment).load(Acquire) == piece.sequence
    }
}

impl Upload {
    /// Advances the unwritten room behind `bytes` that arrived.
    pub(crate) fn note_arrived(&mut self, gap: &Range<usize>, bytes: usize) {
        debug_assert!(self.gap == *gap && bytes <= gap.len(), "the bytes of another upload");
        if self.gap == *gap {
            let bytes = bytes.min(gap.len());
            self.gap.start += bytes;
            self.arrived_bytes += bytes;
        }
    }

    /// True if all bytes have arrived.
    pub fn is_complete(&self) -> bool {
        self.arrived_bytes == self.value_bytes
    }

    /// Returns the length of the whole value in bytes.
    pub(crate) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Returns the process memory that the upload takes, in bytes: its list of pieces.
    pub fn held_bytes(&self) -> usize {
        self.pieces.capacity() * size_of::<Piece>()
    }
}
