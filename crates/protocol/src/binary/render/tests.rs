//! Tests of responses, which the client's parser reads back.

use super::*;
use crate::binary::client::{ParsedReply, Reply, read_reply};
use crate::binary::opcode::*;
use crate::{ClientError, Counted, ServerError, Stored, Touched};

const KEY: &[u8] = b"key";

fn frame(opcode: u8) -> Frame<'static> {
    Frame { opcode, opaque: 0xcafe, key: KEY }
}

/// Returns the only reply in some bytes.
fn only(out: &[u8], check: impl Fn(Reply<'_>)) {
    let ParsedReply::Reply { reply, consumed } = read_reply(out) else { panic!("{out:?}") };
    assert_eq!((consumed, reply.opaque), (out.len(), 0xcafe));
    check(reply);
}

fn answer_to(opcode: u8, outcome: impl Into<Response>, check: impl Fn(Reply<'_>)) {
    let mut out = Vec::new();
    response(&mut out, &outcome.into(), &frame(opcode));
    only(&out, |reply| {
        assert_eq!(reply.opcode, opcode);
        check(reply);
    });
}

#[test]
fn a_hit_has_flags_and_token_and_the_key_where_it_is_asked_for() {
    let meta = Meta { flags: 0x0102_0304, cas: 77, value_bytes: 5, ..Meta::default() };
    for (opcode, key) in [(GET, &b""[..]), (GETQ, b""), (GAT, b""), (GETK, KEY), (GATKQ, KEY)] {
        let mut out = Vec::new();
        hit_head(&mut out, KEY, &meta, &frame(opcode));
        out.extend_from_slice(b"value");
        response(&mut out, &Response::Hit, &frame(opcode));
        only(&out, |reply| {
            assert_eq!((reply.opcode, reply.status, reply.cas), (opcode, status::SUCCESS, 77));
            assert_eq!(reply.flags(), Some(0x0102_0304));
            assert_eq!((reply.key, reply.value), (key, &b"value"[..]));
        });
    }
}

#[test]
fn a_miss_has_words_or_the_key() {
    for opcode in [GET, GAT] {
        answer_to(opcode, Response::Miss, |reply| {
            assert_eq!((reply.status, reply.key, reply.value), (1, &b""[..], &b"Not found"[..]));
        });
    }
    for opcode in [GETK, GATK] {
        answer_to(opcode, Response::Miss, |reply| {
            assert_eq!((reply.status, reply.key, reply.value), (1, KEY, &b""[..]));
        });
    }
}

#[test]
fn changes_return_the_new_cas_token() {
    answer_to(SET, Response::Stored(Stored { cas: 5, value_bytes: 1 }), |reply| {
        assert_eq!((reply.status, reply.cas, reply.extras, reply.value), (0, 5, &[][..], &[][..]));
    });
    answer_to(TOUCH, Response::Touched(Touched { flags: 7, cas: 5 }), |reply| {
        assert_eq!((reply.cas, reply.flags(), reply.value), (5, Some(7), &[][..]));
    });
    let counted = Counted { number: u64::MAX, cas: 5, ..Counted::default() };
    answer_to(INCREMENT, Response::Number(counted), |reply| {
        assert_eq!((reply.cas, reply.number()), (5, Some(u64::MAX)));
    });
}

#[test]
fn the_status_of_a_failed_condition_depends_on_the_opcode() {
    for (opcode, outcome, expected) in [
        (ADD, Response::NotStored, status::EXISTS),
        (ADDQ, Response::NotStored, status::EXISTS),
        (ADD, Response::NotFound, status::NOT_FOUND),
        (REPLACE, Response::NotStored, status::NOT_FOUND),
        (REPLACEQ, Response::NotStored, status::NOT_FOUND),
        (APPEND, Response::NotStored, status::NOT_STORED),
        (PREPENDQ, Response::NotStored, status::NOT_STORED),
        (APPEND, Response::NotFound, status::NOT_STORED),
        (APPEND, Response::Exists, status::EXISTS),
        (SET, Response::NotFound, status::NOT_FOUND),
        (SET, Response::Exists, status::EXISTS),
        (DELETE, Response::Exists, status::EXISTS),
        (DELETE, Response::NotFound, status::NOT_FOUND),
    ] {
        answer_to(opcode, outcome, |reply| {
            assert_eq!(reply.status, expected, "{opcode:#x} {outcome:?}");
            assert_eq!(reply.value, status::words(expected).as_bytes());
        });
    }
}

#[test]
fn failures_have_their_status_and_words() {
    for (outcome, expected, words) in [
        (Response::from(ClientError::UnknownCommand), 0x81, "Unknown command"),
        (ClientError::BadFormat.into(), 0x04, "Invalid arguments"),
        (ClientError::NonNumeric.into(), 0x06, "Non-numeric server-side value for incr or decr"),
        (ClientError::FlushNotAllowed.into(), 0x20, "Auth failure."),
        (ClientError::Unauthenticated.into(), 0x20, "Auth failure."),
        (ClientError::AuthenticationFailed.into(), 0x20, "Auth failure."),
        (ServerError::TooLarge.into(), 0x03, "Too large."),
        (ServerError::Recovering { percent: 43 }.into(), 0x86, "Temporary failure"),
        (ServerError::OutOfMemoryStoring.into(), 0x82, "Out of memory allocating item"),
        (ServerError::OutOfMemory.into(), 0x82, "Out of memory incrementing value"),
        (ServerError::OutOfMemoryCreating.into(), 0x82, "Out of memory allocating new item"),
        (ServerError::OutOfMemoryWritingStats.into(), 0x82, "Out of memory generating stats"),
        (ServerError::OutOfMemoryReadingRequest.into(), 0x82, "Out of memory"),
    ] {
        answer_to(SET, outcome, |reply| {
            assert_eq!((reply.status, reply.value), (expected, words.as_bytes()));
        });
    }
}

#[test]
fn statistics_end_in_one_without_a_name() {
    let mut out = Vec::new();
    stat(&mut out, "pid", 17, &frame(STAT));
    only(&out, |reply| assert_eq!((reply.key, reply.value), (&b"pid"[..], &b"17"[..])));
    for end in [Response::EndOfStats, Response::Reset] {
        answer_to(STAT, end, |reply| {
            assert_eq!((reply.status, reply.key, reply.value), (0, &[][..], &[][..]));
        });
    }
}

#[test]
fn quiet_opcodes_hide_misses_and_success_and_nothing_else() {
    let successes = [
        Response::Miss,
        Response::Stored(Stored::default()),
        Response::Deleted,
        Response::Number(Counted::default()),
        Response::Ok,
        Response::Close,
    ];
    let failures = [
        Response::NotStored,
        Response::Exists,
        Response::NotFound,
        ClientError::NonNumeric.into(),
        ServerError::TooLarge.into(),
        Response::NoOp,
    ];
    for opcode in 0..=u8::MAX {
        for success in successes {
            assert_eq!(frame(opcode).hides(&success), is_quiet(opcode), "{opcode:#x}");
        }
        for failure in failures {
            assert!(!frame(opcode).hides(&failure), "{opcode:#x} {failure:?}");
        }
    }
}
