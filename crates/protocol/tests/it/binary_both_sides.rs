//! The server parses what the client writes in the binary protocol, and vice versa.

use larder_item::{Direction, Meta, StoreMode};
use larder_protocol::admin::{Admin, Detail};
use larder_protocol::binary::client::{
    Manner, ParsedReply, Reply, Unsendable, read_reply, request,
};
use larder_protocol::binary::{self, opcode, status};
use larder_protocol::{
    Arithmetic, ClientError, Command, Counted, Delete, Frame, Initial, Parsed, Response,
    ServerError, StatsSection, Store, Stored, Touched, WIRE_VERSION, render,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 1..=250)
}

fn manner() -> impl Strategy<Value = Manner> {
    (any::<bool>(), any::<bool>(), any::<u32>()).prop_map(|(quiet, names_key, opaque)| Manner {
        quiet,
        names_key,
        opaque,
    })
}

/// Returns a command on a key, of any form except a store.
fn keyed_command(key: &[u8], form: u8, number: u64, exptime: u32) -> Command<'_> {
    let cas = Some(number).filter(|number| *number % 3 != 0);
    let initial = Some(Initial { number, exptime: i64::from(exptime) })
        .filter(|initial| exptime != u32::MAX && initial.number % 2 == 0);
    let exptime = i64::from(exptime);
    match form % 6 {
        0 => Command::Delete(Delete { cas, ..Delete::of(key) }),
        1 => Command::Arithmetic(Arithmetic {
            cas,
            initial,
            ..Arithmetic::of(key, Direction::Increment, number)
        }),
        2 => Command::Arithmetic(Arithmetic {
            cas,
            initial,
            ..Arithmetic::of(key, Direction::Decrement, number)
        }),
        3 => Command::Touch { key, exptime },
        4 => Command::Get { key, with_cas: true, exptime: None },
        _ => Command::Get { key, with_cas: true, exptime: Some(exptime) },
    }
}

/// Returns the only command in the bytes. The last `left_bytes` are its value.
fn parse(bytes: &[u8], left_bytes: usize) -> (Command<'_>, binary::Frame<'_>) {
    match binary::parse(bytes) {
        Parsed::Command { command, frame: Frame::Binary(frame), consumed } => {
            assert_eq!(consumed + left_bytes, bytes.len());
            (command, frame)
        }
        other => panic!("{other:?} in {bytes:?}"),
    }
}

const MODES: &[StoreMode] =
    &[StoreMode::Set, StoreMode::Add, StoreMode::Replace, StoreMode::Append, StoreMode::Prepend];

proptest! {
    #[test]
    fn a_command_is_read_as_it_was_written(
        key in key(), form in any::<u8>(), number in any::<u64>(), exptime in any::<u32>(),
        manner in manner(),
    ) {
        let command = keyed_command(&key, form, number, exptime);
        let mut out = Vec::new();
        request::command(&mut out, &command, manner).unwrap();
        let (read, frame) = parse(&out, 0);
        prop_assert_eq!(read, command);
        prop_assert_eq!((frame.opaque, frame.key), (manner.opaque, &key[..]));
        // Touch has no quiet opcode.
        let can_be_quiet = !matches!(command, Command::Touch { .. });
        prop_assert_eq!(opcode::is_quiet(frame.opcode), manner.quiet && can_be_quiet);
        let is_get = matches!(command, Command::Get { .. });
        prop_assert_eq!(opcode::names_key(frame.opcode), manner.names_key && is_get);
    }

    #[test]
    fn a_store_is_read_as_it_was_written_with_its_value_behind_it(
        key in key(), mode in prop::sample::select(MODES), flags in any::<u32>(),
        exptime in any::<u32>(), cas in 0u64..3, value in vec(any::<u8>(), 0..100),
        manner in manner(),
    ) {
        let cas = Some(cas).filter(|cas| *cas != 0);
        let plain = Store { key: &key, mode, cas, value_bytes: value.len(), ..Store::PLAIN };
        let head = match mode {
            // An append or prepend keeps the item's flags and exptime.
            StoreMode::Append | StoreMode::Prepend => plain,
            _ => Store { flags, exptime: i64::from(exptime), ..plain },
        };
        let mut out = Vec::new();
        request::store(&mut out, &head, &value, manner).unwrap();
        prop_assert!(out.ends_with(&value));
        let (read, frame) = parse(&out, value.len());
        let is_replaced = cas.is_some() && matches!(mode, StoreMode::Add | StoreMode::Replace);
        let mode = if is_replaced { StoreMode::Set } else { mode };
        prop_assert_eq!(read, Command::Store(Store { mode, ..head }));
        prop_assert_eq!(frame.opaque, manner.opaque);
    }

    #[test]
    fn an_answer_is_read_as_it_was_written(
        key in key(), flags in any::<u32>(), cas in any::<u64>(), number in any::<u64>(),
        value in vec(any::<u8>(), 0..100), opaque in any::<u32>(),
    ) {
        let frame = |opcode| Frame::Binary(binary::Frame { opcode, opaque, key: &key });
        let meta = Meta { flags, cas, value_bytes: value.len(), ..Meta::default() };
        let mut out = Vec::new();
        render::hit_head(&mut out, &key, &meta, true, &frame(opcode::GETK));
        out.extend_from_slice(&value);
        render::response(&mut out, &Response::Hit, &frame(opcode::GETK));
        let counted = Counted { number, cas, ..Counted::default() };
        render::response(&mut out, &Response::Number(counted), &frame(opcode::INCREMENT));
        let touched = Touched { flags, cas };
        render::response(&mut out, &Response::Touched(touched), &frame(opcode::TOUCH));
        render::stat(&mut out, "name", number, &frame(opcode::STAT));

        let [hit, moved, touch, stat] = replies(&out)[..] else { panic!("four replies") };
        prop_assert_eq!((hit.key, hit.value, hit.flags(), hit.cas), (&key[..], &value[..], Some(flags), cas));
        prop_assert_eq!((moved.number(), moved.cas), (Some(number), cas));
        prop_assert_eq!((touch.flags(), touch.cas), (Some(flags), cas));
        let text = number.to_string();
        prop_assert_eq!((stat.key, stat.value), (&b"name"[..], text.as_bytes()));
        for reply in [hit, moved, touch, stat] {
            prop_assert_eq!((reply.status, reply.opaque), (status::SUCCESS, opaque));
        }
    }
}

