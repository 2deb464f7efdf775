//! The metadata of a stored item.

use crate::{Deadline, Second};

/// The metadata of an item that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Bits that the client stored with the item; they are returned unchanged.
    pub flags: u32,
    /// The deadline of the item.
    pub deadline: Deadline,
    /// The item's version; 0 if the cache keeps none.
    pub cas: u64,
    /// Length of the value, in bytes.
    pub value_bytes: usize,
    /// True if the value was marked stale. It may be returned until a new value is stored.
    pub stale: bool,
    /// True if a client holds the recache token and is to store the new value.
    pub token_sent: bool,
    /// True if the item was read or touched since it was stored. A read that races with another
    /// change may go unrecorded.
    pub fetched: bool,
    /// The second in which the item was last stored, read, touched or changed. The last read may be
    /// up to 59 s later. Reads by processes that cannot write to
    /// the cache are recorded only as far as their hints reach the owner.
    pub seen: Second,
}
