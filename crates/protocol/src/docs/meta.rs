//! The section on the meta protocol.

use super::{CommandRow, code, push_commands, push_row};
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

A meta command is a line of the same form: two letters, a key, and flags of one letter each in any order, some with a token right behind the
letter. The answer has two letters, too, and repeats the flags that ask for something, in the order of the request.

| command | replies | meaning |
|---|---|---|
";

pub(super) const COMMANDS: &[CommandRow] = &[
    CommandRow {
        form: "mg <key> <flag>*",
        replies: "VA <bytes> <flag>*, value / HD <flag>* / EN <flag>*",
        meaning: "Gets an item: its value with `v`, else what the flags ask for; without flags, whether it is there.",
    },
    CommandRow {
        form: "ms <key> <bytes> <flag>*",
        replies: "HD <flag>* / NS <flag>* / EX <flag>* / NF <flag>*",
        meaning: "Stores the value that follows. With `C`, only over the item with this cas token. A store that fails for \
            want of room removes the item in every mode.",
    },
    CommandRow {
        form: "md <key> <flag>*",
        replies: "HD <flag>* / NF <flag>* / EX <flag>*",
        meaning: "Removes an item, or marks it stale with `I`, or empties it with `x`.",
    },
    CommandRow {
        form: "ma <key> <flag>*",
        replies: "HD <flag>* / VA <bytes> <flag>*, number / NF <flag>* / NS <flag>* / EX <flag>*",
        meaning: "Moves a counter, by 1 upwards unless the flags say otherwise.",
    },
    CommandRow {
        form: "mn",
        replies: "MN",
        meaning: "Nothing: the end of a pipeline of quiet commands.",
    },
    CommandRow {
        form: "me <key> [b]",
        replies: "ME <key> exp=<secs or -1> la=<secs> cas=<cas> fetch=<yes or no> cls=<class> size=<bytes> / EN",
        meaning: "What is known of an item. This is no read.",
    },
];

const FLAGS_HEAD: &str = "
A flag means something to the commands named; the others accept and ignore it. A flag that does not exist, stands twice, or has a token
that is no number where one is expected, makes the line an error. So do more than 20 words. Errors are told even with `q`.

| flag | of | meaning |
|---|---|---|
";

const STALE: &str = "
An answer to `mg` ends with `W` if this peer won the right to fetch the item anew, with `Z` if another has won it before, and has an `X` if the
item is marked stale. A stale item gives the right to the first who gets it; an item that is about to die, to the first who says so with `R`; an item
that does not exist, to the first who creates it with `N`. Storing the item ends all that.
";
