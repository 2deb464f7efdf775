//! What a peer asked, whichever dialect it spoke.

use larder_item::{Direction, StoreMode};

use crate::admin::Admin;

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
    /// Fetch one item, its value or what is known of it, with everything that can be asked for on the way.
    Fetch(Fetch<'a>),
    /// Fetch one item, or the right to bring it.
    LeaseGet {
        /// The item's key.
        key: &'a [u8],
    },
    /// Show what is known of an item, without reading it.
    Inspect {
        /// The item's key.
        key: &'a [u8],
    },
    /// Store an item. Its value follows the command line: the parser never holds it.
    Store(Store<'a>),
    /// Remove an item, or what makes it worth having.
    Delete(Delete<'a>),
    /// Move a counter.
    Arithmetic(Arithmetic<'a>),
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
    /// Are you there?
    NoOp,
    /// Which version is this?
    Version,
    /// How much to log.
    Verbosity {
        /// The level asked for, however high.
        level: u32,
    },
    /// Show statistics.
    Stats(StatsSection),
    /// By which mechanisms can a peer say who it is?
    Mechanisms,
    /// This is who the peer is.
    Authenticate {
        /// The mechanism that it chose.
        mechanism: &'a [u8],
        /// What the mechanism wants to be told.
        credentials: &'a [u8],
        /// Does it go on with what it has begun?
        is_step: bool,
    },
    /// Close the connection once what was asked before is answered.
    Quit,
    /// Read the files of the certificates again.
    RefreshCertificates,
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
    /// Give the peer the cache's memory, to read in it by itself.
    Region,
    /// The peer has read these items in the cache's memory.
    NoteReads {
        /// Their keys, as [`local::keys`](crate::local::keys) reads them.
        keys: &'a [u8],
    },
    /// What operators ask for besides.
    Admin(Admin),
}

impl<'a> Command<'a> {
    /// The key of the item that it is about, if it is about one.
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Get { key, .. }
            | Self::LeaseGet { key }
            | Self::Inspect { key }
            | Self::Touch { key, .. } => Some(key),
            Self::Fetch(fetch) => Some(fetch.key),
            Self::Store(store) => Some(store.key),
            Self::Delete(delete) => Some(delete.key),
            Self::Arithmetic(arithmetic) => Some(arithmetic.key),
            _ => None,
        }
    }

    /// The same about another item.
    pub fn with_key<'k>(self, key: &'k [u8]) -> Command<'k>
    where
        'a: 'k,
    {
        match self {
            Self::Get { with_cas, exptime, .. } => Command::Get { key, with_cas, exptime },
            Self::LeaseGet { .. } => Command::LeaseGet { key },
            Self::Inspect { .. } => Command::Inspect { key },
            Self::Touch { exptime, .. } => Command::Touch { key, exptime },
            Self::Fetch(fetch) => Command::Fetch(Fetch { key, ..fetch }),
            Self::Store(store) => Command::Store(Store { key, ..store }),
            Self::Delete(delete) => Command::Delete(Delete { key, ..delete }),
            Self::Arithmetic(arithmetic) => Command::Arithmetic(Arithmetic { key, ..arithmetic }),
            about_no_item => about_no_item,
        }
    }
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
    /// The cas token that the item shall get, in place of the next one.
    pub version: Option<u64>,
    /// Where `cas` is older than the item's, store all the same, and mark the item stale.
    pub invalidate: bool,
    /// Where there is no item to append to, store one with this exptime.
    pub vivify: Option<i64>,
    /// The right to bring the item, which must still hold.
    pub lease: Option<u64>,
}

impl Store<'_> {
    /// What most stores do not ask for: no condition, no flags, no exptime, an empty value.
    pub const PLAIN: Self = Self {
        key: &[],
        mode: StoreMode::Set,
        cas: None,
        flags: 0,
        exptime: 0,
        value_bytes: 0,
        version: None,
        invalidate: false,
        vivify: None,
        lease: None,
    };
}

/// A get with conditions and consequences: `mg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// Answer with the value, not only with what is known of the item.
    pub with_value: bool,
    /// Count it as a read, for the item's place among the others.
    pub noted: bool,
    /// Give the item this exptime.
    pub exptime: Option<i64>,
    /// Where there is no item, store an empty one with this exptime, and let this peer fill it.
    pub vivify: Option<i64>,
    /// Where the item dies before this exptime, let this peer fetch it anew.
    pub recache: Option<i64>,
    /// Is that judged by the exptime that the item is given, not by the one that it had?
    pub touch_first: bool,
    /// The peer has the value that belongs to this cas token: leave it out.
    pub known_cas: Option<u64>,
    /// The cas token that an item stored on the way shall get.
    pub version: Option<u64>,
}

impl Fetch<'_> {
    /// Asks whether there is an item, and for nothing else.
    pub const PLAIN: Self = Self {
        key: &[],
        with_value: false,
        noted: true,
        exptime: None,
        vivify: None,
        recache: None,
        touch_first: false,
        known_cas: None,
        version: None,
    };
}

/// The end of an item, or of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// Only the item with this cas token.
    pub cas: Option<u64>,
    /// What is left of the item.
    pub remains: Remains,
    /// The exptime of what is left.
    pub exptime: Option<i64>,
    /// The cas token of what is left.
    pub version: Option<u64>,
}

/// What a [`Delete`] leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Nothing.
    Nothing,
    /// The item, marked stale.
    Stale,
    /// The item without its value, its flags and its deadline, marked stale or not.
    Empty {
        /// Marked stale?
        stale: bool,
    },
}

impl<'a> Delete<'a> {
    /// Removes an item whatever its cas token.
    pub const fn of(key: &'a [u8]) -> Self {
        Self { key, cas: None, remains: Remains::Nothing, exptime: None, version: None }
    }
}

/// A counter's move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// Which way.
    pub direction: Direction,
    /// How far.
    pub delta: u64,
    /// Only the item with this cas token.
    pub cas: Option<u64>,
    /// What to store where there is no item.
    pub initial: Option<Initial>,
    /// The exptime of an item that there is.
    pub exptime: Option<i64>,
    /// The cas token that the item shall get, in place of the next one.
    pub version: Option<u64>,
}

impl<'a> Arithmetic<'a> {
    /// Moves a counter that there is.
    pub const fn of(key: &'a [u8], direction: Direction, delta: u64) -> Self {
        Self { key, direction, delta, cas: None, initial: None, exptime: None, version: None }
    }
}

/// A counter that a request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    /// Its number.
    pub number: u64,
    /// Its exptime.
    pub exptime: i64,
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
    /// `stats conns`: who is connected.
    Connections,
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
