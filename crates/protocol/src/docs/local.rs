//! The section on reading the cache's memory directly.

use super::{CommandRow, push_commands};

/// Returns the section.
pub(super) fn section() -> String {
    let mut section = HEAD.to_owned();
    push_commands(&mut section, COMMANDS);
    section.push_str(READING);
    section
}

const HEAD: &str = "
## Reading the memory

A process of the same machine that is connected to the unix socket may, with `--local-readers`, get the memory in which the cache is, and find hits
there by itself, without a system call. Both commands are answered `ERROR` without that option, as memcached answers them.

| command | replies | meaning |
|---|---|---|
";

pub(super) const COMMANDS: &[CommandRow] = &[
    CommandRow {
        form: "larder_region",
        replies: "REGION <identity> <bytes> <format> <reads per hint>",
        meaning: "With the first byte of the answer comes a descriptor (`SCM_RIGHTS`), which can only be read through. \
            `CLIENT_ERROR` where the connection is none of the unix socket, or of a process that the option does not allow.",
    },
    CommandRow {
        form: "larder_read <key> <key>",
        replies: "",
        meaning: "Any number of keys, in base64, that were read in the memory: eviction takes their items for wanted, and each \
            counts in the statistics as as many hits as `larder_region` said. There is no answer, but for `CLIENT_ERROR` \
            where the connection may not read the memory.",
    },
];

const READING: &str = "
`<identity>` is 32 hexadecimal digits that no other region has: who connects again and is told another one has to do with another cache.
`<format>` is that of [region-format.md](region-format.md): who does not know it asks the server. The answer is a message of its own; who has so
much to receive that there is no room for it is hung up on, so it is best asked for first.

Who reads finds hits; everything else it asks the server for, a miss too. A copy is good if the sequence of the segment is after the copy what it was
before. The clock in the region is moved every second: where it stands still the server is gone or has been stopped, and what is in the memory
is not to be believed any more.
";
