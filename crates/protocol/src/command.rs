//! Requests, independent of the dialect.

use larder_item::{Direction, StoreMode};

use crate::admin::Admin;

/// A request. Borrows from the received bytes.
///
/// A request for several keys yields one [`Command::Get`] per key, then [`Command::EndOfKeys`].
///
/// Terms of the meta protocol: A *stale* item is out of date, but still served. The *recache token*
/// of an item goes to one client only, which should store a new value. Responses to other clients
/// contain the information that a client holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Fetches an item; with `exptime`, sets the item's exptime first (`gat`).
    Get {
        /// The item's key.
        key: &'a [u8],
        /// True if the response includes the cas token (`gets`, `gats`).
        with_cas: bool,
        /// The new exptime, for `gat` and `gats`.
        exptime: Option<i64>,
    },
    /// Ends a request for several keys.
    EndOfKeys,
    /// Fetches an item's value or metadata, with the conditions and side effects of `mg`.
    Fetch(Fetch<'a>),
    /// Fetches an item. On a miss, gives the peer a lease: a token with which the peer, and no
    /// other client, may store the item.
    LeaseGet {
        /// The item's key.
        key: &'a [u8],
    },
    /// Shows an item's metadata without counting a read.
    Inspect {
        /// The item's key.
        key: &'a [u8],
    },
    /// Stores an item. The value follows the command line. The parser never stores it.
    Store(Store<'a>),
    /// Removes an item, empties it, or marks it stale.
    Delete(Delete<'a>),
    /// Increments or decrements a counter.
    Arithmetic(Arithmetic<'a>),
    /// Sets an item's exptime.
    Touch {
        /// The item's key.
        key: &'a [u8],
        /// The new exptime.
        exptime: i64,
    },
    /// Invalidates all items, immediately or at a time given as an exptime.
    FlushAll {
        /// The time, interpreted like an item's exptime; 0 or negative means now.
        exptime: i64,
    },
    /// Begins to remove, in the background, all items whose keys begin with a prefix. Items that
    /// are stored after the response stay.
    DeletePrefix {
        /// The first bytes of the keys, as on the wire.
        prefix: &'a [u8],
        /// True if the prefix is in base64.
        base64: bool,
    },
    /// Does nothing, but the server responds.
    NoOp,
    /// Requests the server's version.
    Version,
    /// Requests a part of the configuration of a cluster.
    Config {
        /// The name of the part. [`CLUSTER`](crate::cluster::CLUSTER) is the list of servers.
        name: &'a [u8],
    },
    /// Sets the log level.
    Verbosity {
        /// The requested level; any number.
        level: u32,
    },
    /// Shows statistics.
    Stats(StatsSection),
    /// Lists the authentication mechanisms.
    Mechanisms,
    /// Authenticates the peer.
    Authenticate {
        /// The mechanism that the peer chose.
        mechanism: &'a [u8],
        /// The mechanism's data: user and password for PLAIN.
        credentials: &'a [u8],
        /// True if this continues an authentication that has already begun.
        is_step: bool,
    },
    /// Closes the connection after the responses to earlier requests.
    Quit,
    /// Reloads the TLS certificate files.
    RefreshCertificates,
    /// Stops the server.
    Shutdown {
        /// True if connections may finish first.
        graceful: bool,
    },
    /// Changes the memory limit.
    MemoryLimit {
        /// The new limit, in MiB: 8 to 1,000,000,000.
        mebibytes: u64,
    },
    /// Sends the peer a descriptor of the cache's memory, so that it can read items directly: see
    /// [`local`](crate::local).
    Region,
    /// Reports items that the peer has read directly from the cache's memory.
    NoteReads {
        /// The items' keys, in the encoding of [`local::keys`](crate::local::keys).
        keys: &'a [u8],
    },
    /// Begins a change stream: see [`follow`](crate::follow).
    Follow {
        /// How long copies of the peer may be out of date, in milliseconds; `None` if the argument
        /// is not such a number.
        max_stale_ms: Option<u32>,
    },
    /// States which change stream the peer's connection belongs to.
    Follower {
        /// The token of the stream; `None` if the argument is not a token.
        token: Option<u128>,
    },
    /// Fetches an item for a copy.
    Copy(Copied<'a>),
    /// Begins or ends a copy of items into this server, on the peer's connection.
    Warm(Warm),
    /// Gives the peer's connection a name, for `stats conns`.
    Name {
        /// The name: 1 to [`NAME_BYTES_MAX`] printable ASCII characters.
        name: &'a [u8],
    },
    /// Closes connections.
    Kill(KillTarget<'a>),
    /// An administrative command.
    Admin(Admin),
}

/// The begin or the end of a copy of items into a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warm {
    /// The peer begins to copy items.
    Begin {
        /// The longest time without a request, in milliseconds, after which the copy has failed;
        /// `None` if the argument is not such a number.
        max_silence_ms: Option<u32>,
    },
    /// The copy is complete.
    End,
}

/// The longest name of a connection, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The connections to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillTarget<'a> {
    /// The connection with this number in `stats conns`.
    Connection(u32),
    /// All connections of a user of `--users`.
    User(&'a [u8]),
}

impl<'a> Command<'a> {
    /// Returns the key of the item that the command addresses; `None` if the command does not
    /// address an item.
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Get { key, .. }
            | Self::LeaseGet { key }
            | Self::Inspect { key }
            | Self::Touch { key, .. } => Some(key),
            Self::Fetch(fetch) => Some(fetch.key),
            Self::Copy(copied) => Some(copied.key),
            Self::Store(store) => Some(store.key),
            Self::Delete(delete) => Some(delete.key),
            Self::Arithmetic(arithmetic) => Some(arithmetic.key),
            _ => None,
        }
    }

    /// Returns the same command for another key.
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
            Self::Copy(copied) => Command::Copy(Copied { key, ..copied }),
            Self::Store(store) => Command::Store(Store { key, ..store }),
            Self::Delete(delete) => Command::Delete(Delete { key, ..delete }),
            Self::Arithmetic(arithmetic) => Command::Arithmetic(Arithmetic { key, ..arithmetic }),
            about_no_item => about_no_item,
        }
    }
}

