//! The section on reading the cache's memory directly.

use super::table::{CommandRow, Needs, push_commands};
use crate::permission::Right;

/// Returns the section.
pub(super) fn section() -> String {
    let mut section = HEAD.to_owned();
    push_commands(&mut section, COMMANDS);
    section.push_str(READING);
    section
}

const HEAD: &str = "
## Reading the memory

If larderd admits local readers (`--local-readers`, or the word `readers` in `-l`), a process of the
same machine that is connected to a unix socket that admits them can map the cache's memory and read
hits from it directly, without a system call. Without them the response to both commands is `ERROR`,
as from memcached.

| command | replies | needs | meaning |
|---|---|---|---|
";

pub(super) const COMMANDS: &[CommandRow] = &[
    CommandRow {
        form: "larder_region",
        needs: Needs::OfAll(Right::Read),
        replies: "REGION <identity> <bytes> <format> <reads per hint>",
        meaning: "A read-only descriptor (`SCM_RIGHTS`) arrives with the first byte of the \
            response. `CLIENT_ERROR` if the connection is not to a unix socket that admits \
            readers, or the process is not one of them.",
    },
    CommandRow {
        form: "larder_read <key> <key>",
        needs: Needs::OfAll(Right::Read),
        replies: "",
        meaning: "Reports any number of keys, in base64, that the client read in the memory. \
            Eviction counts them as reads, and the statistics count each as `<reads per hint>` \
            hits. No response, except `CLIENT_ERROR` if the connection may not read the memory.",
    },
];

const READING: &str = "
`<identity>` consists of 32 hexadecimal digits and is unique to a region: if a client reconnects and
receives another identity, it is connected to another cache. `<format>` is the version of
[region-format.md](region-format.md); a client that does not support it sends its reads to the
server. The response is a separate message. The server closes the connection if earlier responses
leave no room for it, so clients should send `larder_region` first.

Readers use only hits from the memory. They send all other requests to the server, including misses:
with `--tier-path` the item may be on the disk, which a reader cannot detect. A hit in the memory
may show a change that is not durable yet. A copy is valid if the sequence of the segment is the
same before and after copying. The server advances the clock in the region every second. If the
clock stops, the server has exited or is stopped, and readers must not trust the memory any more.
";
