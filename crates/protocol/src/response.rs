//! The outcome of a command, independent of how it is written.

use larder_item::Meta;

use crate::admin::Refusal;
use crate::permission::Denial;

/// The outcome of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// The item was found. The caller has already written the header and the value to the output,
    /// so that only the end of the value is missing.
    Hit,
    /// The item was found, and the caller has already written the complete response.
    Shown,
    /// No live item has the key.
    Miss,
    /// All keys of a request have a response.
    EndOfKeys,
    /// The item was stored.
    Stored(Stored),
    /// The condition of the store did not hold.
    NotStored,
    /// The item has a different cas token.
    Exists,
    /// The item to change does not exist.
    NotFound,
    /// The item was removed.
    Deleted,
    /// The item has a new exptime.
    Touched(Touched),
    /// The counter's new value.
    Number(Counted),
    /// The response to a no-op.
    NoOp,
    /// The peer is authenticated.
    Authenticated,
    /// The authentication mechanisms.
    Mechanisms,
    /// The command succeeded.
    Ok,
    /// The statistics were reset.
    Reset,
    /// The version.
    Version,
    /// The caller has already written the statistics, so that only the end of the list is missing.
    EndOfStats,
    /// The connection closes without a response.
    Close,
    /// The request was invalid or not allowed.
    ClientError(ClientError),
    /// The server could not execute the command.
    ServerError(ServerError),
}

/// The metadata of a stored item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The cas token; 0 if the cache does not store cas tokens.
    pub cas: u64,
    /// The length of the complete value in bytes.
    pub value_bytes: usize,
}

/// The metadata of a touched item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// The client flags.
    pub flags: u32,
    /// The cas token; 0 if the cache does not store cas tokens.
    pub cas: u64,
}

/// The metadata of a changed counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Its value.
    pub number: u64,
    /// The cas token; 0 if the cache does not store cas tokens.
    pub cas: u64,
    /// The time to live in seconds; `None` if the item does not expire.
    pub ttl_secs: Option<u32>,
    /// The time to live before the command, in seconds; `None` if the item had no time to live.
    pub ttl_before_secs: Option<u32>,
    /// True if the command created the counter.
    pub created: bool,
}

/// The data of an item in the responses to [`Command::Fetch`](crate::Command::Fetch) and
/// [`Command::Inspect`](crate::Command::Inspect).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Flags, cas token and the length of its value.
    pub meta: Meta,
    /// True if the response includes the value.
    pub with_value: bool,
    /// The time at which it expires, as a Unix time in seconds; `None` if it never expires.
    pub deadline_unix_secs: Option<i64>,
    /// The time to live in seconds; `None` if the item does not expire.
    pub ttl_secs: Option<u32>,
    /// The time to live before the command, in seconds; `None` if the item had no time to live.
    pub ttl_before_secs: Option<u32>,
    /// Seconds since its last store or read.
    pub idle_secs: u32,
    /// True if it was read before.
    pub fetched: bool,
    /// True if it is marked stale.
    pub stale: bool,
    /// The peer that holds the recache token.
    pub token_holder: TokenHolder,
    /// The size class that memcached would use for it.
    pub class: u8,
    /// Its size in bytes as memcached counts it.
    pub item_bytes: u64,
}

/// The peer that holds an item's recache token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenHolder {
    /// No peer: the item does not need a refill.
    NoPeer,
    /// This peer.
    ThisPeer,
    /// Another peer, which received it earlier.
    AnotherPeer,
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

