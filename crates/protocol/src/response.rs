//! What happened to a command. Says nothing about how it is written.

/// The outcome of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// The item was found and [`text::render::hit_head`](crate::text::render::hit_head) and its
    /// value have been written; what follows a value is still due.
    Hit,
    /// No live item has the key.
    Miss,
    /// All keys of a request have been answered.
    EndOfKeys,
    /// The item was stored.
    Stored,
    /// The condition of the store did not hold.
    NotStored,
    /// The item's cas token is another one.
    Exists,
    /// There is no item to change.
    NotFound,
    /// The item was removed.
    Deleted,
    /// The item has its new exptime.
    Touched,
    /// The counter's new number.
    Number(u64),
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
    /// `flush_all` is switched off.
    FlushNotAllowed,
    /// The memory limit asked for is less than a server can run with.
    MemoryLimitTooSmall,
    /// The memory limit asked for is so large that bytes must have been meant.
    MemoryLimitInBytes,
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
    /// The memory limit cannot be changed to what was asked for.
    MemoryLimitFixed,
    /// `shutdown` is switched off.
    ShutdownNotEnabled,
    /// The server has as many connections as it may have; this one is closed.
    TooManyConnections,
}
