//! The section on near caches.

use super::table::{CommandRow, Needs, push_commands};
use crate::permission::Right;

/// Returns the section.
pub(super) fn section() -> String {
    let mut section = HEAD.to_owned();
    push_commands(&mut section, COMMANDS);
    section.push_str(STREAM);
    section
}

const HEAD: &str = "
## Near caches

A *near cache* keeps copies of items of this server, its *origin*, which reports every change to it.
Without `--followers` the response to these commands is `ERROR`, as from memcached.

| command | replies | needs | meaning |
|---|---|---|---|
";

pub(super) const COMMANDS: &[CommandRow] = &[
    CommandRow {
        form: "larder_follow <ms>",
        needs: Needs::OfAll(Right::Read),
        replies: "FOLLOW <token> <epoch> <log2 of buckets> <seed>",
        meaning: "The connection becomes a change stream. `<ms>` states for how many milliseconds \
            a copy may be out of date: 100 to 60000. `SERVER_ERROR` with the reason if the server \
            has `--followers` streams, during an upgrade, or while another process uses its cache.",
    },
    CommandRow {
        form: "larder_follower <token>",
        needs: Needs::OfAll(Right::Read),
        replies: "OK",
        meaning: "Fetches on this connection belong to the change stream with this token.",
    },
    CommandRow {
        form: "larder_fetch <key> [b]",
        needs: Needs::OfAll(Right::Read),
        replies: "VA <bytes> f<flags> c<cas> t<ms> [U], value / EN [U] / ST",
        meaning: "Returns an item to be copied, without counting a read. `b`: the key is in \
            base64. `t` is the number of milliseconds until the item expires, or -1. `EN`: there \
            is no such item. `U`: the server will not report changes of the item. `ST`: the item \
            is stale, a client holds its recache token, or its value has more bytes than a third \
            word `m<bytes>` states; it must not be copied.",
    },
];

const STREAM: &str = "
On a change stream the client sends lines `alive <n>` with increasing numbers, four times in `<ms>`
milliseconds. The server closes a stream on which no such line arrives for five times that long. It
sends these lines:

| line | meaning |
|---|---|
| `C <bucket>` | A key of the bucket may have changed, or an operation found that it has no item. |
| `F` | Every key may have changed. |
| `H <n>` | All changes before the server received `alive <n>` are reported. |

A key belongs to the bucket that the upper bits of its hash state: rapidhash v3 with `<seed>`. The
server reports a bucket only if an item of it was fetched after the last report. Evictions and
expiry are not reported. If a client reads more slowly than the items change, several `C` become one
`F`. `<epoch>` differs if the server began with another cache.
";
