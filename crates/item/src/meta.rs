//! What is known of a stored item besides its key and value.

use crate::{Deadline, Second};

/// The description of an item that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Bits that the client stored with the item and gets back unchanged.
    pub flags: u32,
    /// When the item dies.
    pub deadline: Deadline,
    /// The item's version; 0 where the cache was told to keep none.
    pub cas: u64,
    /// Bytes of the value.
    pub value_bytes: usize,
    /// Somebody has said that the value is out of date; it may be shown until a new one comes.
    pub stale: bool,
    /// The right to bring the new value has been given to somebody.
    pub token_sent: bool,
    /// Has the item been read or touched since it was stored? Of two that happen at the same time, one may go
    /// unnoticed.
    pub fetched: bool,
    /// When the item was last stored, read, touched or changed. The last read may be up to 58 s later, the last
    /// use up to 1 s earlier. Reads of processes that cannot write to the cache show only as far as their hints
    /// reach the owner.
    pub seen: Second,
}
