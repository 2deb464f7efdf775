//! docs/protocol.md, generated from the rows here and from the words of
//! [`text::render`](crate::text::render).

mod admin;
mod binary;
mod differences;
mod local;
mod meta;

use self::differences::DIFFERENCES;
use std::fmt::Write;

use crate::text::{SHORT_LINE_BYTES_MAX, render};
use crate::{ClientError, Response, ServerError, WIRE_VERSION};

/// Returns the text of docs/protocol.md.
pub fn protocol_md() -> String {
    let mut page = head();
    page.push_str("\n## Commands\n\n| command | replies | meaning |\n|---|---|---|\n");
    push_commands(&mut page, COMMANDS);
    page.push_str(
        "\nEach storage command is followed by a value of `<bytes>` bytes and `\\r\\n`.\n",
    );
    page.push_str(&meta::section());
    page.push_str(&binary::section());
    page.push_str(&admin::section());
    page.push_str(&local::section());
    page.push_str(ERRORS_HEAD);
    for (error, meaning) in ERRORS {
        push_row(&mut page, &[&code(&words(error)), meaning]);
    }
    page.push_str(DIFFERENCES_HEAD);
    for row in DIFFERENCES {
        push_row(&mut page, &[row.memcached, row.larder, row.reason]);
    }
    page
}

/// A command.
struct CommandRow {
    form: &'static str,
    /// Separated by ` / `; empty: no reply.
    replies: &'static str,
    meaning: &'static str,
}

/// A response that differs from memcached's on purpose.
struct Difference {
    memcached: &'static str,
    larder: &'static str,
    reason: &'static str,
}

/// Appends a table row. Escapes bars, which would end the cell.
fn push_row(page: &mut String, cells: &[&str]) {
    for cell in cells {
        write!(page, "| {} ", cell.replace('|', "\\|")).expect("writing to a String cannot fail");
    }
    page.push_str("|\n");
}

