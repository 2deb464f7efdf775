//! Loads: after a miss, one caller computes the value and stores it, unless the key has changed
//! since the caller started.
//!
//! Without this condition, a slow load could overwrite a newer value, or store an item again that
//! was deleted in the meantime. So [`Engine::begin_load`] returns a *basis*, which identifies the
//! state of the key, and [`Engine::end_load`] stores the value only if the key is still in that
//! state:
//!
//! ```text
//! begin ─▶ the key has a live item: the item is the basis ───────┐
//!      └─▶ otherwise: a reservation is stored as the basis ──────┤
//!                                                                ▼
//! end: does the index still name the basis for the key? ── yes: store, no: do not store
//! ```
//!
//! The reservation is needed because an absent key has no state that a delete could change. It is a
//! record without a value whose deadline has always passed. Readers treat it as an expired item. A
//! store, a delete or a flush of the key removes it like an expired item, and the load then finds
//! that its basis is gone. This also works between processes, because the reservation is in the
//! region that they share. The flags of a reservation contain the second until which it is kept.

pub(crate) mod lease;

use larder_item::{Deadline, Second, StoreMode, check_key};

use crate::engine::Engine;
use crate::error::{StoreError, Stuck};
use crate::index::find::Found;
use crate::ops::basis::Basis;
use crate::ops::condition::Condition;
use crate::ops::publish::{Publication, PublishFailure};
use crate::ops::request::{StoreRequest, Stored};
use crate::process::op::Op;
use crate::process::operation::Operation;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::record::{Draft, Form};

/// The number of attempts to reserve a key. An attempt fails if other threads store and delete the
/// key between the lookup and the reservation.
const RESERVATIONS_MAX: u32 = 8;

impl Engine {
    /// Begins a load, and returns its basis. If the key has no item, `reserved_until` decides: with
    /// a deadline, this reserves the key at least until that second, but an eviction may remove the
    /// reservation earlier. With `None`, the basis is [`Basis::ABSENT`], and the load does not
    /// detect a delete.
    ///
    /// Cost: same as a delete; with a reservation also a store.
    ///
    /// # Errors
    /// [`StoreError`], for example if no memory is available for the reservation.
    pub fn begin_load(
        &self,
        operation: &Operation<'_>,
        key: &[u8],
        reserved_until: Option<Deadline>,
    ) -> Result<Basis, StoreError> {
        let (op, now) = (&self.op_of(operation), operation.now);
        check_key(key)?;
        self.segments().flush_if_due(now);
        for _ in 0..RESERVATIONS_MAX {
            let hash = self.index().hash(key);
            let locked = self.index().lock(op, hash)?;
            let found = self.index().find_locked(&locked, hash, key);
            if let Some(found) = found.filter(|found| self.is_basis(found, now)) {
                return Ok(self.basis_of(&found));
            }
            drop(locked);
            let Some(until) = reserved_until else {
                return Ok(Basis::ABSENT);
            };
            self.reserve_key(op, key, hash, &[], until)?;
        }
        // The key changes too often. The caller can compute the value, but cannot store it.
        Ok(Basis::OVERTAKEN)
    }

    /// Ends a load: stores the value, unless the key has changed since [`Engine::begin_load`]
    /// returned `basis`. Returns [`Stored::Exists`] if the key now has another item,
    /// [`Stored::NotStored`] if it has an item and the basis was [`Basis::ABSENT`], and
    /// [`Stored::NotFound`] if the basis is gone and the key has no item. A touch that leaves the
    /// record in place does not count as a change. Ignores the request's mode and cas token.
    ///
    /// Cost: same as [`Engine::store`].
    ///
    /// # Errors
    /// [`StoreError`]. The current item stays. After [`StoreError::Journal`] the reservation stays
    /// as well, so that the caller can try again.
    pub fn end_load(
        &self,
        operation: &Operation<'_>,
        request: &StoreRequest<'_>,
        basis: Basis,
        value: &[u8],
    ) -> Result<Stored, StoreError> {
        let op = &self.op_of(operation);
        check_key(request.key)?;
        self.segments().flush_if_due(op.now);
        let request = StoreRequest { mode: StoreMode::Set, cas: None, ..*request };
        let condition = Condition::Loaded(basis);
        let stored = self.place(op, &request, value, &condition).map_err(StoreError::from);
        self.index().grow_if_due(op);
        // The journal refuses a change if the disk must be read or written first. The caller then
        // tries again, and needs the reservation.
        if !matches!(stored, Ok(Stored::Stored { .. }) | Err(StoreError::Journal(_))) {
            self.cancel_load(op.thread, request.key, basis)?;
        }
        stored
    }

    /// Abandons a load: removes its reservation if it still exists. Never removes an item.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn cancel_load(&self, thread: &ThreadSlot, key: &[u8], basis: Basis) -> Result<(), Stuck> {
        let op = &self.op(thread, self.now());
        let hash = self.index().hash(key);
        let locked = self.index().lock(op, hash)?;
        let found = self.index().find_locked(&locked, hash, key);
        if let Some(found) = found
            && self.index().reserved_until(&found).is_some()
            && self.basis_of(&found) == basis
        {
            self.index().unlink(thread, &found);
        }
        Ok(())
    }

    /// True if a found record can be the basis of a load. It must be a live item, or a reservation
    /// that was stored after the last flush.
    fn is_basis(&self, found: &Found, now: Second) -> bool {
        self.index().death(found, now).is_none()
            || !self.segments().is_flushed(found.sequence)
                && self.index().reserved_until(found).is_some()
    }

    /// Stores a reservation if the key has neither an item nor a reservation. `value` is empty, or
    /// names the holder of a lease (`lease.rs`).
    fn reserve_key(
        &self,
        op: &Op<'_>,
        key: &[u8],
        hash: u64,
        value: &[u8],
        until: Deadline,
    ) -> Result<(), StoreError> {
        let draft = Draft {
            key,
            hash,
            // 0 would mean that the record is not a reservation.
            flags: until.0.max(1),
            deadline: Some(Deadline::PAST),
            versioned: self.segments().keeps_versions(),
            value,
            form: Form::Plain,
        };
        let publication = Publication {
            draft: &draft,
            pieces: &[],
            carried: None,
            condition: Condition::Reserve(until),
        };
        let stream = self.stream_for(hash, until, op.now);
        self.write_and_publish(op, &publication, stream)
            .map(drop)
            .map_err(|error: PublishFailure| error.into())
    }
}
