//! Loads: a store that succeeds only if the key is unchanged since its load started.
//!
//! ```text
//! begin ─▶ the live item of the key is the basis ───────────────┐
//!      └─▶ there is none: a reservation takes its place ────────┤
//!                                                               ▼
//! end: is what the index names for the key still the basis? ── store, otherwise not
//! ```
//!
//! A reservation is a record without a value whose deadline has always passed: every reader takes
//! it for an expired item, and a store, a delete or a flush of the key removes it as one. Every
//! process that shares the region therefore also notices a delete of an absent key. Its flags hold
//! the second until which it is kept.

pub(crate) mod lease;

use larder_item::{Deadline, Second, StoreMode, check_key};

use crate::engine::Engine;
use crate::error::{StoreError, Stuck};
use crate::index::find::Found;
use crate::ops::basis::Basis;
use crate::ops::condition::Condition;
use crate::ops::publish::{Publication, Unpublished};
use crate::ops::request::{StoreRequest, Stored};
use crate::process::op::Op;
use crate::process::operation::Operation;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::record::{Draft, Form};

/// How often a load tries to reserve a key that other threads store and delete.
const RESERVATIONS_MAX: u32 = 8;

impl Engine {
    /// Returns the basis for a load of a key's value. With `reserved_until`, a key without an item
    /// is reserved at least until then, unless its memory is needed; otherwise the basis of such a
    /// key is [`Basis::ABSENT`].
    ///
    /// Cost: a delete; with a reservation also a store.
    ///
    /// # Errors
    /// [`StoreError`], also if memory for the reservation is missing.
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
        Ok(Basis::OVERTAKEN)
    }

    /// Stores a loaded value unless the key changed since `basis` was taken. [`Stored::Exists`] and
    /// [`Stored::NotStored`] mean that another item is there, [`Stored::NotFound`] that none is. A
    /// touch that leaves the record in place is no change. Ignores the request's mode and cas
    /// token.
    ///
    /// Cost: as [`Engine::store`].
    ///
    /// # Errors
    /// [`StoreError`]; the present item stays, and after [`StoreError::Journal`] the reservation.
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
        // The caller tries again after a refusal of the journal.
        if !matches!(stored, Ok(Stored::Stored { .. }) | Err(StoreError::Journal(_))) {
            self.cancel_load(op.thread, request.key, basis)?;
        }
        stored
    }

    /// Removes the reservation of a load if it is still there. Nothing else changes.
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

    /// True if a found record can be the basis of a load: an item that is alive, or a reservation
    /// that no flush has ended.
    fn is_basis(&self, found: &Found, now: Second) -> bool {
        self.index().death(found, now).is_none()
            || !self.segments().is_flushed(found.sequence)
                && self.index().reserved_until(found).is_some()
    }

    /// Stores a reservation if the key has neither item nor reservation.
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
            .map_err(|error: Unpublished| error.into())
    }
}
