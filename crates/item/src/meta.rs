//! What is known of a stored item besides its key and value.

use crate::Deadline;

/// The description of an item that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Bits that the client stored with the item and gets back unchanged.
    pub flags: u32,
    /// When the item dies.
    pub deadline: Deadline,
    /// The item's version; 0 where the cache was told to keep none.
    pub cas: u64,
    /// Bytes of the value.
    pub value_bytes: usize,
}
