//! The server parses what the client writes in the text protocol, and vice versa.

use larder_item::{Direction, Meta, StoreMode};
use larder_protocol::text::client::{Hit, ParsedReply, Reply, UnsendableKey, read_reply, request};
use larder_protocol::text::{LINE_END, Parser, render};
use larder_protocol::{
    Arithmetic, ClientError, Command, Counted, Delete, Frame, Parsed, Response, ServerError,
    StatsSection, Store, Stored, Touched, WIRE_VERSION,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("not sendable", |byte| !b" \r\n".contains(byte));
    vec(byte, 1..=250)
}

/// Returns a one-line command, most of them on the key.
fn keyed_command(key: &[u8], form: u8, number: u64) -> Command<'_> {
    let exptime = i64::from(number as i32);
    match form % 5 {
        0 => Command::Delete(Delete::of(key)),
        1 => Command::Arithmetic(Arithmetic::of(key, Direction::Increment, number)),
        2 => Command::Arithmetic(Arithmetic::of(key, Direction::Decrement, number)),
        3 => Command::Touch { key, exptime },
        _ => Command::FlushAll { exptime },
    }
}

/// Returns the commands in `bytes`. They must consume all bytes except the last `left_bytes`.
fn parse(bytes: &[u8], left_bytes: usize) -> Vec<(Command<'_>, Frame<'_>)> {
    let mut parser = Parser::default();
    let (mut commands, mut rest) = (Vec::new(), bytes);
    while rest.len() > left_bytes {
        match parser.next(rest) {
            Parsed::Skipped { consumed } => rest = &rest[consumed..],
            Parsed::Command { command, frame, consumed } => {
                commands.push((command, frame));
                rest = &rest[consumed..];
            }
            other => panic!("{other:?} in {bytes:?}"),
        }
    }
    commands
}

const MODES: &[StoreMode] =
    &[StoreMode::Set, StoreMode::Add, StoreMode::Replace, StoreMode::Append, StoreMode::Prepend];

proptest! {
    #[test]
    fn a_command_is_read_as_it_was_written(
        key in key(), form in any::<u8>(), number in any::<u64>(), quiet in any::<bool>(),
    ) {
        let command = keyed_command(&key, form, number);
        let frame = Frame::Text { quiet };
        let mut out = Vec::new();
        request::command(&mut out, &command, quiet).unwrap();
        prop_assert_eq!(parse(&out, 0), [(command, frame)]);
    }

    #[test]
    fn a_store_is_read_as_it_was_written(
        key in key(),
        mode in prop::sample::select(MODES),
        cas in prop::option::of(any::<u64>()),
        (flags, exptime) in (any::<u32>(), any::<i32>()),
        value in vec(any::<u8>(), 0..100),
        quiet in any::<bool>(),
    ) {
        let mode = if cas.is_some() { StoreMode::Set } else { mode };
        let exptime = i64::from(exptime);
        let head = Store { key: &key, mode, cas, flags, exptime, value_bytes: value.len(), ..Store::PLAIN };
        let frame = Frame::Text { quiet };
        let mut out = Vec::new();
        request::store(&mut out, &head, &value, quiet).unwrap();
        let block_bytes = value.len() + LINE_END.len();
        prop_assert_eq!(parse(&out, block_bytes), [(Command::Store(head), frame)]);
        prop_assert_eq!(&out[out.len() - block_bytes..], [&value[..], LINE_END].concat());
    }

    #[test]
    fn a_request_for_keys_is_read_as_it_was_written(
        keys in vec(key(), 1..30),
        with_cas in any::<bool>(),
        exptime in prop::option::of(any::<i32>()),
    ) {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let exptime = exptime.map(i64::from);
        let mut out = Vec::new();
        request::get(&mut out, &keys, with_cas, exptime).unwrap();
        let commands: Vec<_> = parse(&out, 0).into_iter().map(|(command, _)| command).collect();
        let mut expected: Vec<_> =
            keys.iter().map(|key| Command::Get { key, with_cas, exptime }).collect();
        expected.push(Command::EndOfKeys);
        prop_assert_eq!(commands, expected);
    }

    #[test]
    fn a_hit_is_read_as_it_was_rendered(
        key in key(), flags in any::<u32>(), cas in any::<u64>(), with_cas in any::<bool>(),
        value in vec(any::<u8>(), 0..100),
    ) {
        let meta = Meta { flags, cas, value_bytes: value.len(), ..Meta::default() };
        let mut out = Vec::new();
        render::hit_head(&mut out, &key, &meta, with_cas);
        out.extend_from_slice(&value);
        render::response(&mut out, &Response::Hit);
        let hit = Hit { key: &key, flags, value: &value, cas: with_cas.then_some(cas) };
        let consumed = out.len();
        prop_assert_eq!(read_reply(&out), ParsedReply::Reply { reply: Reply::Value(hit), consumed });
    }

    #[test]
    fn arbitrary_bytes_are_no_reply_or_one_that_fits(bytes in vec(any::<u8>(), 0..200)) {
        if let ParsedReply::Reply { consumed, .. } = read_reply(&bytes) {
            prop_assert!(consumed > 0);
            prop_assert!(consumed <= bytes.len());
        }
    }
}

