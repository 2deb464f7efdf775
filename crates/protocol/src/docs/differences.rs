//! The section on the differences from memcached.

use super::table::push_row;

/// Returns the section.
pub(super) fn section() -> String {
    let mut section = HEAD.to_owned();
    for row in DIFFERENCES {
        push_row(&mut section, &[row.memcached, row.larder, row.reason]);
    }
    section
}

/// A response that differs from memcached's on purpose.
struct Difference {
    memcached: &'static str,
    larder: &'static str,
    reason: &'static str,
}

const HEAD: &str = "
## Differences

| memcached | Larder | why |
|---|---|---|
";

const DIFFERENCES: &[Difference] = &[
    Difference {
        memcached: "`version` and `stats` return the version of the server.",
        larder: "They return the version of memcached whose behaviour Larder follows.",
        reason: "Clients use the version to decide which commands are available.",
    },
    Difference {
        memcached: "`slabs reassign` moves memory between size classes; `slabs automove`, `lru` \
            and `lru_crawler sleep` and `tocrawl` tune how memory is kept.",
        larder: "`slabs reassign` reports that no pages are spare; the others have no effect.",
        reason: "Larder's memory has no classes, no LRU queues and no crawler to tune.",
    },
    Difference {
        memcached: "`cache_memlimit` accepts any limit of 8 MiB or more.",
        larder: "It refuses a limit above 16 times `-m`, with `MEMLIMIT_ADJUST_FAILED`.",
        reason: "Larder reserves its address space once, at the start.",
    },
    Difference {
        memcached: "`extstore` and `watch`'s `type=extwrite` exist.",
        larder: "The response to `extstore` is `ERROR`, as from a memcached without a flash tier. \
            `stats` has rows `extstore_…` with `--tier-mode cache` or `ext_path`, except for rows \
            without a counterpart; `stats larder` has rows `tier_…`.",
        reason: "`ext_path` selects Larder's own disk tier, which is configured with options at \
            the start.",
    },
    Difference {
        memcached: "`-e` accepts any file, and starts empty unless the last server stopped \
            gracefully. If the file has an unreadable `.meta` file, the start fails. `uptime` \
            counts from the start of the first server, and `cache_memlimit` is refused.",
        larder: "If the file does not contain a Larder cache, or has a `.meta` file, the start \
            fails and the files stay unchanged. The cache survives, however the last server ended. \
            `uptime` counts from the start of this server, like all counters, and `cache_memlimit` \
            can lower the limit.",
        reason: "A wrong path must not destroy a file or memcached's cache; a warm cache is needed \
            most after a crash.",
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
        reason: "If a value is parsed as a request, the author of the value can send requests in \
            the client's name.",
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
        reason: "Clients rarely use the other mechanisms; a library for them is a large attack \
            surface.",
    },
    Difference {
        memcached: "PLAIN credentials may follow in a second step (`22`), after a `21` without a \
            value.",
        larder: "The credentials must be in `21`; a second step fails.",
        reason: "The mechanism has one step.",
    },
    Difference {
        memcached: "A file of `-Y` is read up to its eighth line; an empty line makes it unusable.",
        larder: "All lines are read; empty lines are ignored.",
        reason: "memcached rejects the ninth user without any diagnostic.",
    },
    Difference {
        memcached: "The response to a UDP request consists of several messages, one per item or \
            command, each of which counts its datagrams from 0.",
        larder: "The response is one message, whose datagrams are numbered consecutively.",
        reason: "Clients can neither order several messages nor determine their number.",
    },
    Difference {
        memcached: "Over UDP, the response to every line that is not a command is `ERROR`, even if \
            the line is a response of a server.",
        larder: "From the first invalid line or opcode, the rest of a datagram is dropped without \
            a response. Responses never begin with a command of any dialect, so they are neither \
            executed nor answered.",
        reason: "One datagram with a forged sender would make two servers answer each other \
            forever.",
    },
    Difference {
        memcached: "A UDP response may have any length.",
        larder: "To another machine it is at most 16 times as long as its request \
            (`--udp-reply-factor`), to any machine at most 4 MiB; an error replaces a longer \
            response.",
        reason: "Requests with a forged sender would flood the victim.",
    },
    Difference {
        memcached: "`stats detail dump` shows all prefixes in one packet of the binary protocol.",
        larder: "It shows the first 64 KiB of lines. In the text protocol it shows all lines.",
        reason: "A client that does not read must not occupy megabytes of the server's memory.",
    },
    Difference {
        memcached: "`stats cachedump` and `stats detail dump` show keys as they are.",
        larder: "A key with spaces or control characters is shown in URI encoding.",
        reason: "The binary protocol allows line ends in keys; clients would treat the rest of the \
            key as the next line.",
    },
    Difference {
        memcached: "A UDP request may ask for dumps, `watch` and any number of statistics.",
        larder: "Dumps and `watch` are refused, and more than sixteen `stats` in one datagram.",
        reason: "One datagram could block a worker for any length of time.",
    },
    Difference {
        memcached: "`-o ssl_verify_mode=2` and `mtls:` work without `ssl_ca_cert`; \
            `ssl_verify_mode=2` accepts clients without a certificate; `ssl_min_version` may be 0 \
            or 1.",
        larder: "They need `ssl_ca_cert`; mode 2 rejects such clients; 0 and 1 are treated as 2, \
            with a warning.",
        reason: "The server would be less secure than configured; TLS 1.0 and 1.1 are broken.",
    },
    Difference {
        memcached: "With TLS, a connection above `-c` receives an error in plain text.",
        larder: "It closes.",
        reason: "The client expects TLS.",
    },
    Difference {
        memcached: "If memory runs out while a value of more than 512 KiB arrives, the error is \
            `SERVER_ERROR Out of memory during read`.",
        larder: "The error is `SERVER_ERROR out of memory storing object`, as with any other \
            value.",
        reason: "Clients recognise only this message.",
    },
    Difference {
        memcached: "`stats larder`, `stats hotkeys`, `stats prefixes`, `stats slow`, `stats origins` and `stats \
            users` are errors.",
        larder: "They return statistics that memcached does not have. These names must be written \
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
        memcached: "A `get` or `gets` of any length is answered once its line has ended. If any of \
            its keys is too long, the response is only the error.",
        larder: "In a line longer than 2048 bytes, keys are answered as they arrive. An error in \
            such a line follows the items before it and replaces `END`.",
        reason: "A client that never ends its line must not use up memory.",
    },
    Difference {
        memcached: "Before login, a `set` that announces more bytes than a login may have is \
            answered once they have arrived.",
        larder: "It is answered immediately. An announced value of up to 1 MiB is skipped; after a \
            line that announces more, the server expects the next login.",
        reason: "A wrong length must not leave a client without a response.",
    },
    Difference {
        memcached: "Any other line beyond 2048 bytes is executed if all of it arrives together; \
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
        larder: "As in memcached 1.6.18, it is refused unless the number is 0. A `delete` with two \
            words after the key is also refused; one word that is not a number is ignored.",
        reason: "A client that sends a delay expects the item to live on for a while, and \
            `memccapable` expects an error for `delete a b c d e`.",
    },
    Difference {
        memcached: "The flags and exptime of a storage command are parsed with C's `strtoul` and \
            `strtol`: a tab may follow, and flags of -18446744073709551615 mean 1.",
        larder: "They are digits after at most one sign; flags cannot be negative.",
        reason: "Only spaces separate words in a line.",
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
