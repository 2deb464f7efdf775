//! Decides whether a found record is alive: by its deadline, by flushes, and by whether it is only
//! a reservation. A reservation is a record without a value that marks an absent key as being
//! loaded.

use larder_item::{Deadline, KEY_BYTES_MAX, Second};

use crate::index::Index;
use crate::index::find::Found;
use crate::segment::record::Header;

/// The reason why a read found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The key has no item.
    Absent,
    /// The item's deadline has passed.
    Expired,
    /// The item was stored before the last flush.
    Flushed,
}

impl Index {
    /// Returns why a found record counts as absent, or `None` if it is alive.
    #[inline]
    pub(crate) fn death(&self, found: &Found, now: Second) -> Option<Miss> {
        if self.segments().is_flushed(found.sequence) {
            return Some(Miss::Flushed);
        }
        self.deadline(found).is_past(now).then_some(Miss::Expired)
    }

    /// Returns why a found record may be removed, or `None` if it may not. A reservation counts as
    /// expired for readers, but is in force until its end.
    pub(crate) fn removable(&self, found: &Found, now: Second) -> Option<Miss> {
        let death = self.death(found, now)?;
        let is_in_force = || self.reserved_until(found).is_some_and(|until| !until.is_past(now));
        (death == Miss::Flushed || !is_in_force()).then_some(death)
    }

    #[inline]
    pub(crate) fn deadline(&self, found: &Found) -> Deadline {
        found.header.deadline(self.region().memory(), found.record_at)
    }

    /// Returns the version of a record; 0 if the record has none, or while it is being changed. In
    /// a cache without cas tokens, only records that can be overwritten in place have a version.
    #[inline]
    pub(crate) fn version(&self, found: &Found) -> u64 {
        found.header.version(self.region().memory(), found.record_at)
    }

    /// Returns the cas token of a found item; 0 if the cache keeps none.
    pub(crate) fn cas(&self, found: &Found) -> u64 {
        self.cas_of(self.version(found))
    }

    /// Returns the cas token that clients receive for a version; 0 if the cache keeps none.
    #[inline]
    pub(crate) fn cas_of(&self, version: u64) -> u64 {
        if self.segments().keeps_versions() { version } else { 0 }
    }

    /// Returns the second until which a found record reserves its key, or `None` if it is an item.
    #[inline]
    pub(crate) fn reserved_until(&self, found: &Found) -> Option<Deadline> {
        self.reservation_end(found.header, found.record_at)
    }

    /// Returns the deadline after which the expiry sweep may remove a record.
    pub(crate) fn swept_at(&self, header: Header, record_at: usize) -> Deadline {
        let deadline = header.deadline(self.region().memory(), record_at);
        self.reservation_end(header, record_at).unwrap_or(deadline)
    }

    fn reservation_end(&self, header: Header, record_at: usize) -> Option<Deadline> {
        let is_marked = header.is_stale() && header.is_token_sent();
        // A lease is a reservation with a value, under a key that no item can have.
        let is_empty = header.value_bytes() == 0 || header.key_bytes() > KEY_BYTES_MAX;
        let is_reservation = is_marked
            && is_empty
            && header.deadline(self.region().memory(), record_at) == Deadline::PAST;
        let until = Deadline(header.flags(self.region().memory(), record_at));
        (is_reservation && until != Deadline::NEVER).then_some(until)
    }
}
