//! The section on the binary protocol.

use std::fmt::Write;

use super::{code, push_row};
use crate::binary::opcode::*;
use crate::binary::status::{self, words};
use crate::binary::{CREDENTIALS_BYTES_MAX, MECHANISM_BYTES_MAX};

/// Returns the section.
pub(super) fn section() -> String {
    let mut section = HEAD.to_owned();
    for row in OPCODES {
        let quiet = (0..=u8::MAX).find(|other| is_quiet(*other) && aloud(*other) == row.opcode);
        let quiet = quiet.map_or_else(String::new, |quiet| code(&format!("{quiet:02x}")));
        let opcode = code(&format!("{:02x}", row.opcode));
        push_row(&mut section, &[&opcode, &quiet, row.name, row.parts, row.answer]);
    }
    section.push_str(STATUSES_HEAD);
    for (status, meaning) in STATUSES {
        push_row(&mut section, &[&code(&format!("{status:02x}")), words(*status), meaning]);
    }
    write!(
        section,
        "
## Authentication

With `-Y FILE` there is only the text protocol, and a peer has to say who it is before anything else: `set <any key> 0 0 <bytes>` with the value
`<user> <password>`, which is answered `STORED`. Anything else is answered `CLIENT_ERROR unauthenticated`; what is shorter than 6 bytes, or has no newline
within 2048, closes the connection.

With `-S` there is only the binary protocol. Until a peer has said who it is by SASL's mechanism PLAIN, in `21`, everything but `0b`, `20`, `21` and `22` is
answered `20` and ends the connection. The name of a mechanism has at most {MECHANISM_BYTES_MAX} bytes, what it is told {CREDENTIALS_BYTES_MAX}. A failed
authentication never leaves a peer authenticated, whatever it was before.

Users and passwords are lines `user:password` of a file: the one that `-Y` names, or with `-S` that of the environment variable `MEMCACHED_SASL_PWDB`, where
another colon ends the password and the rest of the line is ignored. SIGHUP reads the file again; if that fails, standard error says why, and nothing changes. Who is in stays in.
Passwords cross the network as they are: keep it private, or use TLS.
"
    )
    .expect("a string takes any text");
    section
}

/// An opcode.
struct OpcodeRow {
    opcode: u8,
    name: &'static str,
    /// The parts of a request besides the header.
    parts: &'static str,
    /// The content of a successful response.
    answer: &'static str,
}

const HEAD: &str = "
## Binary protocol

A connection whose first byte is `80` speaks the binary protocol for good. A request is a header of 24 bytes, then extras, key and value; so is an answer, which begins with
`81` and repeats opcode and opaque. Numbers have their highest byte first. The header: magic 1, opcode 1, length of the key 2, length of the extras 1, 0, in an answer the
status 2, length of extras, key and value together 4, opaque 4, cas token 8.

| opcode | quiet | name | request | answer |
|---|---|---|---|---|
";

const EXPTIME: &str = "extras: exptime 4; key";
const STORE: &str = "extras: flags 4, exptime 4; key; value";
const COUNT: &str = "extras: delta 8, initial 8, exptime 4; key";
const VALUE: &str = "extras: flags 4; value; cas token";
const KEY_AND_VALUE: &str = "extras: flags 4; key; value; cas token";

