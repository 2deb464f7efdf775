//! Encoding of request lines of the meta protocol.

use std::io::Write;
use std::time::Duration;

use larder_item::{Direction, Epoch, KEY_BYTES_MAX, StoreMode, check_key};
use larder_protocol::base64;

use super::error::ClientError;
use crate::system::clock::unix_secs;

/// A request without its value.
pub(super) struct MetaRequest<'a> {
    pub(super) name: &'static [u8; 2],
    pub(super) key: &'a [u8],
    /// The other flags of the request in the meta protocol, each preceded by a space.
    pub(super) words: &'static str,
    pub(super) mode: Option<StoreMode>,
    /// The client flags of a store.
    pub(super) flags: u32,
    pub(super) cas: Option<u64>,
    /// A new time to live, if the request sets one; `Some(None)` removes the limit.
    pub(super) ttl: Option<Option<Duration>>,
    /// The direction and the amount of a counter's change.
    pub(super) delta: Option<(Direction, u64)>,
}

/// Longest key, in bytes, that fits into a request after base64 encoding. Keys with spaces or
/// control characters must be encoded.
const ENCODED_KEY_BYTES_MAX: usize = KEY_BYTES_MAX / 4 * 3;

impl<'a> MetaRequest<'a> {
    pub(super) fn of(name: &'static [u8; 2], key: &'a [u8]) -> Self {
        Self { name, key, words: "", mode: None, flags: 0, cas: None, ttl: None, delta: None }
    }

    /// Appends the request line to `out`.
    pub(super) fn write(&self, value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), ClientError> {
        check_key(self.key)?;
        let is_encoded = self.key.iter().any(|byte| *byte <= b' ' || *byte == 0x7F);
        if is_encoded && self.key.len() > ENCODED_KEY_BYTES_MAX {
            let (found, max) = (self.key.len(), ENCODED_KEY_BYTES_MAX);
            return Err(ClientError::LongKey { found, max });
        }
        out.extend_from_slice(self.name);
        out.push(b' ');
        match is_encoded {
            true => base64::encode(out, self.key),
            false => out.extend_from_slice(self.key),
        }
        let mut push = |words: std::fmt::Arguments<'_>| {
            out.write_fmt(words).expect("writing to a vector never fails");
        };
        if let Some(value) = value {
            push(format_args!(" {}", value.len()));
        }
        push(format_args!("{}{}", if is_encoded { " b" } else { "" }, self.words));
        if let Some(mode) = self.mode {
            push(format_args!(" M{}", letter(mode)));
        }
        if self.flags != 0 {
            push(format_args!(" F{}", self.flags));
        }
        if let Some(cas) = self.cas {
            push(format_args!(" C{cas}"));
        }
        if let Some(ttl) = self.ttl {
            push(format_args!(" T{}", exptime(ttl)));
        }
        if let Some((direction, delta)) = self.delta {
            let letter = if direction == Direction::Increment { 'I' } else { 'D' };
            push(format_args!(" D{delta} M{letter}"));
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }
}

fn letter(mode: StoreMode) -> char {
    match mode {
        StoreMode::Set => 'S',
        StoreMode::Add => 'E',
        StoreMode::Replace => 'R',
        StoreMode::Append => 'A',
        StoreMode::Prepend => 'P',
    }
}

/// Returns a time to live as the protocol's exptime: in seconds, rounded up.
fn exptime(ttl: Option<Duration>) -> i64 {
    let Some(ttl) = ttl else { return 0 };
    let secs = ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0));
    match i64::try_from(secs).unwrap_or(i64::MAX) {
        0 => -1,
        secs @ ..=Epoch::RELATIVE_SECS_MAX => secs,
        // Larger values are absolute Unix times in the protocol, limited to 32 bits.
        secs => unix_secs().saturating_add(secs).min(i64::from(u32::MAX >> 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ask: &MetaRequest<'_>, value: Option<&[u8]>) -> String {
        let mut out = Vec::new();
        ask.write(value, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_key_with_spaces_or_control_characters_is_encoded() {
        assert_eq!(line(&MetaRequest::of(b"md", b"k"), None), "md k\r\n");
        assert_eq!(line(&MetaRequest::of(b"md", b"a key"), None), "md YSBrZXk= b\r\n");
        let store = MetaRequest {
            mode: Some(StoreMode::Add),
            cas: Some(7),
            ..MetaRequest::of(b"ms", b"\n")
        };
        assert_eq!(line(&store, Some(b"abc")), "ms Cg== 3 b ME C7\r\n");
        let store = MetaRequest { flags: u32::MAX, ..store };
        assert_eq!(line(&store, Some(b"")), "ms Cg== 0 b ME F4294967295 C7\r\n");
        for (key, is_good) in [(vec![b' '; 186], true), (vec![b' '; 187], false), (vec![], false)] {
            assert_eq!(MetaRequest::of(b"mg", &key).write(None, &mut Vec::new()).is_ok(), is_good);
        }
    }

    #[test]
    fn times_to_live_are_whole_seconds_and_long_ones_are_absolute() {
        assert_eq!(exptime(None), 0);
        assert_eq!(exptime(Some(Duration::ZERO)), -1);
        assert_eq!(exptime(Some(Duration::from_millis(1001))), 2);
        assert_eq!(exptime(Some(Duration::from_secs(2_592_000))), 2_592_000);
        assert!(exptime(Some(Duration::from_secs(2_592_001))) > 1_700_000_000);
        assert!(exptime(Some(Duration::MAX)) <= i64::from(i32::MAX));
    }
}
