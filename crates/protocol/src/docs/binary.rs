//! The section on the binary protocol.

use std::fmt::Write;

use super::examples::{ExampleRequest, permission};
use super::table::{Needs, code, push_row};
use crate::binary::opcode::*;
use crate::binary::status::{self, words};
use crate::binary::{CREDENTIALS_BYTES_MAX, HEADER_BYTES, MECHANISM_BYTES_MAX};
use crate::cluster::CLUSTER;
use crate::permission::Right;

/// Returns the section.
pub(super) fn section() -> String {
    let mut section = HEAD.to_owned();
    for row in OPCODES {
        let quiet = (0..=u8::MAX).find(|other| is_quiet(*other) && aloud(*other) == row.opcode);
        let quiet = quiet.map_or_else(String::new, |quiet| code(&format!("{quiet:02x}")));
        let opcode = code(&format!("{:02x}", row.opcode));
        let needs = row.needs.cell();
        push_row(&mut section, &[&opcode, &quiet, row.name, row.parts, row.answer, &needs]);
    }
    section.push_str(STATUSES_HEAD);
    for (status, meaning) in STATUSES {
        push_row(&mut section, &[&code(&format!("{status:02x}")), words(*status), meaning]);
    }
    write!(
        section,
        "
## Authentication

With `-Y FILE` the server accepts only the text protocol, and a peer must log in first. A login is
`set <any key> 0 0 <bytes>` with the value `<user> <password>`. The response is `STORED`. The
response to any other request is `CLIENT_ERROR unauthenticated`; a line shorter than 6 bytes, or
without a newline within 2048 bytes, closes the connection.

With `-S` the server accepts only the binary protocol. A peer logs in with the SASL mechanism PLAIN,
in `21`. Before that, every opcode except `0b`, `20`, `21` and `22` has the status `20` and closes
the connection. The name of a mechanism has at most {MECHANISM_BYTES_MAX} bytes, the credentials at most
{CREDENTIALS_BYTES_MAX}. A failed authentication revokes an earlier one.

Users and passwords are lines `user:password` of a file: with `-Y` the file that it names, with `-S`
the file that the environment variable `MEMCACHED_SASL_PWDB` names. In the file of `-S` another
colon ends the password, and the rest of the line is ignored. SIGHUP reloads the file; if that
fails, the server logs the cause on standard error and keeps the users. Authenticated peers stay
authenticated. Passwords cross the network unencrypted: keep the network private, or use TLS.
"
    )
    .expect("writing to a String cannot fail");
    section
}

/// Returns a request for every opcode, for [`super::example_requests`].
pub(super) fn example_requests(key: &[u8]) -> Vec<ExampleRequest> {
    let mut requests = Vec::new();
    for opcode in 0..=u8::MAX {
        let Some(row) = OPCODES.iter().find(|row| row.opcode == aloud(opcode)) else { continue };
        let (extras_bytes, has_key) = match row.parts {
            "key" => (0, true),
            EXPTIME => (4, true),
            STORE => (8, true),
            COUNT => (20, true),
            CONFIG => (0, true),
            parts => (0, parts.starts_with("key; value")),
        };
        let key = match row.parts {
            CONFIG => CLUSTER,
            _ if has_key => key,
            _ => b"",
        };
        let value: &[u8] = if row.parts.contains("value") { b"88" } else { b"" };
        let body_bytes = extras_bytes + key.len() + value.len();
        let mut bytes = vec![0x80, opcode, 0, key.len() as u8, extras_bytes as u8, 0, 0, 0];
        bytes.extend_from_slice(&(body_bytes as u32).to_be_bytes());
        bytes.resize(HEADER_BYTES + extras_bytes, 0);
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        let (right, reach) = permission(row.needs);
        let is_quiet = is_quiet(opcode);
        requests.push(ExampleRequest { bytes, right, reach, is_quiet, is_binary: true });
    }
    requests
}

/// An opcode.
struct OpcodeRow {
    opcode: u8,
    name: &'static str,
    /// The parts of a request besides the header.
    parts: &'static str,
    needs: Needs,
    /// The content of a successful response.
    answer: &'static str,
}

const HEAD: &str = "
## Binary protocol

