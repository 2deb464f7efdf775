//! One line of a response with its value, or one binary response, in a form that can be compared.
//! Values are reduced to their length and a hash.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::keys::KeyHash;

/// The keys of the hashes, random for each run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashing {
    keys: [u64; 2],
}

impl Hashing {
    /// Draws the keys from the randomness of the standard library's hash tables.
    pub(crate) fn random() -> Self {
        use std::hash::BuildHasher;
        let random = || std::collections::hash_map::RandomState::new().build_hasher().finish();
        Self { keys: [random(), random()] }
    }

    /// Returns a hash to which bytes can be added in pieces.
    pub(crate) fn begin(self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.keys[0], self.keys[1])
    }

    /// Returns the hash of some bytes.
    pub(crate) fn of(self, bytes: &[u8]) -> KeyHash {
        let mut hasher = self.begin();
        hasher.write(bytes);
        hasher.finish()
    }
}

/// The form of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `VALUE`, or a binary response with an item.
    Value,
    /// `END`
    End,
    /// `STAT`, or another line of a list.
    Row,
    /// A two-letter code of the meta protocol.
    Meta([u8; 2]),
    /// A status line, such as `STORED`.
    Word(Word),
    /// A counter.
    Number(u64),
    /// `ERROR`
    Error,
    /// `CLIENT_ERROR`
    ClientError,
    /// `SERVER_ERROR`
    ServerError,
    /// A binary response with its status.
    Binary(u16),
    /// `BUSY`, `BADCLASS` or `NOTSTARTED`: a listing is refused.
    Refused,
    /// Any other line.
    Other,
}

/// A line without further words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// `STORED`
    Stored,
    /// `NOT_STORED`
    NotStored,
    /// `EXISTS`
    Exists,
    /// `NOT_FOUND`
    NotFound,
    /// `DELETED`
    Deleted,
    /// `TOUCHED`
    Touched,
    /// `OK`
    Ok,
    /// `RESET`
    Reset,
}

impl Word {
    fn of(line: &[u8]) -> Option<Self> {
        Some(match line {
            b"STORED" => Self::Stored,
            b"NOT_STORED" => Self::NotStored,
            b"EXISTS" => Self::Exists,
            b"NOT_FOUND" => Self::NotFound,
            b"DELETED" => Self::Deleted,
            b"TOUCHED" => Self::Touched,
            b"OK" => Self::Ok,
            b"RESET" => Self::Reset,
            _ => return None,
        })
    }
}

/// The parts of a response that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Its form.
    pub(crate) form: Form,
    /// The hash of its key; `None` if it does not name one.
    pub(crate) key: Option<KeyHash>,
    /// The length of its value in bytes.
    pub(crate) value_bytes: Option<u64>,
    /// The hash of its value, or of its line if it is an error.
    pub(crate) hash: u64,
    /// The client flags.
    pub(crate) flags: Option<u32>,
    /// The cas token; never 0.
    pub(crate) cas: Option<u64>,
    /// The time to live in seconds; -1: it does not expire.
    pub(crate) ttl_secs: Option<i64>,
    /// The length of the value that a flag returns, in bytes.
    pub(crate) size: Option<u64>,
    /// The number that identifies the request: the opaque of a binary request, or the hash of the
    /// opaque of a meta request.
    pub(crate) opaque: Option<u64>,
    /// The opcode of a binary response.
    pub(crate) opcode: u8,
    /// True if the meta protocol gave a recache token, or reports one at another client (`W`, `Z`).
    pub(crate) is_claimed: bool,
    /// True if the item is marked stale (`X`).
    pub(crate) is_stale: bool,
    /// The text of an error, shortened.
    pub(crate) text: Option<Box<str>>,
}

impl Unit {
    /// Returns a unit without any parts.
    pub(crate) fn of(form: Form) -> Self {
        Self {
            form,
            key: None,
            value_bytes: None,
            hash: 0,
            flags: None,
            cas: None,
            ttl_secs: None,
            size: None,
            opaque: None,
            opcode: 0,
            is_claimed: false,
            is_stale: false,
            text: None,
        }
    }

