//! Checks that the committed page is up to date and agrees with the parser and the renderer.

use std::collections::BTreeSet;
use std::{env, fs, path::Path};

use super::*;
use crate::text::Parser;
use crate::text::client::{ParsedReply, Reply, read_reply};
use crate::text::parse::NAMES;
use crate::{Bad, ClientError, Frame, Parsed, Response, names_command};

#[test]
fn the_committed_page_is_up_to_date() {
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

/// Returns the shortest and the longest line of a form, with numbers for its arguments.
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
    let rows = commands::COMMANDS.iter().chain(admin::COMMANDS).chain(local::COMMANDS);
    for row in rows.chain(near::COMMANDS).chain(warm::COMMANDS) {
        for line in lines(row.form) {
            let parsed = Parser::default().next(line.as_bytes());
            assert!(matches!(parsed, Parsed::Command { .. }), "{line:?}: {parsed:?}");
        }
    }
}

#[test]
fn every_row_has_the_needs_of_its_command() {
    let rows = commands::COMMANDS
        .iter()
        .chain(admin::COMMANDS)
        .chain(local::COMMANDS)
        .chain(near::COMMANDS)
        .chain(warm::COMMANDS)
        .chain(meta::COMMANDS);
    for row in rows {
        for line in lines(&row.form.replace(" <flag>*", "").replace(" [b]", "")) {
            let parsed = Parser::default().next(line.as_bytes());
            let Parsed::Command { command, .. } = parsed else { panic!("{line:?}: {parsed:?}") };
            assert_eq!(table::Needs::of(command.permission()), row.needs, "{line:?}");
        }
    }
}

/// A flag of `mg` that changes the item needs another right than the command's row.
#[test]
fn a_fetch_that_changes_its_item_needs_the_right_to_write() {
    use crate::permission::{Permission, Right, Scope};
    for (flags, right) in [
        ("", Right::Read),
        ("v f c h l t s k O1 q u", Right::Read),
        ("C5 v", Right::Read),
        ("N30", Right::Write),
        ("v R30", Right::Write),
        ("T30", Right::Write),
        ("E5", Right::Write),
    ] {
        let line = format!("mg k {flags}\r\n");
        let parsed = Parser::default().next(line.as_bytes());
        let Parsed::Command { command, .. } = parsed else { panic!("{line:?}: {parsed:?}") };
        let expected = Permission { right: Some(right), scope: Scope::Key(b"k") };
        assert_eq!(command.permission(), expected, "{line:?}");
    }
}

#[test]
fn every_form_that_names_noreply_is_quiet_with_it() {
    let rows = commands::COMMANDS.iter().chain(admin::COMMANDS).chain(local::COMMANDS);
    for row in rows.chain(near::COMMANDS).chain(warm::COMMANDS) {
        let [_, line] = lines(row.form);
        let parsed = Parser::default().next(line.as_bytes());
        let Parsed::Command { frame, .. } = parsed else { panic!("{line:?}: {parsed:?}") };
        assert_eq!(frame == Frame::Text { quiet: true }, row.form.contains("noreply"), "{line:?}");
    }
}

#[test]
fn every_error_is_read_as_one_by_a_client() {
    for (error, _) in errors::ERRORS {
        let line = table::words(error) + "\r\n";
        let reading = read_reply(line.as_bytes());
        assert!(matches!(reading, ParsedReply::Reply { reply: Reply::Error(_), .. }), "{line:?}");
    }
}

#[test]
fn unimplemented_and_abbreviated_commands_are_unknown() {
    for line in ["extstore item_size 512", "flush", "shut"] {
        let line = format!("{line}\r\n");
        let parsed = Parser::default().next(line.as_bytes());
        let Parsed::Bad(Bad { error, .. }) = parsed else { panic!("{line:?}: {parsed:?}") };
        assert_eq!(error, Some(ClientError::UnknownCommand.into()), "{line:?}");
    }
}

#[test]
fn every_form_names_a_command_and_no_other_name_does() {
    let rows = commands::COMMANDS
        .iter()
        .chain(admin::COMMANDS)
        .chain(local::COMMANDS)
        .chain(near::COMMANDS)
        .chain(warm::COMMANDS)
        .chain(meta::COMMANDS);
    let forms: BTreeSet<&str> =
        rows.map(|row| row.form.split_whitespace().next().unwrap()).collect();
    let names = NAMES.iter().map(|name| str::from_utf8(name).unwrap());
    assert_eq!(names.collect::<BTreeSet<_>>(), forms);
    for name in forms {
        for end in ["\r\n", "\n", " k\r\n", ""] {
            assert!(names_command(format!("{name}{end}").as_bytes()), "{name:?} {end:?}");
        }
        for other in [format!(" {name}"), format!("{name}s_"), name.to_uppercase()] {
            assert!(!names_command(format!("{other} k\r\n").as_bytes()), "{other:?}");
        }
    }
}

