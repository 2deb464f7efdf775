//! Loads: a store that succeeds only if the key is unchanged since its load started.
//!
//! ```text
//! begin ─▶ the key has a live item: the item is the basis ───────┐
//!      └─▶ otherwise: a reservation is stored as the basis ──────┤
//!                                                                ▼
//! end: does the index still name the basis for the key? ── yes: store, no: do not store
//! ```
//!
//! A reservation is a record without a value whose deadline has always passed. Readers treat it as
//! an expired item, and a store, a delete or a flush of the key removes it like an expired item.
//! Therefore all processes that share the region also detect a delete of an absent key. The flags
//! of a reservation contain the second until which it is kept.

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

/// How often a load tries to reserve a key while other threads store and delete it.
const RESERVATIONS_MAX: u32 = 8;

impl Engine {
    /// Returns the basis for a load of a key's value. If `reserved_until` is given and the key has
    /// no item, this reserves the key at least until that second, unless the memory of the
    /// reservation is needed. Without it, the basis of a key without an item is [`Basis::ABSENT`].
    ///
    /// Cost: same as a delete; with a reservation also a store.
    ///
    /// # Errors
    /// [`StoreError`], also if no memory is available for the reservation.
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
    /// [`Stored::NotStored`] mean that the key has another item, and [`Stored::NotFound`] that it
    /// has no item. A touch that leaves the record in place does not count as a change. Ignores the
    /// request's mode and cas token.
    ///
    /// Cost: same as [`Engine::store`].
    ///
    /// # Errors
    /// [`StoreError`]; the current item stays, and after [`StoreError::Journal`] also the
    /// reservation.
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
        // The caller tries again after the journal has refused the change.
        if !matches!(stored, Ok(Stored::Stored { .. }) | Err(StoreError::Journal(_))) {
            self.cancel_load(op.thread, request.key, basis)?;
        }
        stored
    }

    /// Removes the reservation of a load if it still exists. Does not change anything else.
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

    /// True if a found record can be the basis of a load: a live item, or a reservation that no
    /// flush has ended.
    fn is_basis(&self, found: &Found, now: Second) -> bool {
        self.index().death(found, now).is_none()
            || !self.segments().is_flushed(found.sequence)
                && self.index().reserved_until(found).is_some()
    }

    /// Stores a reservation if the key has neither an item nor a reservation.
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
