//! The client's side of the meta protocol: writes requests and reads replies.
//!
//! ```
//! use larder_protocol::meta::client::{ParsedReply, read_reply};
//!
//! let ParsedReply::Reply { reply, consumed } = read_reply(b"VA 5 f7\r\nhello\r\nHD\r\n") else {
//!     panic!("a hit comes first");
//! };
//! assert_eq!((reply.code, reply.value), (*b"VA", Some(&b"hello"[..])));
//! assert_eq!(consumed, 16);
//! ```

use memchr::memchr;

use crate::command::{Fetch, Store};
use crate::lines::key::{UnsendableKey, check_sendable};
use crate::lines::line::{LINE_END, REPLY_LINE_BYTES_MAX};
use crate::number;
use crate::number::push_number;

/// Appends a meta get.
///
/// # Errors
/// [`UnsendableKey`]; `out` is unchanged.
pub fn fetch(out: &mut Vec<u8>, fetch: &Fetch<'_>) -> Result<(), UnsendableKey> {
    check_sendable(fetch.key)?;
    out.extend_from_slice(b"mg ");
    out.extend_from_slice(fetch.key);
    let letters = [(fetch.with_value, b" v"), (!fetch.noted, b" u")];
    letters.iter().filter(|(asked, _)| *asked).for_each(|(_, flag)| out.extend_from_slice(*flag));
    let tokens = [(b'N', fetch.vivify), (b'T', fetch.exptime), (b'R', fetch.recache)];
    for (letter, exptime) in tokens {
        if let Some(exptime) = exptime {
            out.extend_from_slice(&[b' ', letter]);
            push_number(out, exptime);
        }
    }
    for (letter, cas) in [(b'C', fetch.known_cas), (b'E', fetch.version)] {
        if let Some(cas) = cas {
            out.extend_from_slice(&[b' ', letter]);
            push_number(out, cas);
        }
    }
    out.extend_from_slice(LINE_END);
    Ok(())
}

/// Appends a meta set of `value` with its key, exptime and flags, without further conditions.
///
/// # Errors
/// [`UnsendableKey`]; `out` is unchanged.
pub fn store(out: &mut Vec<u8>, head: &Store<'_>, value: &[u8]) -> Result<(), UnsendableKey> {
    check_sendable(head.key)?;
    out.extend_from_slice(b"ms ");
    out.extend_from_slice(head.key);
    out.push(b' ');
    push_number(out, value.len());
    if head.exptime != 0 {
        out.extend_from_slice(b" T");
        push_number(out, head.exptime);
    }
    if head.flags != 0 {
        out.extend_from_slice(b" F");
        push_number(out, head.flags);
    }
    out.extend_from_slice(LINE_END);
    out.extend_from_slice(value);
    out.extend_from_slice(LINE_END);
    Ok(())
}

/// A reply. Borrows from the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// `HD`, `VA`, `EN`, `NS`, `EX`, `NF` or `MN`, or the first two letters of an error line.
    pub code: [u8; 2],
    /// The line, without its end.
    pub line: &'a [u8],
    /// The value that follows a `VA`.
    pub value: Option<&'a [u8]>,
}

/// The result of [`read_reply`].
pub type ParsedReply<'a> = crate::parsed_reply::ParsedReply<Reply<'a>>;

/// Reads the first reply of `input`. Keeps no state between calls.
pub fn read_reply(input: &[u8]) -> ParsedReply<'_> {
    let Some(newline) = memchr(b'\n', input) else {
        return match input.len() {
            ..=REPLY_LINE_BYTES_MAX => ParsedReply::NeedMore { bytes_min: input.len() as u64 + 1 },
            _ => ParsedReply::Bad,
        };
    };
    let (line, rest) = input.split_at(newline);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = line.split(|byte| *byte == b' ');
    let word = words.next().unwrap_or_default();
    let is_error = [&b"ERROR"[..], b"CLIENT_ERROR", b"SERVER_ERROR"].contains(&word);
    let Some(&code) = word.first_chunk::<2>().filter(|_| is_error || word.len() == 2) else {
        return ParsedReply::Bad;
    };
    let consumed = newline + 1;
    let reply = Reply { code, line, value: None };
    match &code {
        b"VA" => {}
        b"HD" | b"EN" | b"NS" | b"EX" | b"NF" | b"MN" => {
            return ParsedReply::Reply { reply, consumed };
        }
        _ if is_error => return ParsedReply::Reply { reply, consumed },
        _ => return ParsedReply::Bad,
    }
    let Some(value_bytes) = words.next().and_then(number::unsigned_32) else {
        return ParsedReply::Bad;
    };
    let block_bytes = u64::from(value_bytes) + LINE_END.len() as u64;
    let after_line = rest.get(1..).unwrap_or_default();
    let block = usize::try_from(block_bytes).ok().and_then(|bytes| after_line.get(..bytes));
    let Some(block) = block else {
        return ParsedReply::NeedMore { bytes_min: consumed as u64 + block_bytes };
    };
    match block.strip_suffix(LINE_END) {
        Some(value) => {
            let reply = Reply { value: Some(value), ..reply };
            ParsedReply::Reply { reply, consumed: consumed + block.len() }
        }
        None => ParsedReply::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_read_once_it_is_complete() {
        let input = b"VA 3 c9\r\nabc\r\nEN\r\n";
        let ParsedReply::Reply { reply, consumed } = read_reply(input) else { panic!("a reply") };
        assert_eq!((reply.value, consumed), (Some(&b"abc"[..]), 14));
        for cut in 0..14 {
            let reading = read_reply(&input[..cut]);
            let ParsedReply::NeedMore { bytes_min } = reading else { panic!("{cut}: {reading:?}") };
            assert!(bytes_min > cut as u64, "{cut}: {bytes_min} bytes are already there");
            assert!(bytes_min <= 14, "{cut}: {bytes_min} bytes exceed the reply");
        }
        let rest = Reply { code: *b"EN", line: b"EN", value: None };
        assert_eq!(read_reply(&input[14..]), ParsedReply::Reply { reply: rest, consumed: 4 });
    }

    #[test]
    fn other_lines_are_not_replies() {
        for bad in [&b"END\r\n"[..], b"\r\n", b"XX\r\n", b"VA\r\n", b"VA 1\r\nabc", b"HTTP\r\n"] {
            assert_eq!(read_reply(bad), ParsedReply::Bad, "{bad:?}");
        }
        let ParsedReply::Reply { reply, .. } = read_reply(b"SERVER_ERROR no\r\n") else {
            panic!("an error");
        };
        assert_eq!(reply.line, b"SERVER_ERROR no");
    }

    #[test]
    fn a_value_announced_at_four_gigabytes_asks_for_bytes_and_allocates_nothing() {
        let reading = read_reply(b"VA 4294967295\r\n");
        assert_eq!(reading, ParsedReply::NeedMore { bytes_min: 15 + 4_294_967_295 + 2 });
    }
}