/// Returns the responses to everything that can happen, in all dialects, including headers of hits.
fn answers() -> Vec<Vec<u8>> {
    use crate::{Counted, Shown, Stored, TokenHolder, Touched, binary, meta, render};
    let mut responses = vec![
        Response::Hit,
        Response::Shown,
        Response::Miss,
        Response::EndOfKeys,
        Response::Stored(Stored { cas: 1, value_bytes: 1 }),
        Response::NotStored,
        Response::Exists,
        Response::NotFound,
        Response::Deleted,
        Response::Touched(Touched::default()),
        Response::Number(Counted { number: 7, ..Counted::default() }),
        Response::Number(Counted { number: u64::MAX, ..Counted::default() }),
        Response::NoOp,
        Response::Authenticated,
        Response::Mechanisms,
        Response::Ok,
        Response::Reset,
        Response::Version,
        Response::EndOfStats,
        Response::Close,
    ];
    responses.extend(errors::ERRORS.iter().map(|(error, _)| *error));
    let meta =
        larder_item::Meta { flags: 3, value_bytes: 5, cas: 9, ..larder_item::Meta::default() };
    let shown = |with_value| Shown {
        key: b"get",
        meta,
        with_value,
        deadline_unix_secs: None,
        ttl_secs: None,
        ttl_before_secs: None,
        idle_secs: 0,
        fetched: false,
        stale: false,
        token_holder: TokenHolder::NoPeer,
        class: 1,
        item_bytes: 70,
    };
    let binary_frame = |opcode| Frame::Binary(binary::Frame { opcode, ..binary::Frame::UNASKED });
    let meta_frame = |flags| {
        let key = b"get".as_slice();
        Frame::Meta(meta::Frame { key, base64: false, flags, value_bytes: None, quiet: false })
    };
    let mut frames = vec![Frame::default(), meta_frame(b""), meta_frame(b"k v O1 t f c s")];
    frames.extend((0..=u8::MAX).map(binary_frame));
    let mut answers = Vec::new();
    for frame in &frames {
        let mut push = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut answer = Vec::new();
            write(&mut answer);
            answers.push(answer);
        };
        for response in &responses {
            push(&|out| render::response(out, response, frame));
        }
        push(&|out| render::hit_head(out, b"get", &meta, true, frame));
        push(&|out| render::shown(out, &shown(true), frame));
        push(&|out| render::shown(out, &shown(false), frame));
        push(&|out| render::inspected(out, &shown(false), frame));
        push(&|out| render::lease(out, b"get", 1));
        push(&|out| render::stat(out, "get", 1, frame));
        push(&|out| crate::text::render::dumped_item(out, b"get", 1, 0));
    }
    answers
}

/// memcached's responses that Larder never sends. From memcached's source: proto_text.c,
/// proto_parser.c, memcached.c, items.c.
const OF_MEMCACHED: [&str; 19] = [
    "BUSY currently processing reassign request",
    "BADCLASS invalid src or dst class id",
    "NOSPARE source class has no spare pages",
    "NOTFULL dest class has no spare memory",
    "UNSAFE source class cannot move pages right now",
    "SAME src and dst class are identical",
    "NOTSTARTED no items to crawl",
    "ERROR Too many open connections",
    "SERVER_ERROR out of memory writing get response",
    "SERVER_ERROR multigets not allowed",
    "CLIENT_ERROR usage: cache_memlimit [megs]",
    "CLIENT_ERROR line too long",
    "WATCHER_TOO_MANY log watcher limit reached",
    "WATCHER_FAILED failed to add log watcher",
    "PREFIX get get 1 hit 1 set 1 del 0",
    "key=get exp=-1 la=1 cas=1 fetch=no cls=1 size=60 flags=0",
    "ts=1.2 gid=1 type=item_get key=get status=found clsid=1 cfd=1",
    "REGION 0 1 2 3",
    "[item get]",
];

#[test]
fn no_response_names_a_command_or_is_parsed_as_one() {
    let mut answers = answers();
    answers.extend(OF_MEMCACHED.map(|line| format!("{line}\r\n").into_bytes()));
    answers.retain(|answer| !answer.is_empty());
    assert!(answers.len() > 1000);
    for answer in answers {
        // After the header of a hit, the value may hold anything.
        for tail in [&b""[..], b"get k\r\nEND\r\n"] {
            let datagram = [&answer, tail].concat();
            let shown = datagram.escape_ascii();
            assert!(!names_command(&datagram), "{shown}");
            let parsed = crate::Parser::default().next(&datagram);
            assert!(!matches!(parsed, Parsed::Command { .. }), "{shown}: {parsed:?}");
        }
    }
}
