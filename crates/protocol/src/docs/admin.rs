//! The section on administrative commands.

use super::{CommandRow, code, push_commands, push_row, words};
use crate::admin::{DumpForm, Refusal};

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

The words behind a command's name may be abbreviated to any of their beginnings, and of several that begin so the first one here is
meant; those behind `stats detail` and names of classes may not. Where Larder has nothing that a command could tune, the command is checked as
memcached checks it and what it sets is shown by `stats settings`, but has no effect.

| command | replies | meaning |
|---|---|---|
";

pub(super) const COMMANDS: &[CommandRow] = &[
    CommandRow {
        form: "slabs reassign <source> <target>",
        replies: "NOSPARE source class has no spare pages",
        meaning: "There are no pages that belong to classes, and so none to spare.",
    },
    CommandRow {
        form: "slabs automove 1 [noreply]",
        replies: "OK",
        meaning: "Or 0, or 2. No effect: memory belongs to no class.",
    },
    CommandRow {
        form: "slabs automove ratio <factor> [noreply]",
        replies: "OK",
        meaning: "No effect. The same with `freeratio`, and with `window`, which takes 3 to 1800 seconds.",
    },
    CommandRow {
        form: "lru tune <hot> <warm> <factor> <factor> [noreply]",
        replies: "OK",
        meaning: "Percents of hot and warm items, and their ages in that of the oldest cold one. No effect: see `-o hot_lru_pct`.",
    },
    CommandRow {
        form: "lru mode segmented [noreply]",
        replies: "OK",
        meaning: "Or `flat`. No effect. `ERROR` with `-o no_lru_maintainer`.",
    },
    CommandRow {
        form: "lru temp_ttl <secs> [noreply]",
        replies: "OK",
        meaning: "Negative: no item is temporary. No effect. `ERROR` with `-o no_lru_maintainer`.",
    },
    CommandRow {
        form: "lru_crawler enable",
        replies: "OK",
        meaning: "Allows crawls and dumps, as `-o lru_crawler` does, the default; `disable` forbids them. Expired items are \
            looked for and removed in either case.",
    },
    CommandRow {
        form: "lru_crawler crawl <classes>",
        replies: "OK",
        meaning: "Removes the expired items of these classes now, in the background.",
    },
    CommandRow {
        form: "lru_crawler sleep <us>",
        replies: "OK",
        meaning: "At most 1000000. No effect. The same with `tocrawl`, a number of items.",
    },
    CommandRow {
        form: "lru_crawler metadump <classes>",
        replies: "OK, key=<key> exp=<Unix time or -1> la=<Unix time> cas=<cas> fetch=<yes or no> cls=<class> size=<bytes> flags=<flags>, END",
        meaning: "Lists items. Each line but the first and the last ends in a space and a newline alone.",
    },
    CommandRow {
        form: "lru_crawler mgdump <classes>",
        replies: "OK, mg <key>, EN",
        meaning: "Lists keys, as commands that ask for the items. A key with a control byte is in base64, with the flag `b`.",
    },
    CommandRow {
        form: "watch [<topic>…]",
        replies: "OK, lines until the connection is closed",
        meaning: "Shows what happens; `fetchers` where no topic is named. What the connection sends from then on is ignored.",
    },
    CommandRow {
        form: "stats detail on",
        replies: "OK",
        meaning: "Counts commands by the prefix of their keys, up to `:` or what `-D` says, which also switches it on at the start; `off` ends it.",
    },
    CommandRow {
        form: "stats detail dump",
        replies: "PREFIX <prefix> get <count> hit <count> set <count> del <count> / END",
        meaning: "What was counted since the start or `stats reset`, in the order of the prefixes. Keys without the delimiter are not \
            counted, nor are meta commands, nor prefixes beyond the first 10000.",
    },
    CommandRow {
        form: "debugtime <secs>",
        replies: "OK",
        meaning: "Puts the clock forward; `p` stops it and `r` lets it go on. For test suites: `ERROR` without `-o debugtime`. \
            Time never goes back.",
    },
];

