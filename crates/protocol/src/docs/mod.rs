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
        write!(page, "| {} ", cell.replace('|', "\\|")).expect("a string takes any text");
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

Larder speaks the text protocol, classic and meta, as memcached {WIRE_VERSION} does. What it answers otherwise,
it does on purpose; all of that is under [Differences](#differences).

## Lines, words, values

- A request is a line of words. It ends in a newline, which may have one carriage return before it.
- Words are separated by one or more spaces. A line that begins with a space is no command. A tab is
  part of a word.
- A line shorter than 4 bytes, its end included, is refused. A line longer than
  {SHORT_LINE_BYTES_MAX} bytes ends the connection without an answer; one of `get`, `gets`, `gat` or
  `gats` may have any length, and its keys are answered as they arrive.
- A key has 1 to 250 bytes, any but space and newline.
- `noreply` is recognised where a command's form names it, and behind unknown commands: as the last
  word of the line, or as the 23rd where there are more, in exactly this spelling. It hides whatever
  would have been answered, failures included. Other words that mean nothing are ignored.
- A value follows the line that announces its length, and must be followed by `\\r\\n`. Where the
  line is refused although its length is understood, the value is skipped before the refusal is
  told. Where the length is not understood, the refusal is told even after `noreply`, and what
  follows is read as commands.
- Numbers are decimal digits, with a minus sign where negative ones make sense. The flags and the
  exptime of a storage command are read at 64 bits, of which the lower 32 count.
- An exptime of 0 means never, 1 to 2592000 means so many seconds from now, more is a Unix time. A
  negative one, or a Unix time that is past, means that the item is dead at once.
"
    )
}

const ERRORS_HEAD: &str = "
## Errors