A connection whose first byte is `80` uses the binary protocol for its lifetime. A request is a
header of 24 bytes, then extras, key and value. A response has the same layout, begins with `81`,
and repeats opcode and opaque. Numbers are big-endian. The fields of the header, with their length
in bytes: magic 1, opcode 1, length of the key 2, length of the extras 1, zero 1, status 2 (in a
response), length of extras, key and value together 4, opaque 4, cas token 8.

| opcode | quiet | name | request | response | needs |
|---|---|---|---|---|---|
";

const EXPTIME: &str = "extras: exptime 4; key";
const STORE: &str = "extras: flags 4, exptime 4; key; value";
const COUNT: &str = "extras: delta 8, initial 8, exptime 4; key";
const CONFIG: &str = "key: `cluster`";
const VALUE: &str = "extras: flags 4; value; cas token";
const KEY_AND_VALUE: &str = "extras: flags 4; key; value; cas token";

const OPCODES: &[OpcodeRow] = &[
    OpcodeRow { opcode: GET, needs: Needs::READ, name: "get", parts: "key", answer: VALUE },
    OpcodeRow { opcode: SET, needs: Needs::WRITE, name: "set", parts: STORE, answer: "cas token" },
    OpcodeRow { opcode: ADD, needs: Needs::WRITE, name: "add", parts: STORE, answer: "cas token" },
    OpcodeRow {
        opcode: REPLACE,
        needs: Needs::WRITE,
        name: "replace",
        parts: STORE,
        answer: "cas token",
    },
    OpcodeRow { opcode: DELETE, needs: Needs::WRITE, name: "delete", parts: "key", answer: "" },
    OpcodeRow {
        opcode: INCREMENT,
        needs: Needs::WRITE,
        name: "increment",
        parts: COUNT,
        answer: "value: number 8; cas token",
    },
    OpcodeRow {
        opcode: DECREMENT,
        needs: Needs::WRITE,
        name: "decrement",
        parts: COUNT,
        answer: "value: number 8; cas token",
    },
    OpcodeRow {
        opcode: QUIT,
        needs: Needs::Nothing,
        name: "quit",
        parts: "",
        answer: "then the connection closes",
    },
    OpcodeRow {
        opcode: FLUSH,
        needs: Needs::OfAll(Right::Write),
        name: "flush",
        parts: "extras: exptime 4, or none",
        answer: "",
    },
    OpcodeRow { opcode: NOOP, needs: Needs::Nothing, name: "noop", parts: "", answer: "" },
    OpcodeRow {
        opcode: VERSION,
        needs: Needs::Nothing,
        name: "version",
        parts: "",
        answer: "value: the version",
    },
    OpcodeRow {
        opcode: GETK,
        needs: Needs::READ,
        name: "getk",
        parts: "key",
        answer: KEY_AND_VALUE,
    },
    OpcodeRow {
        opcode: APPEND,
        needs: Needs::WRITE,
        name: "append",
        parts: "key; value",
        answer: "cas token",
    },
    OpcodeRow {
        opcode: PREPEND,
        needs: Needs::WRITE,
        name: "prepend",
        parts: "key; value",
        answer: "cas token",
    },
    OpcodeRow {
        opcode: STAT,
        needs: Needs::Right(Right::Read),
        name: "stat",
        parts: "key: none, `settings`, `items`, `slabs`, `sizes`, `larder`, `reset`, `detail on`, \
            `detail off` or `detail dump`",
        answer: "key: a name; value. One response for each statistic, the last without a name",
    },
    OpcodeRow {
        opcode: TOUCH,
        needs: Needs::WRITE,
        name: "touch",
        parts: EXPTIME,
        answer: "extras: flags 4; cas token",
    },
    OpcodeRow { opcode: GAT, needs: Needs::WRITE, name: "gat", parts: EXPTIME, answer: VALUE },
    OpcodeRow {
        opcode: SASL_LIST,
        needs: Needs::Nothing,
        name: "sasl list",
        parts: "",
        answer: "value: `PLAIN`",
    },
    OpcodeRow {
        opcode: SASL_AUTH,
        needs: Needs::Nothing,
        name: "sasl auth",
        parts: "key: mechanism; value",
        answer: "value: `Authenticated`",
    },
    OpcodeRow {
        opcode: SASL_STEP,
        needs: Needs::Nothing,
        name: "sasl step",
        parts: "key: mechanism; value",
        answer: "none: PLAIN has one step",
    },
    OpcodeRow {
        opcode: GATK,
        needs: Needs::WRITE,
        name: "gatk",
        parts: EXPTIME,
        answer: KEY_AND_VALUE,
    },
    OpcodeRow {
        opcode: CONFIG_GET,
        needs: Needs::Nothing,
        name: "config get",
        parts: CONFIG,
        answer: "extras: flags 4; value: the servers, see [discovery.md](discovery.md). Without \
            `--cluster-file` and `--cluster-dns` the opcode does not exist",
    },
];

