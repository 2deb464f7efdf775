//! Appending and prepending to large values, whose existing pieces stay in place.
//!
//! ```text
//! append      │ a │ b │ c │ + part   →   │ a │ b │ new: c, part │
//! ```
//!
//! Only pieces at that end that are not longer than the added part are rewritten together with it.
//! The lengths of pieces therefore decrease towards that end like the digits of a binary counter: a
//! value made of n parts is written log n times, not n times, and has only a few more pieces than
//! it needs.

use larder_item::StoreMode;

use crate::engine::Engine;
use crate::error::StoreError;
use crate::index::find::Found;
use crate::index::unlink::Carried;
use crate::ops::condition::{Condition, Replace};
use crate::ops::large::upload::{Upload, table_of};
use crate::ops::large::value::LargeValue;
use crate::ops::publish::{Publication, Unpublished};
use crate::ops::request::{StoreRequest, Stored};
use crate::process::op::Op;
use crate::segment::record::Header;
use crate::segment::slot::Slot;

impl Engine {
    /// Extends a large value that was found. Returns `None` if it changed during the call.
    pub(crate) fn extend_large(
        &self,
        op: &Op<'_>,
        request: &StoreRequest<'_>,
        found: &Found,
        part: &[u8],
    ) -> Option<Result<Stored, StoreError>> {
        let version = self.index().version(found);
        let old = self.open_large(found)?;
        let value_bytes = old.value_bytes() + part.len();
        if !self.accepts(request.key.len(), value_bytes) {
            return Some(Err(StoreError::TooLarge));
        }
        let appends = request.mode != StoreMode::Prepend;
        let (joined, merged_count) = self.joined(&old, part, appends)?;
        let kept_request = self.request_over(request.key, found)?;

        let mut upload = match self.upload(request.key, joined.len()) {
            Ok(upload) => upload,
            Err(error) => return Some(Err(error)),
        };
        let written = self.take_in(op, &mut upload, &joined);
        let over = Condition::Replace(Replace {
            found,
            origin: version,
            version: request.version,
            deadline: None,
            keeps_identity: false,
        });
        let extended = written.and_then(|()| {
            let kept = Kept { old: &old, merged_count, value_bytes, appends };
            self.publish_extended(op, &kept_request, &upload, &kept, &over)
        });
        if !matches!(extended, Ok(Stored::Stored { .. })) {
            self.abort_upload(op.thread, upload);
        }
        match extended {
            Err(Unpublished::Changed | Unpublished::PieceLost) => None,
            done => Some(done.map_err(StoreError::from)),
        }
    }

    /// Returns the added part joined with the pieces that are rewritten, and the number of these
    /// pieces. Returns `None` if the pieces changed during the call.
    fn joined(&self, old: &LargeValue, part: &[u8], appends: bool) -> Option<(Vec<u8>, usize)> {
        let (mut joined, mut merged_count) = (part.to_vec(), 0);
        // At least one piece stays, so that the value remains large.
        while merged_count + 1 < old.pieces.len() {
            let next = match appends {
                true => old.pieces.len() - 1 - merged_count,
                false => merged_count,
            };
            let slot = old.pieces[next].slot;
            let at = self.segments().record_at(slot);
            let bytes = Header::load(self.region().memory(), at).value_bytes();
            if bytes > joined.len() || bytes + joined.len() > self.piece_bytes_max() {
                break;
            }
            let mut piece = Vec::new();
            let mut one = LargeValue::of_piece(old.pieces[next]);
            self.read_piece(&mut one, &mut piece).ok()?;
            if appends {
                piece.append(&mut joined);
                joined = piece;
            } else {
                joined.append(&mut piece);
            }
            merged_count += 1;
        }
        Some((joined, merged_count))
    }

    /// Publishes a record that names the carried pieces and the new pieces.
    pub(crate) fn publish_extended(
        &self,
        op: &Op<'_>,
        request: &StoreRequest<'_>,
        upload: &Upload,
        kept: &Kept<'_>,
        over: &Condition<'_>,
    ) -> Result<Stored, Unpublished> {
        let count = kept.old.pieces.len() - kept.merged_count;
        // The slots of the carried pieces are copied from the old table under the lock.
        let places = std::iter::repeat_n(Slot::EMPTY, count);
        let new = upload.pieces.iter().map(|piece| piece.slot);
        let (table, carried) = match kept.appends {
            true => {
                (table_of(kept.value_bytes, places.chain(new)), Carried { count, from: 0, to: 0 })
            }
            false => (
                table_of(kept.value_bytes, new.chain(places)),
                Carried { count, from: kept.merged_count, to: upload.pieces.len() },
            ),
        };
        let draft = self.draft_of_table(request, upload.hash, &table, over)?;
        let pieces = &upload.pieces;
        let carried = Some(carried);
        let publication = Publication { draft: &draft, pieces, carried, condition: *over };
        self.write_and_publish(op, &publication, upload.stream)
    }
}

/// The part of an extended value whose pieces stay in place.
pub(crate) struct Kept<'a> {
    pub(crate) old: &'a LargeValue,
    /// The number of the value's pieces that are rewritten.
    pub(crate) merged_count: usize,
    /// The length of the new value.
    pub(crate) value_bytes: usize,
    /// True to append, false to prepend.
    pub(crate) appends: bool,
}
