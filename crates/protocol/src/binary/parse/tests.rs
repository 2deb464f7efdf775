//! Valid requests of every opcode, and requests that are nearly valid.

use super::*;

/// Returns a request with these parts.
fn request(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let header = Header {
        opcode,
        key_bytes: key.len() as u16,
        extras_bytes: extras.len() as u8,
        body_bytes: (extras.len() + key.len() + value.len()) as u32,
        opaque: 0xdead_beef,
        ..Header::default()
    };
    [&header.bytes(REQUEST_MAGIC), extras, key, value].concat()
}

/// Returns the same request with a cas token of 9.
fn with_cas(mut request: Vec<u8>) -> Vec<u8> {
    request[23] = 9;
    request
}

fn command(input: &[u8]) -> (Command<'_>, usize) {
    match parse(input) {
        Parsed::Command { command, frame: Frame::Binary(frame), consumed } => {
            assert_eq!((frame.opcode, frame.opaque), (input[1], 0xdead_beef));
            (command, consumed)
        }
        other => panic!("{}: {other:?}", input.escape_ascii()),
    }
}

fn bad(input: &[u8]) -> (Option<Response>, usize, u64, bool) {
    match parse(input) {
        Parsed::Bad(Bad { error, consumed, swallow, close, .. }) => {
            (error, consumed, swallow, close)
        }
        other => panic!("{}: {other:?}", input.escape_ascii()),
    }
}

const UNKNOWN: Option<Response> = Some(Response::ClientError(ClientError::UnknownCommand));
const INVALID: Option<Response> = Some(Response::ClientError(ClientError::BadFormat));

#[test]
fn a_store_is_parsed_before_its_value_arrives() {
    let extras = [0, 0, 0, 7, 0, 0, 0, 60];
    let set = request(SET, &extras, b"key", b"value");
    let head_bytes = 24 + 8 + 3;
    for cut in 0..head_bytes {
        assert_eq!(parse(&set[..cut]), Parsed::NeedMore, "{cut}");
    }
    let plain = Store { key: b"key", flags: 7, exptime: 60, value_bytes: 5, ..Store::PLAIN };
    assert_eq!(command(&set[..head_bytes]), (Command::Store(plain), head_bytes));
    for (opcode, mode) in [
        (SETQ, StoreMode::Set),
        (ADD, StoreMode::Add),
        (ADDQ, StoreMode::Add),
        (REPLACE, StoreMode::Replace),
        (REPLACEQ, StoreMode::Replace),
    ] {
        let store = Store { mode, ..plain };
        let input = request(opcode, &extras, b"key", b"value");
        assert_eq!(command(&input).0, Command::Store(store), "{opcode:#x}");
        // With a cas token the item must exist, whatever the mode.
        let store = Store { mode: StoreMode::Set, cas: Some(9), ..plain };
        assert_eq!(command(&with_cas(input)).0, Command::Store(store), "{opcode:#x}");
    }
}

#[test]
fn append_and_prepend_have_no_extras_and_keep_their_mode() {
    for (opcode, mode) in [
        (APPEND, StoreMode::Append),
        (APPENDQ, StoreMode::Append),
        (PREPEND, StoreMode::Prepend),
        (PREPENDQ, StoreMode::Prepend),
    ] {
        let store = Store { key: b"k", mode, value_bytes: 2, ..Store::PLAIN };
        let input = request(opcode, &[], b"k", b"ab");
        assert_eq!(command(&input), (Command::Store(store), 25), "{opcode:#x}");
        let store = Store { cas: Some(9), ..store };
        assert_eq!(command(&with_cas(input)).0, Command::Store(store), "{opcode:#x}");
    }
}

#[test]
fn gets_and_touches_have_a_key_and_perhaps_an_exptime() {
    let get = |exptime| Command::Get { key: b"k", with_cas: true, exptime };
    for opcode in [GET, GETQ, GETK, GETKQ] {
        assert_eq!(command(&request(opcode, &[], b"k", b"")), (get(None), 25), "{opcode:#x}");
    }
    // Exptimes are unsigned. This one is in the year 2106.
    let late = [0xff; 4];
    for opcode in [GAT, GATQ, GATK, GATKQ] {
        let input = request(opcode, &late, b"k", b"");
        assert_eq!(command(&input), (get(Some(0xffff_ffff)), 29), "{opcode:#x}");
    }
    let touch = Command::Touch { key: b"k", exptime: 0x102 };
    assert_eq!(command(&request(TOUCH, &[0, 0, 1, 2], b"k", b"")), (touch, 29));
}

