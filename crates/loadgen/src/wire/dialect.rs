//! Requests and replies in each of the protocols.

use anyhow::Result;
use larder_protocol::binary::{self, client::Manner, opcode, status};
use larder_protocol::{Command, Fetch, Store, meta, text};

use crate::options::Dialect;
use crate::request::draw::KEY_BYTES;

/// A reply in any protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// An item. In the text protocol more items or an [`Reply::End`] follow.
    Hit {
        name: Name<'a>,
        value: &'a [u8],
        is_last: bool,
    },
    /// The end of the items.
    End,
    Stored,
    /// The words of a failure.
    Error(&'a [u8]),
    /// A reply that answers neither a get nor a set.
    Other,
}

/// The part of a reply that identifies the item's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name<'a> {
    Key(&'a [u8]),
    /// The opaque of the request, which is the number of the key.
    Opaque(u32),
    Nothing,
}

/// The result of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParsedReply<'a> {
    Reply {
        reply: Reply<'a>,
        consumed: usize,
    },
    /// The beginning of a reply of at least this many bytes.
    NeedMore {
        bytes_min: u64,
    },
    /// Bytes that are not of this protocol.
    Bad,
}

impl Dialect {
    /// Appends a get of these keys; all dialects but text take one key.
    pub(crate) fn push_get(
        self,
        out: &mut Vec<u8>,
        number: u32,
        keys: &[[u8; KEY_BYTES]],
    ) -> Result<()> {
        let key = &keys[0];
        match self {
            Self::Text if keys.len() > 1 => {
                let keys: Vec<&[u8]> = keys.iter().map(<[u8; KEY_BYTES]>::as_slice).collect();
                text::client::request::get(out, &keys, false, None)?;
            }
            Self::Text => text::client::request::get(out, &[key], false, None)?,
            Self::Meta => {
                meta::client::fetch(out, &Fetch { key, with_value: true, ..Fetch::PLAIN })?;
            }
            Self::Binary => {
                let get = Command::Get { key, with_cas: false, exptime: None };
                let manner = Manner { opaque: number, ..Manner::default() };
                binary::client::request::command(out, &get, manner)?;
            }
        }
        Ok(())
    }

    /// Appends a set.
    pub(crate) fn push_set(
        self,
        out: &mut Vec<u8>,
        key: &[u8; KEY_BYTES],
        value: &[u8],
        ttl_secs: u32,
    ) -> Result<()> {
        let exptime = i64::from(ttl_secs);
        let head = Store { key, exptime, value_bytes: value.len(), ..Store::PLAIN };
        match self {
            Self::Text => text::client::request::store(out, &head, value, false)?,
            Self::Meta => meta::client::store(out, &head, value)?,
            Self::Binary => {
                binary::client::request::store(out, &head, value, Manner::default())?;
            }
        }
        Ok(())
    }

    /// Parses the first reply of `input`.
    pub(crate) fn read_reply(self, input: &[u8]) -> ParsedReply<'_> {
        match self {
            Self::Text => read_text(input),
            Self::Meta => read_meta(input),
            Self::Binary => read_binary(input),
        }
    }
}

fn read_text(input: &[u8]) -> ParsedReply<'_> {
    use text::client as protocol;
    let (reply, consumed) = match protocol::read_reply(input) {
        protocol::ParsedReply::Reply { reply, consumed } => (reply, consumed),
        protocol::ParsedReply::NeedMore { bytes_min } => {
            return ParsedReply::NeedMore { bytes_min };
        }
        protocol::ParsedReply::Bad => return ParsedReply::Bad,
    };
    let reply = match reply {
        protocol::Reply::Value(hit) => {
            Reply::Hit { name: Name::Key(hit.key), value: hit.value, is_last: false }
        }
        protocol::Reply::End => Reply::End,
        protocol::Reply::Stored => Reply::Stored,
        protocol::Reply::NotStored => Reply::Error(b"NOT_STORED"),
        protocol::Reply::Error(line) => Reply::Error(line),
        _ => Reply::Other,
    };
    ParsedReply::Reply { reply, consumed }
}

