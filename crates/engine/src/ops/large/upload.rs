//! Uploads: a large value is written to its final place in segments as it arrives.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use larder_item::{Deadline, Second, StoreMode, check_key};
use larder_stats::Counter;

use crate::engine::Engine;
use crate::error::StoreError;
use crate::ops::condition::Condition;
use crate::ops::large::piece::Piece;
use crate::ops::large::value::LargeValue;
use crate::ops::publish::{Publication, PublishFailure};
use crate::ops::request::{StoreRequest, Stored};
use crate::process::op::Op;
use crate::process::operation::Operation;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::header::Account;
use crate::segment::record::{Draft, Form, Header, PIECE_HEAD_BYTES};
use crate::segment::slot::Slot;
use crate::segment::stream::Stream;

/// The minimal length of a piece. A shorter piece is not worth a record, so a segment with less
/// space is sealed.
const PIECE_BYTES_MIN: usize = 512;

/// A large value that is arriving. It ends with [`Engine::publish_upload`] or
/// [`Engine::abort_upload`].
#[derive(Debug)]
pub struct Upload {
    pub(crate) hash: u64,
    /// The stream of the upload's records. The deadline is not known yet, so it is the stream for
    /// items without a deadline.
    pub(crate) stream: Stream,
    value_bytes: usize,
    arrived_bytes: usize,
    pub(crate) pieces: Vec<Piece>,
    /// The unwritten space of the last piece, as offsets in the region.
    gap: Range<usize>,
}

/// Returns the table of a value that consists of these pieces.
pub(crate) fn table_of(value_bytes: usize, pieces: impl Iterator<Item = Slot>) -> Vec<u8> {
    let words = std::iter::once(value_bytes as u64).chain(pieces.map(|piece| piece.0));
    words.flat_map(u64::to_le_bytes).collect()
}

/// The reason why the bytes of an upload are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadLost {
    /// A flush has hidden a piece, and the memory of the piece was reused.
    Flushed,
    /// A piece was evicted.
    Evicted,
}

impl Engine {
    /// Starts a store of `value_bytes` bytes that arrive in parts.
    ///
    /// # Errors
    /// Same as [`Engine::store`], but returned before any part has arrived.
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
    /// Cost: copies the bytes once. A new piece claims an appender for a few instructions and, if
    /// no segment is free, first empties one.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] if no segment is available, or if a piece was evicted before its
    /// last byte arrived; [`StoreError::TooLarge`] if the bytes exceed the announced length. The
    /// caller must then abort the upload.
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

    /// Same as [`Self::push`], but the error distinguishes a lost piece.
    pub(crate) fn take_in(
        &self,
        op: &Op<'_>,
        upload: &mut Upload,
        mut bytes: &[u8],
    ) -> Result<(), PublishFailure> {
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

    /// Returns the current piece and its unwritten space. Begins the next piece if the current one
    /// is complete.
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

    /// Reserves space for the next piece: the rest of the value, the maximal length of a piece, or
    /// the rest of the segment, whichever is shortest. From here on, walks over the segment find a
    /// complete record.
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

    /// Writes a part of an arriving piece unless the piece is lost. A flushed piece counts as
    /// written, because the store counts as done before the flush.
    fn write_part(&self, piece: &Piece, at: usize, part: &[u8]) -> Result<(), PublishFailure> {
        while !self.segments().pin(piece.slot.segment(), piece.sequence) {
            if !self.outlasts(piece) {
                let is_flushed = self.segments().is_flushed(piece.sequence);
                return if is_flushed { Ok(()) } else { Err(PublishFailure::PieceLost) };
            }
        }
        self.region().memory().write(at, part);
        self.peers().unpin(piece.slot.segment());
        Ok(())
    }

    /// Ends an upload by storing the item.
    ///
    /// # Errors
    /// Same as [`Engine::store`]; also [`StoreError::NoMemory`] if a piece was evicted before the
    /// last byte arrived.
    pub fn publish_upload(
        &self,
        operation: &Operation<'_>,
        upload: Upload,
        request: &StoreRequest<'_>,
    ) -> Result<Stored, StoreError> {
        let &Operation { thread, now, .. } = operation;
        let op = &self.op_of(operation);
        self.segments().flush_if_due(now);
        let extends = matches!(request.mode, StoreMode::Append | StoreMode::Prepend);
        if extends && self.is_long_part(upload.value_bytes) {
            let stored = self.extend_with(op, upload, request);
            self.index().grow_if_due(op);
            return Ok(stored?);
        }
        if extends || upload.value_bytes <= self.inline_bytes_max() {
            return match self.take_back(op, upload) {
                Some(part) => self.store(operation, request, &part),
                // A flush hides both the upload and the item that it would extend.
                None if extends && self.peek(request.key, now).is_none() => Ok(Stored::NotStored),
                None => Err(StoreError::NoMemory),
            };
        }
        let condition = Condition::Requested(request);
        let stored = loop {
            let stored = self.finish(op, &upload, request, &condition);
            let is_lost = stored == Err(PublishFailure::PieceLost);
            if !is_lost || !upload.pieces.iter().all(|piece| self.outlasts(piece)) {
                break stored;
            }
        };
        if !matches!(stored, Ok(Stored::Stored { .. })) {
            self.abort_upload(thread, upload);
        }
        self.index().grow_if_due(op);
        if stored
            .is_err_and(|error| !matches!(error, PublishFailure::Refused(StoreError::Stuck(_))))
        {
            self.give_up(&Operation::new(thread, now), request);
        }
        Ok(stored?)
    }

    /// Ends an upload without storing the item, and returns its bytes.
    ///
    /// Cost: a copy of the value.
    ///
    /// # Errors
    /// [`UploadLost`].
    pub fn take_upload(
        &self,
        thread: &ThreadSlot,
        upload: Upload,
        now: Second,
    ) -> Result<Vec<u8>, UploadLost> {
        self.segments().flush_if_due(now);
        let is_flushed = |piece: &Piece| self.segments().is_flushed(piece.sequence);
        let lost = match upload.pieces.iter().any(is_flushed) {
            true => UploadLost::Flushed,
            false => UploadLost::Evicted,
        };
        self.take_back(&self.op(thread, now), upload).ok_or(lost)
    }

    /// Returns the bytes of an upload that will become a part of another value or is short enough
    /// for one record. Returns `None` if pieces were evicted.
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
    ) -> Result<Stored, PublishFailure> {
        debug_assert!(upload.is_complete(), "a part of the value is missing");
        let table = table_of(upload.value_bytes, upload.pieces.iter().map(|piece| piece.slot));
        let draft = self.draft_of_table(request, upload.hash, &table, condition)?;
        let publication = Publication {
            draft: &draft,
            pieces: &upload.pieces,
            carried: None,
            condition: *condition,
        };
        self.write_and_publish(op, &publication, upload.stream)
    }

    /// Returns the record of a large value. Fails if the record would not fit in a segment.
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
}

impl Upload {
    /// Shortens the unwritten space by `bytes` that have arrived.
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

    /// Returns the length of the complete value in bytes.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Returns the process memory that the upload uses, in bytes, for its list of pieces.
    pub fn held_bytes(&self) -> usize {
        self.pieces.capacity() * size_of::<Piece>()
    }
}