fn push_commands(page: &mut String, rows: &[CommandRow]) {
    for row in rows {
        push_row(page, &[&code(row.form), &replies(row.replies), row.meaning]);
    }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn replies(replies: &str) -> String {
    if replies.is_empty() {
        return "none".to_owned();
    }
    replies.split(" / ").map(code).collect::<Vec<_>>().join(" · ")
}

/// Returns an error as written on the wire, without its line end.
fn words(error: &Response) -> String {
    let mut line = Vec::new();
    render::response(&mut line, error);
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

fn head() -> String {
    format!(
        "\
<!-- Written from crates/protocol/src/docs/mod.rs. Change a row there, then run
     `LARDER_BLESS=1 cargo test -p larder-protocol`. -->

# Protocol

Larder speaks memcached's text protocol, classic and meta, and its binary protocol, as memcached
{WIRE_VERSION} does. Every deviation is intentional and listed under [Differences](#differences).

## Lines, words, values

- A request is a line of words. The line ends in a newline with an optional carriage return before
  it.
- Words are separated by one or more spaces. A line that begins with a space is not a command. A tab
  is part of a word.
- A line shorter than 4 bytes, its end included, is refused. A line longer than
  {SHORT_LINE_BYTES_MAX} bytes ends the connection without a response. Lines of `get`, `gets`, `gat`
  and `gats` may have any length; their keys are answered as they arrive.
- A key has 1 to 250 bytes, any but space and newline.
- `noreply` is recognised in commands whose form includes it, and after unknown commands: as the
  last word of the line, or as the 23rd word of a longer line, in exactly this spelling. It
  suppresses any response, errors included. Other surplus words are ignored.
- A value follows the line that announces its length, and must be followed by `\\r\\n`. If a line
  with a valid length is refused, the server skips the value, then sends the error. If the length is
  invalid, the server sends the error even after `noreply` and parses the bytes that follow as
  commands.
- Numbers are decimal digits, with a minus sign if the argument may be negative. The flags and the
  exptime of a storage command are parsed at 64 bits and truncated to the lower 32.
- An exptime of 0 means never; 1 to 2592000 is a number of seconds from now; more is a Unix time. A
  negative exptime, or a Unix time in the past, makes the item expire at once.
"
    )
}

const ERRORS_HEAD: &str = "
## Errors

Any command that has the part in question may return these errors. The connection stays open unless
the table says otherwise.

| line | meaning |
|---|---|
";

const DIFFERENCES_HEAD: &str = "
## Differences

| memcached | Larder | why |
|---|---|---|
";

const STORED: &str = "STORED / NOT_STORED";

const COMMANDS: &[CommandRow] = &[
    CommandRow {
        form: "get <key>+",
        replies: "VALUE <key> <flags> <bytes>, value / END",
        meaning: "Returns the items that exist, then `END`. If one key is too long, none is looked \
            up.",
    },
    CommandRow {
        form: "gets <key>+",
        replies: "VALUE <key> <flags> <bytes> <cas>, value / END",
        meaning: "As `get`, with the cas token of each item.",
    },
    CommandRow {
        form: "gat <exptime> <key>+",
        replies: "VALUE <key> <flags> <bytes>, value / END",
        meaning: "As `get`, and sets the exptime of each item.",
    },
    CommandRow {
        form: "gats <exptime> <key>+",
        replies: "VALUE <key> <flags> <bytes> <cas>, value / END",
        meaning: "As `gets`, and sets the exptime of each item.",
    },
    CommandRow {
        form: "set <key> <flags> <exptime> <bytes> [noreply]",
        replies: "STORED",
        meaning: "Stores unconditionally. A store that fails because the item is too large or \
            memory is short also removes the old item.",
    },
    CommandRow {
        form: "add <key> <flags> <exptime> <bytes> [noreply]",
        replies: STORED,
        meaning: "Stores if the item does not exist.",
    },
    CommandRow {
        form: "replace <key> <flags> <exptime> <bytes> [noreply]",
        replies: STORED,
        meaning: "Stores if the item exists.",
    },
    CommandRow {
        form: "append <key> <flags> <exptime> <bytes> [noreply]",
        replies: STORED,
        meaning: "Appends to the value of an item, which keeps its flags and exptime.",
    },
    CommandRow {
        form: "prepend <key> <flags> <exptime> <bytes> [noreply]",
        replies: STORED,
        meaning: "Prepends to the value of an item, which keeps its flags and exptime.",
    },
    CommandRow {
        form: "cas <key> <flags> <exptime> <bytes> <cas> [noreply]",
        replies: "STORED / EXISTS / NOT_FOUND",
        meaning: "Stores if the item has this cas token.",
    },
    CommandRow {
        form: "delete <key> [0] [noreply]",
        replies: "DELETED / NOT_FOUND",
        meaning: "Removes an item.",
    },
    CommandRow {
        form: "incr <key> <delta> [noreply]",
        replies: "<number> / NOT_FOUND",
        meaning: "Increments an item whose value is a number; wraps at 2^64.",
    },
    CommandRow {
        form: "decr <key> <delta> [noreply]",
        replies: "<number> / NOT_FOUND",
        meaning: "Decrements such an item; stops at 0. A shorter number is padded with spaces.",
    },
    CommandRow {
        form: "touch <key> <exptime> [noreply]",
        replies: "TOUCHED / NOT_FOUND",
        meaning: "Sets the exptime of an item.",
    },
    CommandRow {
        form: "flush_all [<exptime>] [noreply]",
        replies: "OK",
        meaning: "Invalidates all items, now or at the given time. A negative exptime means now.",
    },
    CommandRow {
        form: "lease-get <key>",
        replies: "VALUE <key> <flags> <bytes>, value, END / LVALUE <key> <token> 0 0, empty line, \
            END",
        meaning: "Returns the item or, on a miss, a lease to store it, which lasts 10 seconds. A \
            token of 1 is not a lease: another client holds one. For mcrouter; memcached responds \
            `ERROR`.",
    },
    CommandRow {
        form: "lease-set <key> <token> <flags> <exptime> <bytes> [noreply]",
        replies: STORED,
        meaning: "Stores if the lease is still valid. A `delete` of the key, a `flush_all`, the \
            use of the lease, and a store of the item by another client end it.",
    },
    CommandRow {
        form: "metaget <key>",
        replies: "META <key> age: <secs>; exptime: <Unix time or 0>; from: unknown / END",
        meaning: "Returns the metadata of an item, then `END`. For mcrouter; memcached responds \
            `ERROR`.",
    },
    CommandRow {
        form: "version",
        replies: "VERSION <version>",
        meaning: "Returns the version; see [Differences](#differences).",
    },
    CommandRow {
        form: "verbosity <level> [noreply]",
        replies: "OK",
        meaning: "Sets the log level; a level above 2 is taken as 2.",
    },
    CommandRow {
        form: "stats [settings | items | slabs | sizes | conns | larder]",
        replies: "STAT <name> <value> / END",
        meaning: "Returns statistics, see [stats.md](stats.md). `settings` may be abbreviated to \
            any prefix, `conns` to `co`.",
    },
    CommandRow {
        form: "stats cachedump <class> <items>",
        replies: "ITEM <key> [<bytes> b; <exptime> s] / END",
        meaning: "Returns keys of live items of a size class, 0 for all: up to 2 MiB, from the \
            first 30,000 items that it visits, 500 over UDP. Any prefix of `cachedump` works.",
    },
    CommandRow {
        form: "stats reset",
        replies: "RESET",
        meaning: "Sets counters to 0. Any prefix of `reset` works, so `stats r` resets.",
    },
    CommandRow {
        form: "cache_memlimit <mebibytes> [noreply]",
        replies: "OK",
        meaning: "Changes the memory limit: 8 to 1000000000, and at most 16 times `-m`. The limit \
            cannot rise above `-m` with `-e`, `-k`, `-L` or local readers, nor if the system \
            refuses the address space, nor fall below the size of the index.",
    },
    CommandRow {
        form: "refresh_certs",
        replies: "OK",
        meaning: "Reloads changed certificate files, for new connections. Without TLS, or if a \
            file is unusable, the response is a line that begins with `Error`; the log on standard \
            error has the cause.",
    },
    CommandRow {
        form: "shutdown [graceful]",
        replies: "",
        meaning: "Closes the connection and stops the server. Needs `-A`.",
    },
    CommandRow {
        form: "quit",
        replies: "",
        meaning: "Closes the connection once the earlier requests are answered.",
    },
];

const ERRORS: &[(Response, &str)] = &[
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
        "With `-Y`, a request other than a login, before the peer has logged in.",
    ),
    (
        Response::ClientError(ClientError::AuthenticationFailed),
        "With `-Y`, the user does not exist or the password is wrong.",
    ),
    (
        Response::ClientError(ClientError::BadCredentials),
        "With `-Y`, the value of a login is not a user, a space, and a password.",
    ),
    (
        Response::ClientError(ClientError::CredentialsTooLong),
        "With `-Y`, the value of a login has more than 16384 bytes. It is skipped.",
    ),
    (
        Response::ClientError(ClientError::BadCredentialsEnd),
        "With `-Y`, the value of a login is not followed by `\\r\\n`. Its bytes and two more are \
        consumed.",
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
        Response::ServerError(ServerError::OutOfMemoryReadingRequest),
        "All connections together exceed the memory for buffers, and this one holds the most among \
         those that make no progress. The connection closes.",
    ),
    (
        Response::ServerError(ServerError::OutOfMemoryWritingHits),
        "The response does not fit the memory for buffers.",
    ),
    (
        Response::ServerError(ServerError::OutOfMemoryWritingStats),
        "The response does not fit the memory for buffers.",
    ),
    (
        Response::ServerError(ServerError::TooManyConnections),
        "Sent to a new connection above `-c`, which then closes.",
    ),
];

#[cfg(test)]
mod tests;
