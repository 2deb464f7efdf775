//! What happened to a command. Says nothing about how it is written.

use larder_item::Meta;

use crate::admin::Refusal;

/// The outcome of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// The item was found, and what stands before its value and the value have been written; what
    /// follows a value is still due.
    Hit,
    /// The item was found and all there is to say about it has been written.
    Shown,
    /// No live item has the key.
    Miss,
    /// All keys of a request have been answered.
    EndOfKeys,
    /// The item was stored.
    Stored(Stored),
    /// The condition of the store did not hold.
    NotStored,
    /// The item's cas token is another one.
    Exists,
    /// There is no item to change.
    NotFound,
    /// The item was removed.
    Deleted,
    /// The item has its new exptime.
    Touched(Touched),
    /// The counter's new number.
    Number(Counted),
    /// The peer is heard.
    NoOp,
    /// The peer is who it says.
    Authenticated,
    /// These mechanisms.
    Mechanisms,
    /// Done.
    Ok,
    /// The statistics were reset.
    Reset,
    /// This version.
    Version,
    /// Statistics were written; their end is still due.
    EndOfStats,
    /// The connection is to be closed without an answer.
    Close,
    /// The peer made a mistake.
    ClientError(ClientError),
    /// The server could not do it.
    ServerError(ServerError),
}

/// What is known of an item that was stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Its cas token, 0 where none are kept.
    pub cas: u64,
    /// The length of its whole value.
    pub value_bytes: usize,
}

/// What is known of an item that was touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// The client's bits.
    pub flags: u32,
    /// Its cas token, 0 where none are kept.
    pub cas: u64,
}

/// What is known of a counter that moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Its number.
    pub number: u64,
    /// Its cas token, 0 where none are kept.
    pub cas: u64,
    /// Seconds it has to live; for ever where `None`.
    pub ttl_secs: Option<u32>,
    /// The same before the command.
    pub ttl_before_secs: Option<u32>,
    /// Did the command create it?
    pub created: bool,
}

/// An item as [`Command::Fetch`](crate::Command::Fetch) and
/// [`Command::Inspect`](crate::Command::Inspect) show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Flags, cas token and the length of its value.
    pub meta: Meta,
    /// Is its value shown?
    pub with_value: bool,
    /// When it dies, as a Unix time; never where `None`.
    pub deadline_unix_secs: Option<i64>,
    /// Seconds it has to live; for ever where `None`.
    pub ttl_secs: Option<u32>,
    /// The same before the command.
    pub ttl_before_secs: Option<u32>,
    /// Seconds since it was last stored or read.
    pub idle_secs: u32,
    /// Had it been read before?
    pub fetched: bool,
    /// Is it marked stale?
    pub stale: bool,
    /// Whose part is it to fetch it anew?
    pub win: Win,
    /// The size class that memcached would keep it in, and its size there.
    pub class: u8,
    /// Its size as memcached would count it, in bytes.
    pub item_bytes: u64,
}

/// Who is to fetch an item anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Win {
    /// Nobody.
    Nobody,
    /// This peer.
    Won,
    /// Another, who was told so before.
    Lost,
}

impl From<ClientError> for Response {
    fn from(error: ClientError) -> Self {
        Self::ClientError(error)
    }
}

impl From<ServerError> for Response {
    fn from(error: ServerError) -> Self {
        Self::ServerError(error)
    }
}

/// A mistake of the peer's. Each has memcached's exact words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// No such command.
    UnknownCommand,
    /// The line does not have the form its command needs.
    BadFormat,
    /// The value was not followed by a line end.
    BadDataChunk,
    /// An exptime is no number.
    BadExptime,
    /// A delta is no number.
    BadDelta,
    /// `delete` has a number behind its key.
    BadDeleteUsage,
    /// A key is no base64.
    BadBase64,
    /// A flag of the meta protocol that does not exist.
    BadFlag,
    /// A flag of the meta protocol stands twice.
    DuplicateFlag,
    /// Either, where memcached does not say which.
    BadOrDuplicateFlag,
    /// More flags than there are.
    TooManyFlags,
    /// A flag's number is none.
    BadToken,
    /// An opaque is too long to be echoed.
    OpaqueTooLong,
    /// A meta store has a mode that does not exist.
    BadStoreMode,
    /// A meta arithmetic has a mode that does not exist.
    BadArithmeticMode,
    /// `shutdown` has another word than `graceful`.
    BadShutdownMode,
    /// `stats cachedump` lacks the class or the number of items.
    BadDump,
    /// `stats cachedump` names a class that memcached cannot have.
    NoSuchClass,
    /// `stats cachedump` is switched off.
    DumpNotAllowed,
    /// The item's value is no number.
    NonNumeric,
    /// The peer has not said who it is.
    Unauthenticated,
    /// The peer is not who it says.
    AuthenticationFailed,
    /// What should say who the peer is has no password.
    BadCredentials,
    /// What should say who the peer is is too long.
    CredentialsTooLong,
    /// What says who the peer is was not followed by a line end.
    BadCredentialsEnd,
    /// `flush_all` is switched off.
    FlushNotAllowed,
    /// The peer may not read the cache's memory by itself.
    RegionNotAllowed,
    /// The memory limit asked for is less than a server can run with.
    MemoryLimitTooSmall,
    /// The memory limit asked for is so large that bytes must have been meant.
    MemoryLimitInBytes,
    /// An administrative command is refused.
    Refused(Refusal),
}

impl From<Refusal> for ClientError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        Self::ClientError(refusal.into())
    }
}

/// Something the server could not or may not do. Each has memcached's exact words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerError {
    /// The item is larger than items may be.
    TooLarge,
    /// There is no memory for the item, and nothing may be evicted; found out before its value came, or
    /// while it was arriving.
    OutOfMemoryStoring,
    /// The connection may not buffer that much input.
    OutOfMemoryReadingRequest,
    /// The connection may not buffer that much output: the items of one request.
    OutOfMemoryWritingHits,
    /// The connection may not buffer that much output: statistics.
    OutOfMemoryWritingStats,
    /// The counter could not be stored.
    OutOfMemory,
    /// Another process that shares the cache has been stopped while it held what the command needs.
    Stuck,
    /// The counter that a request wanted to begin could not be stored.
    OutOfMemoryCreating,
    /// The memory limit cannot be changed to what was asked for.
    MemoryLimitFixed,
    /// There are no certificates to refresh.
    NoTls,
    /// The files of the certificates cannot be used; those that are in use stay.
    CertificatesUnusable,
    /// `shutdown` is switched off.
    ShutdownNotEnabled,
    /// The same in the words of memcached 1.6.18.
    ShutdownNotEnabledOlder,
    /// The server has as many connections as it may have; this one is closed.
    TooManyConnections,
}
