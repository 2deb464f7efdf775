//! Appending and prepending long parts. The parts are written in place as pieces, and the item's
//! new table names them together with the existing pieces. No part of a value is on the heap.

use larder_item::StoreMode;

use crate::engine::Engine;
use crate::error::StoreError;
use crate::index::find::Found;
use crate::ops::condition::{Condition, Replace};
use crate::ops::large::extend::CarriedPieces;
use crate::ops::large::piece::Piece;
use crate::ops::large::upload::{Upload, table_of};
use crate::ops::publish::{Publication, PublishFailure};
use crate::ops::request::{StoreRequest, Stored};
use crate::ops::store::LARGE_ATTEMPTS_MAX;
use crate::process::op::Op;

impl Engine {
    /// True if a part of this length is stored in separate pieces, because it would not be joined
    /// with existing pieces.
    pub(crate) fn is_long_part(&self, bytes: usize) -> bool {
        bytes > self.piece_bytes_max().max(self.inline_bytes_max())
    }

    /// Appends or prepends a long part to an item. Retries if other writers evict a piece of the
    /// part before its publication.
    pub(crate) fn extend_by(
        &self,
        op: &Op<'_>,
        request: &StoreRequest<'_>,
        part: &[u8],
    ) -> Result<Stored, StoreError> {
        let mut attempts = 0;
        loop {
            // If the key has no item, the part needs no memory.
            if self.peek(request.key, op.now).is_none() {
                return Ok(Stored::NotStored);
            }
            let mut upload = self.upload(request.key, part.len())?;
            let stored = match self.take_in(op, &mut upload, part) {
                Ok(()) => self.extend_with(op, upload, request),
                Err(error) => {
                    self.abort_upload(op.thread, upload);
                    Err(error)
                }
            };
            attempts += 1;
            if stored != Err(PublishFailure::PieceLost) || attempts == LARGE_ATTEMPTS_MAX {
                return Ok(stored?);
            }
        }
    }

    /// Appends or prepends an upload to an item.
    pub(crate) fn extend_with(
        &self,
        op: &Op<'_>,
        upload: Upload,
        request: &StoreRequest<'_>,
    ) -> Result<Stored, PublishFailure> {
        let extended = self.rework(op, request.key, |engine, found| {
            let Some(found) = found else {
                return Some(Ok(Ok(Stored::NotStored)));
            };
            // Checked after the lookup of the item: if a flush happens after this check, it also
            // hides the found item, and the publication then finds that the item has changed.
            if upload.pieces.iter().any(|piece| engine.segments().is_flushed(piece.sequence)) {
                return Some(Ok(Err(PublishFailure::PieceLost)));
            }
            match engine.extend_once(op, &upload, request, found)? {
                Err(PublishFailure::Refused(error)) => Some(Err(error)),
                done => Some(Ok(done)),
            }
        });
        let extended = extended.unwrap_or_else(|error| Err(PublishFailure::from(error)));
        match &extended {
            Ok(Stored::Stored { .. }) => {}
            Ok(_) => self.give_back(op, &upload),
            Err(_) => self.abort_upload(op.thread, upload),
        }
        extended
    }

    /// Makes one attempt. Returns `None` if another writer interfered.
    fn extend_once(
        &self,
        op: &Op<'_>,
        upload: &Upload,
        request: &StoreRequest<'_>,
        found: &Found,
    ) -> Option<Result<Stored, PublishFailure>> {
        let version = self.index().version(found);
        if request.cas.is_some_and(|cas| self.index().cas_of(version) != cas) {
            return self.is_settled(found, version).then_some(Ok(Stored::Exists));
        }
        let extended = match found.header.is_large() {
            true => self.extend_pieces(op, upload, request, found, version)?,
            false => self.extend_inline(op, upload, request, found, version)?,
        };
        match extended {
            Err(PublishFailure::Changed) => None,
            // If all pieces of the upload are still in place, the lost piece belonged to the item,
            // or its segment was not emptied in the end. In both cases another attempt may succeed.
            Err(PublishFailure::PieceLost)
                if upload.pieces.iter().all(|piece| self.outlasts(piece)) =>
            {
                None
            }
            done => Some(done),
        }
    }

    /// Extends a large value, all pieces of which stay in place.
    fn extend_pieces(
        &self,
        op: &Op<'_>,
        upload: &Upload,
        request: &StoreRequest<'_>,
        found: &Found,
        version: u64,
    ) -> Option<Result<Stored, PublishFailure>> {
        let old = self.open_large(found)?;
        let value_bytes = old.value_bytes() + upload.value_bytes();
        if !self.accepts(request.key.len(), value_bytes) {
            return Some(Err(StoreError::TooLarge.into()));
        }
        let over = over(request, found, version);
        let kept_request = self.request_over(request.key, found)?;
        let appends = request.mode != StoreMode::Prepend;
        let kept = CarriedPieces { old: &old, merged_count: 0, value_bytes, appends };
        Some(self.publish_extended(op, &kept_request, upload, &kept, &over))
    }

    /// Converts a small value to a piece that is followed or preceded by the pieces of the upload.
    fn extend_inline(
        &self,
        op: &Op<'_>,
        upload: &Upload,
        request: &StoreRequest<'_>,
        found: &Found,
        version: u64,
    ) -> Option<Result<Stored, PublishFailure>> {
        let value = self.value_of(found)?;
        let origin = self.origin(found, version, &value);
        let value_bytes = value.len() + upload.value_bytes();
        if !self.accepts(request.key.len(), value_bytes) {
            return Some(Err(StoreError::TooLarge.into()));
        }
        let kept_request = self.request_over(request.key, found)?;
        let mut small = match self.upload(request.key, value.len()) {
            Ok(small) => small,
            Err(error) => return Some(Err(error.into())),
        };
        let extended = self.take_in(op, &mut small, &value).and_then(|()| {
            let pieces: Vec<Piece> = match request.mode {
                StoreMode::Prepend => [&upload.pieces[..], &small.pieces].concat(),
                _ => [&small.pieces[..], &upload.pieces].concat(),
            };
            let table = table_of(value_bytes, pieces.iter().map(|piece| piece.slot));
            let over = over(request, found, origin);
            let draft = self.draft_of_table(&kept_request, upload.hash, &table, &over)?;
            let publication =
                Publication { draft: &draft, pieces: &pieces, carried: None, condition: over };
            self.write_and_publish(op, &publication, upload.stream)
        });
        if !matches!(extended, Ok(Stored::Stored { .. })) {
            self.give_back(op, &small);
        }
        Some(extended)
    }
}

/// Returns the condition that the found item is still the item of the key.
fn over<'a>(request: &StoreRequest<'_>, found: &'a Found, origin: u64) -> Condition<'a> {
    let version = request.version;
    Condition::Replace(Replace { found, origin, version, deadline: None, keeps_identity: false })
}
