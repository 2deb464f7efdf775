//! Values of options, and how messages show them.

use std::fmt::{self, Display, Write};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Returns a parser of whole numbers. Its error names the numbers that it accepts.
pub fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: Copy + Display + FromStr + PartialOrd,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!("expected a whole number from {} to {}", range.start(), range.end())
        })
    }
}

/// Parses the exponent of a Zipf distribution.
///
/// # Errors
/// The text is not a number from 0 to 10. The message names this range.
pub fn skew(text: &str) -> Result<f64, String> {
    let skew = text.parse().ok().filter(|skew| (0.0..=10.0).contains(skew));
    skew.ok_or_else(|| "expected a number from 0 to 10".to_owned())
}

/// Formats untrusted bytes for a message: in quotes, on one line, and without control characters,
/// so that they cannot look like a part of the message or change the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a [u8]);

impl<'a> Quoted<'a> {
    /// Quotes a string.
    pub fn text(text: &'a str) -> Self {
        Self(text.as_bytes())
    }
}

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '"' | '\\' => write!(f, "\\{character}")?,
                    '\n' => f.write_str("\\n")?,
                    '\r' => f.write_str("\\r")?,
                    '\t' => f.write_str("\\t")?,
                    _ if is_visible(character) => f.write_char(character)?,
                    _ => character
                        .encode_utf8(&mut [0; 4])
                        .bytes()
                        .try_for_each(|byte| write!(f, "\\x{byte:02x}"))?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        f.write_char('"')
    }
}

/// True for characters with a visible width. Other characters may change the direction of a line.
fn is_visible(character: char) -> bool {
    let is_formatting = matches!(
        character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    !character.is_control() && !is_formatting
}

/// Returns a number with its noun in singular or plural: `1 item`, `2 items`.
pub fn counted(number: u64, noun: &str) -> String {
    let (rest, ending) = match noun.strip_suffix('y') {
        _ if number == 1 => (noun, ""),
        Some(rest) if !rest.ends_with(['a', 'e', 'o']) => (rest, "ies"),
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("ch") => (noun, "es"),
        _ => (noun, "s"),
    };
    format!("{number} {rest}{ending}")
}

/// Returns a number with its noun and verb: `1 item was`, `2 items were`.
pub fn were(number: u64, noun: &str) -> String {
    format!("{} {}", counted(number, noun), agree(number, "was", "were"))
}

/// Returns the form of a verb that fits a number: `1 item is`, `2 items are`.
pub fn agree(number: u64, one: &'static str, many: &'static str) -> &'static str {
    if number == 1 { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_lies_in_its_range() {
        let parse = whole(1..=60_u32);
        assert_eq!((parse("1"), parse("60")), (Ok(1), Ok(60)));
        for bad in ["", "0", "61", "0.1", "-1", "abc", "1s", " 1", "99999999999999999999"] {
            let expected = parse(bad).unwrap_err();
            assert_eq!(expected, "expected a whole number from 1 to 60", "{bad:?}");
        }
    }

    #[test]
    fn foreign_bytes_stay_in_their_quotes() {
        for (bytes, shown) in [
            (&b"user:1"[..], r#""user:1""#),
            ("größe 漢".as_bytes(), "\"größe 漢\""),
            (b"a b\r\n\t", r#""a b\r\n\t""#),
            (b"\"\\", r#""\"\\""#),
            (b"\x1b]0;x\x07", r#""\x1b]0;x\x07""#),
            (b"\xff\x80a", r#""\xff\x80a""#),
            ("\u{202e}x".as_bytes(), r#""\xe2\x80\xaex""#),
        ] {
            assert_eq!(Quoted(bytes).to_string(), shown);
        }
    }

    #[test]
    fn one_has_no_plural() {
        assert_eq!(counted(1, "item"), "1 item");
        assert_eq!(
            (were(1, "item"), were(0, "item")),
            ("1 item was".into(), "0 items were".into())
        );
        for (number, noun, text) in [
            (0, "item", "0 items"),
            (2, "process", "2 processes"),
            (2, "entry", "2 entries"),
            (2, "key", "2 keys"),
            (1, "process", "1 process"),
        ] {
            assert_eq!(counted(number, noun), text);
        }
    }
}