/// Returns all replies in the bytes.
fn replies(bytes: &[u8]) -> Vec<Reply<'_>> {
    let (mut replies, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let ParsedReply::Reply { reply, consumed } = read_reply(rest) else { panic!("{rest:?}") };
        replies.push(reply);
        rest = &rest[consumed..];
    }
    replies
}

#[test]
fn commands_without_a_key_are_read_as_they_were_written() {
    let sections = [
        StatsSection::General,
        StatsSection::Settings,
        StatsSection::Items,
        StatsSection::Slabs,
        StatsSection::Sizes,
        StatsSection::Larder,
        StatsSection::Reset,
    ];
    let others = [
        Command::Admin(Admin::Detail(Some(Detail::Dump))),
        Command::Admin(Admin::Detail(Some(Detail::Count(true)))),
        Command::NoOp,
        Command::Version,
        Command::Config { name: b"cluster" },
        Command::Quit,
        Command::FlushAll { exptime: 0 },
        Command::FlushAll { exptime: 60 },
        Command::Mechanisms,
        Command::Authenticate { mechanism: b"PLAIN", credentials: b"\0a\0b", is_step: false },
        Command::Authenticate { mechanism: b"PLAIN", credentials: b"", is_step: true },
    ];
    for command in sections.map(Command::Stats).into_iter().chain(others) {
        let mut out = Vec::new();
        request::command(&mut out, &command, Manner::default()).unwrap();
        assert_eq!(parse(&out, 0).0, command);
    }
}

#[test]
fn commands_that_the_protocol_lacks_are_not_sent() {
    let key = b"k";
    let with_version = Store { key, version: Some(1), ..Store::PLAIN };
    let moved = Arithmetic { exptime: Some(1), ..Arithmetic::of(key, Direction::Increment, 1) };
    for command in [
        Command::Verbosity { level: 1 },
        Command::Shutdown { graceful: true },
        Command::Inspect { key },
        Command::Store(with_version),
        Command::Arithmetic(moved),
        Command::Stats(StatsSection::CacheDump { class: 1, items_max: 0 }),
    ] {
        let mut out = Vec::new();
        let sent = request::command(&mut out, &command, Manner::default());
        assert_eq!((sent, out.len()), (Err(Unsendable::Command), 0), "{command:?}");
    }
    let mut out = Vec::new();
    let get = Command::Get { key: &[b'k'; 251], with_cas: true, exptime: None };
    let sent = request::command(&mut out, &get, Manner::default());
    assert!(matches!(sent, Err(Unsendable::Key(_))), "{sent:?}");
    assert!(out.is_empty(), "a refused request was written");
}

#[test]
fn a_negative_exptime_is_sent_as_a_time_in_the_past() {
    let mut out = Vec::new();
    let touch = Command::Touch { key: b"k", exptime: -1 };
    request::command(&mut out, &touch, Manner::default()).unwrap();
    assert_eq!(parse(&out, 0).0, Command::Touch { key: b"k", exptime: 2_592_001 });
}

#[test]
fn outcomes_have_their_status() {
    let frame = Frame::Binary(binary::Frame { opcode: opcode::SET, opaque: 1, key: b"k" });
    for (response, expected, value) in [
        (Response::Stored(Stored { cas: 9, value_bytes: 0 }), status::SUCCESS, ""),
        (Response::Exists, status::EXISTS, "Data exists for key."),
        (Response::NotFound, status::NOT_FOUND, "Not found"),
        (Response::Version, status::SUCCESS, WIRE_VERSION),
        (Response::Mechanisms, status::SUCCESS, "PLAIN"),
        (Response::Authenticated, status::SUCCESS, "Authenticated"),
        (ClientError::UnknownCommand.into(), status::UNKNOWN, "Unknown command"),
        (ServerError::TooLarge.into(), status::TOO_LARGE, "Too large."),
    ] {
        let mut out = Vec::new();
        render::response(&mut out, &response, &frame);
        let [reply] = replies(&out)[..] else { panic!("one reply") };
        assert_eq!((reply.status, reply.value), (expected, value.as_bytes()), "{response:?}");
    }
}
