//! Renders meta responses into bytes.

use crate::frame::meta::Frame;
use crate::lines::line::LINE_END;
use crate::lines::words::Words;
use crate::number::push_number;
use crate::response::{Counted, Response, Shown, Stored, TokenHolder};
use crate::text;

/// Appends the response to a get. If the response includes the value, the caller appends the value
/// and then [`Response::Hit`].
#[inline]
pub fn shown(out: &mut Vec<u8>, shown: &Shown<'_>, frame: &Frame<'_>) {
    if shown.with_value {
        out.extend_from_slice(b"VA ");
        push_number(out, shown.meta.value_bytes);
    } else {
        out.extend_from_slice(b"HD");
    }
    let mut ttl_secs = shown.ttl_before_secs;
    for flag in Words::new(frame.flags) {
        match flag {
            [b'T', ..] | [b'N', ..] => ttl_secs = shown.ttl_secs,
            [b't', ..] => push_ttl(out, ttl_secs),
            [b's', ..] => push_flag(out, b's', shown.meta.value_bytes),
            [b'c', ..] => push_flag(out, b'c', shown.meta.cas),
            [b'f', ..] => push_flag(out, b'f', shown.meta.flags),
            [b'l', ..] => push_flag(out, b'l', shown.idle_secs),
            [b'h', ..] => push_flag(out, b'h', u8::from(shown.fetched)),
            _ => echo(out, flag, frame),
        }
    }
    if shown.token_holder == TokenHolder::AnotherPeer {
        out.extend_from_slice(b" Z");
    }
    if shown.stale {
        out.extend_from_slice(b" X");
    }
    if shown.token_holder == TokenHolder::ThisPeer {
        out.extend_from_slice(b" W");
    }
    out.extend_from_slice(LINE_END);
}

/// Appends the response to `me`.
pub fn inspected(out: &mut Vec<u8>, shown: &Shown<'_>, frame: &Frame<'_>) {
    out.extend_from_slice(b"ME ");
    out.extend_from_slice(frame.key);
    out.extend_from_slice(b" exp=");
    match shown.ttl_secs {
        None => out.extend_from_slice(b"-1"),
        Some(secs) => push_number(out, secs),
    }
    out.extend_from_slice(b" la=");
    push_number(out, shown.idle_secs);
    out.extend_from_slice(b" cas=");
    push_number(out, shown.meta.cas);
    out.extend_from_slice(if shown.fetched { b" fetch=yes" } else { b" fetch=no" });
    out.extend_from_slice(b" cls=");
    push_number(out, shown.class);
    out.extend_from_slice(b" size=");
    push_number(out, shown.item_bytes);
    out.extend_from_slice(LINE_END);
}

/// Appends the response to a command.
#[inline]
pub fn response(out: &mut Vec<u8>, response: &Response, frame: &Frame<'_>) {
    match *response {
        Response::Hit => out.extend_from_slice(LINE_END),
        Response::Miss => outcome(out, b"EN", None, frame),
        Response::Stored(stored) => outcome(out, b"HD", Some(stored), frame),
        Response::NotStored => outcome(out, b"NS", unchanged(frame), frame),
        Response::Exists => outcome(out, b"EX", unchanged(frame), frame),
        Response::NotFound => outcome(out, b"NF", unchanged(frame), frame),
        Response::Deleted => outcome(out, b"HD", None, frame),
        Response::Number(counted) => number(out, &counted, frame),
        _ => text::render::response(out, response),
    }
}

/// Appends an outcome, with the metadata of the item if the command is a store.
fn outcome(out: &mut Vec<u8>, outcome: &[u8], stored: Option<Stored>, frame: &Frame<'_>) {
    out.extend_from_slice(outcome);
    for flag in Words::new(frame.flags) {
        match (flag, stored) {
            ([b'c', ..], Some(stored)) => push_flag(out, b'c', stored.cas),
            ([b's', ..], Some(stored)) => push_flag(out, b's', stored.value_bytes),
            _ => echo(out, flag, frame),
        }
    }
    out.extend_from_slice(LINE_END);
}

/// Returns the metadata that a failed store reports: no cas token, and the announced length.
fn unchanged(frame: &Frame<'_>) -> Option<Stored> {
    frame.value_bytes.map(|value_bytes| Stored { cas: 0, value_bytes })
}

/// Appends a counter.
fn number(out: &mut Vec<u8>, counted: &Counted, frame: &Frame<'_>) {
    let mut text = itoa::Buffer::new();
    let text = text.format(counted.number).as_bytes();
    let with_value = Words::new(frame.flags).any(|flag| flag.first() == Some(&b'v'));
    if with_value {
        out.extend_from_slice(b"VA ");
        push_number(out, text.len());
    } else {
        out.extend_from_slice(b"HD");
    }
    let mut ttl_secs = counted.ttl_before_secs;
    for flag in Words::new(frame.flags) {
        match flag {
            [b'T', ..] | [b'N', ..] => ttl_secs = counted.ttl_secs,
            [b't', ..] => push_ttl(out, ttl_secs),
            [b'c', ..] => push_flag(out, b'c', counted.cas),
            _ => echo(out, flag, frame),
        }
    }
    out.extend_from_slice(LINE_END);
    if with_value {
        out.extend_from_slice(text);
        out.extend_from_slice(LINE_END);
    }
}

/// Appends a flag that every response repeats: the opaque or the key.
fn echo(out: &mut Vec<u8>, flag: &[u8], frame: &Frame<'_>) {
    match flag {
        [b'O', ..] => {
            out.push(b' ');
            out.extend_from_slice(flag);
        }
        [b'k', ..] => {
            out.extend_from_slice(b" k");
            out.extend_from_slice(frame.key);
            if frame.base64 {
                out.extend_from_slice(b" b");
            }
        }
        _ => {}
    }
}

fn push_flag(out: &mut Vec<u8>, letter: u8, number: impl itoa::Integer) {
    out.extend_from_slice(&[b' ', letter]);
    push_number(out, number);
}

fn push_ttl(out: &mut Vec<u8>, ttl_secs: Option<u32>) {
    match ttl_secs {
        None => out.extend_from_slice(b" t-1"),
        Some(secs) => push_flag(out, b't', secs),
    }
}