/// A copy of a [`Command`] that addresses an item. It owns its key.
#[derive(Clone, Debug)]
pub struct OwnedCommand {
    key: Box<[u8]>,
    /// The command with an empty key.
    command: Command<'static>,
}

impl OwnedCommand {
    /// Returns the command.
    pub fn command(&self) -> Command<'_> {
        self.command.with_key(&self.key)
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Command<'_> {
    /// Returns a copy that outlives the bytes of the command; `None` if the command does not
    /// address an item.
    pub fn keep(&self) -> Option<OwnedCommand> {
        let command = match *self {
            Self::Get { with_cas, exptime, .. } => Command::Get { key: &[], with_cas, exptime },
            Self::LeaseGet { .. } => Command::LeaseGet { key: &[] },
            Self::Inspect { .. } => Command::Inspect { key: &[] },
            Self::Touch { exptime, .. } => Command::Touch { key: &[], exptime },
            Self::Fetch(fetch) => Command::Fetch(Fetch { key: &[], ..fetch }),
            Self::Copy(copied) => Command::Copy(Copied { key: &[], ..copied }),
            Self::Store(store) => Command::Store(Store { key: &[], ..store }),
            Self::Delete(delete) => Command::Delete(Delete { key: &[], ..delete }),
            Self::Arithmetic(arithmetic) => {
                Command::Arithmetic(Arithmetic { key: &[], ..arithmetic })
            }
            _ => return None,
        };
        Some(OwnedCommand { key: self.key()?.into(), command })
    }
}

/// The header of a store: everything except the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// The condition under which the item is stored.
    pub mode: StoreMode,
    /// Stores only if the current item has this cas token.
    pub cas: Option<u64>,
    /// The client flags.
    pub flags: u32,
    /// The item's exptime, as on the wire.
    pub exptime: i64,
    /// Length of the value that follows, without its line end, in bytes.
    pub value_bytes: usize,
    /// The item's new cas token; `None`: the server assigns the next one.
    pub version: Option<u64>,
    /// True if the store must also succeed if `cas` is lower than the token of the current item.
    /// The new item is then marked stale.
    pub invalidate: bool,
    /// For an append or prepend to an item that does not exist: stores the value as a new item with
    /// this exptime.
    pub vivify: Option<i64>,
    /// The lease token that the store requires; the store fails if the lease is no longer valid.
    pub lease: Option<u64>,
}

