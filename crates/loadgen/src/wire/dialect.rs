//! Requests and replies in each of the protocols, which the code calls dialects.

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
        /// True if no other reply to this request follows.
        is_last: bool,
    },
    /// The end of the items.
    End,
    Stored,
    /// The text of an error.
    Error(&'a [u8]),
    /// A reply to a request that is neither a get nor a set.
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
    /// The bytes are not a reply of this protocol.
    Bad,
}

impl Dialect {
    /// Appends a get of these keys. Only the text dialect accepts more than one key.
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

    #[test]
    fn many_keys_are_one_line_of_text() {
        let mut out = Vec::new();
        Dialect::Text.push_get(&mut out, 7, &[KEY, *b"bench:00000000000008"]).unwrap();
        assert_eq!(out, b"get bench:00000000000007 bench:00000000000008\r\n");
    }

    /// A response of the binary protocol: the header, then `extras` and the value.
    fn binary(opcode: u8, status: u8, opaque: u8, extras: &[u8], value: &[u8]) -> Vec<u8> {
        let mut out = [0; 24];
        (out[0], out[1], out[4], out[7], out[15]) =
            (0x81, opcode, extras.len() as u8, status, opaque);
        out[11] = (extras.len() + value.len()) as u8;
        [&out[..], extras, value].concat()
    }

    #[test]
    fn replies_of_the_binary_protocol_name_their_key_by_its_number() {
        let hit = binary(opcode::GET, 0, 9, &[0; 4], b"value");
        let expected = Reply::Hit { name: Name::Opaque(9), value: b"value", is_last: true };
        assert_eq!(read(Dialect::Binary, &hit), expected);
        let miss = binary(opcode::GET, 1, 9, &[], b"Not found");
        assert_eq!(read(Dialect::Binary, &miss), Reply::End);
        assert_eq!(read(Dialect::Binary, &binary(opcode::SET, 0, 0, &[], b"")), Reply::Stored);
        let refused = binary(opcode::SET, 3, 0, &[], b"Too large.");
        assert_eq!(read(Dialect::Binary, &refused), Reply::Error(b"Too large."));
        let refused = binary(opcode::GET, 0x20, 0, &[], b"Auth failure.");
        assert_eq!(read(Dialect::Binary, &refused), Reply::Error(b"Auth failure."));
        assert_eq!(read(Dialect::Binary, &binary(0x0b, 0, 0, &[], b"1.6.45")), Reply::Other);
    }

    #[test]
    fn a_refused_set_and_a_reply_to_something_else_are_told_apart() {
        let (text, meta) = (Dialect::Text, Dialect::Meta);
        assert_eq!(read(text, b"NOT_STORED\r\n"), Reply::Error(b"NOT_STORED"));
        assert_eq!(read(text, b"CLIENT_ERROR bad\r\n"), Reply::Error(b"CLIENT_ERROR bad"));
        assert_eq!(read(meta, b"NS\r\n"), Reply::Error(b"NS"));
        for other in [&b"DELETED\r\n"[..], b"VERSION 1\r\n", b"OK\r\n"] {
            assert_eq!(read(text, other), Reply::Other, "{}", other.escape_ascii());
        }
        assert_eq!((read(meta, b"MN\r\n"), read(meta, b"EX\r\n")), (Reply::Other, Reply::Other));
    }

    /// A reply arrives in pieces of any length. The parser must not mistake the beginning of a
    /// reply for a complete one.
    #[test]
    fn the_beginning_of_a_reply_needs_more() {
        let hit = binary(opcode::GET, 0, 9, &[0; 4], b"value");
        for (dialect, whole) in [
            (Dialect::Text, &b"VALUE k 0 4\r\n\r\n\r\n\r\n"[..]),
            (Dialect::Text, b"STORED\r\n"),
            (Dialect::Meta, b"VA 4\r\nEN\r\n\r\n"),
            (Dialect::Meta, b"HD\r\n"),
            (Dialect::Binary, &hit),
        ] {
            for length in 0..whole.len() {
                let parsed = dialect.read_reply(&whole[..length]);
                let ParsedReply::NeedMore { bytes_min } = parsed else {
                    panic!("{length} bytes of {} are {parsed:?}", whole.escape_ascii());
                };
                let fits = bytes_min > length as u64 && bytes_min <= whole.len() as u64;
                assert!(fits, "{length} bytes of {} need {bytes_min}", whole.escape_ascii());
            }
            let followed = [whole, whole].concat();
            let parsed = dialect.read_reply(&followed);
            let is_first =
                matches!(parsed, ParsedReply::Reply { consumed, .. } if consumed == whole.len());
            assert!(is_first, "{parsed:?} of {}", followed.escape_ascii());
        }
    }
}