These may answer any command that has the part in question. The connection stays open unless the
meaning says otherwise.

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
        meaning: "The items that exist, then `END`. If one key is too long, none is looked up.",
    },
    CommandRow {
        form: "gets <key>+",
        replies: "VALUE <key> <flags> <bytes> <cas>, value / END",
        meaning: "As `get`, with each item's cas token.",
    },
    CommandRow {
        form: "gat <exptime> <key>+",
        replies: "VALUE <key> <flags> <bytes>, value / END",
        meaning: "As `get`, and gives each item a new exptime.",
    },
    CommandRow {
        form: "gats <exptime> <key>+",
        replies: "VALUE <key> <flags> <bytes> <cas>, value / END",
        meaning: "As `gets`, and gives each item a new exptime.",
    },
    CommandRow {
        form: "set <key> <flags> <exptime> <bytes> [noreply]",
        replies: "STORED",
        meaning: "Stores always. If the item is too large or there is no memory, the one it would \
            have replaced is removed too.",
    },
    CommandRow {
        form: "add <key> <flags> <exptime> <bytes> [noreply]",
        replies: STORED,
        meaning: "Stores if there is no such item.",
    },
    CommandRow {
        form: "replace <key> <flags> <exptime> <bytes> [noreply]",
        replies: STORED,
        meaning: "Stores if there is such an item.",
    },
    CommandRow {
        form: "append <key> <flags> <exptime> <bytes> [noreply]",
        replies: STORED,
        meaning: "Puts the value behind that of an item, which keeps its flags and exptime.",
    },
    CommandRow {
        form: "prepend <key> <flags> <exptime> <bytes> [noreply]",
        replies: STORED,
        meaning: "Puts the value before that of an item, which keeps its flags and exptime.",
    },
    CommandRow {
        form: "cas <key> <flags> <exptime> <bytes> <cas> [noreply]",
        replies: "STORED / EXISTS / NOT_FOUND",
        meaning: "Stores if the item still has this cas token.",
    },
    CommandRow {
        form: "delete <key> [0] [noreply]",
        replies: "DELETED / NOT_FOUND",
        meaning: "Removes an item.",
    },
    CommandRow {
        form: "incr <key> <delta> [noreply]",
        replies: "<number> / NOT_FOUND",
        meaning: "Adds to an item that is a number below 2^64, and wraps there.",
    },
    CommandRow {
        form: "decr <key> <delta> [noreply]",
        replies: "<number> / NOT_FOUND",
        meaning: "Subtracts, and stops at 0. A text that becomes shorter is filled up with spaces.",
    },
    CommandRow {
        form: "touch <key> <exptime> [noreply]",
        replies: "TOUCHED / NOT_FOUND",
        meaning: "Gives an item a new exptime.",
    },
    CommandRow {
        form: "flush_all [<exptime>] [noreply]",
        replies: "OK",
        meaning: "Makes all items invisible, now or at the time given. A negative one is now.",
    },
    CommandRow {
        form: "lease-get <key>",
        replies: "VALUE <key> <flags> <bytes>, value, END / LVALUE <key> <token> 0 0, empty line, END",
        meaning: "Gets an item, or the right to bring it. A token of 1 gives no right: somebody else has it, for \
            10 seconds. For mcrouter; memcached answers `ERROR`.",
    },
    CommandRow {
        form: "lease-set <key> <token> <flags> <exptime> <bytes> [noreply]",
        replies: STORED,
        meaning: "Stores if the token still gives the right: not after a `delete` of the key or a `flush_all`, nor a second \
            time, nor where another client has stored the item meanwhile.",
    },
    CommandRow {
        form: "metaget <key>",
        replies: "META <key> age: <secs>; exptime: <Unix time or 0>; from: unknown / END",
        meaning: "What is known of an item, then `END`. For mcrouter; memcached answers `ERROR`.",
    },
    CommandRow { form: "version", replies: "VERSION <version>", meaning: "See the differences." },
    CommandRow {
        form: "verbosity <level> [noreply]",
        replies: "OK",
        meaning: "How much is logged; more than 2 is 2.",
    },
    CommandRow {
        form: "stats [settings | items | slabs | sizes | conns | larder]",
        replies: "STAT <name> <value> / END",
        meaning: "Statistics, see [stats.md](stats.md). `settings` may be abbreviated to any of \
            its beginnings, `conns` to `co`.",
    },
    CommandRow {
        form: "stats cachedump <class> <items>",
        replies: "ITEM <key> [<bytes> b; <exptime> s] / END",
        meaning: "Keys of live items of a size class, 0 for all, up to 2 MiB of them, among \
            30,000 items looked at, 500 by UDP; any beginning of `cachedump` will do.",
    },
    CommandRow {
        form: "stats reset",
        replies: "RESET",
        meaning: "Sets counters to 0. Any beginning of `reset` will do, so `stats r` resets.",
    },
    CommandRow {
        form: "cache_memlimit <mebibytes> [noreply]",
        replies: "OK",
        meaning: "Changes the memory limit, up to the `-m` of the start.",
    },
    CommandRow {
        form: "refresh_certs",
        replies: "OK",
        meaning: "Reads the files of the certificates again if they have changed, for connections to come. Without TLS, or where a \
                  file cannot be used, a line that begins with `Error`; the server's standard error says more.",
    },
    CommandRow {
        form: "shutdown [graceful]",
        replies: "",
        meaning: "Closes the connection and stops the server, if it was started with `-A`.",
    },
    CommandRow {
        form: "quit",
        replies: "",
        meaning: "Closes the connection once everything before it is answered.",
    },
];

