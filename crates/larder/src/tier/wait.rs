//! How an operation waits for the disk tier.
//!
//! A thread of a server serves many clients: it does not wait for the disk on behalf of one of
//! them. An operation under [`Wait::Ask`] is pending where it needs the disk:
//!
//! ```text
//! operation ── pending ──▶ DiskLookup ─▶ DiskRead ─▶ DiskPages ─▶ give_found ─▶ the same operation
//!                              ▲                         │
//!                              └─────────────────────────┘ a longer item, or another key's record
//! ```

use std::cell::{Cell, RefCell};

use larder_tier::format::Address;
use larder_tier::store::Known;

use super::lookup::{DiskLookup, Found};
use super::ticket::DurabilityTicket;

/// How an operation waits for the disk.
#[derive(Clone, Copy, Debug, Default)]
pub enum Wait<'a> {
    /// It reads the disk itself, and returns when what it has done is durable.
    #[default]
    Block,
    /// It reads the disk itself, unless the item was looked up for it. It does not wait until what
    /// it has done is durable: [`Deferred::take_awaited`].
    Defer(&'a Deferred),
    /// As [`Wait::Defer`], but it is pending instead of reading the disk. The caller looks the key
    /// up ([`Raw::look_up`](crate::Raw::look_up)), gives [`Deferred::give_found`] the result, and
    /// runs the operation again.
    Ask(&'a Deferred),
}

/// What operations need of the disk and have not waited for. It belongs to one caller.
#[derive(Debug, Default)]
pub struct Deferred {
    /// What was looked up for the operations that follow.
    answers: RefCell<Vec<Answer>>,
    /// What the results so far wait for.
    awaited: Cell<Option<Address>>,
    has_waited: Cell<bool>,
}

/// What was looked up of a key.
#[derive(Debug)]
struct Answer {
    key: Box<[u8]>,
    /// `None` once an operation has taken it.
    found: Option<Found>,
}

/// The result of a lookup, for an operation that needs it.
pub(super) enum Taken {
    /// What was looked up, which still holds.
    Found(Found),
    /// The key was not looked up, or was changed since.
    Nothing,
    /// An earlier attempt has taken it.
    Before,
}

impl<'a> Wait<'a> {
    /// True if the operation is pending where it needs the disk.
    #[inline]
    pub fn asks(self) -> bool {
        matches!(self, Self::Ask(_))
    }

    /// Returns the same wait for an operation that reads the disk itself.
    #[inline]
    #[must_use]
    pub fn without_asking(self) -> Self {
        match self {
            Self::Ask(deferred) => Self::Defer(deferred),
            Self::Block | Self::Defer(_) => self,
        }
    }

    /// As [`Deferred::take_awaited`]; `None` for operations that have waited.
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

    /// True if changes have waited long enough for the disk to take earlier ones.
    pub(super) fn has_waited(self) -> bool {
        self.deferred().is_some_and(|deferred| deferred.has_waited.get())
    }
}

impl Deferred {
    /// Gives the operations that follow what a lookup has found.
    pub fn give_found(&self, lookup: DiskLookup) {
        let (key, found) = lookup.into_found();
        self.answers.borrow_mut().push(Answer { key, found: Some(found) });
    }

    /// Forgets what was given.
    pub fn forget_found(&self) {
        self.answers.borrow_mut().clear();
    }

    /// Says whether changes have waited long enough for the disk to take earlier ones: they fail
    /// instead of waiting.
    pub fn note_waited(&self, has_waited: bool) {
        self.has_waited.set(has_waited);
    }

    /// Returns what the results of the operations since the last call wait for; `None` if they may
    /// be shown now.
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
    pub(super) fn take(&self, key: &[u8], holds: impl Fn(&Known) -> bool) -> Taken {
        let mut answers = self.answers.borrow_mut();
        let Some(at) = answers.iter().position(|answer| *answer.key == *key) else {
            return Taken::Nothing;
        };
        match answers[at].found.take() {
            None => Taken::Before,
            Some(Ok((known, _))) if !holds(&known) => {
                answers.swap_remove(at);
                Taken::Nothing
            }
            Some(found) => Taken::Found(found),
        }
    }

    /// True if a key was looked up and its answer was taken, or `holds` returns true for it.
    pub(super) fn has(&self, key: &[u8], holds: impl Fn(&Known) -> bool) -> bool {
        let answers = self.answers.borrow();
        let answer = answers.iter().find(|answer| *answer.key == *key);
        answer.is_some_and(|answer| match &answer.found {
            Some(Ok((known, _))) => holds(known),
            Some(Err(_)) | None => true,
        })
    }
}
