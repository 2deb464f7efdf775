//! The parameters and the outcome of a store.

use larder_item::{Deadline, StoreMode};

/// When a stored item becomes stale: out of date, but still served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stale {
    /// Never: the stored value is up to date.
    #[default]
    Never,
    /// Only if the request's cas token is **lower** than the item's. The value is stored
    /// nevertheless, because an old value is better than no value. The item becomes stale and keeps
    /// its deadline and the mark of its recache token (whether a client holds the token, and with
    /// it the task to store a new value). Only for [`StoreMode::Set`] and [`StoreMode::Replace`]. A
    /// higher token is refused like any other mismatch.
    IfOlder,
    /// Always.
    Always,
}

/// The parameters of a store, except the value.
///
/// ```
/// # use larder_engine::StoreRequest;
/// # use larder_item::StoreMode;
/// let add = StoreRequest { flags: 7, ..StoreRequest::new(b"key", StoreMode::Add) };
/// assert_eq!((add.cas, add.version), (None, None));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StoreRequest<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// The condition of the store.
    pub mode: StoreMode,
    /// The cas token that the current item must have, if any.
    pub cas: Option<u64>,
    /// The client flags.
    pub flags: u32,
    /// The deadline. Appending and prepending keep the deadline and the flags of the item.
    pub deadline: Deadline,
    /// The cas token to give to the item in place of the next one. 0 counts as `None`, and a cache
    /// without tokens ignores it. Later tokens differ from it, and are higher unless it exceeds
    /// 2⁵³.
    pub version: Option<u64>,
    /// True to mark the recache token of the stored item as already sent. Appending and prepending
    /// clear the mark of the token and the stale mark.
    pub token_sent: bool,
    /// Whether the stored item becomes stale.
    pub stale: Stale,
}

impl<'a> StoreRequest<'a> {
    /// Returns an unconditional store without flags and deadline.
    pub const fn new(key: &'a [u8], mode: StoreMode) -> Self {
        Self {
            key,
            mode,
            cas: None,
            flags: 0,
            deadline: Deadline::NEVER,
            version: None,
            token_sent: false,
            stale: Stale::Never,
        }
    }
}

/// The outcome of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The item is stored with this cas token (0 if the cache keeps none).
    Stored {
        /// The item's version.
        cas: u64,
        /// The length of its value in bytes. After an append or a prepend this includes the old
        /// value.
        value_bytes: usize,
    },
    /// The condition of the mode did not hold.
    NotStored,
    /// The item of the key has another cas token.
    Exists,
    /// No item has the key.
    NotFound,
}
