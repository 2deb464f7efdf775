//! Renders binary responses into bytes.

use std::fmt::Display;
use std::io::Write;

use larder_item::Meta;

use super::header::RESPONSE_MAGIC;
use super::header::{HEADER_BYTES, Header};
use super::opcode::{ADD, APPEND, PREPEND, REPLACE, aloud, names_key};
use super::status::{self, of_client_error, of_server_error};
use crate::frame::binary::Frame;
use crate::response::Response;
use crate::version::WIRE_VERSION;

/// The authentication mechanisms that a peer can use, separated by spaces.
const MECHANISMS: &str = "PLAIN";

/// Appends the header of a hit: everything before the value.
#[inline]
pub fn hit_head(out: &mut Vec<u8>, key: &[u8], meta: &Meta, frame: &Frame<'_>) {
    let key = if names_key(frame.opcode) { key } else { &[] };
    let flags = meta.flags.to_be_bytes();
    let body_bytes = bytes_32(flags.len() + key.len() + meta.value_bytes);
    let header = Header {
        extras_bytes: flags.len() as u8,
        key_bytes: bytes_16(key),
        body_bytes,
        cas: meta.cas,
        ..answer(frame)
    };
    out.extend_from_slice(&header.bytes(RESPONSE_MAGIC));
    out.extend_from_slice(&flags);
    out.extend_from_slice(key);
}

/// Appends the response to a command.
pub fn response(out: &mut Vec<u8>, response: &Response, frame: &Frame<'_>) {
    let done = answer(frame);
    match *response {
        // In this protocol no bytes follow a value or a list of keys.
        Response::Hit | Response::Shown | Response::EndOfKeys => {}
        Response::Miss if names_key(frame.opcode) => {
            let key = frame.key;
            let (status, key_bytes) = (status::NOT_FOUND, bytes_16(key));
            push(out, Header { status, key_bytes, ..done }, &[], key);
        }
        Response::Miss => push_status(out, frame, status::NOT_FOUND),
        Response::Stored(stored) => push(out, Header { cas: stored.cas, ..done }, &[], &[]),
        Response::Touched(touched) => {
            let flags = touched.flags.to_be_bytes();
            push(out, Header { cas: touched.cas, ..done }, &flags, &[]);
        }
        Response::Number(counted) => {
            push(out, Header { cas: counted.cas, ..done }, &[], &counted.number.to_be_bytes());
        }
        // A statistic without a name ends the list.
        Response::Deleted
        | Response::Ok
        | Response::NoOp
        | Response::Close
        | Response::Reset
        | Response::EndOfStats => push(out, done, &[], &[]),
        Response::Version => push(out, done, &[], WIRE_VERSION.as_bytes()),
        Response::Mechanisms => push(out, done, &[], MECHANISMS.as_bytes()),
        Response::Authenticated => push(out, done, &[], b"Authenticated"),
        Response::Exists => push_status(out, frame, status::EXISTS),
        Response::NotStored | Response::NotFound => {
            push_status(out, frame, refused(response, frame))
        }
        Response::ClientError(error) => push_status(out, frame, of_client_error(error)),
        Response::ServerError(error) => {
            let (status, words) = of_server_error(error);
            push(out, Header { status, ..done }, &[], words.as_bytes());
        }
    }
}

/// Appends one statistic.
pub fn stat(out: &mut Vec<u8>, name: impl Display, value: impl Display, frame: &Frame<'_>) {
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    let key_start = out.len();
    write!(out, "{name}").expect("writing to a Vec cannot fail");
    let value_start = out.len();
    write!(out, "{value}").expect("writing to a Vec cannot fail");
    let header = Header {
        key_bytes: (value_start - key_start).try_into().unwrap_or(u16::MAX),
        body_bytes: bytes_32(out.len() - key_start),
        ..answer(frame)
    };
    if let Some(place) = out.get_mut(start..key_start) {
        place.copy_from_slice(&header.bytes(RESPONSE_MAGIC));
    }
}

/// Returns the status of a store whose condition did not hold. The status depends on the opcode.
fn refused(response: &Response, frame: &Frame<'_>) -> u16 {
    match (aloud(frame.opcode), response) {
        (APPEND | PREPEND, _) => status::NOT_STORED,
        (ADD, Response::NotStored) => status::EXISTS,
        (REPLACE, _) | (_, Response::NotFound) => status::NOT_FOUND,
        _ => status::NOT_STORED,
    }
}

/// Returns the header of an empty response.
fn answer(frame: &Frame<'_>) -> Header {
    Header { opcode: frame.opcode, opaque: frame.opaque, ..Header::default() }
}

fn push_status(out: &mut Vec<u8>, frame: &Frame<'_>, status: u16) {
    push(out, Header { status, ..answer(frame) }, &[], status::words(status).as_bytes());
}

/// Appends a response; `rest` is key and value.
fn push(out: &mut Vec<u8>, header: Header, extras: &[u8], rest: &[u8]) {
    let body_bytes = bytes_32(extras.len() + rest.len());
    let header = Header { extras_bytes: extras.len() as u8, body_bytes, ..header };
    out.extend_from_slice(&header.bytes(RESPONSE_MAGIC));
    out.extend_from_slice(extras);
    out.extend_from_slice(rest);
}

/// Returns the length of a key. The parser has refused longer keys.
fn bytes_16(key: &[u8]) -> u16 {
    key.len().try_into().unwrap_or(u16::MAX)
}

/// Returns a length as 32 bits. An item is at most a gigabyte.
fn bytes_32(bytes: usize) -> u32 {
    bytes.try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
