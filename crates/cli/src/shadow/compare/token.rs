//! Finds the cas token in the bytes of a request.

use larder_protocol::Frame;

use super::asked::Asked;
use super::link::TokenPlace;

/// Returns the place of the token of a request; `None` if it has no token.
pub(super) fn find(asked: &Asked, frame: &Frame<'_>, bytes: &[u8]) -> Option<TokenPlace> {
    let token = asked.token?;
    let (place, is_binary) = match frame {
        // `cas <key> <flags> <exptime> <bytes> <token>`
        Frame::Text { .. } => (words(bytes).nth(5)?, false),
        Frame::Meta(_) => {
            let is_token = |place: &std::ops::Range<usize>| bytes[place.start] == b'C';
            let word = words(bytes).skip(2).find(is_token)?;
            (word.start + 1..word.end, false)
        }
        Frame::Binary(_) => (16..24, true),
    };
    let is_there = bytes.get(place.clone()).is_some();
    is_there.then_some(TokenPlace { place, is_binary, key: asked.key, token, seen: 0 })
}

/// Returns the places of the words of a line.
fn words(line: &[u8]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let is_separator = |byte: u8| matches!(byte, b' ' | b'\r' | b'\n');
    let mut at = 0;
    std::iter::from_fn(move || {
        let begin = at + line[at..].iter().position(|byte| !is_separator(*byte))?;
        let bytes = line[begin..].iter().position(|byte| is_separator(*byte));
        at = bytes.map_or(line.len(), |bytes| begin + bytes);
        Some(begin..at)
    })
}

#[cfg(test)]
mod tests {
    use larder_protocol::{Parsed, Parser};

    use super::*;
    use crate::shadow::compare::asked::Plan;
    use crate::shadow::compare::unit::Hashing;

    #[test]
    fn tokens_are_found_in_every_dialect() {
        let mut binary = vec![0x80, 1, 0, 1, 8, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0];
        binary.extend_from_slice(&77_u64.to_be_bytes());
        binary.extend_from_slice(b"\0\0\0\0\0\0\0\0k");
        for (request, expected) in [
            (&b"cas k  0 0 1 77 noreply\r\n"[..], Some(&b"77"[..])),
            (b"ms k 1 T0 C77 c\r\n", Some(b"77")),
            (b"md C1 q C77\r\n", Some(b"77")),
            (b"set k 0 0 1\r\n", None),
            (&binary, Some(&binary[16..24])),
        ] {
            let Parsed::Command { command, frame, .. } = Parser::default().next(request) else {
                panic!("{}", request.escape_ascii());
            };
            let Plan::Compare(asked) = Plan::of(&command, &frame, Hashing::random()) else {
                panic!("{command:?}");
            };
            let found = find(&asked, &frame, request);
            assert_eq!(found.as_ref().map(|found| &request[found.place.clone()]), expected);
            assert!(found.is_none_or(|found| found.token == 77));
        }
    }
}
