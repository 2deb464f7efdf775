//! The section on administrative commands.

use super::table::{CommandRow, Needs, code, push_commands, push_row, words};
use crate::admin::{DumpForm, Refusal};
use crate::permission::Right;

/// Returns the section.
pub(super) fn section() -> String {
    let mut section = HEAD.to_owned();
    push_commands(&mut section, COMMANDS);
    section.push_str(LISTS);
    section.push_str(REFUSALS_HEAD);
    for (refusal, meaning) in REFUSALS {
        push_row(&mut section, &[&code(&words(&(*refusal).into())), meaning]);
    }
    section
}

const HEAD: &str = "
## Administrative commands

The words after a command's name may be abbreviated to any prefix; if several words match, the first
one in this table wins. Arguments of `stats detail` and names of classes must be written in full. A
command that tunes a part that Larder does not have is validated as in memcached; `stats settings`
shows the new value, which has no other effect.

| command | replies | needs | meaning |
|---|---|---|---|
";

pub(super) const COMMANDS: &[CommandRow] = &[
    CommandRow {
        form: "slabs reassign <source> <target>",
        needs: Needs::ADMIN,
        replies: "NOSPARE source class has no spare pages",
        meaning: "No page belongs to a class, so there are no spare pages.",
    },
    CommandRow {
        form: "slabs automove 1 [noreply]",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "Or 0, or 2. No effect: memory has no classes.",
    },
    CommandRow {
        form: "slabs automove ratio <factor> [noreply]",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "No effect. Likewise `freeratio`, and `window`, which takes 3 to 1800 seconds.",
    },
    CommandRow {
        form: "lru tune <hot> <warm> <factor> <factor> [noreply]",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "Percentages of hot and warm items, and their age limits relative to the oldest \
            cold item. No effect: see `-o hot_lru_pct`.",
    },
    CommandRow {
        form: "lru mode segmented [noreply]",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "Or `flat`. No effect. `ERROR` with `-o no_lru_maintainer`.",
    },
    CommandRow {
        form: "lru temp_ttl <secs> [noreply]",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "With a negative number no item is temporary. No effect. `ERROR` with `-o \
            no_lru_maintainer`.",
    },
    CommandRow {
        form: "lru_crawler enable",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "Allows crawls and dumps, as `-o lru_crawler` does, the default; `disable` \
            forbids them. Larder removes expired items in either case.",
    },
    CommandRow {
        form: "lru_crawler crawl <classes>",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "Removes the expired items of these classes now, in the background.",
    },
    CommandRow {
        form: "lru_crawler sleep <us>",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "At most 1000000. No effect. Likewise `tocrawl`, a number of items.",
    },
    CommandRow {
        form: "lru_crawler metadump <classes>",
        needs: Needs::OfAll(Right::Read),
        replies: "OK, key=<key> exp=<Unix time or -1> la=<Unix time> cas=<cas> fetch=<yes or no> \
            cls=<class> size=<bytes> flags=<flags>, END",
        meaning: "Lists items. Each line except the first and the last ends in a space and a bare \
            newline.",
    },
    CommandRow {
        form: "lru_crawler mgdump <classes>",
        needs: Needs::OfAll(Right::Read),
        replies: "OK, mg <key>, EN",
        meaning: "Lists keys, as commands that fetch the items. A key with a control byte is in \
            base64, with the flag `b`.",
    },
    CommandRow {
        form: "delete_prefix <prefix> [b]",
        needs: Needs::WRITE,
        replies: "OK <id>",
        meaning: "Removes, in the background, all items whose keys begin with these bytes, or with \
            `b` with the bytes that they encode in base64. Items stored after this response stay; \
            items stored before the request are removed. Not over UDP. A removal ends with the \
            process. memcached responds `ERROR`.",
    },
    CommandRow {
        form: "larder_name <name>",
        needs: Needs::Nothing,
        replies: "OK",
        meaning: "Gives the connection a name of at most 64 printable ASCII characters, which \
            `stats conns` shows. Not over UDP. memcached responds `ERROR`.",
    },
    CommandRow {
        form: "larder_kill <number>",
        needs: Needs::ADMIN,
        replies: "OK / NOT_FOUND",
        meaning: "Closes the connection with this number in `stats conns`, without its responses. \
            `larder_kill user <name>` closes all connections of a user of `--users`. memcached \
            responds `ERROR`.",
    },
    CommandRow {
        form: "stats delete_prefix",
        needs: Needs::OfAll(Right::Read),
        replies: "STAT <name> <value> / END",
        meaning: "Shows the last removal: `id`; `prefix` in URI encoding, except with `-X`; \
            `state`: running, done, cancelled or failed; `removed` items; `progress` from 0 to 1; \
            `secs`. Only `END` before the first one. memcached responds `ERROR`.",
    },
    CommandRow {
        form: "watch [<topic>…]",
        needs: Needs::OfAll(Right::Read),
        replies: "OK, lines until the connection is closed",
        meaning: "Streams events; without a topic, `fetchers`. The server ignores further input of \
            the connection.",
    },
    CommandRow {
        form: "stats detail on",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "Counts commands by key prefix, up to `:` or the delimiter of `-D`, which also \
            starts the counting; `off` stops it.",
    },
    CommandRow {
        form: "stats detail dump",
        needs: Needs::OfAll(Right::Read),
        replies: "PREFIX <prefix> get <count> hit <count> set <count> del <count> / END",
        meaning: "Returns the counts since the start or `stats reset`, sorted by prefix. Keys \
            without the delimiter, meta commands and prefixes beyond the first 10000 are not \
            counted.",
    },
    CommandRow {
        form: "debugtime <secs>",
        needs: Needs::ADMIN,
        replies: "OK",
        meaning: "Moves the clock forward; `p` stops it and `r` restarts it. For test suites: \
            `ERROR` without `-o debugtime`. The clock never moves back.",
    },
];

