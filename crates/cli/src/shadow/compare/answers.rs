//! Splits the bytes of a server into units. Holds at most one line or one binary header with its
//! key, never a value.

use std::hash::Hasher;

use larder_protocol::binary::header::{HEADER_BYTES, Header, RESPONSE_MAGIC};
use larder_protocol::binary::opcode;
use memchr::memchr;
use siphasher::sip::SipHasher13;

use super::unit::{Form, Hashing, Unit};

/// The state of one direction of a connection.
#[derive(Debug)]
pub(crate) struct Answers {
    hashing: Hashing,
    /// The beginning of a line or of a binary response.
    held: Vec<u8>,
    /// The unit that waits for the rest of its value.
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Begun {
    unit: Unit,
    /// Bytes of the value that are missing.
    missing: u64,
    hasher: SipHasher13,
    /// Bytes of the line end after the value that are missing; 0 in the binary protocol.
    end_missing: u8,
}

/// The result of [`Answers::next`].
#[derive(Debug)]
pub(crate) enum Next {
    /// A complete unit.
    Unit(Unit),
    /// All bytes are taken, and the unit is incomplete.
    More,
    /// The bytes are not memcached's protocol.
    Bad,
}

impl Answers {
    /// Creates the state for a new connection.
    pub(crate) fn new(hashing: Hashing) -> Self {
        Self { hashing, held: Vec::new(), begun: None }
    }

    /// True if the next byte begins a response.
    pub(crate) fn is_between(&self) -> bool {
        self.held.is_empty() && self.begun.is_none()
    }

    /// Returns the memory of incomplete responses, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Takes bytes from the beginning of `input` up to the end of a unit.
    pub(crate) fn next(&mut self, input: &mut &[u8], is_binary: bool) -> Next {
        loop {
            if let Some(begun) = &mut self.begun {
                if !begun.take(input) {
                    return Next::Bad;
                }
                if begun.missing > 0 || begun.end_missing > 0 {
                    return Next::More;
                }
                let Some(Begun { mut unit, hasher, .. }) = self.begun.take() else { continue };
                unit.hash = hasher.finish();
                return Next::Unit(unit);
            }
            let unit = match is_binary {
                true => self.binary_head(input),
                false => self.line(input),
            };
            match unit {
                Next::Unit(unit) if unit.value_bytes.is_some() => {
                    self.begun = Some(Begun {
                        missing: unit.value_bytes.unwrap_or(0),
                        end_missing: if is_binary { 0 } else { 2 },
                        unit,
                        hasher: self.hashing.begin(),
                    });
                }
                next => return next,
            }
        }
    }

    fn line(&mut self, input: &mut &[u8]) -> Next {
        let Some(newline) = memchr(b'\n', input) else {
            self.held.extend_from_slice(input);
            *input = &[];
            return if self.held.len() > LINE_BYTES_MAX { Next::Bad } else { Next::More };
        };
        let (line, rest) = input.split_at(newline);
        *input = &rest[1..];
        let unit = if self.held.is_empty() {
            self.read(line)
        } else {
            self.held.extend_from_slice(line);
            let unit = self.read(&self.held);
            self.held.clear();
            unit
        };
        unit.map_or(Next::Bad, Next::Unit)
    }

    fn read(&self, line: &[u8]) -> Option<Unit> {
        if line.len() > LINE_BYTES_MAX {
            return None;
        }
        Unit::of_line(line.strip_suffix(b"\r").unwrap_or(line), self.hashing)
    }

