//! The section on copies between servers.

use super::table::{CommandRow, Needs, push_commands};
use crate::permission::Right;

/// Returns the section.
pub(super) fn section() -> String {
    let mut section = HEAD.to_owned();
    push_commands(&mut section, COMMANDS);
    section.push_str(TAIL);
    section
}

const HEAD: &str = "
## Copies between servers

`larder warm` copies items into a server while clients use it. Decision 47 describes the protocol.

| command | replies | needs | meaning |
|---|---|---|---|
";

pub(super) const COMMANDS: &[CommandRow] = &[
    CommandRow {
        form: "larder_warm <ms>",
        needs: Needs::OfAll(Right::Write),
        replies: "OK",
        meaning: "Begins a copy on this connection. The server ends it if the connection is silent \
            for `<ms>` milliseconds: 100 to 60000. `SERVER_ERROR` with the reason while another \
            copy is in progress or is being undone, and during an upgrade. Near caches and stores \
            refuse copies.",
    },
    CommandRow {
        form: "larder_warm end",
        needs: Needs::OfAll(Right::Write),
        replies: "OK",
        meaning: "Ends the copy, and keeps its items. `SERVER_ERROR` if it has failed.",
    },
];

const TAIL: &str = "
While a copy is in progress, `add` and `ms` with the mode `ME` on its connection respond
`NOT_STORED` or `NS` if a client has changed the key since the copy began, and with `SERVER_ERROR`
and the reason if the copy has failed. `delete` and `md` on its connection remove an item that may
be copied again. All other commands are those of any client. If the connection ends before
`larder_warm end`, and after `flush_all`, `delete_prefix` or an upgrade, the server removes all
items that the copy has stored.
";
