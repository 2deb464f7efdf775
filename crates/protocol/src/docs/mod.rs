//! docs/protocol.md, generated from the rows here and from the words of
//! [`text::render`](crate::text::render).

mod admin;
mod binary;
mod local;
mod meta;

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

const DIFFERENCES: &[Difference] = &[
    Difference {
        memcached: "`version` and `stats` return the version of the server.",
        larder: "They return the version of the memcached whose behaviour Larder follows.",
        reason: "Clients derive from it which commands they may use.",
    },
    Difference {
        memcached: "`slabs reassign` moves memory between size classes; `slabs automove`, `lru` \
            and `lru_crawler sleep` and `tocrawl` tune how memory is kept.",
        larder: "`slabs reassign` has nothing to spare; the others have no effect.",
        reason: "Larder's memory has no classes, no LRU queues and no crawler to tune.",
    },
    Difference {
        memcached: "`cache_memlimit` accepts any limit of 8 MiB or more.",
        larder: "It refuses a limit above 16 times `-m`, with `MEMLIMIT_ADJUST_FAILED`.",
        reason: "Larder reserves its address space once, at the start.",
    },
    Difference {
        memcached: "`extstore` and `watch`'s `type=extwrite` exist.",
        larder: "`extstore` gets `ERROR`, as from a memcached without a flash tier.",
        reason: "Larder has no flash tier.",
    },
    Difference {
        memcached: "`-e` accepts any file, and starts empty unless the last server stopped \
            gracefully. An unreadable `.meta` file beside it ends the start. `uptime` counts from \
            the start of the first server, and `cache_memlimit` is refused.",
        larder: "A file that does not hold a Larder cache ends the start and stays unchanged; so \
            does any `.meta` file. The cache survives however the last server ended. `uptime` \
            counts from the start of this server, as all counters do, and `cache_memlimit` can \
            lower the limit.",
        reason: "A wrong path must not destroy a file or the cache of a memcached; a warm cache is \
            needed most after a crash.",
    },
    Difference {
        memcached: "The microseconds in the lines of `watch` lack leading zeros.",
        larder: "They have six digits.",
        reason: "Without the zeros the time is ambiguous.",
    },
    Difference {
        memcached: "The binary protocol skips extras and key of an unknown opcode twice.",
        larder: "It skips the body.",
        reason: "memcached resumes parsing in the middle of the next request.",
    },
    Difference {
        memcached: "A value after a binary `touch`, `gat` or `stat` is parsed as the next request.",
        larder: "It is refused with `04`, as with other opcodes, and the connection closes.",
        reason: "A value parsed as a request lets its author send requests in the client's name.",
    },
    Difference {
        memcached: "The binary protocol refuses a store that is too large, and an unknown opcode, \
            before it skips the value.",
        larder: "It skips the value first, as the text protocol does.",
        reason: "A peer does not read while it sends.",
    },
    Difference {
        memcached: "SASL has the mechanisms and password databases of the system's library, \
            configured by the file in `SASL_CONF_PATH`.",
        larder: "It has PLAIN and the users of `MEMCACHED_SASL_PWDB`, which `-S` requires. \
            `SASL_CONF_PATH` is not read.",
        reason: "Hardly any client uses the other mechanisms; a library for them is a large attack \
            surface.",
    },
    Difference {
        memcached: "PLAIN credentials may follow in a second step (`22`), after a `21` without a \
            value.",
        larder: "They must be in `21`; a second step fails.",
        reason: "The mechanism has one step.",
    },
    Difference {
        memcached: "A file of `-Y` is read up to its eighth line; an empty line makes it unusable.",
        larder: "All lines are read; empty ones are ignored.",
        reason: "memcached rejects the ninth user without any diagnostic.",
    },
    Difference {
        memcached: "The response to a UDP request consists of several messages, one per item or \
            command, each of which counts its datagrams from 0.",
        larder: "The response is one message, whose datagrams are numbered consecutively.",
        reason: "Clients cannot order several messages or tell their number.",
    },
    Difference {
        memcached: "Over UDP, every line that is not a command gets `ERROR`, responses of servers \
            included.",
        larder: "The rest of a datagram from the first invalid line or opcode on is dropped \
            without a response. Responses never begin with a command of any dialect, so they are \
            neither executed nor answered.",
        reason: "One datagram with a forged sender would make two servers answer each other \
            forever.",
    },
    Difference {
        memcached: "A UDP response may have any length.",
        larder: "To another machine it is at most 16 times as long as its request \
            (`--udp-reply-factor`), to any machine at most 4 MiB; an error replaces a longer one.",
        reason: "Requests with a forged sender would flood the victim.",
    },
    Difference {
        memcached: "`stats detail dump` shows all prefixes in one packet of the binary protocol.",
        larder: "It shows the first 64 KiB of lines. In the text protocol it shows all of them.",
        reason: "A client that does not read must not hold megabytes of the server's memory.",
    },
    Difference {
        memcached: "`stats cachedump` and `stats detail dump` show keys as they are.",
        larder: "A key with spaces or control characters is shown in URI encoding.",
        reason: "The binary protocol allows line ends in keys; clients would take the rest of the \
            key for the next line.",
    },
    Difference {
        memcached: "A UDP request may ask for dumps, `watch` and any number of statistics.",
        larder: "Dumps and `watch` are refused, and more than sixteen `stats` in one datagram.",
        reason: "One datagram could block a worker for as long as its sender likes.",
    },
    Difference {
        memcached: "`-o ssl_verify_mode=2` and `mtls:` work without `ssl_ca_cert`; \
            `ssl_verify_mode=2` accepts clients without a certificate; `ssl_min_version` may be 0 \
            or 1.",
        larder: "They need `ssl_ca_cert`; mode 2 rejects such clients; 0 and 1 are taken as 2, \
            with a warning.",
        reason: "The server would be less secure than configured; TLS 1.0 and 1.1 are broken.",
    },
    Difference {
        memcached: "With TLS, a connection above `-c` gets an error in plain text.",
        larder: "It closes.",
        reason: "The client expects TLS.",
    },
    Difference {
        memcached: "If memory runs out while a value of more than 512 KiB arrives, the error is \
            `SERVER_ERROR Out of memory during read`.",
        larder: "The error is `SERVER_ERROR out of memory storing object`, as with any other \
            value.",
        reason: "Clients recognise only these words.",
    },
    Difference {
        memcached: "`stats larder` is an error.",
        larder: "It returns the statistics that memcached does not have. The word must be written \
            in full.",
        reason: "memcached's own lists stay as they are.",
    },
    Difference {
        memcached: "The error for a key that is too long, in a request for several keys, is \
            followed by an empty line.",
        larder: "Only the error is sent.",
        reason: "A client that counts lines would lose track.",
    },
    Difference {
        memcached: "A `get` or `gets` of any length is answered once its line has ended. A key \
            that is too long anywhere in it is answered with the error alone.",
        larder: "Keys of a line beyond 2048 bytes are answered as they arrive. An error in such a \
            line follows the items before it and takes the place of `END`.",
        reason: "A client that never ends its line must not use up memory.",
    },
    Difference {
        memcached: "Before login, a `set` that announces more bytes than a login may have is \
            answered once they have arrived.",
        larder: "It is answered at once. An announced value of up to 1 MiB is skipped; after a \
            line that announces more, the next login follows.",
        reason: "A wrong length must not leave a client without a response.",
    },
    Difference {
        memcached: "Any other line beyond 2048 bytes is executed if all of it arrives at once; \
            otherwise the connection closes.",
        larder: "`gat` and `gats` may be as long as `get`. All other long lines end the \
            connection, however they arrive.",
        reason: "A response must not depend on how the network splits a stream.",
    },
    Difference {
        memcached: "`touch`, `gat`, `gats` and `flush_all` refuse an exptime from 2147483648 to \
            4294967295.",
        larder: "It is the negative number with the same 32 bits, as in storage commands.",
        reason: "mcrouter writes `touch k 4294967295` where its client wrote -1.",
    },
    Difference {
        memcached: "`delete k 10` deletes: the number and all other words are ignored.",
        larder: "It is refused, as memcached 1.6.18 does, unless the number is 0, and so are two \
            words of any kind. One other word is ignored.",
        reason: "A client that sends a delay expects the item to live on for a while, and \
            `memccapable` expects an error for `delete a b c d e`.",
    },
    Difference {
        memcached: "The flags and exptime of a storage command are read by C's `strtoul` and \
            `strtol`: a tab may follow, and flags of -18446744073709551615 are 1.",
        larder: "They are digits after at most one sign; flags are not negative.",
        reason: "Only spaces separate the words of a line.",
    },
    Difference {
        memcached: "The names of administrative commands may be abbreviated: `flush` is \
            `flush_all`, `sh` is `shutdown`.",
        larder: "The name of a command must be written in full.",
        reason: "A typo must neither empty nor stop a cache.",
    },
    Difference {
        memcached: "`flush_all` and `shutdown` check their arguments only if the command is \
            enabled.",
        larder: "Errors in the arguments are reported first.",
        reason: "A line is parsed before it is executed.",
    },
];

#[cfg(test)]
mod tests;