/// An invalid or forbidden request. Each variant has memcached's exact text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// The command does not exist.
    UnknownCommand,
    /// The line does not match the form of its command.
    BadFormat,
    /// No line end follows the value.
    BadDataChunk,
    /// An exptime is not a number.
    BadExptime,
    /// A delta is not a number.
    BadDelta,
    /// A number follows the key of `delete`.
    BadDeleteUsage,
    /// A key is not valid base64.
    BadBase64,
    /// A meta flag does not exist.
    BadFlag,
    /// A meta flag is given twice.
    DuplicateFlag,
    /// A flag does not exist or is given twice. memcached uses one error for both.
    BadOrDuplicateFlag,
    /// The line has more flags than exist.
    TooManyFlags,
    /// The token of a flag is not a number.
    BadToken,
    /// An opaque is too long to echo.
    OpaqueTooLong,
    /// The mode of a meta store does not exist.
    BadStoreMode,
    /// The mode of a meta arithmetic does not exist.
    BadArithmeticMode,
    /// The argument of `shutdown` is not `graceful`.
    BadShutdownMode,
    /// `stats cachedump` lacks the class or the number of items.
    BadDump,
    /// `stats cachedump` names a class that memcached cannot have.
    NoSuchClass,
    /// `stats cachedump` is disabled.
    DumpNotAllowed,
    /// The item's value is not a number.
    NonNumeric,
    /// The peer has not logged in.
    Unauthenticated,
    /// User or password are wrong.
    AuthenticationFailed,
    /// The credentials contain no password.
    BadCredentials,
    /// The credentials are too long.
    CredentialsTooLong,
    /// No line end follows the credentials.
    BadCredentialsEnd,
    /// `flush_all` is disabled.
    FlushNotAllowed,
    /// The peer may not read the cache's memory directly.
    RegionNotAllowed,
    /// The requested memory limit is below the minimum of a server.
    MemoryLimitTooSmall,
    /// The requested memory limit is so large that the client must have given it in bytes and not
    /// in MiB.
    MemoryLimitInBytes,
    /// An administrative command is refused.
    Refused(Refusal),
    /// The peer lacks the permission for the command.
    NotPermitted(Denial),
}

impl From<Denial> for Response {
    fn from(denial: Denial) -> Self {
        Self::ClientError(ClientError::NotPermitted(denial))
    }
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

/// A command that the server could not or may not execute. A variant that memcached also has uses
/// memcached's exact text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerError {
    /// The item exceeds the item size limit.
    TooLarge,
    /// No memory for the item, and no item may be evicted. The server may detect this before the
    /// value has arrived completely.
    OutOfMemoryStoring,
    /// The connection may not buffer more input.
    OutOfMemoryReadingRequest,
    /// The connection may not buffer the items of one request.
    OutOfMemoryWritingHits,
    /// The connection may not buffer the statistics.
    OutOfMemoryWritingStats,
    /// No memory to store the counter.
    OutOfMemory,
    /// A suspended process that shares the cache holds a resource that the command needs.
    Stuck,
    /// The disk tier has no space for the item.
    OutOfDiskStoring,
    /// The disk tier has no memory for another key.
    OutOfDiskIndex,
    /// The disk does not keep up with the changes.
    DiskBusy,
    /// The disk has failed, so that the disk tier accepts no more changes.
    DiskFailed,
    /// The disk did not return the item.
    DiskUnreadable,
    /// The server is still reading its items from disk.
    Recovering {
        /// The part of the items that is read.
        percent: u8,
    },
    /// No memory to store the counter that the request creates.
    OutOfMemoryCreating,
    /// The memory limit cannot be changed to the requested value.
    MemoryLimitFixed,
    /// The server runs without TLS.
    NoTls,
    /// The new certificate files are unusable. The server keeps the current certificates.
    CertificatesUnusable,
    /// `shutdown` is disabled.
    ShutdownNotEnabled,
    /// `shutdown` is disabled, with the text of memcached 1.6.18.
    ShutdownNotEnabledOlder,
    /// The connection limit is reached, and this connection is closed.
    TooManyConnections,
    /// The origin of a near cache cannot be reached. The command was not sent.
    OriginUnreachable,
    /// The origin of a near cache has not answered in time, or the connection was lost. The command
    /// may have been executed.
    OriginSilent,
    /// The server has no list of the servers of its cluster yet.
    NoServerList,
    /// The user sends more requests per second than its rate allows.
    RateLimit,
    /// Too many logins of this user wait for their passwords to be verified.
    TooManyLogins,
}
