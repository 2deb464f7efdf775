//! Parses what the origin answers to a fetch.

use std::sync::Arc;

use larder::copies::{Fetched as FetchedItem, FlightResult};
use larder_protocol::follow::Fetched;

use super::link::{Lost, ReceiveTerms, garbled, line};
use super::reply::{VALUE_BYTES_MAX, is_error};

/// Parses the answer to a fetch.
pub(in crate::near) fn fetched(
    input: &[u8],
    value_bytes_max: usize,
) -> Result<Option<(usize, FlightResult)>, Lost> {
    let Some((line, head_bytes)) = line(input)? else { return Ok(None) };
    let result = match Fetched::read(line) {
        // The reader asks the origin itself, and receives its error.
        None if is_error(line) => FlightResult::Uncopied,
        None => return Err(garbled(line)),
        Some(Fetched::Absent { is_noted }) => FlightResult::Absent { is_noted },
        Some(Fetched::Uncopied) => FlightResult::Uncopied,
        Some(Fetched::Value { value_bytes, flags, cas, ttl_ms, is_noted }) => {
            if value_bytes > value_bytes_max {
                return Err(garbled(line));
            }
            let end = head_bytes + value_bytes;
            let Some(line_end) = input.get(end..end + 2) else { return Ok(None) };
            if line_end != b"\r\n" {
                return Err(garbled(line));
            }
            let value = input.get(head_bytes..end).unwrap_or_default().to_vec();
            let item = FetchedItem { value, flags, cas, ttl_ms, is_noted };
            return Ok(Some((end + 2, FlightResult::Value(Arc::new(item)))));
        }
    };
    Ok(Some((head_bytes, result)))
}

/// The answer to `gets`.
#[derive(Debug)]
pub(in crate::near) struct Got {
    /// How many bytes of the input belong to it.
    pub(in crate::near) bytes: usize,
    /// How many bytes of it follow that are not needed.
    pub(in crate::near) missing_bytes: usize,
    pub(in crate::near) result: FlightResult,
}

/// Parses the answer to `gets`; `None` if it is incomplete.
pub(in crate::near) fn got(
    input: &[u8],
    wanted: &[u8],
    terms: ReceiveTerms,
) -> Result<Option<Got>, Lost> {
    let Some((line, head_bytes)) = line(input)? else { return Ok(None) };
    let whole = |bytes, result| Ok(Some(Got { bytes, missing_bytes: 0, result }));
    if line == b"END" {
        return whole(head_bytes, FlightResult::Absent { is_noted: false });
    }
    if is_error(line) {
        // The reader asks the origin itself, and receives its error.
        return whole(head_bytes, FlightResult::Uncopied);
    }
    let (flags, value_bytes, cas) = item_line(line, wanted).ok_or_else(|| garbled(line))?;
    // memcached may be configured for longer flags.
    let flags = u32::try_from(flags);
    let end = head_bytes + value_bytes;
    let all = end + ITEM_END.len();
    let (Ok(flags), true) = (flags, value_bytes <= terms.value_bytes_max.max(GOT_BYTES_MAX)) else {
        let bytes = input.len().min(all);
        let (missing_bytes, result) = (all - bytes, FlightResult::Uncopied);
        return Ok(Some(Got { bytes, missing_bytes, result }));
    };
    let Some(item_end) = input.get(end..all) else { return Ok(None) };
    if item_end != ITEM_END {
        return Err(garbled(line));
    }
    let value = input.get(head_bytes..end).unwrap_or_default().to_vec();
    let item = FetchedItem { value, flags, cas, ttl_ms: Some(terms.ttl_ms), is_noted: true };
    whole(all, FlightResult::Value(Arc::new(item)))
}

/// Parses the line of an item: its flags, the length of its value, and its cas token.
fn item_line(line: &[u8], wanted: &[u8]) -> Option<(u64, usize, u64)> {
    let rest = line.strip_prefix(b"VALUE ")?.strip_prefix(wanted)?.strip_prefix(b" ")?;
    let mut words = std::str::from_utf8(rest).ok()?.split(' ');
    let flags = words.next()?.parse().ok()?;
    let value_bytes = words.next()?.parse().ok().filter(|bytes| *bytes <= VALUE_BYTES_MAX)?;
    let cas = words.next()?.parse().ok()?;
    words.next().is_none().then_some((flags, value_bytes, cas))
}

/// What follows the value of a single item.
const ITEM_END: &[u8] = b"\r\nEND\r\n";

/// The longest value that is fetched in one piece even if it is not copied: the origin cannot be
/// asked for short values only.
const GOT_BYTES_MAX: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: ReceiveTerms = ReceiveTerms { value_bytes_max: 100, deadline_ms: 0, ttl_ms: 1000 };

    #[test]
    fn an_answer_to_gets_is_parsed_once_it_is_complete() {
        let answer = b"VALUE k 7 3 99\r\nabc\r\nEND\r\n";
        for bytes in 0..answer.len() {
            assert!(got(&answer[..bytes], b"k", TERMS).unwrap().is_none(), "with {bytes} bytes");
        }
        for more in [&b""[..], b"VALUE k"] {
            let found = got(&[&answer[..], more].concat(), b"k", TERMS).unwrap().unwrap();
            assert_eq!((found.bytes, found.missing_bytes), (answer.len(), 0));
            let FlightResult::Value(item) = found.result else { panic!("{found:?}") };
            assert_eq!((&*item.value, item.flags, item.cas), (&b"abc"[..], 7, 99));
            assert_eq!((item.ttl_ms, item.is_noted), (Some(1000), true));
        }
        let absent = got(b"END\r\n", b"k", TERMS).unwrap().unwrap();
        assert!(matches!(absent.result, FlightResult::Absent { is_noted: false }));
        let refused = got(b"SERVER_ERROR no\r\n", b"k", TERMS).unwrap().unwrap();
        assert!(matches!((refused.bytes, refused.result), (17, FlightResult::Uncopied)));
    }

    #[test]
    fn values_that_are_too_long_and_flags_of_64_bits_are_skipped() {
        for (head, value_bytes) in
            [("VALUE k 0 2000000 1", 2_000_000), ("VALUE k 4294967296 3 1", 3)]
        {
            let answer = [head.as_bytes(), b"\r\n", &vec![0; value_bytes], ITEM_END].concat();
            for bytes in [head.len() + 2, head.len() + 4, answer.len()] {
                let found = got(&answer[..bytes], b"k", TERMS).unwrap().unwrap();
                assert_eq!((found.bytes, found.missing_bytes), (bytes, answer.len() - bytes));
                assert!(matches!(found.result, FlightResult::Uncopied));
            }
        }
    }

    #[test]
    fn other_answers_to_gets_are_refused() {
        for answer in [
            "VALUE other 0 1 1\r\na\r\nEND\r\n",
            "VALUE k 0 1\r\na\r\nEND\r\n",
            "VALUE k 0 -1 1\r\na\r\nEND\r\n",
            "VALUE k 0 99999999999 1\r\n",
            "VALUE k 0 18446744073709551615 1\r\n",
            "VALUE k 0 1 1 1\r\na\r\nEND\r\n",
            "VALUE k 0 1 1\r\nab\r\nEND\r\n",
            "VALUE k 0 1 1\r\na\r\nVALUE\r\n",
            "STORED\r\n",
            "\r\n",
        ] {
            assert!(got(answer.as_bytes(), b"k", TERMS).is_err(), "{answer:?}");
        }
    }
}
