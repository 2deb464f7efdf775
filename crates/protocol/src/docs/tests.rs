//! The page is the committed one, and says nothing that the parser and the renderer do not.

use std::{env, fs, path::Path};

use super::*;
use crate::text::Parser;
use crate::text::client::{Reading, Reply, read_reply};
use crate::{Bad, Frame, Parsed};

#[test]
fn the_committed_page_is_the_one_the_rows_give() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let page = protocol_md();
    if env::var_os("LARDER_BLESS").is_some() {
        fs::write(&path, page).unwrap();
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/protocol.md is out of date: run `LARDER_BLESS=1 cargo test -p larder-protocol`"
    );
}

/// The shortest and the longest line of a form, with numbers for its arguments.
fn lines(form: &str) -> [String; 2] {
    let (mut shortest, mut longest) = (Vec::new(), Vec::new());
    let (required, optional) = form.split_once('[').unwrap_or((form, ""));
    for word in required.split_whitespace() {
        let word = if word.starts_with('<') { "8" } else { word };
        shortest.push(word);
        longest.push(word);
    }
    for word in optional.split(['[', ']', ' ', '|']).filter(|word| !word.is_empty()) {
        longest.push(if word.starts_with('<') { "8" } else { word });
    }
    [shortest, longest].map(|words| words.join(" ") + "\r\n")
}

#[test]
fn every_form_is_a_command() {
    for row in COMMANDS.iter().chain(admin::COMMANDS).chain(local::COMMANDS) {
        for line in lines(row.form) {
            let parsed = Parser::default().next(line.as_bytes());
            assert!(matches!(parsed, Parsed::Command { .. }), "{line:?}: {parsed:?}");
        }
    }
}

#[test]
fn every_form_that_names_noreply_is_quiet_with_it() {
    for row in COMMANDS.iter().chain(admin::COMMANDS).chain(local::COMMANDS) {
        let [_, line] = lines(row.form);
        let parsed = Parser::default().next(line.as_bytes());
        let Parsed::Command { frame, .. } = parsed else { panic!("{line:?}: {parsed:?}") };
        assert_eq!(frame == Frame::Text { quiet: true }, row.form.contains("noreply"), "{line:?}");
    }
}

#[test]
fn every_error_is_read_as_one_by_a_client() {
    for (error, _) in ERRORS {
        let line = words(error) + "\r\n";
        let reading = read_reply(line.as_bytes());
        assert!(matches!(reading, Reading::Reply { reply: Reply::Error(_), .. }), "{line:?}");
    }
}

#[test]
fn commands_that_are_not_written_yet_are_unknown() {
    for line in ["extstore item_size 512", "flush", "shut"] {
        let line = format!("{line}\r\n");
        let parsed = Parser::default().next(line.as_bytes());
        let Parsed::Bad(Bad { error, .. }) = parsed else { panic!("{line:?}: {parsed:?}") };
        assert_eq!(error, Some(ClientError::UnknownCommand.into()), "{line:?}");
    }
}
