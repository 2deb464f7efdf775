//! Sends arbitrary bytes to a binary session. The session must not panic, must give the same
//! answers however the bytes are split, and must send only complete replies.
#![no_main]

mod conversation;
mod threads;

use conversation::{answers, cut};
use larder_protocol::binary::client::{ParsedReply, read_reply};
use larder_protocol::binary::opcode::{STAT, aloud};
use larder_protocol::binary::{Header, REQUEST_MAGIC};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // The first bytes are the lengths of the pieces, used in a cycle.
    let Some((lengths, recipe)) = input.split_first_chunk::<4>() else { return };
    let stream = requests(recipe);
    let (whole, in_pieces) = (answers(&[&stream], 1000), answers(&cut(&stream, lengths), 2));
    assert_eq!(replies(&whole), replies(&in_pieces), "pieces of {lengths:?}");
});

/// Generates requests from a recipe: opcode, lengths, and wrong values in the header. Random bytes
/// are almost never a request.
fn requests(mut recipe: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let Some(([opcode, key, extras, value, lie, cas], rest)) = recipe.split_first_chunk() {
        let extras = match (extras, aloud(*opcode)) {
            (0..0xe0, 0x01..=0x03) => 8,
            (0..0xe0, 0x05 | 0x06) => 20,
            (0..0xe0, 0x1c | 0x1d | 0x23) => 4,
            (0..0xe0, _) => 0,
            (odd, _) => odd & 0x1f,
        };
        let (key, value) = (key % 8, usize::from(*value) << (value & 7));
        let body_bytes = usize::from(extras) + usize::from(key) + value;
        let header = Header {
            opcode: opcode & 0x3f,
            key_bytes: u16::from(key) ^ u16::from(*lie == 1) << 7,
            extras_bytes: extras ^ u8::from(*lie == 2),
            body_bytes: body_bytes as u32 ^ u32::from(*lie == 3) << (cas & 31),
            opaque: u32::from(*lie),
            cas: u64::from(*cas % 4),
            ..Header::default()
        };
        let magic = if *lie == 4 { *cas } else { REQUEST_MAGIC };
        stream.extend_from_slice(&header.bytes(magic));
        // The rest of the recipe is also the extras, the key and the beginning of the value.
        let body = rest.iter().copied().chain(std::iter::repeat(b'1')).take(body_bytes);
        stream.extend(body);
        recipe = rest;
    }
    stream
}

/// Returns all replies except statistics, which contain times and byte counts.
fn replies(answers: &[u8]) -> Vec<&[u8]> {
    let (mut replies, mut rest) = (Vec::new(), answers);
    while !rest.is_empty() {
        let ParsedReply::Reply { reply, consumed } = read_reply(rest) else {
            // This is a text session, or a large value that was evicted during sending.
            return replies;
        };
        let (whole, behind) = rest.split_at(consumed);
        if reply.opcode != STAT {
            replies.push(whole);
        }
        rest = behind;
    }
    replies
}