fn read_meta(input: &[u8]) -> ParsedReply<'_> {
    use meta::client as protocol;
    let (reply, consumed) = match protocol::read_reply(input) {
        protocol::ParsedReply::Reply { reply, consumed } => (reply, consumed),
        protocol::ParsedReply::NeedMore { bytes_min } => {
            return ParsedReply::NeedMore { bytes_min };
        }
        protocol::ParsedReply::Bad => return ParsedReply::Bad,
    };
    let reply = match (&reply.code, reply.value) {
        (_, Some(value)) => Reply::Hit { name: Name::Nothing, value, is_last: true },
        (b"EN", _) => Reply::End,
        (b"HD", _) => Reply::Stored,
        (b"NF" | b"EX" | b"MN", _) => Reply::Other,
        _ => Reply::Error(reply.line),
    };
    ParsedReply::Reply { reply, consumed }
}

fn read_binary(input: &[u8]) -> ParsedReply<'_> {
    use binary::client as protocol;
    let (reply, consumed) = match protocol::read_reply(input) {
        protocol::ParsedReply::Reply { reply, consumed } => (reply, consumed),
        protocol::ParsedReply::NeedMore { bytes_min } => {
            return ParsedReply::NeedMore { bytes_min };
        }
        protocol::ParsedReply::Bad => return ParsedReply::Bad,
    };
    let reply = match (reply.opcode, reply.status) {
        (opcode::GET, status::SUCCESS) => {
            Reply::Hit { name: Name::Opaque(reply.opaque), value: reply.value, is_last: true }
        }
        (opcode::GET, status::NOT_FOUND) => Reply::End,
        (opcode::SET, status::SUCCESS) => Reply::Stored,
        (_, status::SUCCESS) => Reply::Other,
        _ => Reply::Error(reply.value),
    };
    ParsedReply::Reply { reply, consumed }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; KEY_BYTES] = *b"bench:00000000000007";

    fn read(dialect: Dialect, input: &[u8]) -> Reply<'_> {
        match dialect.read_reply(input) {
            ParsedReply::Reply { reply, consumed } if consumed == input.len() => reply,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_follow_the_protocol() {
        let asked = |dialect: Dialect| {
            let mut out = Vec::new();
            dialect.push_get(&mut out, 7, &[KEY]).unwrap();
            dialect.push_set(&mut out, &KEY, b"abc", 60).unwrap();
            out
        };
        assert_eq!(
            asked(Dialect::Text),
            b"get bench:00000000000007\r\nset bench:00000000000007 0 60 3\r\nabc\r\n"
        );
        assert_eq!(
            asked(Dialect::Meta),
            b"mg bench:00000000000007 v\r\nms bench:00000000000007 3 T60\r\nabc\r\n"
        );
        let binary = asked(Dialect::Binary);
        assert_eq!(
            (binary[0], binary[1], binary[15], binary.len()),
            (0x80, 0, 7, 24 + 20 + 24 + 8 + 20 + 3)
        );
    }

    #[test]
    fn replies_mean_the_same_in_every_protocol() {
        let (text, meta) = (Dialect::Text, Dialect::Meta);
        let hit = Reply::Hit { name: Name::Key(b"k"), value: b"ab", is_last: false };
        assert_eq!(read(text, b"VALUE k 0 2\r\nab\r\n"), hit);
        assert_eq!(read(text, b"END\r\n"), Reply::End);
        let hit = Reply::Hit { name: Name::Nothing, value: b"ab", is_last: true };
        assert_eq!(read(meta, b"VA 2\r\nab\r\n"), hit);
        assert_eq!((read(meta, b"EN\r\n"), read(meta, b"HD\r\n")), (Reply::End, Reply::Stored));
        assert_eq!(read(meta, b"SERVER_ERROR x\r\n"), Reply::Error(b"SERVER_ERROR x"));
        assert_eq!(Dialect::Binary.read_reply(b"HTTP"), ParsedReply::Bad);
    }
}