impl Store<'_> {
    /// The defaults for stores: no condition, no flags, no exptime, an empty value.
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

/// A get with conditions and side effects: `mg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// True if the response includes the value, not only metadata.
    pub with_value: bool,
    /// True if eviction counts this as a read.
    pub noted: bool,
    /// The item's new exptime.
    pub exptime: Option<i64>,
    /// On a miss, stores an empty item with this exptime and gives the recache token to this peer.
    pub vivify: Option<i64>,
    /// Gives the recache token to this peer if the item will expire sooner than an item with this
    /// exptime.
    pub recache: Option<i64>,
    /// True if `recache` is compared with the item's new exptime; false: with the old one.
    pub touch_first: bool,
    /// The cas token of the peer's copy. The response omits the value if the item still has this
    /// token.
    pub known_cas: Option<u64>,
    /// The cas token of the empty item that `vivify` stores.
    pub version: Option<u64>,
    /// False if the peer must not receive the recache token of an item that is stale or expires
    /// soon.
    pub claims: bool,
}

impl Fetch<'_> {
    /// Only checks whether an item exists.
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
        claims: true,
    };
}

/// A fetch of an item for a copy: `larder_fetch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied<'a> {
    /// The item's key, as on the wire; empty if the arguments are malformed.
    pub key: &'a [u8],
    /// True if the key is in base64.
    pub base64: bool,
    /// The length of the longest value that the peer copies, in bytes.
    pub value_bytes_max: usize,
}

/// Removes an item or its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// Deletes only an item with this cas token.
    pub cas: Option<u64>,
    /// The part of the item that remains.
    pub remains: Remains,
    /// The exptime of the remaining item.
    pub exptime: Option<i64>,
    /// The cas token of the remaining item.
    pub version: Option<u64>,
}

/// The part of an item that remains after a [`Delete`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Nothing.
    Nothing,
    /// The item, marked stale.
    Stale,
    /// The item without its value, flags and exptime.
    Empty {
        /// True if the item is marked stale.
        stale: bool,
    },
}

impl<'a> Delete<'a> {
    /// Removes an item regardless of its cas token.
    pub const fn of(key: &'a [u8]) -> Self {
        Self { key, cas: None, remains: Remains::Nothing, exptime: None, version: None }
    }
}

/// Increments or decrements a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// Increment or decrement.
    pub direction: Direction,
    /// The amount.
    pub delta: u64,
    /// Changes only an item with this cas token.
    pub cas: Option<u64>,
    /// The counter to create on a miss.
    pub initial: Option<Initial>,
    /// The new exptime of an existing item.
    pub exptime: Option<i64>,
    /// The item's new cas token; `None`: the server assigns the next one.
    pub version: Option<u64>,
}

impl<'a> Arithmetic<'a> {
    /// Changes an existing counter.
    pub const fn of(key: &'a [u8], direction: Direction, delta: u64) -> Self {
        Self { key, direction, delta, cas: None, initial: None, exptime: None, version: None }
    }
}

/// The counter that a request creates on a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    /// The value of the counter.
    pub number: u64,
    /// The exptime of the counter.
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
    /// `stats conns`: the connections.
    Connections,
    /// `stats larder`: statistics that memcached does not have.
    Larder,
    /// `stats delete_prefix`: the most recent removal by prefix.
    DeletePrefix,
    /// `stats hotkeys`: the most frequently used keys.
    HotKeys,
    /// `stats slow`: the latest slow requests.
    Slow,
    /// `stats prefixes`: items, reads and hits by key prefix.
    Prefixes,
    /// `stats cachedump`: items of a size class.
    CacheDump {
        /// The size class.
        class: u32,
        /// The maximum number of items; 0: no limit.
        items_max: u32,
    },
    /// `stats users`: the users of `--users`.
    Users,
    /// `stats origins`: the origins of a near cache.
    Origins,
    /// `stats reset`
    Reset,
}
