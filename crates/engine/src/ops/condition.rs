//! The condition under which a written record is published, that is, becomes visible to readers.

use larder_item::{Deadline, Meta};

use crate::index::find::Found;
use crate::ops::basis::Basis;
use crate::ops::request::{Stale, StoreRequest};

/// The condition under which a record is published.
#[derive(Clone, Copy)]
pub(crate) enum Condition<'a> {
    /// The conditions of a request.
    Requested(&'a StoreRequest<'a>),
    /// Only if the record that the new one was made from is still the item of the key.
    Replace(Replace<'a>),
    /// Only if the key is unchanged since a load of its value started.
    Loaded(Basis),
    /// Only if the key has no live item in memory, and the item that was found outside memory is
    /// still current.
    Restored(RestoredItem<'a>),
    /// Reserves the key until a second, only if the key has neither an item nor a reservation.
    Reserve(Deadline),
}

/// An item that was found outside memory.
#[derive(Clone, Copy)]
pub(crate) struct RestoredItem<'a> {
    pub(crate) request: &'a StoreRequest<'a>,
    /// Returns true if the item is still current. Called under the lock of the item's group.
    pub(crate) is_current: &'a dyn Fn() -> bool,
}

/// An existing record that a new record was made from, for example by an append. The new record may
/// replace only this record.
#[derive(Clone, Copy)]
pub(crate) struct Replace<'a> {
    pub(crate) found: &'a Found,
    /// The result of `Engine::origin` when the record was read.
    pub(crate) origin: u64,
    /// The version that the client requested.
    pub(crate) version: Option<u64>,
    /// The deadline of the new record, or `None` to keep the old deadline.
    pub(crate) deadline: Option<Deadline>,
    /// True if the new record is the same item: it keeps the marks and read statistics of the old
    /// one.
    pub(crate) keeps_identity: bool,
}

impl Replace<'_> {
    /// Returns the metadata of the new item, given that of the old one.
    pub(crate) fn meta(&self, old: Meta) -> Meta {
        let kept = |mark: bool| mark && self.keeps_identity;
        Meta {
            deadline: self.deadline.unwrap_or(old.deadline),
            stale: kept(old.stale),
            token_sent: kept(old.token_sent),
            fetched: kept(old.fetched),
            ..old
        }
    }
}

impl Condition<'_> {
    /// Returns the deadline field of the new record. A record that was made from another one keeps
    /// the field even for "never", because a touch may change the old deadline before the
    /// publication. A store with [`Stale::IfOlder`] also has the field, because it may keep the old
    /// deadline.
    pub(crate) fn deadline_field(&self, request: &StoreRequest<'_>) -> Option<Deadline> {
        let keeps = match self {
            Self::Replace(over) => over.found.header.deadline_at().is_some(),
            Self::Requested(request) => request.stale == Stale::IfOlder,
            Self::Loaded(_) | Self::Reserve(_) | Self::Restored(_) => false,
        };
        (keeps || request.deadline != Deadline::NEVER).then_some(request.deadline)
    }

    pub(crate) fn version(&self) -> Option<u64> {
        match self {
            Self::Replace(over) => over.version,
            Self::Requested(request) => request.version,
            Self::Restored(restored) => restored.request.version,
            Self::Loaded(_) | Self::Reserve(_) => None,
        }
    }

    /// True if the new record replaces a certain item: the one with a cas token, or the one that
    /// the record was made from.
    pub(crate) fn names_item(&self) -> bool {
        match self {
            Self::Requested(request) => request.cas.is_some(),
            Self::Replace(_) | Self::Loaded(_) | Self::Restored(_) | Self::Reserve(_) => true,
        }
    }

    /// True if the publication counts as a stored item. Same as in memcached, a number that keeps
    /// its length is not a new item.
    pub(crate) fn is_new_item(&self) -> bool {
        match self {
            Self::Replace(over) => !over.keeps_identity,
            Self::Requested(_) | Self::Loaded(_) => true,
            Self::Reserve(_) | Self::Restored(_) => false,
        }
    }
}
