//! What a peer asked, whichever dialect it spoke.

use larder_item::{Direction, StoreMode};

/// One request. Borrows from the bytes it was parsed from.
///
/// A request for several keys is several [`Command::Get`] and one [`Command::EndOfKeys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Fetch one item; with `exptime`, give it a new one first (`gat`).
    Get {
        /// The item's key.
        key: &'a [u8],
        /// Answer with the cas token too (`gets`, `gats`).
        with_cas: bool,
        /// The new exptime, for `gat` and `gats`.
        exptime: Option<i64>,
    },
    /// All keys of a request for several have been named.
    EndOfKeys,
    /// Store an item. Its value follows the command line: the parser never holds it.
    Store(Store<'a>),
    /// Remove an item.
    Delete {
        /// The item's key.
        key: &'a [u8],
    },
    /// Move a counter.
    Arithmetic {
        /// The item's key.
        key: &'a [u8],
        /// Which way.
        direction: Direction,
        /// How far.
        delta: u64,
    },
    /// Give an item a new exptime.
    Touch {
        /// The item's key.
        key: &'a [u8],
        /// The new exptime.
        exptime: i64,
    },
    /// Make everything stored so far invisible, at once or at a time given as an exptime.
    FlushAll {
        /// When, read as an item's exptime is; 0 or negative is now.
        exptime: i64,
    },
    /// Which version is this?
    Version,
    /// How much to log.
    Verbosity {
        /// The level asked for, however high.
        level: u32,
    },
    /// Show statistics.
    Stats(StatsSection),
    /// Close the connection once what was asked before is answered.
    Quit,
    /// Stop the server.
    Shutdown {
        /// Let connections finish first.
        graceful: bool,
    },
    /// Change the memory limit.
    MemoryLimit {
        /// The new limit, in MiB: 8 to 1,000,000,000.
        mebibytes: u64,
    },
}

/// The head of a store: everything but the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// When to store.
    pub mode: StoreMode,
    /// Store only over the item with this cas token.
    pub cas: Option<u64>,
    /// The client's bits.
    pub flags: u32,
    /// When the item shall die, as on the wire.
    pub exptime: i64,
    /// Bytes of the value that follows, without its line end.
    pub value_bytes: usize,
}

/// A section of the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsSection {
    /// `stats`
    General,
    /// `stats settings`
    Settings,
    /// `stats items`
    Items,
    /// `stats slabs`
    Slabs,
    /// `stats sizes`
    Sizes,
    /// `stats larder`: what memcached has no name for.
    Larder,
    /// `stats cachedump`: items of a class.
    CacheDump {
        /// The class.
        class: u32,
        /// The most items shown, 0 for all.
        items_max: u32,
    },
    /// `stats reset`
    Reset,
}
