//! Loads: storing the value of a key only where nothing happened to the key since the load of it began.
//!
//! ```text
//! begin ─▶ the live item of the key is the basis ───────────────┐
//!      └─▶ there is none: a reservation takes its place ────────┤
//!                                                               ▼
//! end: is what the index names for the key still the basis? ── store, otherwise not
//! ```
//!
//! A reservation is a record without a value whose deadline has always passed: every reader takes it for an expired item,
//! and a store, a delete or a flush of the key removes it as one. So a delete of a key that is not there is seen as
//! well, by every process that shares the region. Until when it is kept stands in its flags.

use larder_item::{Deadline, Second, StoreMode, check_key};

use crate::index::find::Found;
use crate::ops::publish::{Condition, Publication, Unpublished};
use crate::segment::record::{Draft, Form, Header};
use crate::{Engine, StoreError, StoreRequest, Stored, Stuck, ThreadSlot};

/// How often a load tries to reserve a key that others store and delete.
const RESERVATIONS_MAX: u32 = 8;

/// What the index named for a key when a load of its value began: [`Engine::begin_load`].
///
/// ```
/// use larder_engine::Basis;
/// assert_eq!(Basis::of_words(Basis::ABSENT.words()), Basis::ABSENT);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basis {
    /// The location of the record; 0 where there was none.
    location: u64,
    /// The sequence of its segment.
    sequence: u64,
    /// Its header, as far as a change of the value or a mark changes it.
    form: u64,
    /// Its version, or its value if it is a number without one.
    origin: u64,
}

impl Basis {
    /// No item.
    pub const ABSENT: Self = Self { location: 0, sequence: 0, form: 0, origin: 0 };

    /// Something that no index names: a load on this basis is never stored.
    const OVERTAKEN: Self = Self { location: u64::MAX, sequence: 0, form: 0, origin: 0 };

    /// The same as words, for callers that keep it where no Rust value can be.
    pub const fn words(self) -> [u64; 4] {
        [self.location, self.sequence, self.form, self.origin]
    }

    /// What [`Basis::words`] returned. Other words are a basis on which nothing is stored.
    pub const fn of_words([location, sequence, form, origin]: [u64; 4]) -> Self {
        Self { location, sequence, form, origin }
    }
}

impl Engine {
    /// Returns what a load of a key's value is based on. With `reserved_until` a key without an item is reserved at
    /// least until then, unless its memory is needed; without it the basis of such a key is [`Basis::ABSENT`].
    ///
    /// Cost: that of a delete; where the key is reserved also that of a store.
    ///
    /// # Errors
    /// [`StoreError`], also where there is no memory for the reservation.
    pub fn begin_load(
        &self,
        thread: &ThreadSlot,
        key: &[u8],
        reserved_until: Option<Deadline>,
        now: Second,
    ) -> Result<Basis, StoreError> {
        check_key(key)?;
        self.flush_if_due(now);
        for _ in 0..RESERVATIONS_MAX {
            let hash = self.hash(key);
            let locked = self.lock(thread, hash)?;
            let found = self.find_locked(&locked, hash, key);
            if let Some(found) = found.filter(|found| self.is_basis(found, now)) {
                return Ok(self.basis_of(&found));
            }
            drop(locked);
            let Some(until) = reserved_until else {
                return Ok(Basis::ABSENT);
            };
            self.reserve_key(thread, key, hash, until, now)?;
        }
        Ok(Basis::OVERTAKEN)
    }

