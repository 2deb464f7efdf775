//! The metadata of a value that a client has read.

/// The metadata of a value that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// Client flags, stored with the value.
    pub flags: u32,
    /// The cas token; 0 if the server does not use cas tokens.
    pub cas: u64,
    /// Remaining time to live, in seconds; `None` if the item does not expire.
    pub ttl_secs: Option<u32>,
    /// True if the value was marked stale.
    pub stale: bool,
    /// True if the server gave this caller the recache token: this caller should compute and store
    /// the new value, while the others use the old one.
    pub has_token: bool,
    /// True if the client read the value in the server's memory.
    pub is_local: bool,
}