#[test]
fn counters_have_an_initial_value_unless_their_exptime_is_the_maximum() {
    let mut extras = [0; 20];
    extras[7] = 3;
    extras[15] = 8;
    extras[19] = 100;
    for (opcode, direction) in [
        (INCREMENT, Direction::Increment),
        (INCREMENTQ, Direction::Increment),
        (DECREMENT, Direction::Decrement),
        (DECREMENTQ, Direction::Decrement),
    ] {
        let initial = Some(Initial { number: 8, exptime: 100 });
        let plain = Arithmetic::of(b"n", direction, 3);
        let input = request(opcode, &extras, b"n", b"");
        let expected = Arithmetic { initial, ..plain };
        assert_eq!(command(&input), (Command::Arithmetic(expected), 45), "{opcode:#x}");
        let expected = Arithmetic { cas: Some(9), ..expected };
        assert_eq!(command(&with_cas(input)).0, Command::Arithmetic(expected), "{opcode:#x}");
        let mut never = extras;
        never[16..].fill(0xff);
        let input = request(opcode, &never, b"n", b"");
        assert_eq!(command(&input).0, Command::Arithmetic(plain), "{opcode:#x}");
    }
}

#[test]
fn the_remaining_opcodes_are_parsed() {
    let delete = Delete::of(b"k");
    let with_token = Delete { cas: Some(9), ..delete };
    for opcode in [DELETE, DELETEQ] {
        let input = request(opcode, &[], b"k", b"");
        assert_eq!(command(&input).0, Command::Delete(delete));
        assert_eq!(command(&with_cas(input)).0, Command::Delete(with_token));
    }
    for opcode in [FLUSH, FLUSHQ] {
        let now = request(opcode, &[], b"", b"");
        assert_eq!(command(&now).0, Command::FlushAll { exptime: 0 });
        let later = request(opcode, &[0, 0, 0, 5], b"", b"");
        assert_eq!(command(&later).0, Command::FlushAll { exptime: 5 });
    }
    for (opcode, expected) in [
        (NOOP, Command::NoOp),
        (VERSION, Command::Version),
        (QUIT, Command::Quit),
        (QUITQ, Command::Quit),
        (SASL_LIST, Command::Mechanisms),
    ] {
        assert_eq!(command(&request(opcode, &[], b"", b"")), (expected, 24), "{opcode:#x}");
    }
}

#[test]
fn statistics_are_named_by_the_key_and_unknown_names_are_not_found() {
    for (key, section) in [
        (&b""[..], StatsSection::General),
        (b"items", StatsSection::Items),
        (b"slabs", StatsSection::Slabs),
        (b"sizes", StatsSection::Sizes),
        (b"settings", StatsSection::Settings),
        (b"reset", StatsSection::Reset),
        (b"reset me", StatsSection::Reset),
        (b"larder", StatsSection::Larder),
    ] {
        let input = request(STAT, &[], key, b"");
        assert_eq!(command(&input).0, Command::Stats(section), "{}", key.escape_ascii());
    }
    for (key, detail) in [
        (&b"detail on"[..], Detail::Count(true)),
        (b"detail off", Detail::Count(false)),
        (b"detail dump", Detail::Dump),
    ] {
        let input = request(STAT, &[], key, b"");
        assert_eq!(command(&input).0, Command::Admin(Admin::Detail(Some(detail))));
    }
    for key in [&b"maps"[..], b"detail", b"detail all", b"res", b"items2", b"cachedump 1 0"] {
        let (error, consumed, swallow, close) = bad(&request(STAT, &[], key, b""));
        assert_eq!((error, swallow, close), (Some(Response::NotFound), 0, false));
        assert_eq!(consumed, 24 + key.len());
    }
}

#[test]
fn credentials_are_buffered_up_to_a_limit() {
    let input = request(SASL_AUTH, &[], b"PLAIN", b"\0user\0pwd");
    for cut in 0..input.len() {
        assert_eq!(parse(&input[..cut]), Parsed::NeedMore, "{cut}");
    }
    let (mechanism, credentials) = (&b"PLAIN"[..], &b"\0user\0pwd"[..]);
    let expected = Command::Authenticate { mechanism, credentials, is_step: false };
    assert_eq!(command(&input), (expected, input.len()));
    let step = request(SASL_STEP, &[], b"PLAIN", b"");
    let expected = Command::Authenticate { mechanism, credentials: b"", is_step: true };
    assert_eq!(command(&step), (expected, step.len()));

    let long = request(SASL_AUTH, &[], &[b'X'; 33], b"secret");
    assert_eq!(bad(&long), (INVALID, 24, 39, false));
    let long = request(SASL_AUTH, &[], b"PLAIN", &[b'x'; CREDENTIALS_BYTES_MAX + 1]);
    assert_eq!(bad(&long[..24]), (INVALID, 24, 5 + CREDENTIALS_BYTES_MAX as u64 + 1, false));
}