    /// Stores what was loaded, unless anything happened to the key since `basis` was taken: [`Stored::Exists`] and
    /// [`Stored::NotStored`] say that another item is there, [`Stored::NotFound`] that there is none. A touch that
    /// leaves the record where it is is no change. The request's mode and cas token are not looked at.
    ///
    /// Cost: as [`Engine::store`].
    ///
    /// # Errors
    /// [`StoreError`]; the item that is there stays.
    pub fn end_load(
        &self,
        thread: &ThreadSlot,
        request: &StoreRequest<'_>,
        basis: Basis,
        value: &[u8],
        now: Second,
    ) -> Result<Stored, StoreError> {
        check_key(request.key)?;
        self.flush_if_due(now);
        let request = StoreRequest { mode: StoreMode::Set, cas: None, ..*request };
        let condition = Condition::Loaded(basis);
        let stored = self.place(thread, &request, value, &condition, now);
        self.grow_if_due(thread, now);
        if !matches!(stored, Ok(Stored::Stored { .. })) {
            self.cancel_load(thread, request.key, basis)?;
        }
        stored.map_err(StoreError::from)
    }

    /// Removes the reservation on which a load was based, if it is still there. Nothing else changes.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn cancel_load(&self, thread: &ThreadSlot, key: &[u8], basis: Basis) -> Result<(), Stuck> {
        let hash = self.hash(key);
        let locked = self.lock(thread, hash)?;
        let found = self.find_locked(&locked, hash, key);
        if let Some(found) = found
            && self.reserved_until(&found).is_some()
            && self.basis_of(&found) == basis
        {
            self.unlink(thread, &found);
        }
        Ok(())
    }

    /// Until when a found record reserves its key; none for an item.
    #[inline]
    pub(crate) fn reserved_until(&self, found: &Found) -> Option<Deadline> {
        self.reservation_end(found.header, found.record_at)
    }

    /// When the expiry sweep may remove a record.
    pub(crate) fn swept_at(&self, header: Header, record_at: usize) -> Deadline {
        let deadline = header.deadline(&self.memory, record_at);
        self.reservation_end(header, record_at).unwrap_or(deadline)
    }

    fn reservation_end(&self, header: Header, record_at: usize) -> Option<Deadline> {
        let is_marked = header.is_stale() && header.is_token_sent() && header.value_bytes() == 0;
        let is_reservation =
            is_marked && header.deadline(&self.memory, record_at) == Deadline::PAST;
        let until = Deadline(header.flags(&self.memory, record_at));
        (is_reservation && until != Deadline::NEVER).then_some(until)
    }

    /// True if a load can be based on a found record: it is alive, or a reservation that no flush has ended.
    fn is_basis(&self, found: &Found, now: Second) -> bool {
        self.death(found, now).is_none()
            || !self.is_flushed(found.sequence) && self.reserved_until(found).is_some()
    }

    /// True if a record, under the lock of its group, is still the one that a load is based on. An expired one may be.
    pub(crate) fn is_based_on(&self, found: &Found, basis: Basis) -> bool {
        let now = self.basis_of(found);
        let is_same = match self.keeps_versions {
            // A record that was moved has its version still.
            true => now.origin == basis.origin && basis.location != 0,
            false => now == basis,
        };
        is_same && !self.is_flushed(found.sequence)
    }

    fn basis_of(&self, found: &Found) -> Basis {
        let is_counted = !self.keeps_versions && found.header.is_number();
        Basis {
            location: found.slot.location(),
            sequence: found.sequence,
            form: found.header.without_reads(),
            origin: if is_counted { self.number(found).0 } else { self.version(found) },
        }
    }

    /// Stores a reservation where no item is, and no reservation.
    fn reserve_key(
        &self,
        thread: &ThreadSlot,
        key: &[u8],
        hash: u64,
        until: Deadline,
        now: Second,
    ) -> Result<(), StoreError> {
        let draft = Draft {
            key,
            hash,
            flags: until.0.max(1),
            deadline: Some(Deadline::PAST),
            versioned: self.keeps_versions,
            value: &[],
            form: Form::Plain,
        };
        let publication = Publication { draft: &draft, pieces: &[], carried: None };
        let stream = self.stream_for(hash, until, now);
        let condition = Condition::Reserve(until);
        self.write_and_publish(thread, &publication, stream, &condition, now)
            .map(drop)
            .map_err(|error: Unpublished| error.into())
    }
}