const ERRORS: &[(Response, &str)] = &[
    (
        Response::ClientError(ClientError::UnknownCommand),
        "There is no such command. If the line's last word begins with `HTTP/`, the connection is \
         closed instead, without a word.",
    ),
    (
        Response::ClientError(ClientError::BadFormat),
        "The line is too short, lacks arguments, has a key that is too long or a number that is \
         none.",
    ),
    (
        Response::ClientError(ClientError::BadDataChunk),
        "The value is not followed by `\\r\\n`. Its bytes and two more are used up.",
    ),
    (
        Response::ClientError(ClientError::BadExptime),
        "The exptime of `touch`, `gat`, `gats` or `flush_all` is no number.",
    ),
    (Response::ClientError(ClientError::BadDelta), "The delta is no unsigned number below 2^64."),
    (
        Response::ClientError(ClientError::BadDeleteUsage),
        "A number other than 0 follows the key, or several words do.",
    ),
    (
        Response::ClientError(ClientError::NonNumeric),
        "The item's value is no unsigned decimal number below 2^64.",
    ),
    (
        Response::ClientError(ClientError::Unauthenticated),
        "With `-Y`, anything but a login before the peer has said who it is.",
    ),
    (
        Response::ClientError(ClientError::AuthenticationFailed),
        "With `-Y`, there is no such user, or the password is another one.",
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
        "With `-Y`, the value of a login is not followed by `\\r\\n`. Its bytes and two more are used up.",
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
        "`shutdown` knows no word but `graceful`, or any beginning of it.",
    ),
    (Response::ServerError(ServerError::NoTls), "The server runs without `-Z`."),
    (
        Response::ServerError(ServerError::CertificatesUnusable),
        "A file of the certificates cannot be used.",
    ),
    (Response::ServerError(ServerError::ShutdownNotEnabled), "The server runs without `-A`."),
    (
        Response::ClientError(ClientError::RegionNotAllowed),
        "`larder_region` or `larder_read` on a connection that `--local-readers` does not allow.",
    ),
    (Response::ClientError(ClientError::MemoryLimitTooSmall), "The limit is below 8."),
    (Response::ClientError(ClientError::MemoryLimitInBytes), "The limit is above 1000000000."),
    (
        Response::ServerError(ServerError::MemoryLimitFixed),
        "The memory limit cannot be changed to that.",
    ),
    (
        Response::ServerError(ServerError::TooLarge),
        "The item is larger than `-I` allows. Its value is skipped.",
    ),
    (
        Response::ServerError(ServerError::OutOfMemoryStoring),
        "There is no memory for the item. Its value is skipped.",
    ),
    (Response::ServerError(ServerError::OutOfMemory), "There is no memory for the longer number."),
    (
        Response::ServerError(ServerError::Stuck),
        "Another process that shares the cache has been stopped in the middle of a change, and did not go on within \
         two seconds.",
    ),
    (
        Response::ServerError(ServerError::OutOfMemoryReadingRequest),
        "All connections together hold more than the memory for buffers, and this one holds most of \
         those that make no progress. The connection is closed.",
    ),
    (
        Response::ServerError(ServerError::OutOfMemoryWritingHits),
        "The answer does not fit the memory for buffers.",
    ),
    (
        Response::ServerError(ServerError::OutOfMemoryWritingStats),
        "The answer does not fit the memory for buffers.",
    ),
    (
        Response::ServerError(ServerError::TooManyConnections),
        "Sent unasked to a connection beyond `-c`, which is closed.",
    ),
];