const STATUSES_HEAD: &str = "
Quiet opcodes suppress misses in get operations and success in all others; the server always reports
failures. It responds to a no-op after all earlier requests.

A cas token other than 0 in a request is a condition: the item must exist and have this token,
whatever the mode of the store. A counter that does not exist begins with the initial number, unless
its exptime is `ffffffff`. Exptimes are unsigned. If the lengths do not match the opcode, or the key
has more than 250 bytes, the status is `04` and the connection closes. If extras and key exceed the
body, the status is `81` and the connection closes. A byte other than `80` at the beginning of a
request also closes the connection.

| status | value | meaning |
|---|---|---|
";

const STATUSES: &[(u16, &str)] = &[
    (status::SUCCESS, "The request succeeded."),
    (
        status::NOT_FOUND,
        "The item, or the section of the statistics, does not exist. Responses to `getk` and \
        `gatk` have the key instead of this value.",
    ),
    (status::EXISTS, "The item exists, or it has another cas token."),
    (status::TOO_LARGE, "The item is larger than `-I` allows. Its value is skipped."),
    (status::INVALID, "The request does not match the form of its opcode."),
    (status::NOT_STORED, "The item to append to does not exist, or would become too large."),
    (status::NON_NUMERIC, "The item's value is not a number."),
    (
        status::NOT_ALLOWED,
        "The peer has not logged in, its login failed, it lacks a right, or an option of the server \
        disables the command: `-F`, `-X`.",
    ),
    (
        status::UNKNOWN,
        "The opcode does not exist. Its body is skipped, and the connection stays open.",
    ),
    (status::OUT_OF_MEMORY, "The server is out of memory; the value names the use."),
    (
        status::TEMPORARY_FAILURE,
        "The server is still reading the items of `--tier-path`, the user exceeds its `rate`, or \
        the servers of `--cluster-dns` are not known yet.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::form::Form;
    use crate::{Parsed, Parser};

    #[test]
    fn every_opcode_has_a_row_and_every_row_an_opcode() {
        for opcode in 0..=u8::MAX {
            let has_row = OPCODES.iter().any(|row| row.opcode == aloud(opcode));
            assert_eq!(has_row, Form::of(opcode).is_some(), "{opcode:#x}");
        }
    }

    /// Returns the permission that the parser's command of an opcode needs.
    fn parsed_needs(opcode: u8) -> Needs {
        for (extras_bytes, key) in [(0, ""), (0, "k"), (4, "k"), (8, "k"), (20, "k")] {
            let mut request = vec![0; HEADER_BYTES + extras_bytes];
            request.extend_from_slice(key.as_bytes());
            (request[0], request[1], request[3]) = (0x80, opcode, key.len() as u8);
            (request[4], request[11]) = (extras_bytes as u8, (extras_bytes + key.len()) as u8);
            if let Parsed::Command { command, .. } = Parser::default().next(&request) {
                return Needs::of(command.permission());
            }
        }
        panic!("no request has the opcode {opcode:#x}");
    }

    #[test]
    fn every_row_has_the_needs_of_its_command() {
        for opcode in 0..=u8::MAX {
            if let Some(row) = OPCODES.iter().find(|row| row.opcode == aloud(opcode)) {
                assert_eq!(parsed_needs(opcode), row.needs, "{opcode:#x}: {}", row.name);
            }
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
