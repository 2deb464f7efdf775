//! The parameters and the outcome of a store.

use larder_item::{Deadline, StoreMode};

/// When a store leaves a stale item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stale {
    /// Never: the stored value is up to date.
    #[default]
    Never,
    /// If the request's cas token is **lower** than the item's. The value is stored, because it is
    /// better than none, but the item is stale and keeps its deadline and its recache mark. Only
    /// for [`StoreMode::Set`] and [`StoreMode::Replace`]; a higher token is refused as any other
    /// mismatch.
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
    /// The cas token that the present item must have, if any.
    pub cas: Option<u64>,
    /// The client flags.
    pub flags: u32,
    /// The deadline. Appending and prepending keep the deadline and the flags of the item.
    pub deadline: Deadline,
    /// The cas token that the item gets in place of the next one. 0 means none, and a cache without
    /// tokens ignores it. Later tokens differ from it, and are higher unless it exceeds 2⁵³.
    pub version: Option<u64>,
    /// True if the recache token of the stored item counts as sent. Appending and prepending clear
    /// the token and the stale mark.
    pub token_sent: bool,
    /// When the stored item is stale.
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
        /// The length of its value in bytes, including a present part.
        value_bytes: usize,
    },
    /// The condition of the mode did not hold.
    NotStored,
    /// The item there has another cas token.
    Exists,
    /// No item has the key.
    NotFound,
}
