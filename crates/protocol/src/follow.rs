//! The messages between a near cache, which keeps copies of items, and the *origin* that owns the
//! items. This module writes and parses them for both sides. docs/near-cache.md describes what the
//! two sides do with them.
//!
//! A near cache opens one connection for the *change stream*, on which the origin reports changes,
//! and others to fetch items. The first response contains a *token*, by which the other connections
//! name the stream. Keys belong to *buckets* by their hash ([`Terms::bucket_of`]), and the origin
//! reports the bucket of a changed key, not the key.
//!
//! ```text
//! larder_follow <max stale ms>   ─▶  FOLLOW <token> <epoch> <log2 of buckets> <seed>
//! alive <n>                      ─▶  C <bucket>   a key of this bucket may have changed
//!                                    F            every key may have changed
//!                                    H <n>        all changes before `alive <n>` are reported
//!
//! larder_follower <token>        ─▶  OK
//! larder_fetch <key> [b] [m<n>]  ─▶  VA <bytes> f<flags> c<cas> t<ms left, or -1> [U]
//!                                    EN [U]       no such item
//!                                    ST           do not copy: stale, being recached, or over n bytes
//! ```
//!
//! `b` says that the key is in base64. `U` says that the origin will not report changes of the
//! item, so that it must not be copied.

use std::io::Write;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use crate::base64;
use crate::number;

/// The response to `larder_follow`: the terms of a change stream.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Identifies the stream. The origin never uses a token again.
    pub token: u128,
    /// Differs whenever the origin has started with another cache.
    pub epoch: u64,
    /// The number of buckets is 2 to the power of this.
    pub buckets_log2: u32,
    seed: u64,
    secrets: RapidSecrets,
}

impl Terms {
    /// Creates the terms of a stream. `seed` determines the buckets of the keys.
    pub fn new(token: u128, epoch: u64, buckets_log2: u32, seed: u64) -> Self {
        Self { token, epoch, buckets_log2, seed, secrets: RapidSecrets::seed(seed) }
    }

    /// Returns the bucket of a key: the upper bits of its hash by rapidhash v3.
    #[inline]
    pub fn bucket_of(&self, key: &[u8]) -> u32 {
        let hash = rapidhash_v3_seeded(key, &self.secrets);
        (hash >> (u64::BITS - self.buckets_log2)) as u32
    }

    /// Returns the line, with its end.
    pub fn line(&self) -> Vec<u8> {
        let Self { token, epoch, buckets_log2, seed, .. } = self;
        format!("FOLLOW {token:032x} {epoch} {buckets_log2} {seed}\r\n").into_bytes()
    }

    /// Parses the line, without its end; `None` if it is a different line.
    pub fn read(line: &[u8]) -> Option<Self> {
        let mut words = line.strip_prefix(b"FOLLOW ")?.split(|byte| *byte == b' ');
        let token = token(words.next()?)?;
        let epoch = number::unsigned_64(words.next()?)?;
        let buckets_log2 = number::unsigned_32(words.next()?)
            .filter(|log2| (BUCKETS_LOG2_MIN..=BUCKETS_LOG2_MAX).contains(log2))?;
        let seed = number::unsigned_64(words.next()?)?;
        words.next().is_none().then(|| Self::new(token, epoch, buckets_log2, seed))
    }
}

/// Parses a token: 32 hexadecimal digits.
pub fn token(word: &[u8]) -> Option<u128> {
    let text = std::str::from_utf8(word).ok().filter(|text| text.len() == 32)?;
    text.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    u128::from_str_radix(text, 16).ok()
}

/// A message of the change stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A key of this bucket may have changed.
    Changed(u32),
    /// Every key may have changed.
    Flushed,
    /// Every change before the `alive` line with this number has been reported.
    Heard(u64),
}

