//! Lines of `lru_crawler metadump` and `mgdump`, and the encoding of keys in logs.

use crate::base64;
use crate::number::push_number;

/// The data of an item in `lru_crawler metadump`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpedItem<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// The time at which it expires, as a Unix time in seconds; `None` if it never expires.
    pub deadline_unix_secs: Option<i64>,
    /// Its last store or read, as a Unix time in seconds.
    pub seen_unix_secs: i64,
    /// Its cas token.
    pub cas: u64,
    /// True if it was read.
    pub fetched: bool,
    /// The size class that memcached would use for it.
    pub class: u8,
    /// Its size in bytes as memcached counts it.
    pub item_bytes: u64,
    /// The client flags.
    pub flags: u32,
}

/// Appends an item's line of `metadump`. Like in memcached, the line ends in a newline without a
/// carriage return.
pub fn meta(out: &mut Vec<u8>, item: &DumpedItem<'_>) {
    out.extend_from_slice(b"key=");
    push_uri(out, item.key);
    out.extend_from_slice(b" exp=");
    push_number(out, item.deadline_unix_secs.unwrap_or(-1));
    out.extend_from_slice(b" la=");
    push_number(out, item.seen_unix_secs);
    out.extend_from_slice(b" cas=");
    push_number(out, item.cas);
    out.extend_from_slice(if item.fetched { b" fetch=yes" } else { b" fetch=no" });
    out.extend_from_slice(b" cls=");
    push_number(out, item.class);
    out.extend_from_slice(b" size=");
    push_number(out, item.item_bytes);
    out.extend_from_slice(b" flags=");
    push_number(out, item.flags);
    out.extend_from_slice(b" \n");
}

/// Appends an item's line of `mgdump`: the command that fetches it. Writes a key that a line cannot
/// contain in base64.
pub fn get(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"mg ");
    if is_word(key) {
        out.extend_from_slice(key);
    } else {
        base64::encode(out, key);
        out.extend_from_slice(b" b");
    }
    out.extend_from_slice(super::LINE_END);
}

/// Appends the last line of a list if the disk did not return some items. It replaces the normal
/// last line.
pub fn unreadable(out: &mut Vec<u8>, items: u64) {
    out.extend_from_slice(b"SERVER_ERROR the disk did not return ");
    push_number(out, items);
    out.extend_from_slice(b" items\r\n");
}

/// Appends a key, or a part of a key, unchanged. Appends a key that a line cannot contain, which
/// the binary protocol allows, in URI encoding. Otherwise it could end the line or even the list.
///
/// ```
/// let mut out = Vec::new();
/// larder_protocol::text::dump::push_word(&mut out, b"100%");
/// larder_protocol::text::dump::push_word(&mut out, b"\r\nEND\r\n");
/// assert_eq!(out, b"100%%0D%0AEND%0D%0A");
/// ```
pub fn push_word(out: &mut Vec<u8>, key: &[u8]) {
    if is_word(key) {
        out.extend_from_slice(key);
    } else {
        push_uri(out, key);
    }
}

fn is_word(key: &[u8]) -> bool {
    key.iter().all(|byte| *byte > b' ' && *byte != DELETE)
}

/// Appends a key in URI encoding: letters, digits and `-._~` unchanged, any other byte as `%` and
/// two digits. The result is at most three times as long as the key.
pub fn push_uri(out: &mut Vec<u8>, key: &[u8]) {
    for byte in key {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            _ => out.extend([b'%', hex_digit(byte >> 4), hex_digit(byte & 15)]),
        }
    }
}

fn hex_digit(number: u8) -> u8 {
    if number < 10 { b'0' + number } else { b'A' - 10 + number }
}

/// DEL, the control byte after the printable ones.
const DELETE: u8 = 0x7f;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_one_line_whatever_its_key() {
        let item = DumpedItem {
            key: b"a b\n\xff~%",
            deadline_unix_secs: None,
            seen_unix_secs: 7,
            cas: 9,
            fetched: true,
            class: 1,
            item_bytes: 60,
            flags: 5,
        };
        let mut out = Vec::new();
        meta(&mut out, &item);
        let line = "key=a%20b%0A%FF~%25 exp=-1 la=7 cas=9 fetch=yes cls=1 size=60 flags=5 \n";
        assert_eq!(String::from_utf8(out).unwrap(), line);
    }

    #[test]
    fn a_key_that_no_line_can_hold_is_encoded() {
        let mut out = Vec::new();
        get(&mut out, b"plain\xc3\xa9");
        get(&mut out, b"a b");
        assert_eq!(out, b"mg plain\xc3\xa9\r\nmg YSBi b\r\n");
    }

    #[test]
    fn the_longest_key_becomes_750_bytes() {
        let mut out = Vec::new();
        push_uri(&mut out, &[b'#'; 250]);
        assert_eq!(out, b"%23".repeat(250));
    }
}
