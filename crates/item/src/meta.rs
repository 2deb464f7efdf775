//! The metadata of a stored item.

use crate::{Deadline, Second};

/// The metadata of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Bits that the client stored with the item; they are returned unchanged.
    pub flags: u32,
    /// The deadline of the item.
    pub deadline: Deadline,
    /// The item's cas token; 0 if the cache does not use cas tokens.
    pub cas: u64,
    /// Length of the value, in bytes.
    pub value_bytes: usize,
    /// True if the value was marked stale. It may be returned until a new value is stored.
    pub stale: bool,
    /// True if a client holds the recache token and should store the new value.
    pub token_sent: bool,
    /// True if the item was read or touched since it was stored. A read that races with another
    /// change may go unrecorded.
    pub fetched: bool,
    /// The second in which the item was last stored, read, touched or changed. After a read, the
    /// value may be up to 59 s too late. Reads by processes that cannot write to the cache are
    /// recorded only if their hints reach the owner.
    pub seen: Second,
}
