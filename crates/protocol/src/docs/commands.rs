//! The section on the commands of the text protocol.

use super::table::{CommandRow, Needs, push_commands};
use crate::permission::Right;

/// Returns the section.
pub(super) fn section() -> String {
    let mut section =
        "\n## Commands\n\nThe column *needs* names the right that a user of `--users` needs; *all* means\n\
        that the user must not be limited to prefixes.\n\n| command | replies | needs | meaning |\n|---|---|---|---|\n".to_owned();
    push_commands(&mut section, COMMANDS);
    section.push_str(
        "\nEach storage command is followed by a value of `<bytes>` bytes and `\\r\\n`.\n",
    );
    section
}

const STORED: &str = "STORED / NOT_STORED";

pub(super) const COMMANDS: &[CommandRow] = &[
    CommandRow {
        form: "get <key>+",
        needs: Needs::READ,
        replies: "VALUE <key> <flags> <bytes>, value / END",
        meaning: "Returns the items that exist, then `END`. If one key is too long, no key is \
            looked up.",
    },
    CommandRow {
        form: "gets <key>+",
        needs: Needs::READ,
        replies: "VALUE <key> <flags> <bytes> <cas>, value / END",
        meaning: "Same as `get`, with the cas token of each item.",
    },
    CommandRow {
        form: "gat <exptime> <key>+",
        needs: Needs::WRITE,
        replies: "VALUE <key> <flags> <bytes>, value / END",
        meaning: "Same as `get`, and sets the exptime of each item.",
    },
    CommandRow {
        form: "gats <exptime> <key>+",
        needs: Needs::WRITE,
        replies: "VALUE <key> <flags> <bytes> <cas>, value / END",
        meaning: "Same as `gets`, and sets the exptime of each item.",
    },
    CommandRow {
        form: "set <key> <flags> <exptime> <bytes> [noreply]",
        needs: Needs::WRITE,
        replies: "STORED",
        meaning: "Stores unconditionally. A store that fails because the item is too large or \
            memory is short also removes the old item.",
    },
    CommandRow {
        form: "add <key> <flags> <exptime> <bytes> [noreply]",
        needs: Needs::WRITE,
        replies: STORED,
        meaning: "Stores if the item does not exist.",
    },
    CommandRow {
        form: "replace <key> <flags> <exptime> <bytes> [noreply]",
        needs: Needs::WRITE,
        replies: STORED,
        meaning: "Stores if the item exists.",
    },
    CommandRow {
        form: "append <key> <flags> <exptime> <bytes> [noreply]",
        needs: Needs::WRITE,
        replies: STORED,
        meaning: "Appends to the value of an item, which keeps its flags and exptime.",
    },
    CommandRow {
        form: "prepend <key> <flags> <exptime> <bytes> [noreply]",
        needs: Needs::WRITE,
        replies: STORED,
        meaning: "Prepends to the value of an item, which keeps its flags and exptime.",
    },
    CommandRow {
        form: "cas <key> <flags> <exptime> <bytes> <cas> [noreply]",
        needs: Needs::WRITE,
        replies: "STORED / EXISTS / NOT_FOUND",
        meaning: "Stores if the item has this cas token.",
    },
    CommandRow {
        form: "delete <key> [0] [noreply]",
        needs: Needs::WRITE,
        replies: "DELETED / NOT_FOUND",
        meaning: "Removes an item.",
    },
    CommandRow {
        form: "incr <key> <delta> [noreply]",
        needs: Needs::WRITE,
        replies: "<number> / NOT_FOUND",
        meaning: "Increments an item whose value is a number; wraps at 2^64.",
    },
    CommandRow {
        form: "decr <key> <delta> [noreply]",
        needs: Needs::WRITE,
        replies: "<number> / NOT_FOUND",
        meaning: "Decrements such an item; stops at 0. A shorter number is padded with spaces.",
    },
    CommandRow {
        form: "touch <key> <exptime> [noreply]",
        needs: Needs::WRITE,
        replies: "TOUCHED / NOT_FOUND",
        meaning: "Sets the exptime of an item.",
    },
    CommandRow {
        form: "flush_all [<exptime>] [noreply]",
        needs: Needs::OfAll(Right::Write),
        replies: "OK",
        meaning: "Invalidates all items, now or at the given time. A negative exptime means now.",
    },
    CommandRow {
        form: "lease-get <key>",
        needs: Needs::WRITE,
        replies: "VALUE <key> <flags> <bytes>, value, END / LVALUE <key> <token> 0 0, empty line, \
            END",
        meaning: "Returns the item or, on a miss, a lease to store it, which lasts 10 seconds. A \
            token of 1 is not a lease: another client holds one. For mcrouter; memcached responds \
            `ERROR`.",
    },
    CommandRow {
        form: "lease-set <key> <token> <flags> <exptime> <bytes> [noreply]",
        needs: Needs::WRITE,
        replies: STORED,
        meaning: "Stores if the lease is still valid. A lease ends when it is used, when another \
            client stores the item, and at a `delete` of the key or a `flush_all`.",
    },
    CommandRow {
        form: "metaget <key>",
        needs: Needs::READ,
        replies: "META <key> age: <secs>; exptime: <Unix time or 0>; from: unknown / END",
        meaning: "Returns the metadata of an item, then `END`. For mcrouter; memcached responds \
            `ERROR`.",
    },
    CommandRow {
        form: "version",
        needs: Needs::Nothing,
        replies: "VERSION <version>",
        meaning: "Returns the version; see [Differences](#differences).",
    },
    CommandRow {
        form: "config get cluster",
        needs: Needs::Nothing,
        replies: "CONFIG cluster 0 <bytes>, value / END",
        meaning: "Returns the servers of `--cluster-file` or `--cluster-dns`, for clients that \
            discover them; see [discovery.md](discovery.md). Without these options, and for any \
            other line that begins with `config`, the response is `ERROR`, as from memcached.",
    },
    CommandRow {
        form: "verbosity <level> [noreply]",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "Sets the log level; a level above 2 is taken as 2.",
    },
    CommandRow {
        form: "stats [settings | items | slabs | sizes | conns | larder]",
        needs: Needs::Right(Right::Read),
        replies: "STAT <name> <value> / END",
        meaning: "Returns statistics, see [stats.md](stats.md). `settings` may be abbreviated to \
            any prefix, `conns` to `co`.",
    },
    CommandRow {
        form: "stats hotkeys",
        needs: Needs::OfAll(Right::Read),
        replies: "STAT <name> <value> / END",
        meaning: "Returns the keys with the most commands and the most bytes, see \
            [operating.md](operating.md#hot-keys). Only in Larder; not over UDP.",
    },
    CommandRow {
        form: "stats origins",
        needs: Needs::Right(Right::Read),
        replies: "STAT <number>:<name> <value> / END",
        meaning: "Returns address, weight, share of the keys, state and counters of each origin of \
            a near cache, see [near-cache.md](near-cache.md#several-origins). Only in Larder.",
    },
    CommandRow {
        form: "stats users",
        needs: Needs::ADMIN,
        replies: "STAT <name> <value> / END",
        meaning: "Returns rights, connections, logins and refusals of each user of `--users`. Only \
            in Larder; not over UDP.",
    },
    CommandRow {
        form: "stats slow",
        needs: Needs::OfAll(Right::Read),
        replies: "STAT <name> <value> / END",
        meaning: "Returns the latest slow requests, see \
            [operating.md](operating.md#slow-requests). Only in Larder; not over UDP.",
    },
    CommandRow {
        form: "stats prefixes",
        needs: Needs::OfAll(Right::Read),
        replies: "STAT <name> <value> / END",
        meaning: "Returns items, bytes, reads and hits by key prefix, see \
            [operating.md](operating.md#key-prefixes). Only in Larder; not over UDP.",
    },
    CommandRow {
        form: "stats cachedump <class> <items>",
        needs: Needs::OfAll(Right::Read),
        replies: "ITEM <key> [<bytes> b; <exptime> s] / END",
        meaning: "Returns keys of live items of a size class, 0 for all: up to 2 MiB, from the \
            first 30,000 items that it visits, 500 over UDP. Any prefix of `cachedump` works.",
    },
    CommandRow {
        form: "stats reset",
        needs: Needs::ADMIN,
        replies: "RESET",
        meaning: "Sets counters to 0. Any prefix of `reset` works, so `stats r` resets.",
    },
    CommandRow {
        form: "cache_memlimit <mebibytes> [noreply]",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "Changes the memory limit: 8 to 1000000000, and at most 16 times `-m`. The limit \
            cannot rise above `-m` with `-e`, `-k`, `-L` or local readers, or if the system \
            refuses the address space. It cannot fall below the size of the index.",
    },
    CommandRow {
        form: "refresh_certs",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "Reloads changed certificate files, for new connections. Without TLS, if a file is \
            unusable, or if its disk does not respond within 10 s, the response is a line that \
            begins with `Error`; the log on standard error has the cause. By UDP the response does \
            not wait for the files.",
    },
    CommandRow {
        form: "shutdown [graceful]",
        needs: Needs::ADMIN,
        replies: "",
        meaning: "Closes the connection and stops the server. Needs `-A`.",
    },
    CommandRow {
        form: "quit",
        needs: Needs::Nothing,
        replies: "",
        meaning: "Closes the connection after all earlier requests have been answered.",
    },
];
