//! Requests of every row of the page, for tests of servers.

use super::table::{CommandRow, Needs};
use super::{admin, binary, commands, local, meta, near, warm};
use crate::base64;
use crate::permission::Right;

/// A request, and the permission that its row states.
#[derive(Clone, Debug)]
pub struct ExampleRequest {
    /// The bytes of the request, with the value of a store.
    pub bytes: Vec<u8>,
    /// The right that it needs.
    pub right: Option<Right>,
    /// The items that it concerns.
    pub reach: Reach,
    /// True if the request asks for no response to a success (`noreply`, `q`, a quiet opcode).
    pub is_quiet: bool,
    /// True if it is a request of the binary protocol.
    pub is_binary: bool,
}

/// The items that a request concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// None.
    Nothing,
    /// The item with the given key, or the items that begin with it.
    Key,
    /// All items.
    All,
}

/// Returns requests for every command of the text, meta and binary protocols, in all forms that the
/// tables list: short and long, with `noreply` and quiet, with the key as it is and in base64.
/// Commands that name an item name `key`.
pub fn example_requests(key: &[u8]) -> Vec<ExampleRequest> {
    let mut requests = Vec::new();
    let rows = commands::COMMANDS.iter().chain(admin::COMMANDS).chain(local::COMMANDS);
    for row in rows.chain(near::COMMANDS).chain(warm::COMMANDS) {
        let (required, optional) = row.form.split_once('[').unwrap_or((row.form, ""));
        let optional: Vec<_> =
            optional.split(['[', ']', ' ', '|']).filter(|word| !word.is_empty()).collect();
        requests.push(request(row, &words(required, key), false));
        let is_quiet = optional.contains(&"noreply");
        let is_choice = row.form.contains('|') || row.form.contains("[b]");
        if !is_choice && !optional.is_empty() {
            let whole = format!("{required} {}", optional.join(" "));
            requests.push(request(row, &words(&whole, key), is_quiet));
        }
    }
    let (mut encoded, prefix) = (Vec::new(), b"delete_prefix".as_slice());
    base64::encode(&mut encoded, key);
    for row in meta::COMMANDS {
        let form = row.form.replace(" <flag>*", "").replace(" [b]", "");
        requests.push(request(row, &words(&form, key), false));
        if form.contains("<key>") {
            let with_flags = |flags: &str| [&words(&form, &encoded)[..], flags.as_bytes()].concat();
            requests.push(request(row, &with_flags(" b"), false));
            if row.form.contains("<flag>") {
                requests.push(request(row, &with_flags(" b q"), true));
            }
        }
    }
    if let Some(row) = admin::COMMANDS.iter().find(|row| row.form.as_bytes().starts_with(prefix)) {
        requests.push(request(row, &[prefix, b" ", &encoded, b" b"].concat(), false));
    }
    requests.extend(binary::example_requests(key));
    requests
}

/// Returns the words of a form with values for its arguments.
fn words(form: &str, key: &[u8]) -> Vec<u8> {
    let words = form.split_whitespace().map(|word| match word {
        "<key>" | "<key>+" | "<prefix>" => key,
        "<bytes>" => b"2",
        "<number>" => b"4000000000",
        word if word.starts_with('<') => b"8",
        word => word.as_bytes(),
    });
    words.collect::<Vec<_>>().join(&b' ')
}

fn request(row: &CommandRow, line: &[u8], is_quiet: bool) -> ExampleRequest {
    let value: &[u8] = if row.form.contains("<bytes>") { b"88\r\n" } else { b"" };
    let (right, reach) = permission(row.needs);
    let bytes = [line, b"\r\n", value].concat();
    ExampleRequest { bytes, right, reach, is_quiet, is_binary: false }
}

pub(super) fn permission(needs: Needs) -> (Option<Right>, Reach) {
    match needs {
        Needs::Nothing => (None, Reach::Nothing),
        Needs::Right(right) => (Some(right), Reach::Nothing),
        Needs::OfKey(right) => (Some(right), Reach::Key),
        Needs::OfAll(right) => (Some(right), Reach::All),
    }
}