const OPCODES: &[OpcodeRow] = &[
    OpcodeRow { opcode: GET, name: "get", parts: "key", answer: VALUE },
    OpcodeRow { opcode: SET, name: "set", parts: STORE, answer: "cas token" },
    OpcodeRow { opcode: ADD, name: "add", parts: STORE, answer: "cas token" },
    OpcodeRow { opcode: REPLACE, name: "replace", parts: STORE, answer: "cas token" },
    OpcodeRow { opcode: DELETE, name: "delete", parts: "key", answer: "" },
    OpcodeRow {
        opcode: INCREMENT,
        name: "increment",
        parts: COUNT,
        answer: "value: number 8; cas token",
    },
    OpcodeRow {
        opcode: DECREMENT,
        name: "decrement",
        parts: COUNT,
        answer: "value: number 8; cas token",
    },
    OpcodeRow { opcode: QUIT, name: "quit", parts: "", answer: "then the connection is closed" },
    OpcodeRow { opcode: FLUSH, name: "flush", parts: "extras: exptime 4, or none", answer: "" },
    OpcodeRow { opcode: NOOP, name: "noop", parts: "", answer: "" },
    OpcodeRow { opcode: VERSION, name: "version", parts: "", answer: "value: the version" },
    OpcodeRow { opcode: GETK, name: "getk", parts: "key", answer: KEY_AND_VALUE },
    OpcodeRow { opcode: APPEND, name: "append", parts: "key; value", answer: "cas token" },
    OpcodeRow { opcode: PREPEND, name: "prepend", parts: "key; value", answer: "cas token" },
    OpcodeRow {
        opcode: STAT,
        name: "stat",
        parts: "key: none, `settings`, `items`, `slabs`, `sizes`, `larder`, `reset`, `detail on`, `detail off` or `detail dump`",
        answer: "key: a name; value. One answer for each, the last without a name",
    },
    OpcodeRow {
        opcode: TOUCH,
        name: "touch",
        parts: EXPTIME,
        answer: "extras: flags 4; cas token",
    },
    OpcodeRow { opcode: GAT, name: "gat", parts: EXPTIME, answer: VALUE },
    OpcodeRow { opcode: SASL_LIST, name: "sasl list", parts: "", answer: "value: `PLAIN`" },
    OpcodeRow {
        opcode: SASL_AUTH,
        name: "sasl auth",
        parts: "key: mechanism; value",
        answer: "value: `Authenticated`",
    },
    OpcodeRow {
        opcode: SASL_STEP,
        name: "sasl step",
        parts: "key: mechanism; value",
        answer: "none: PLAIN has one step",
    },
    OpcodeRow { opcode: GATK, name: "gatk", parts: EXPTIME, answer: KEY_AND_VALUE },
];

const STATUSES_HEAD: &str = "
Quiet opcodes hide misses of gets and success of everything else; failures are always told. A no-op is answered after everything before it.

A request's cas token other than 0 is a condition: the item must be there and have it, whatever the mode of the store. A counter that is not there begins with the initial
number, unless its exptime is `ffffffff`. An exptime has no sign. Lengths that do not go with the opcode, or a key of more than 250 bytes, are answered `04` and end the connection; extras and key
that do not fit into the body, `81` and the same. A byte other than `80` where a request should begin closes the connection.

| status | value | meaning |
|---|---|---|
";

const STATUSES: &[(u16, &str)] = &[
    (status::SUCCESS, "It was done."),
    (
        status::NOT_FOUND,
        "There is no such item, or no such section of the statistics. `getk` and `gatk` have the key instead of these words.",
    ),
    (status::EXISTS, "There is such an item, or it has another cas token."),
    (status::TOO_LARGE, "The item is larger than `-I` allows. Its value is skipped."),
    (status::INVALID, "The request does not have the form of its opcode."),
    (status::NOT_STORED, "There is no item to append to, or it would become too large."),
    (status::NON_NUMERIC, "The item's value is no number."),
    (
        status::NOT_ALLOWED,
        "The peer may not do that: it has not said who it is, it is not who it says, or the server was started with `-F`.",
    ),
    (status::UNKNOWN, "There is no such opcode. Its body is skipped, and the connection goes on."),
    (status::OUT_OF_MEMORY, "There is no memory for it; the words say for what."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::form::Form;

    #[test]
    fn every_opcode_has_its_row_and_there_are_no_others() {
        for opcode in 0..=u8::MAX {
            let has_row = OPCODES.iter().any(|row| row.opcode == aloud(opcode));
            assert_eq!(has_row, Form::of(opcode).is_some(), "{opcode:#x}");
        }
    }

    #[test]
    fn every_status_with_words_has_its_row() {
        for status in 1..=u16::MAX {
            let has_row = STATUSES.iter().any(|(listed, _)| *listed == status);
            assert_eq!(has_row, !words(status).is_empty(), "{status:#x}");
        }
    }
}
