//! The section on errors.

use super::table::{code, push_row, words};
use crate::permission::{Denial, Right};
use crate::response::{ClientError, Response, ServerError};

/// Returns the section.
pub(super) fn section() -> String {
    let mut section = HEAD.to_owned();
    for (error, meaning) in ERRORS {
        push_row(&mut section, &[&code(&words(error)), meaning]);
    }
    section
}

const HEAD: &str = "
## Errors

Any command with the named part or argument may return these errors. The connection stays open
unless the table states otherwise.

| line | meaning |
|---|---|
";

const LACKS: &str = "With `--users`, the user's `rights` are too low for the command.";

pub(super) const ERRORS: &[(Response, &str)] = &[
    (
        Response::ClientError(ClientError::UnknownCommand),
        "The command does not exist. If the line's last word begins with `HTTP/`, the server \
        closes the connection instead, without a response.",
    ),
    (
        Response::ClientError(ClientError::BadFormat),
        "The line is too short or lacks arguments, a key is too long, or a number is invalid.",
    ),
    (
        Response::ClientError(ClientError::BadDataChunk),
        "The value is not followed by `\\r\\n`. Its bytes and two more are consumed.",
    ),
    (
        Response::ClientError(ClientError::BadExptime),
        "The exptime of `touch`, `gat`, `gats` or `flush_all` is not a number.",
    ),
    (
        Response::ClientError(ClientError::BadDelta),
        "The delta is not an unsigned number below 2^64.",
    ),
    (
        Response::ClientError(ClientError::BadDeleteUsage),
        "A number other than 0 follows the key, or several words do.",
    ),
    (
        Response::ClientError(ClientError::NonNumeric),
        "The item's value is not an unsigned decimal number below 2^64.",
    ),
    (
        Response::ClientError(ClientError::Unauthenticated),
        "With `-Y` or `--users`, a request other than a login, before the peer has logged in.",
    ),
    (
        Response::ClientError(ClientError::AuthenticationFailed),
        "With `-Y` or `--users`, the user does not exist or the password is wrong.",
    ),
    (
        Response::ClientError(ClientError::BadCredentials),
        "With `-Y` or `--users`, the value of a login is not a user, a space, and a password.",
    ),
    (
        Response::ClientError(ClientError::CredentialsTooLong),
        "With `-Y` or `--users`, the value of a login has more than 16384 bytes. It is skipped.",
    ),
    (
        Response::ClientError(ClientError::BadCredentialsEnd),
        "With `-Y` or `--users`, the value of a login is not followed by `\\r\\n`. Its bytes and two more are \
        consumed.",
    ),
    (
        Response::ServerError(ServerError::TooManyLogins),
        "With `--users`, too many logins with this name wait for the check of their passwords.",
    ),
    (Response::ClientError(ClientError::NotPermitted(Denial::Right(Right::Read))), LACKS),
    (Response::ClientError(ClientError::NotPermitted(Denial::Right(Right::Write))), LACKS),
    (Response::ClientError(ClientError::NotPermitted(Denial::Right(Right::Admin))), LACKS),
    (
        Response::ClientError(ClientError::NotPermitted(Denial::ReadOnlyListener)),
        "The word `readonly` of `-l` limits this listener to commands that change nothing.",
    ),
    (
        Response::ClientError(ClientError::NotPermitted(Denial::ForeignKey)),
        "With `--users`, the user has prefixes, and the key begins with none of them. One such key \
        in a line of keys refuses the whole line.",
    ),
    (
        Response::ClientError(ClientError::NotPermitted(Denial::AllItems)),
        "With `--users`, the command needs a user without prefixes.",
    ),
    (
        Response::ClientError(ClientError::NotPermitted(Denial::LongList)),
        "With `--users`, the user has prefixes, and the line of keys has more than 262144 bytes.",
    ),
    (
        Response::ServerError(ServerError::RateLimit),
        "With `--users`, the user has exceeded its `rate`. Nothing was changed.",
    ),
    (
        Response::ServerError(ServerError::OriginUnreachable),
        "With `--origin`, the origin cannot be reached. Nothing was changed.",
    ),
    (
        Response::ServerError(ServerError::OriginSilent),
        "With `--origin`, the origin has not answered within `--origin-timeout`, or its connection \
        was lost. The command may have been executed, or may be executed later.",
    ),
    (Response::ClientError(ClientError::FlushNotAllowed), "The server was started with `-F`."),
    (
        Response::ClientError(ClientError::BadDump),
        "`stats cachedump` lacks the class or the number of items.",
    ),
    (
        Response::ClientError(ClientError::NoSuchClass),
        "`stats cachedump` with a class of 64 or more.",
    ),
    (
        Response::ClientError(ClientError::DumpNotAllowed),
        "`stats cachedump` on a server started with `-X`.",
    ),
    (
        Response::ClientError(ClientError::BadShutdownMode),
        "The argument of `shutdown` is not `graceful` or a prefix of it.",
    ),
    (Response::ServerError(ServerError::NoTls), "The server runs without `-Z`."),
    (Response::ServerError(ServerError::CertificatesUnusable), "A certificate file is unusable."),
    (Response::ServerError(ServerError::ShutdownNotEnabled), "The server runs without `-A`."),
    (
        Response::ClientError(ClientError::RegionNotAllowed),
        "`larder_region` or `larder_read` on a connection that `--local-readers` does not allow.",
    ),
    (Response::ClientError(ClientError::MemoryLimitTooSmall), "The limit is below 8."),
    (Response::ClientError(ClientError::MemoryLimitInBytes), "The limit is above 1000000000."),
    (
        Response::ServerError(ServerError::MemoryLimitFixed),
        "The limit is above the maximum or below the minimum of this server; see `cache_memlimit`.",
    ),
    (
        Response::ServerError(ServerError::TooLarge),
        "The item is larger than `-I` allows. Its value is skipped.",
    ),
    (
        Response::ServerError(ServerError::OutOfMemoryStoring),
        "The server is out of memory for the item. Its value is skipped.",
    ),
    (
        Response::ServerError(ServerError::OutOfMemory),
        "The server is out of memory for the longer number.",
    ),
    (
        Response::ServerError(ServerError::Stuck),
        "Another process that shares the cache stopped in the middle of a change and did not \
        resume within two seconds.",
    ),
    (
        Response::ServerError(ServerError::OutOfDiskStoring),
        "The live items fill four fifths of `--tier-size`, or the file system is full. The old \
        value stays. Reads and deletes still work.",
    ),
    (
        Response::ServerError(ServerError::OutOfDiskIndex),
        "The index of the disk takes three quarters of `-m`. Stores of existing keys, reads and \
        deletes still work.",
    ),
    (
        Response::ServerError(ServerError::DiskBusy),
        "The disk was slower than the changes for `--tier-wait-secs`. Nothing was changed.",
    ),
    (
        Response::ServerError(ServerError::DiskFailed),
        "A write or a sync of the disk failed. The server refuses changes until it is restarted. \
        Reads still work.",
    ),
    (
        Response::ServerError(ServerError::DiskUnreadable),
        "The disk returned an error, or the item's record is damaged.",
    ),
    (
        Response::ServerError(ServerError::Recovering { percent: 43 }),
        "The server has been reading the items of `--tier-path` for longer than \
        `--tier-wait-secs`. Nothing was changed. `version`, `stats` and `mn` are answered.",
    ),
    (
        Response::ServerError(ServerError::OutOfMemoryReadingRequest),
        "All connections together exceed the memory for buffers, and this one uses the most among \
        the connections that make no progress. The connection closes.",
    ),
    (
        Response::ServerError(ServerError::OutOfMemoryWritingHits),
        "The response does not fit into the memory for buffers.",
    ),
    (
        Response::ServerError(ServerError::OutOfMemoryWritingStats),
        "The response does not fit into the memory for buffers.",
    ),
    (
        Response::ServerError(ServerError::NoServerList),
        "`config get cluster`, or a read of its key, before the name of `--cluster-dns` was \
        resolved for the first time. The server keeps trying.",
    ),
    (
        Response::ServerError(ServerError::TooManyConnections),
        "Sent to a new connection above `-c`, which then closes.",
    ),
];