const LISTS: &str = "
`<classes>` is `all`, `hash`, or numbers of size classes from 1 to 63 with commas between them. Keys in `metadump` and in the lines of `watch`
are encoded as in a URI: letters, digits and `-._~` as they are, other bytes as `%` and two hexadecimal digits. A dump shows every item that is there
from its beginning to its end, once or, where the index grows meanwhile, twice. It goes on as fast as the client takes it, and others are served in between.

| topic | its lines, behind `ts=<Unix time> gid=<number of the line> ` |
|---|---|
| `fetchers` | `type=item_get key=<key> status=<found, not_found, flushed or expired> clsid=<class> cfd=<connection> size=<bytes>`, for every command that looks for an item, stores too |
| `mutations` | `type=item_store key=<key> status=<stored, not_stored, exists, not_found, too_large or no_memory> cmd=<set, add, replace, append, prepend or cas> ttl=<secs, 0 for ever> clsid=<class> cfd=<connection> size=<bytes>` |
| `evictions` | `type=eviction key=<key> fetch=<yes or no> ttl=<secs, -1 for ever> la=<secs> clsid=<class> size=<bytes>` |
| `deletions` | `type=deleted key=<key> cmd=<delete or md> clsid=<class> size=<bytes>` |
| `connevents` | `type=conn_new rip=<address or unix> rport=<port> transport=<tcp or local> cfd=<connection>`, and `type=conn_close …` with `reason=<normal, error, idle_timeout or shutdown>` before `cfd` |
| `rawcmds` `sysevents` `proxyreqs` `proxyevents` `proxyuser` | none: nothing happens in Larder that memcached would show there |

20 connections may watch. Lines wait for each, up to `-o watcher_logbuf_size`; those for which there is no room are left out, and `skipped=<count>` stands in their place.
";

const REFUSALS_HEAD: &str = "
| refused with | because |
|---|---|
";

const REFUSALS: &[(Refusal, &str)] = &[
    (Refusal::ReassignDisabled, "`-o no_slab_reassign`."),
    (
        Refusal::NoSuchSlabClass,
        "`slabs reassign` with a class that is neither 0 nor one of memcached's; -1 stands for any, which has none to spare.",
    ),
    (Refusal::SameSlabClass, "`slabs reassign` with twice the same class."),
    (Refusal::NoSparePage, "`slabs reassign` in all other cases."),
    (Refusal::BadWindow, "`slabs automove window` below 3 or above 1800."),
    (Refusal::PercentsTooHigh, "`lru tune`."),
    (Refusal::FactorsTooLow, "`lru tune`."),
    (Refusal::CrawlerRuns, "`lru_crawler enable` where it is enabled already."),
    (
        Refusal::CrawlerDisabled,
        "A crawl or a dump after `lru_crawler disable`, or with `-o no_lru_crawler`.",
    ),
    (Refusal::SleepTooLong, "`lru_crawler sleep`."),
    (Refusal::Crawling, "The crawl before is still under way."),
    (Refusal::NoSuchCrawlClass, "`<classes>` has something else than numbers from 1 to 63."),
    (Refusal::NothingToCrawl, "`<classes>` has nothing but commas."),
    (Refusal::NoSuchCrawl, "`lru_crawler crawl hash`."),
    (Refusal::DumpNotAllowed(DumpForm::Meta), "`-X`."),
    (Refusal::DumpNotAllowed(DumpForm::Get), "`-X`."),
    (
        Refusal::DumpPipelined(DumpForm::Meta),
        "Answers to commands that came in the same piece are still to be sent.",
    ),
    (Refusal::DumpPipelined(DumpForm::Get), "The same."),
    (Refusal::WatchPipelined, "The same."),
    (Refusal::WatchNotAllowed, "`-W`."),
    (Refusal::TooManyWatchers, "20 connections watch already."),
    (Refusal::CannotWatch, "The connection cannot be a log, for it is none."),
    (Refusal::DetailNotAllowed, "`-X`."),
    (Refusal::BadDetail, "`stats detail` with another word than `on`, `off` and `dump`."),
];
