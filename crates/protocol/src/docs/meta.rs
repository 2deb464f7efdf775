//! The section on the meta protocol.

use super::table::{CommandRow, Needs, code, push_commands, push_row};
use crate::meta::flags::FLAGS;

/// Returns the section.
pub(super) fn section() -> String {
    let mut section = HEAD.to_owned();
    push_commands(&mut section, COMMANDS);
    section.push_str(FLAGS_HEAD);
    for flag in FLAGS {
        let form = code(&format!("{}{}", char::from(flag.letter), token(flag.token)));
        let commands: Vec<_> = flag.commands.chars().map(|letter| format!("`m{letter}`")).collect();
        push_row(&mut section, &[&form, &commands.join(" "), flag.meaning]);
    }
    section.push_str(STALE);
    section
}

fn token(token: &str) -> String {
    if token.is_empty() { String::new() } else { format!("<{token}>") }
}

const HEAD: &str = "
## Meta commands

A meta command is also a line of words: two letters, a key, and one-letter flags in any order, some
followed immediately by a token. The response begins with two letters and repeats the flags that
request data, in the order of the request.

| command | replies | needs | meaning |
|---|---|---|---|
";

pub(super) const COMMANDS: &[CommandRow] = &[
    CommandRow {
        form: "mg <key> <flag>*",
        needs: Needs::READ,
        replies: "VA <bytes> <flag>*, value / HD <flag>* / EN <flag>*",
        meaning: "Returns an item: its value with `v`, and the metadata that the flags request; \
            without flags, checks whether the item exists.",
    },
    CommandRow {
        form: "ms <key> <bytes> <flag>*",
        needs: Needs::WRITE,
        replies: "HD <flag>* / NS <flag>* / EX <flag>* / NF <flag>*",
        meaning: "Stores the value that follows. With `C`, only if the item has this cas token. A \
            store that fails because memory is short removes the old item in every mode.",
    },
    CommandRow {
        form: "md <key> <flag>*",
        needs: Needs::WRITE,
        replies: "HD <flag>* / NF <flag>* / EX <flag>*",
        meaning: "Removes an item, or marks it stale with `I`, or empties it with `x`.",
    },
    CommandRow {
        form: "ma <key> <flag>*",
        needs: Needs::WRITE,
        replies: "HD <flag>* / VA <bytes> <flag>*, number / NF <flag>* / NS <flag>* / EX <flag>*",
        meaning: "Changes a counter; without flags, increments it by 1.",
    },
    CommandRow {
        form: "mn",
        needs: Needs::Nothing,
        replies: "MN",
        meaning: "Does nothing; its response marks the end of a pipeline of quiet commands.",
    },
    CommandRow {
        form: "me <key> [b]",
        needs: Needs::READ,
        replies: "ME <key> exp=<secs or -1> la=<secs> cas=<cas> fetch=<yes or no> cls=<class> \
            size=<bytes> / EN",
        meaning: "Returns the metadata of an item. Does not count as a read.",
    },
];

const FLAGS_HEAD: &str = "
A flag affects the listed commands; the other commands accept and ignore it. A line is an error if a
flag does not exist, is given twice, or has an invalid number as its token, or if the line has more
than 20 words. `q` does not suppress errors.

| flag | commands | meaning |
|---|---|---|
";

const STALE: &str = "
A response to `mg` ends with `W` if this peer received the recache token, and should fetch and store
the item again. It ends with `Z` if another peer received the token earlier. It has an `X` if the
item is marked stale. The server sends the recache token to the first client that reads a stale
item, to the first client whose `R` exceeds the remaining time to live, and to the first client that
creates the item with `N`. A client that may only read does not receive it. A store of the item
clears the token and the stale mark.
";
