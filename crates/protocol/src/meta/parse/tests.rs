//! The accepted forms, the refusals and the responses of each meta command.

use super::*;
use crate::{Counted, Parser, Response, Stored, render};

/// Returns the only command of a line and its frame. The command must consume the whole line.
fn command(line: &str) -> (Command<'_>, Frame<'_>) {
    match Parser::default().next(line.as_bytes()) {
        Parsed::Command { command, frame, consumed } if consumed == line.len() => (command, frame),
        other => panic!("{line:?}: {other:?}"),
    }
}

/// Returns the error of a line and the bytes skipped after it.
fn error(line: &str) -> (ClientError, u64) {
    match Parser::default().next(line.as_bytes()) {
        Parsed::Bad(Bad {
            error: Some(Response::ClientError(error)), consumed, swallow, ..
        }) if consumed == line.len() => (error, swallow),
        other => panic!("{line:?}: {other:?}"),
    }
}

fn rendered(line: &str, response: Response) -> String {
    let mut out = Vec::new();
    render::response(&mut out, &response, &command(line).1);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_get_reads_its_flags() {
    let plain = Fetch { key: b"k", ..Fetch::PLAIN };
    assert_eq!(command("mg k\r\n").0, Command::Fetch(plain));
    let asked = Fetch {
        with_value: true,
        noted: false,
        exptime: Some(-1),
        vivify: Some(30),
        recache: Some(60),
        touch_first: true,
        known_cas: Some(7),
        version: Some(8),
        ..plain
    };
    assert_eq!(command("mg k v u T-1 N30 R60 C7 E8 t f c\r\n").0, Command::Fetch(asked));
    let recached_first = Fetch { exptime: Some(9), recache: Some(60), ..plain };
    assert_eq!(command("mg k R60 T9\r\n").0, Command::Fetch(recached_first));
}

#[test]
fn a_store_reads_its_length_and_flags() {
    let plain = Store { key: b"k", value_bytes: 3, ..Store::PLAIN };
    assert_eq!(command("ms k 3\r\n").0, Command::Store(plain));
    let append = Store {
        mode: StoreMode::Append,
        cas: Some(7),
        flags: 5,
        exptime: 30,
        version: Some(8),
        invalidate: true,
        vivify: Some(60),
        ..plain
    };
    assert_eq!(command("ms k 3 MA C7 F5 T30 E8 I N60\r\n").0, Command::Store(append));
    for (mode, expected) in [
        ("ME", StoreMode::Add),
        ("MP", StoreMode::Prepend),
        ("MR", StoreMode::Replace),
        ("MSet", StoreMode::Set),
    ] {
        let store = Store { mode: expected, ..plain };
        assert_eq!(command(&format!("ms k 3 {mode}\r\n")).0, Command::Store(store));
    }
    let Command::Store(add) = command("ms k 3 ME C7\r\n").0 else { panic!("a store") };
    assert_eq!(add.cas, None, "an add has no token to compare");
}

#[test]
fn a_delete_reads_the_remains_from_its_flags() {
    for (flags, remains) in [
        ("", Remains::Nothing),
        (" I", Remains::Stale),
        (" x", Remains::Empty { stale: false }),
        (" x I", Remains::Empty { stale: true }),
    ] {
        let delete = Delete { remains, ..Delete::of(b"k") };
        assert_eq!(command(&format!("md k{flags}\r\n")).0, Command::Delete(delete));
    }
    let touched = Delete {
        cas: Some(7),
        exptime: Some(30),
        version: Some(8),
        remains: Remains::Stale,
        ..Delete::of(b"k")
    };
    assert_eq!(command("md k I T30 C7 E8\r\n").0, Command::Delete(touched));
}

#[test]
fn arithmetic_increments_by_one_by_default() {
    let increment = Arithmetic::of(b"n", Direction::Increment, 1);
    assert_eq!(command("ma n\r\n").0, Command::Arithmetic(increment));
    assert_eq!(command("ma n M+\r\n").0, Command::Arithmetic(increment));
    let created = Arithmetic {
        direction: Direction::Decrement,
        delta: 9,
        initial: Some(Initial { number: 13, exptime: 90 }),
        exptime: Some(30),
        ..increment
    };
    assert_eq!(command("ma n T30 N90 J13 D9 MD\r\n").0, Command::Arithmetic(created));
    let Command::Arithmetic(later) = command("ma n N90 T30\r\n").0 else { panic!("a counter") };
    assert_eq!(later.initial.map(|initial| initial.exptime), Some(30), "the later one holds");
}

#[test]
fn flags_of_other_commands_are_ignored() {
    let increment = Arithmetic::of(b"n", Direction::Increment, 1);
    assert_eq!(command("ma n s f v1\r\n").0, Command::Arithmetic(increment));
    assert_eq!(command("mg k Ppath L1 MX F7 J2 D3\r\n").0, command("mg k\r\n").0);
}

#[test]
fn runs_of_spaces_are_one_space() {
    assert_eq!(command("mg  k   v  \r\n").0, command("mg k v\r\n").0);
    assert_eq!(command("ms k 3   T0\r\n").0, command("ms k 3 T0\r\n").0);
}

#[test]
fn errors_name_the_invalid_part() {
    let long = "k".repeat(251);
    for (line, expected) in [
        ("mg\r\n".to_owned(), ClientError::BadFormat),
        (format!("mg {long}\r\n"), ClientError::BadFormat),
        ("mg k !\r\n".to_owned(), ClientError::BadFormat),
        ("mg k \u{7f}\r\n".to_owned(), ClientError::BadFormat),
        ("mg k z\r\n".to_owned(), ClientError::BadFlag),
        ("mg k 1\r\n".to_owned(), ClientError::BadFlag),
        ("mg k v v\r\n".to_owned(), ClientError::DuplicateFlag),
        ("mg k b\r\n".to_owned(), ClientError::BadBase64),
        ("mg k T\r\n".to_owned(), ClientError::BadToken),
        ("mg k Tx\r\n".to_owned(), ClientError::BadToken),
        ("mg k T4294967295\r\n".to_owned(), ClientError::BadToken),
        ("mg k C-1\r\n".to_owned(), ClientError::BadToken),
        (format!("mg k O{}\r\n", "o".repeat(32)), ClientError::OpaqueTooLong),
        (
            "mg k b c f h k l O q s t v u C1 E1 N1 R1 T1 F1 I\r\n".to_owned(),
            ClientError::TooManyFlags,
        ),
        ("md k z\r\n".to_owned(), ClientError::BadOrDuplicateFlag),
        ("ma k v v\r\n".to_owned(), ClientError::BadOrDuplicateFlag),
        ("ma k Dx\r\n".to_owned(), ClientError::BadOrDuplicateFlag),
        ("ma k MX\r\n".to_owned(), ClientError::BadArithmeticMode),
        ("ma k M\r\n".to_owned(), ClientError::BadArithmeticMode),
        ("me\r\n".to_owned(), ClientError::BadFormat),
        ("me k b\r\n".to_owned(), ClientError::BadFormat),
    ] {
        assert_eq!(error(&line), (expected, 0), "{line:?}");
    }
}

#[test]
fn a_refused_store_skips_its_value_once_its_length_is_known() {
    for (line, expected, swallow) in [
        ("ms k\r\n", ClientError::BadFormat, 0),
        ("ms k -1\r\n", ClientError::BadFormat, 0),
        ("ms k 2147483646\r\n", ClientError::BadFormat, 0),
        ("ms k S3\r\n", ClientError::BadFormat, 0),
        ("ms k 3 z\r\n", ClientError::BadFlag, 5),
        ("ms k 3 Fx\r\n", ClientError::BadFormat, 5),
        ("ms k 3 MX\r\n", ClientError::BadStoreMode, 5),
    ] {
        assert_eq!(error(line), (expected, swallow), "{line:?}");
    }
}

#[test]
fn responses_repeat_the_flags_in_their_order() {
    let stored = Response::Stored(Stored { cas: 7, value_bytes: 12 });
    assert_eq!(rendered("ms k 2 O1 c k s\r\n", stored), "HD O1 c7 kk s12\r\n");
    assert_eq!(rendered("ms k 2 s k c T0\r\n", Response::NotStored), "NS s2 kk c0\r\n");
    assert_eq!(rendered("ms Zm9v 2 b k\r\n", stored), "HD kZm9v b\r\n");
    assert_eq!(rendered("md k c q O123\r\n", Response::NotFound), "NF O123\r\n");
    assert_eq!(rendered("mg k v k O9 t\r\n", Response::Miss), "EN kk O9\r\n");
    let counted = Counted { number: 10, cas: 4, ttl_secs: Some(30), ..Counted::default() };
    let counted = Response::Number(counted);
    assert_eq!(rendered("ma n t T30 v c\r\n", counted), "VA 2 t-1 c4\r\n10\r\n");
    assert_eq!(rendered("ma n T30 t\r\n", counted), "HD t30\r\n");
}

#[test]
fn q_suppresses_only_the_expected_response() {
    let stored = Response::Stored(Stored::default());
    let number = Response::Number(Counted::default());
    let created = Response::Number(Counted { created: true, ..Counted::default() });
    for (line, hidden, shown) in [
        ("mg k q\r\n", Response::Miss, Response::Hit),
        ("ms k 1 q\r\n", stored, Response::NotStored),
        ("md k q\r\n", Response::Deleted, Response::NotFound),
        ("ma n q\r\n", number, Response::NotFound),
        ("ma n q N0\r\n", number, created),
    ] {
        assert_eq!(rendered(line, hidden), "", "{line:?}");
        assert_ne!(rendered(line, shown), "", "{line:?}");
        assert_ne!(rendered(line, ClientError::NonNumeric.into()), "", "{line:?}");
    }
}

#[test]
fn a_base64_key_is_decoded_by_its_frame() {
    let (Command::Fetch(fetch), Frame::Meta(frame)) = command("mg AAEC b\r\n") else {
        panic!("a meta get")
    };
    assert_eq!(fetch.key, b"AAEC");
    assert_eq!(frame.decoded_key(&mut [0; KEY_BYTES_MAX]), Some(&[0, 1, 2][..]));
}