    /// Reads a line of the text or of the meta protocol. Returns `None` if it cannot be the
    /// beginning of a response. A value of [`Self::value_bytes`] follows the line.
    pub(crate) fn of_line(line: &[u8], hashing: Hashing) -> Option<Self> {
        if let Some(head) = line.strip_prefix(b"VALUE ") {
            return Self::of_hit(head, hashing);
        }
        if let Some(word) = Word::of(line) {
            return Some(Self::of(Form::Word(word)));
        }
        let mut words = line.split(|byte| *byte == b' ');
        let first = words.next().unwrap_or_default();
        let form = match first {
            b"END" => Form::End,
            b"STAT" => Form::Row,
            b"ERROR" | b"Error" => Form::Error,
            b"CLIENT_ERROR" => Form::ClientError,
            b"SERVER_ERROR" => Form::ServerError,
            b"VA" | b"HD" | b"EN" | b"NS" | b"EX" | b"NF" | b"MN" => {
                return Self::of_meta([first[0], first[1]], words, hashing);
            }
            b"BUSY" | b"BADCLASS" | b"NOTSTARTED" => Form::Refused,
            [b'0'..=b'9', ..] => match number(first) {
                Some(number) => Form::Number(number),
                None => Form::Other,
            },
            // A server never sends other bytes at the beginning of a line.
            [byte, ..] if byte.is_ascii_alphabetic() => Form::Other,
            _ => return None,
        };
        let mut unit = Self::of(form);
        if matches!(form, Form::Error | Form::ClientError | Form::ServerError) {
            unit.hash = hashing.of(line);
            unit.text = Some(shortened(line));
        }
        Some(unit)
    }

    fn of_hit(head: &[u8], hashing: Hashing) -> Option<Self> {
        let mut words = head.split(|byte| *byte == b' ');
        let key = words.next()?;
        let flags = u32::try_from(number(words.next()?)?).ok()?;
        let value_bytes = number(words.next()?)?;
        let cas = match words.next() {
            Some(word) => Some(number(word)?),
            None => None,
        };
        Some(Self {
            key: Some(hashing.of(key)),
            flags: Some(flags),
            value_bytes: Some(value_bytes),
            cas: cas.filter(|cas| *cas != 0),
            ..Self::of(Form::Value)
        })
    }

    fn of_meta<'a>(
        code: [u8; 2],
        mut words: impl Iterator<Item = &'a [u8]>,
        hashing: Hashing,
    ) -> Option<Self> {
        let mut unit = Self::of(Form::Meta(code));
        if code == *b"VA" {
            unit.value_bytes = Some(number(words.next()?)?);
        }
        for word in words {
            let Some((letter, token)) = word.split_first() else { continue };
            match letter {
                b'c' => unit.cas = number(token).filter(|cas| *cas != 0),
                b't' => unit.ttl_secs = if token == b"-1" { Some(-1) } else { signed(token) },
                b'f' => unit.flags = number(token).and_then(|flags| flags.try_into().ok()),
                b's' => unit.size = number(token),
                b'k' => unit.key = Some(hashing.of(token)),
                b'O' => unit.opaque = Some(hashing.of(token)),
                b'W' | b'Z' => unit.is_claimed = true,
                b'X' => unit.is_stale = true,
                // `h` and `l` describe the past of the item, `b` belongs to the key.
                _ => {}
            }
        }
        Some(unit)
    }

    /// True if the response is an error.
    pub(crate) fn is_error(&self) -> bool {
        match self.form {
            Form::Error | Form::ClientError | Form::ServerError => true,
            Form::Binary(status) => {
                !matches!(status, 0x00 | 0x01 | 0x02 | 0x05 | 0x06 | 0x20 | 0x21)
            }
            _ => false,
        }
    }
}

/// Parses a decimal number.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn signed(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Returns the printable beginning of a line.
fn shortened(line: &[u8]) -> Box<str> {
    let begin = &line[..line.len().min(TEXT_BYTES_MAX)];
    begin.escape_ascii().to_string().into()
}

/// The longest beginning of an error that a report shows, in bytes.
const TEXT_BYTES_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[u8]) -> Option<Unit> {
        Unit::of_line(line, Hashing { keys: [1, 2] })
    }

    #[test]
    fn lines_are_read_in_both_dialects() {
        let hit = read(b"VALUE k 7 5 99").unwrap();
        assert_eq!((hit.flags, hit.value_bytes, hit.cas), (Some(7), Some(5), Some(99)));
        let meta = read(b"VA 5 f7 c99 t-1 s5 kk Oabc W").unwrap();
        assert_eq!((meta.flags, meta.value_bytes, meta.cas), (Some(7), Some(5), Some(99)));
        assert_eq!((meta.ttl_secs, meta.size, meta.is_claimed), (Some(-1), Some(5), true));
        assert_eq!(meta.key, hit.key);
        assert_eq!(read(b"12 ").unwrap().form, Form::Number(12));
        assert!(read(b"SERVER_ERROR no").unwrap().is_error());
        for bad in [&b"VALUE k"[..], b"VALUE k x 5", b"VA x", b"\x16\x03\x01", b""] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}