const LISTS: &str = "
`<classes>` is `all`, `hash`, or numbers of size classes from 1 to 63, separated by commas. Keys in
`metadump` and in the lines of `watch` are in URI encoding: letters, digits and `-._~` as they are,
other bytes as `%` and two hexadecimal digits. A dump lists every item that exists from its
beginning to its end, once or, if the index grows during the dump, twice. It proceeds as fast as the
client reads; the worker serves other clients in between.

| topic | its lines, after `ts=<Unix time> gid=<number of the line> ` |
|---|---|
| `fetchers` | `type=item_get key=<key> status=<found, not_found, flushed or expired> clsid=<class> cfd=<connection> size=<bytes>`, for every command that looks up an item, stores included |
| `mutations` | `type=item_store key=<key> status=<stored, not_stored, exists, not_found, too_large or no_memory> cmd=<set, add, replace, append, prepend or cas> ttl=<secs, 0 if it does not expire> clsid=<class> cfd=<connection> size=<bytes>` |
| `evictions` | `type=eviction key=<key> fetch=<yes or no> ttl=<secs, -1 if it does not expire> la=<secs> clsid=<class> size=<bytes>` |
| `deletions` | `type=deleted key=<key> cmd=<delete or md> clsid=<class> size=<bytes>` |
| `connevents` | `type=conn_new rip=<address or unix> rport=<port> transport=<tcp or local> cfd=<connection>`, and `type=conn_close …` with `reason=<normal, error, idle_timeout or shutdown>` before `cfd` |
| `rawcmds` `sysevents` `proxyreqs` `proxyevents` `proxyuser` | none: Larder has no such events |

Up to 20 connections may watch. The server queues up to `-o watcher_logbuf_size` of lines for each.
It drops lines that do not fit and sends `skipped=<count>` in their place.
";

const REFUSALS_HEAD: &str = "
| error | cause |
|---|---|
";

const REFUSALS: &[(Refusal, &str)] = &[
    (Refusal::ReassignDisabled, "`-o no_slab_reassign`."),
    (
        Refusal::NoSuchSlabClass,
        "`slabs reassign` with a class that is neither 0 nor a class of memcached; -1 means any \
        class, and no class has a spare page.",
    ),
    (Refusal::SameSlabClass, "`slabs reassign` with the same class twice."),
    (Refusal::NoSparePage, "`slabs reassign` in all other cases."),
    (Refusal::BadWindow, "`slabs automove window` below 3 or above 1800."),
    (Refusal::PercentsTooHigh, "`lru tune`."),
    (Refusal::FactorsTooLow, "`lru tune`."),
    (Refusal::CrawlerRuns, "`lru_crawler enable` while it is enabled."),
    (
        Refusal::CrawlerDisabled,
        "A crawl or a dump after `lru_crawler disable`, or with `-o no_lru_crawler`.",
    ),
    (Refusal::SleepTooLong, "`lru_crawler sleep`."),
    (Refusal::Crawling, "The previous crawl is still running."),
    (Refusal::NoSuchCrawlClass, "`<classes>` contains anything but numbers from 1 to 63."),
    (Refusal::NothingToCrawl, "`<classes>` contains only commas."),
    (Refusal::NoSuchCrawl, "`lru_crawler crawl hash`."),
    (Refusal::DumpNotAllowed(DumpForm::Meta), "`-X`."),
    (Refusal::DumpNotAllowed(DumpForm::Get), "`-X`."),
    (
        Refusal::DumpPipelined(DumpForm::Meta),
        "Responses to commands that arrived together with this one are still unsent.",
    ),
    (Refusal::DumpPipelined(DumpForm::Get), "The same."),
    (Refusal::WatchPipelined, "The same."),
    (Refusal::DeletePrefixNotAllowed, "`-F`."),
    (Refusal::NoPrefix, "`delete_prefix` without a prefix."),
    (Refusal::PrefixTooLong, "A prefix longer than a key can be."),
    (Refusal::BadPrefix, "`delete_prefix … b` with a prefix that is not base64."),
    (Refusal::CannotDeletePrefix, "`delete_prefix` in a datagram, whose sender may be forged."),
    (Refusal::DeletingPrefix, "The previous removal by prefix is in progress."),
    (
        Refusal::NoPrefixRemoval,
        "`delete_prefix` when no thread can be started, or a process that shares the cache is \
        stopped.",
    ),
    (Refusal::WatchNotAllowed, "`-W`."),
    (Refusal::TooManyWatchers, "20 connections are already watching."),
    (Refusal::CannotWatch, "The peer does not use a stream connection."),
    (Refusal::DetailNotAllowed, "`-X`."),
    (Refusal::HotKeysNotAllowed, "`-X`, or the request arrived over UDP."),
    (Refusal::SlowNotAllowed, "`stats slow` arrived over UDP."),
    (Refusal::PrefixesNotAllowed, "`-X`, or the request arrived over UDP."),
    (Refusal::BadDetail, "The argument of `stats detail` is neither `on`, `off` nor `dump`."),
];