impl Message {
    /// Appends the line, with its end.
    pub fn push(self, out: &mut Vec<u8>) {
        match self {
            Self::Changed(bucket) => {
                out.extend_from_slice(b"C ");
                number::push_number(out, bucket);
            }
            Self::Flushed => out.push(b'F'),
            Self::Heard(number) => {
                out.extend_from_slice(b"H ");
                number::push_number(out, number);
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Parses a line, without its end; `None` if it is no message.
    pub fn read(line: &[u8]) -> Option<Self> {
        if let Some(bucket) = line.strip_prefix(b"C ") {
            return number::unsigned_32(bucket).map(Self::Changed);
        }
        if let Some(number) = line.strip_prefix(b"H ") {
            return number::unsigned_64(number).map(Self::Heard);
        }
        (line == b"F").then_some(Self::Flushed)
    }
}

/// Appends the line `alive <n>`, with its end.
pub fn push_alive(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(b"alive ");
    number::push_number(out, number);
    out.extend_from_slice(b"\r\n");
}

/// Parses the line `alive <n>`, without its end; `None` if it is a different line.
pub fn alive(line: &[u8]) -> Option<u64> {
    number::unsigned_64(line.strip_prefix(b"alive ")?)
}

/// Appends a request for an item, with its end. The origin responds with `ST` to an item whose
/// value is longer than `value_bytes_max`.
pub fn push_fetch(out: &mut Vec<u8>, wanted: &[u8], value_bytes_max: usize) {
    out.extend_from_slice(b"larder_fetch ");
    let is_plain = wanted.iter().all(u8::is_ascii_graphic);
    match is_plain {
        true => out.extend_from_slice(wanted),
        false => base64::encode(out, wanted),
    }
    out.extend_from_slice(if is_plain { b" m" } else { b" b m" });
    number::push_number(out, value_bytes_max);
    out.extend_from_slice(b"\r\n");
}

/// The first line of the response to `larder_fetch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The item. Its value and a line end follow.
    Value {
        /// The length of the value in bytes.
        value_bytes: usize,
        /// The client flags.
        flags: u32,
        /// The cas token.
        cas: u64,
        /// The milliseconds until the item expires; `None`: never.
        ttl_ms: Option<u64>,
        /// True if the origin will report changes of the item.
        is_noted: bool,
    },
    /// There is no such item.
    Absent {
        /// True if the origin will report changes of the item.
        is_noted: bool,
    },
    /// The item exists and must not be copied.
    Uncopied,
}

impl Fetched {
    /// Appends the line, with its end.
    pub fn push(self, out: &mut Vec<u8>) {
        let written = match self {
            Self::Value { value_bytes, flags, cas, ttl_ms, is_noted } => {
                let ttl_ms = ttl_ms.map_or(-1, |ms| i64::try_from(ms).unwrap_or(i64::MAX));
                let unnoted = if is_noted { "" } else { " U" };
                write!(out, "VA {value_bytes} f{flags} c{cas} t{ttl_ms}{unnoted}\r\n")
            }
            Self::Absent { is_noted: true } => write!(out, "EN\r\n"),
            Self::Absent { is_noted: false } => write!(out, "EN U\r\n"),
            Self::Uncopied => write!(out, "ST\r\n"),
        };
        written.expect("writing to a Vec cannot fail");
    }

    /// Parses the line, without its end; `None` if it is a different line, such as an error.
    pub fn read(line: &[u8]) -> Option<Self> {
        match line {
            b"EN" => return Some(Self::Absent { is_noted: true }),
            b"EN U" => return Some(Self::Absent { is_noted: false }),
            b"ST" => return Some(Self::Uncopied),
            _ => {}
        }
        let mut words = line.strip_prefix(b"VA ")?.split(|byte| *byte == b' ');
        let value_bytes = usize::try_from(number::unsigned_64(words.next()?)?).ok()?;
        let flags = number::unsigned_32(words.next()?.strip_prefix(b"f")?)?;
        let cas = number::unsigned_64(words.next()?.strip_prefix(b"c")?)?;
        let ttl_ms = match words.next()?.strip_prefix(b"t")? {
            b"-1" => None,
            ms => Some(number::unsigned_64(ms)?),
        };
        let is_noted = match words.next() {
            None => true,
            Some(b"U") => false,
            Some(_) => return None,
        };
        let value = Self::Value { value_bytes, flags, cas, ttl_ms, is_noted };
        words.next().is_none().then_some(value)
    }
}

/// The fewest buckets that a near cache accepts, as a power of 2.
pub const BUCKETS_LOG2_MIN: u32 = 8;

/// The most buckets that a near cache accepts, as a power of 2.
pub const BUCKETS_LOG2_MAX: u32 = 26;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(of: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut line = Vec::new();
        of(&mut line);
        line.strip_suffix(b"\r\n").expect("a line ends").to_vec()
    }

    #[test]
    fn terms_are_read_as_written() {
        let terms = Terms::new(0xA5, 7, 20, 9);
        let line = terms.line();
        let read = Terms::read(line.strip_suffix(b"\r\n").unwrap()).expect("terms are written");
        assert_eq!(
            (read.token, read.epoch, read.buckets_log2, read.bucket_of(b"k")),
            (0xA5, 7, 20, terms.bucket_of(b"k"))
        );
    }

    #[test]
    fn other_terms_are_refused() {
        let token = "0".repeat(32);
        for rest in ["", "1 20", "1 20 x", "1 7 9", "1 27 9", "1 20 9 9", "-1 20 9"] {
            let line = format!("FOLLOW {token} {rest}");
            assert!(Terms::read(line.as_bytes()).is_none(), "{line:?} is accepted");
        }
        for word in ["", "+0000000000000000000000000000000", "0", "g"] {
            assert_eq!(super::token(word.as_bytes()), None, "the token {word:?} is accepted");
        }
    }

    #[test]
    fn buckets_are_in_range_and_depend_on_the_seed() {
        let terms = [1, 2].map(|seed| Terms::new(0, 0, 8, seed));
        let buckets = terms.map(|terms| {
            let keys = (0..100).map(|n: u32| terms.bucket_of(&n.to_le_bytes()));
            keys.collect::<Vec<u32>>()
        });
        assert!(buckets[0].iter().all(|bucket| *bucket < 256));
        assert_ne!(buckets[0], buckets[1]);
    }

    #[test]
    fn messages_are_read_as_written() {
        for message in [Message::Changed(0), Message::Changed(1 << 20), Message::Flushed] {
            assert_eq!(Message::read(&line(|out| message.push(out))), Some(message));
        }
        let heard = Message::Heard(u64::MAX);
        assert_eq!(Message::read(&line(|out| heard.push(out))), Some(heard));
        assert_eq!(alive(&line(|out| push_alive(out, 17))), Some(17));
        for other in ["", "C", "C ", "C x", "C 4294967296", "F ", "H", "H -1", "I 1"] {
            assert_eq!(Message::read(other.as_bytes()), None, "{other:?} is a message");
        }
    }

    #[test]
    fn fetched_items_are_read_as_written() {
        let value = |ttl_ms, is_noted| Fetched::Value {
            value_bytes: 5,
            flags: u32::MAX,
            cas: u64::MAX,
            ttl_ms,
            is_noted,
        };
        for fetched in [
            value(None, true),
            value(Some(0), false),
            value(Some(2500), true),
            Fetched::Absent { is_noted: true },
            Fetched::Absent { is_noted: false },
            Fetched::Uncopied,
        ] {
            assert_eq!(Fetched::read(&line(|out| fetched.push(out))), Some(fetched));
        }
        for other in ["VA", "VA 5 f0 c1", "VA 5 f0 c1 t-2", "VA 5 f0 c1 t-1 X", "EN X", "HD"] {
            assert_eq!(Fetched::read(other.as_bytes()), None, "{other:?} is a response");
        }
    }

    #[test]
    fn a_key_that_a_line_cannot_contain_is_fetched_in_base64() {
        let fetch = |key: &[u8]| String::from_utf8(line(|out| push_fetch(out, key, 9))).unwrap();
        assert_eq!(fetch(b"key"), "larder_fetch key m9");
        assert_eq!(fetch(b"a key"), "larder_fetch YSBrZXk= b m9");
        assert_eq!(fetch(b"\0"), "larder_fetch AA== b m9");
    }
}