    /// Reads a header, the extras and the key. The value is read like that of a line.
    fn binary_head(&mut self, input: &mut &[u8]) -> Next {
        if !self.hold(input, HEADER_BYTES) {
            return Next::More;
        }
        let Some(bytes) = self.held.first_chunk::<HEADER_BYTES>() else { return Next::More };
        let header = Header::read(bytes);
        let Some(value_bytes) = header.value_bytes().filter(|_| bytes[0] == RESPONSE_MAGIC) else {
            return Next::Bad;
        };
        let extras_end = HEADER_BYTES + usize::from(header.extras_bytes);
        let head_bytes = extras_end + usize::from(header.key_bytes);
        if !self.hold(input, head_bytes) {
            return Next::More;
        }
        let (extras, key) = (&self.held[HEADER_BYTES..extras_end], &self.held[extras_end..]);
        let unit = Unit {
            key: (!key.is_empty()).then(|| self.hashing.of(key)),
            flags: extras.try_into().map(u32::from_be_bytes).ok(),
            cas: Some(header.cas).filter(|cas| *cas != 0),
            opaque: Some(header.opaque.into()),
            opcode: header.opcode,
            value_bytes: Some(value_bytes.into()),
            // The end of a list of statistics has neither a name nor a value.
            size: (header.opcode == opcode::STAT).then_some(header.body_bytes.into()),
            ..Unit::of(Form::Binary(header.status))
        };
        self.held.clear();
        Next::Unit(unit)
    }

    /// Moves bytes from `input` to the held ones, up to a number of them.
    fn hold(&mut self, input: &mut &[u8], bytes: usize) -> bool {
        let missing = bytes.saturating_sub(self.held.len());
        let (taken, rest) = input.split_at(missing.min(input.len()));
        self.held.extend_from_slice(taken);
        *input = rest;
        self.held.len() >= bytes
    }
}

impl Begun {
    /// Takes bytes of the value and of its end. Returns false if the end is not a line end.
    fn take(&mut self, input: &mut &[u8]) -> bool {
        let piece_bytes = usize::try_from(self.missing).unwrap_or(usize::MAX).min(input.len());
        let (piece, rest) = input.split_at(piece_bytes);
        self.hasher.write(piece);
        self.missing -= piece_bytes as u64;
        *input = rest;
        while self.missing == 0
            && self.end_missing > 0
            && let Some((byte, rest)) = input.split_first()
        {
            if *byte != if self.end_missing == 2 { b'\r' } else { b'\n' } {
                return false;
            }
            self.end_missing -= 1;
            *input = rest;
        }
        true
    }
}

/// The longest line of a response, in bytes.
const LINE_BYTES_MAX: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn units(pieces: &[&[u8]], is_binary: bool) -> Option<Vec<Unit>> {
        let mut answers = Answers::new(Hashing::random());
        let mut units = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            loop {
                match answers.next(&mut input, is_binary) {
                    Next::Unit(unit) => units.push(Unit { hash: 0, key: None, ..unit }),
                    Next::More => break,
                    Next::Bad => return None,
                }
            }
        }
        Some(units)
    }

    #[test]
    fn any_split_of_the_bytes_gives_the_same_units() {
        let text = b"VALUE k 0 3\r\na\r\n\r\nEND\r\nVA 2 c7\r\nab\r\nHD\r\nSTORED\r\nERROR x\r\n";
        let header = |status, value: &[u8]| {
            let body_bytes = value.len() as u32;
            let header = Header { status, body_bytes, ..Header::default() };
            [&header.bytes(RESPONSE_MAGIC), value].concat()
        };
        let binary = [header(0, b"abc"), header(1, b"Not found"), header(0, b"")].concat();
        for (bytes, is_binary, count) in [(&text[..], false, 6), (&binary, true, 3)] {
            let whole = units(&[bytes], is_binary).unwrap();
            assert_eq!(whole.len(), count, "{whole:?}");
            for at in 0..bytes.len() {
                let (a, b) = bytes.split_at(at);
                assert_eq!(units(&[a, b], is_binary).as_ref(), Some(&whole), "{at}");
            }
        }
    }

    #[test]
    fn other_protocols_are_refused_and_hold_little_memory() {
        assert_eq!(units(&[b"\x15\x03\x03\x00\x02\x02\x46\n"], false), None);
        assert_eq!(units(&[b"VALUE k 0 1\r\nabc"], false), None);
        assert_eq!(units(&[&vec![b'x'; LINE_BYTES_MAX + 1]], false), None);
        assert_eq!(units(&[&[b'S'; HEADER_BYTES]], true), None);
    }
}