#[test]
fn commands_without_a_key_are_read_as_they_were_written() {
    for command in [
        Command::Version,
        Command::Config { name: b"cluster" },
        Command::Quit,
        Command::Verbosity { level: 2 },
        Command::MemoryLimit { mebibytes: 64 },
        Command::Shutdown { graceful: false },
        Command::Shutdown { graceful: true },
        Command::RefreshCertificates,
        Command::Stats(StatsSection::General),
        Command::Stats(StatsSection::Settings),
        Command::Stats(StatsSection::Items),
        Command::Stats(StatsSection::Slabs),
        Command::Stats(StatsSection::Connections),
        Command::Stats(StatsSection::Sizes),
        Command::Stats(StatsSection::Larder),
        Command::Stats(StatsSection::DeletePrefix),
        Command::DeletePrefix { prefix: b"user:7:", base64: false },
        Command::DeletePrefix { prefix: b"AP8=", base64: true },
        Command::Stats(StatsSection::Reset),
    ] {
        let mut out = Vec::new();
        request::command(&mut out, &command, false).unwrap();
        assert_eq!(parse(&out, 0), [(command, Frame::default())]);
    }
}

#[test]
fn a_key_that_would_end_its_line_is_not_sent() {
    let mut out = Vec::new();
    for (key, found, position) in [(&b"a b"[..], b' ', 1), (b"\r", b'\r', 0), (b"ab\n", b'\n', 2)] {
        let refused = request::get(&mut out, &[b"k", key], false, None);
        assert_eq!(refused, Err(UnsendableKey::Byte { found, position }));
    }
    assert!(request::command(&mut out, &Command::Delete(Delete::of(b"")), false).is_err());
    assert!(out.is_empty());
}

fn number(number: u64) -> Response {
    Response::Number(Counted { number, ..Counted::default() })
}

#[test]
fn outcomes_are_read_as_they_were_rendered() {
    for (response, reply) in [
        (Response::EndOfKeys, Reply::End),
        (Response::EndOfStats, Reply::End),
        (Response::Stored(Stored::default()), Reply::Stored),
        (Response::NotStored, Reply::NotStored),
        (Response::Exists, Reply::Exists),
        (Response::NotFound, Reply::NotFound),
        (Response::Deleted, Reply::Deleted),
        (Response::Touched(Touched::default()), Reply::Touched),
        (number(u64::MAX), Reply::Number(u64::MAX)),
        (Response::Ok, Reply::Ok),
        (Response::Reset, Reply::Reset),
        (Response::Version, Reply::Version(WIRE_VERSION.as_bytes())),
        (ClientError::UnknownCommand.into(), Reply::Error(b"ERROR")),
        (ServerError::OutOfMemory.into(), Reply::Error(b"SERVER_ERROR out of memory")),
    ] {
        let mut out = Vec::new();
        render::response(&mut out, &response);
        assert_eq!(read_reply(&out), ParsedReply::Reply { reply, consumed: out.len() });
    }
    let mut out = Vec::new();
    render::stat(&mut out, format_args!("items:{}:number", 1), 7);
    let reply = Reply::Stat { name: b"items:1:number", value: b"7" };
    assert_eq!(read_reply(&out), ParsedReply::Reply { reply, consumed: out.len() });
}

#[test]
fn a_quiet_peer_gets_neither_success_nor_failure() {
    let quiet = Frame::Text { quiet: true };
    let stored = Response::Stored(Stored::default());
    for response in [stored, number(1), ServerError::TooLarge.into()] {
        let mut out = Vec::new();
        larder_protocol::render::response(&mut out, &response, &quiet);
        assert!(out.is_empty(), "{response:?}");
    }
}

#[test]
fn a_miss_and_a_close_are_silent() {
    let mut out = Vec::new();
    render::response(&mut out, &Response::Miss);
    render::response(&mut out, &Response::Close);
    assert!(out.is_empty());
}