const DIFFERENCES: &[Difference] = &[
    Difference {
        memcached: "`version` and `stats` tell the version of the server.",
        larder: "They tell the version of the memcached whose behaviour is followed.",
        reason: "Clients read it to learn which commands they may use.",
    },
    Difference {
        memcached: "`slabs reassign` moves memory between size classes; `slabs automove`, `lru` and \
            `lru_crawler sleep` and `tocrawl` tune how memory is kept.",
        larder: "The first has nothing to spare, the others have no effect.",
        reason: "Memory belongs to no class, and there are no LRU queues and no crawler's pace to tune.",
    },
    Difference {
        memcached: "`extstore` and `watch`'s `type=extwrite` exist.",
        larder: "`extstore` is answered `ERROR`, as by a memcached without a flash tier.",
        reason: "There is no flash tier.",
    },
    Difference {
        memcached: "`-e` takes whatever file is named, and begins anew unless the last server was \
            stopped gracefully. A file `.meta` beside it that it cannot read ends the start. `uptime` \
            counts from the first server's start, and `cache_memlimit` is refused.",
        larder: "A file that holds no cache of Larder's ends the start and is left as it is, and so \
            does any `.meta`; the cache is there again however the last server ended. `uptime` counts \
            from this server's start, as all counters do, and `cache_memlimit` can lower the memory.",
        reason: "Who names the wrong file must not lose it, or what a memcached would go on with; a \
            crash is when a warm cache is needed.",
    },
    Difference {
        memcached: "The microseconds in the lines of `watch` lack leading zeros.",
        larder: "They have six digits.",
        reason: "Without them the time cannot be read.",
    },
    Difference {
        memcached: "The binary protocol skips extras and key of an unknown opcode twice.",
        larder: "It skips the body.",
        reason: "What follows would be read from its middle.",
    },
    Difference {
        memcached: "A value behind a binary `touch`, `gat` or `stat` is read as the next request.",
        larder: "It is refused with `04`, as with other opcodes, and the connection is closed.",
        reason: "A value that is read as a request may be anybody's.",
    },
    Difference {
        memcached: "The binary protocol refuses a store that is too large, and an unknown opcode, \
            before it skips the value.",
        larder: "It skips the value first, as the text protocol does.",
        reason: "A peer that sends does not listen.",
    },
    Difference {
        memcached: "SASL knows what the system's library knows, and asks its databases of \
            passwords, as the file in `SASL_CONF_PATH` says.",
        larder: "It knows PLAIN, and the users of `MEMCACHED_SASL_PWDB`, without which `-S` does \
            not start. `SASL_CONF_PATH` is not read.",
        reason: "A library for challenges and databases that hardly any client uses is much to \
            trust.",
    },
    Difference {
        memcached: "PLAIN may be told in a second step (`22`), after a `21` without a value.",
        larder: "It is told in `21`; a second step fails.",
        reason: "The mechanism has one step.",
    },
    Difference {
        memcached: "A file of `-Y` counts to its eighth line; an empty line makes it unusable.",
        larder: "All lines count, and empty ones do not.",
        reason: "Nobody learns that the ninth user is shut out.",
    },
    Difference {
        memcached: "A request by UDP is answered in several messages, one for each item or command, each \
            of which counts its datagrams from 0.",
        larder: "It is answered in one message, whose datagrams are counted through.",
        reason: "Nobody can put the others in order, or know how many there are.",
    },
    Difference {
        memcached: "By UDP, every line that is no command is answered `ERROR`, answers of servers included.",
        larder: "From a line or opcode on that is no command a datagram is dropped without an answer. Answers \
            begin with no command in any dialect, so they are neither executed nor answered.",
        reason: "One datagram with the address of another server as its sender would have both answer each \
            other for ever.",
    },
    Difference {
        memcached: "An answer by UDP may be as long as it likes.",
        larder: "To another machine it is at most 16 times as long as its request \
            (`--udp-reply-factor`), to any at most 4 MiB; else there is an error in its place.",
        reason: "Requests in somebody else's name would flood him.",
    },
    Difference {
        memcached: "`stats detail dump` shows all prefixes in one packet of the binary protocol.",
        larder: "It shows the first 64 KiB of lines. In the text protocol it shows all of them.",
        reason: "A client that does not read must not hold megabytes of the server's memory.",
    },
    Difference {
        memcached: "`stats cachedump` and `stats detail dump` show keys as they are.",
        larder: "A key with spaces or control characters in it is shown as in a URI.",
        reason: "The binary protocol allows line ends in keys, and what follows would be taken for the next line.",
    },
    Difference {
        memcached: "A request by UDP may ask for a dump or to watch, and for statistics as often as it likes.",
        larder: "Dumps and `watch` are refused, and more than sixteen `stats` in one datagram.",
        reason: "One datagram would keep a worker from all others for as long as its sender likes.",
    },
    Difference {
        memcached: "`-o ssl_verify_mode=2` and `mtls:` may go without `ssl_ca_cert`; `ssl_verify_mode=2` lets \
            clients in that have no certificate; `ssl_min_version` may be 0 or 1.",
        larder: "They need it; it does not; 0 and 1 are taken as 2, with a warning.",
        reason: "What was asked for would not be what is had; TLS 1.0 and 1.1 are broken.",
    },
    Difference {
        memcached: "With TLS, a connection above `-c` is told so in plain text.",
        larder: "It is closed.",
        reason: "The client expects TLS.",
    },
    Difference {
        memcached: "Memory that runs out while a value of more than 512 KiB arrives is told as \
            `SERVER_ERROR Out of memory during read`.",
        larder: "It is told as `SERVER_ERROR out of memory storing object`, as with any other \
            value.",
        reason: "Clients recognise these words and no others.",
    },
    Difference {
        memcached: "`stats larder` is an error.",
        larder: "It shows what memcached has no statistic for. It must be spelt in full.",
        reason: "memcached's own lists stay as they are.",
    },
    Difference {
        memcached: "A key that is too long in a request for several sends an empty line behind \
            the error.",
        larder: "Only the error is sent.",
        reason: "A client that counts lines is out of step from there on.",
    },
    Difference {
        memcached: "A `get` or `gets` of any length is answered once its line has ended. A key that \
            is too long anywhere in it is answered with the error alone.",
        larder: "Keys of a line beyond 2048 bytes are answered as they arrive. An error in such a \
            line stands behind the items that come before it, in the place of `END`.",
        reason: "A client that never ends its line must not take memory.",
    },
    Difference {
        memcached: "Before login, a `set` that announces more bytes than a login may have is \
            answered once they have arrived.",
        larder: "It is answered at once. Up to 1 MiB that was announced is skipped; behind a line \
            that announces more, the next login is expected.",
        reason: "A wrong length must not leave a client without an answer.",
    },
    Difference {
        memcached: "Any other line beyond 2048 bytes is understood if all of it arrives at once, \
            else the connection is closed.",
        larder: "`gat` and `gats` may be as long as `get`. All others end the connection, however \
            they arrive.",
        reason: "An answer must not depend on how a network cuts a stream.",
    },
    Difference {
        memcached: "`touch`, `gat`, `gats` and `flush_all` refuse an exptime from 2147483648 to \
            4294967295.",
        larder: "It is the negative number with the same 32 bits, as in storage commands.",
        reason: "mcrouter writes `touch k 4294967295` where its client wrote -1.",
    },
    Difference {
        memcached: "`delete k 10` deletes: the number is ignored, and so are all other words.",
        larder: "It is refused, as memcached 1.6.18 does, unless the number is 0, and so are two \
            words of any kind. One other word is ignored.",
        reason: "Who writes a delay wants the item to live on for a while, and `memccapable` wants \
            `delete a b c d e` refused.",
    },
    Difference {
        memcached: "The flags and exptime of a storage command are read by C's `strtoul` and \
            `strtol`: a tab may follow, and flags of -18446744073709551615 are 1.",
        larder: "They are digits behind at most one sign, flags not negative.",
        reason: "The words of a line are separated by spaces and nothing else.",
    },
    Difference {
        memcached: "The names of administrative commands may be abbreviated: `flush` is \
            `flush_all`, `sh` is `shutdown`.",
        larder: "The name of a command is written in full.",
        reason: "A slip of the finger must neither empty nor stop a cache.",
    },
    Difference {
        memcached: "`flush_all` and `shutdown` look at their arguments only where they are \
            switched on.",
        larder: "Wrong arguments are told first.",
        reason: "A line is understood before it is executed.",
    },
];

#[cfg(test)]
mod tests;
