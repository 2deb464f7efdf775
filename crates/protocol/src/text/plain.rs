//! Parses the usual form of a store in one pass. [`Arguments`](super::arguments::Arguments) handles
//! other forms and all refusals.

use larder_item::{KEY_BYTES_MAX, StoreMode};
use memchr::memchr;

use crate::command::Store;
use crate::lines::line::VALUE_BYTES_MAX;

/// Parses `<key> <flags> <exptime> <bytes>[ noreply]`: single spaces, numbers without signs. The
/// second value is true with `noreply`.
#[inline(always)] // Keeps the parts of the result in registers instead of storing and reloading it.
pub(super) fn store(text: &[u8], mode: StoreMode) -> Option<(Store<'_>, bool)> {
    let key_bytes = memchr(b' ', text).filter(|bytes| (1..=KEY_BYTES_MAX).contains(bytes))?;
    let (key, rest) = text.split_at(key_bytes);
    let (flags, rest) = number(rest)?;
    let (exptime, rest) = number(rest)?;
    let (value_bytes, rest) = number(rest)?;
    let quiet = !rest.is_empty();
    if quiet && rest != b" noreply" || value_bytes > VALUE_BYTES_MAX as u64 {
        return None;
    }
    let store = Store {
        key,
        mode,
        flags: u32::try_from(flags).ok()?,
        exptime: i32::try_from(exptime).ok()?.into(),
        value_bytes: value_bytes as usize,
        ..Store::PLAIN
    };
    Some((store, quiet))
}

/// Splits off a space and a number of at most [`DIGITS_MAX`] digits.
#[inline(always)] // Like `store`.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.strip_prefix(b" ")?;
    let (mut number, mut count) = (0, 0);
    while let Some(byte) = digits.get(count)
        && let digit @ 0..=9 = byte.wrapping_sub(b'0')
    {
        if count == DIGITS_MAX {
            return None;
        }
        number = number * 10 + u64::from(digit);
        count += 1;
    }
    if count == 0 { None } else { Some((number, digits.get(count..)?)) }
}

/// The digits of the largest number below 2^32.
const DIGITS_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::super::arguments::Arguments;
    use super::*;
    use crate::command::Command;
    use crate::frame::Frame;
    use crate::lines::words::Words;
    use crate::parsed::Parsed;

    /// Returns the result of the parser for all forms.
    fn read_closely(text: &[u8]) -> Option<(Store<'_>, bool)> {
        let arguments = Arguments { words: Words::begun(text), consumed: 0 };
        match arguments.store(StoreMode::Set, false) {
            Parsed::Command {
                command: Command::Store(store),
                frame: Frame::Text { quiet },
                ..
            } => Some((store, quiet)),
            _ => None,
        }
    }

    #[test]
    fn usual_stores_are_parsed_in_one_pass() {
        let lines: [&[u8]; 4] =
            [b"k 0 0 100", b"k 4294967295 2147483647 2147483645", b"k 1 2 3 noreply", b"\tk 0 0 0"];
        for line in lines {
            let read = store(line, StoreMode::Set);
            assert!(read.is_some(), "{}", line.escape_ascii());
            assert_eq!(read, read_closely(line), "{}", line.escape_ascii());
        }
    }

    /// The two parsers never disagree: if this parser accepts a line, the other one accepts it with
    /// the same result.
    #[test]
    fn the_one_pass_parser_agrees_with_the_full_parser() {
        let long = "k".repeat(251);
        let keys = ["k", "", " k", long.as_str()];
        let numbers = ["0", "7", "", "-1", "+1", "4294967296", "00000000001", "9999999999", "1x"];
        let ends = ["", " noreply", "  noreply", " ", " norepl", " 5", " noreply "];
        for (key, flags) in keys.iter().flat_map(|key| numbers.map(|flags| (key, flags))) {
            for (exptime, bytes) in numbers.iter().flat_map(|n| numbers.map(|bytes| (n, bytes))) {
                for end in ends {
                    let line = format!("{key} {flags} {exptime} {bytes}{end}");
                    let read = store(line.as_bytes(), StoreMode::Set);
                    assert!(read.is_none() || read == read_closely(line.as_bytes()), "{line:?}");
                }
            }
        }
    }
}