#[test]
fn an_unknown_opcode_skips_its_body_and_no_more() {
    for unknown in (0..=u8::MAX).filter(|opcode| Form::of(*opcode).is_none()) {
        let input = request(unknown, &[1, 2], b"key", b"value");
        assert_eq!(bad(&input[..24]), (UNKNOWN, 24, 10, false), "{unknown:#x}");
    }
    let known = (0..=u8::MAX).filter(|opcode| Form::of(*opcode).is_some());
    assert_eq!(known.count(), 0x1b + 3 + 3 + 2 + 1);
}

#[test]
fn the_form_of_every_opcode_is_checked_before_the_rest_of_the_request_arrives() {
    let any = &[0; 24];
    for opcode in (0..=u8::MAX).filter(|opcode| Form::of(*opcode).is_some()) {
        let mut fitting = 0;
        for extras_bytes in [0, 1, 4, 8, 19, 20, 21] {
            for key in [&b""[..], b"items"] {
                for value in [&b""[..], b"v"] {
                    let input = request(opcode, &any[..extras_bytes], key, value);
                    match parse(&input) {
                        Parsed::Bad(_) => {
                            let expected = match opcode {
                                // memcached does not have the opcode.
                                CONFIG_GET => (UNKNOWN, 24, input.len() as u64 - 24, false),
                                _ => (INVALID, 24, 0, true),
                            };
                            assert_eq!(bad(&input[..24]), expected, "{opcode:#x}");
                        }
                        _ => fitting += 1,
                    }
                }
            }
        }
        let expected = match aloud(opcode) {
            // A value is optional and may be empty.
            SET | ADD | REPLACE | APPEND | PREPEND => 2,
            SASL_AUTH | SASL_STEP => 2,
            // The exptime or the key is optional.
            FLUSH | STAT => 2,
            _ => 1,
        };
        assert_eq!(fitting, expected, "{opcode:#x}");
    }
}

/// CVE-2016-8704, -8705, -8706, CVE-2017-9951 and CVE-2020-10931 of memcached.
#[test]
fn lengths_that_contradict_each_other_end_the_connection_at_the_header() {
    for opcode in 0..=u8::MAX {
        for (extras_bytes, key_bytes, body_bytes) in [
            (0, 1, 0),
            (8, 0xfa, 0xfa + 7),
            (0, 0x8000, 0x7fff),
            (0xff, 0xffff, 0),
            (21, 1, 21),
            (8, 0xffff, 0x0000_ffff),
        ] {
            let header =
                Header { opcode, extras_bytes, key_bytes, body_bytes, ..Header::default() };
            let bytes = header.bytes(REQUEST_MAGIC);
            assert_eq!(bad(&bytes), (UNKNOWN, 24, 0, true), "{header:?}");
        }
        // More extras than any opcode has, in a body that is large enough for them.
        let header = Header {
            opcode,
            extras_bytes: 0xff,
            key_bytes: 1,
            body_bytes: 0x100,
            ..Header::default()
        };
        let (error, _, swallow, close) = bad(&header.bytes(REQUEST_MAGIC));
        let expected = match Form::of(opcode) {
            Some(_) if opcode != CONFIG_GET => (INVALID, 0, true),
            _ => (UNKNOWN, 0x100, false),
        };
        assert_eq!((error, swallow, close), expected, "{opcode:#x}");
    }
}

#[test]
fn keys_above_the_limit_end_the_connection_and_the_longest_key_does_not() {
    let longest = request(GET, &[], &[b'k'; 250], b"");
    assert_eq!(command(&longest).1, 274);
    for opcode in [GET, SET, STAT, 0xaa] {
        let input = request(opcode, &[], &[b'k'; 251], b"");
        assert_eq!(bad(&input[..24]), (INVALID, 24, 0, true), "{opcode:#x}");
    }
}

/// CVE-2011-4971 of memcached.
#[test]
fn a_body_of_four_gigabytes_allocates_nothing() {
    let header = Header {
        opcode: SET,
        extras_bytes: 8,
        key_bytes: 1,
        body_bytes: u32::MAX,
        ..Header::default()
    };
    let input = [&header.bytes(REQUEST_MAGIC)[..], &[0; 8], b"k"].concat();
    let (Command::Store(store), 33) = command_of(&input) else { panic!("a store") };
    assert_eq!(store.value_bytes, u32::MAX as usize - 9);
    let header = Header { opcode: GET, ..header };
    assert_eq!(bad(&header.bytes(REQUEST_MAGIC)), (INVALID, 24, 0, true));
}

fn command_of(input: &[u8]) -> (Command<'_>, usize) {
    match parse(input) {
        Parsed::Command { command, consumed, .. } => (command, consumed),
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_protocol_ends_the_connection_at_its_first_byte() {
    assert_eq!(bad(b"g"), (None, 1, 0, true));
    assert_eq!(bad(b"\x81"), (None, 1, 0, true));
    assert_eq!(parse(b""), Parsed::NeedMore);
}
