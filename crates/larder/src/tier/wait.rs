//! How an operation waits for the disk tier.
//!
//! A server thread serves many clients, so it must not block on the disk for one of them. An
//! operation with [`Wait::Ask`] returns as pending when it needs the disk:
//!
//! ```text
//! operation ── pending ──▶ DiskLookup ─▶ DiskRead ─▶ DiskPages ─▶ give_found ─▶ the same operation
//!                              ▲                         │
//!                              └─────────────────────────┘ a longer item, or another key's record
//! ```

use std::cell::{Cell, RefCell};

use larder_tier::format::Address;
use larder_tier::store::KeyRecords;

use super::lookup::{DiskLookup, Found};
use super::ticket::DurabilityTicket;

/// How an operation waits for the disk.
#[derive(Clone, Copy, Debug, Default)]
pub enum Wait<'a> {
    /// The operation reads the disk itself, and returns when its changes are durable.
    #[default]
    Block,
    /// The operation reads the disk itself, unless the caller already looked the item up. It does
    /// not wait until its changes are durable: see [`Deferred::take_awaited`].
    Defer(&'a Deferred),
    /// Same as [`Wait::Defer`], but the operation becomes pending instead of reading the disk. The
    /// caller looks the key up ([`Raw::look_up`](crate::Raw::look_up)), passes the result to
    /// [`Deferred::give_found`], and runs the operation again.
    Ask(&'a Deferred),
}

/// The disk lookups and durability waits of one caller's operations.
#[derive(Debug, Default)]
pub struct Deferred {
    /// The results of lookups for the next operations.
    answers: RefCell<Vec<Answer>>,
    /// The address that must be durable before the results so far may be shown.
    awaited: Cell<Option<Address>>,
    /// See [`Deferred::note_waited`].
    has_waited: Cell<bool>,
}

/// The result of a lookup.
#[derive(Debug)]
struct Answer {
    key: Box<[u8]>,
    /// `None` once an operation has taken it.
    found: Option<Found>,
}

/// The result that an operation takes.
pub(super) enum TakenResult {
    /// The lookup has a result that is still valid.
    Found(Found),
    /// The key was not looked up, or was changed after the lookup.
    Nothing,
    /// An earlier attempt of the operation has already taken the result.
    Before,
}

impl<'a> Wait<'a> {
    /// True if the operation becomes pending when it needs the disk.
    #[inline]
    pub fn asks(self) -> bool {
        matches!(self, Self::Ask(_))
    }

    /// Returns this setting for an operation that reads the disk itself.
    #[inline]
    #[must_use]
    pub fn without_asking(self) -> Self {
        match self {
            Self::Ask(deferred) => Self::Defer(deferred),
            Self::Block | Self::Defer(_) => self,
        }
    }

    /// Same as [`Deferred::take_awaited`], but returns `None` with [`Wait::Block`]: the operation
    /// has already waited.
    #[inline]
    pub fn take_awaited(self) -> Option<DurabilityTicket> {
        self.deferred().and_then(Deferred::take_awaited)
    }

    #[inline]
    pub(crate) fn deferred(self) -> Option<&'a Deferred> {
        match self {
            Self::Block => None,
            Self::Defer(deferred) | Self::Ask(deferred) => Some(deferred),
        }
    }

    /// True if the caller has already waited as long as a change may wait until the disk accepts
    /// it. A change must then fail instead of waiting again.
    pub(super) fn has_waited(self) -> bool {
        self.deferred().is_some_and(|deferred| deferred.has_waited.get())
    }
}

impl Deferred {
    /// Passes the result of a lookup to the next operations.
    pub fn give_found(&self, lookup: DiskLookup) {
        let (key, found) = lookup.into_found();
        self.answers.borrow_mut().push(Answer { key, found: Some(found) });
    }

    /// Discards the results of all lookups.
    pub fn forget_found(&self) {
        self.answers.borrow_mut().clear();
    }

    /// Sets whether the caller has already waited as long as a change may wait until the disk
    /// accepts it. If true, changes fail instead of waiting again.
    pub fn note_waited(&self, has_waited: bool) {
        self.has_waited.set(has_waited);
    }

    /// Returns the log position that must be durable before the caller may send the results of the
    /// operations since the last call. Returns `None` if it may send them now.
    ///
    /// Cost: a load.
    #[inline]
    pub fn take_awaited(&self) -> Option<DurabilityTicket> {
        self.awaited.take().map(DurabilityTicket)
    }

    pub(crate) fn note_awaited(&self, at: Address) {
        self.awaited.set(self.awaited.get().max(Some(at)));
    }

    /// Takes the result of a lookup of a key, if `holds` returns true for it.
    pub(super) fn take(&self, key: &[u8], holds: impl Fn(&KeyRecords) -> bool) -> TakenResult {
        let mut answers = self.answers.borrow_mut();
        let Some(at) = answers.iter().position(|answer| *answer.key == *key) else {
            return TakenResult::Nothing;
        };
        match answers[at].found.take() {
            None => TakenResult::Before,
            Some(Ok((known, _))) if !holds(&known) => {
                answers.swap_remove(at);
                TakenResult::Nothing
            }
            Some(found) => TakenResult::Found(found),
        }
    }

    /// True if the result of a lookup of the key was taken, or if `holds` returns true for it.
    pub(super) fn has(&self, key: &[u8], holds: impl Fn(&KeyRecords) -> bool) -> bool {
        let answers = self.answers.borrow();
        let answer = answers.iter().find(|answer| *answer.key == *key);
        answer.is_some_and(|answer| match &answer.found {
            Some(Ok((known, _))) => holds(known),
            Some(Err(_)) | None => true,
        })
    }
}
