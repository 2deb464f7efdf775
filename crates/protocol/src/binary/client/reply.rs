//! Parses bytes into replies.

use crate::binary::header::{HEADER_BYTES, Header, RESPONSE_MAGIC};

/// A reply. Borrows from the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The opcode of the request, one of [`opcode`](crate::binary::opcode).
    pub opcode: u8,
    /// The outcome, one of [`status`](crate::binary::status).
    pub status: u16,
    /// The opaque number of the request.
    pub opaque: u32,
    /// The item's cas token; 0 if the reply does not contain one.
    pub cas: u64,
    /// The extras: numbers of fixed width.
    pub extras: &'a [u8],
    /// The key, if the reply includes it; for a statistic its name.
    pub key: &'a [u8],
    /// An item's value, a counter's eight bytes, a statistic's value, or the text of an error.
    pub value: &'a [u8],
}

impl Reply<'_> {
    /// Returns the client flags of the item, in replies to get and touch.
    pub fn flags(&self) -> Option<u32> {
        self.extras.try_into().map(u32::from_be_bytes).ok()
    }

    /// Returns the value of a counter.
    pub fn number(&self) -> Option<u64> {
        self.value.try_into().map(u64::from_be_bytes).ok()
    }
}

/// The result of [`read_reply`].
pub type ParsedReply<'a> = crate::parsed_reply::ParsedReply<Reply<'a>>;

/// Reads the first reply of `input`. Keeps no state between calls.
pub fn read_reply(input: &[u8]) -> ParsedReply<'_> {
    if input.first().is_some_and(|magic| *magic != RESPONSE_MAGIC) {
        return ParsedReply::Bad;
    }
    let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
        return ParsedReply::NeedMore { bytes_min: HEADER_BYTES as u64 };
    };
    let header = Header::read(header);
    if header.value_bytes().is_none() {
        return ParsedReply::Bad;
    }
    let bytes_min = HEADER_BYTES as u64 + u64::from(header.body_bytes);
    let Some(body) = rest.get(..header.body_bytes as usize) else {
        return ParsedReply::NeedMore { bytes_min };
    };
    let (extras, rest) = body.split_at(usize::from(header.extras_bytes));
    let (key, value) = rest.split_at(usize::from(header.key_bytes));
    let Header { opcode, status, opaque, cas, .. } = header;
    let reply = Reply { opcode, status, opaque, cas, extras, key, value };
    ParsedReply::Reply { reply, consumed: HEADER_BYTES + body.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_once_it_is_complete() {
        let header = Header {
            opcode: 0x0c,
            key_bytes: 1,
            extras_bytes: 4,
            body_bytes: 8,
            opaque: 3,
            cas: 9,
            ..Header::default()
        };
        let mut input = header.bytes(RESPONSE_MAGIC).to_vec();
        input.extend_from_slice(b"\0\0\0\x07kabcnext");
        let ParsedReply::Reply { reply, consumed } = read_reply(&input) else { panic!("a reply") };
        assert_eq!((reply.key, reply.value, reply.flags()), (&b"k"[..], &b"abc"[..], Some(7)));
        assert_eq!((reply.opaque, reply.cas, consumed), (3, 9, 32));
        for cut in 0..32 {
            let reading = read_reply(&input[..cut]);
            let ParsedReply::NeedMore { bytes_min } = reading else { panic!("{cut}: {reading:?}") };
            assert!(bytes_min > cut as u64, "{cut}: {bytes_min} bytes are already there");
            assert!(bytes_min <= 32, "{cut}: {bytes_min} bytes exceed the reply");
        }
    }

    #[test]
    fn a_body_announced_at_four_gigabytes_asks_for_bytes_and_allocates_nothing() {
        let header = Header { body_bytes: u32::MAX, ..Header::default() };
        let bytes_min = HEADER_BYTES as u64 + u64::from(u32::MAX);
        assert_eq!(read_reply(&header.bytes(RESPONSE_MAGIC)), ParsedReply::NeedMore { bytes_min });
    }

    #[test]
    fn another_protocol_and_contradictory_lengths_are_not_replies() {
        assert_eq!(read_reply(b"VALUE k 0 1\r\n"), ParsedReply::Bad);
        let header = Header { key_bytes: 5, body_bytes: 4, ..Header::default() };
        assert_eq!(read_reply(&header.bytes(RESPONSE_MAGIC)), ParsedReply::Bad);
    }
}
