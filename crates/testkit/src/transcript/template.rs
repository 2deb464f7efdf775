//! Bytes with placeholders: the text of one transcript line.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

/// The text of one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Bytes(Vec<u8>),
    /// `<cas1>`: a number with a name. The first received number is assigned to the name; later
    /// ones must equal it.
    Number(String),
    /// `<now-5>`: the Unix time plus this many seconds.
    Now(i64),
    /// `<digits>`: any number.
    Digits,
    /// `<1..3>`: a number from the first to the second.
    Within(u64, u64),
    /// `<version>`: digits and dots.
    Version,
    /// `<text>`: any bytes up to the next part.
    Text,
}

/// The received numbers, by name.
#[derive(Clone, Debug, Default)]
pub struct Numbers(BTreeMap<String, Vec<u8>>);

impl Template {
    /// Parses the text of a line. Appends `\r\n` unless the text ends in a backslash.
    ///
    /// # Errors
    /// Names the invalid escape or placeholder.
    pub fn parse(text: &str) -> Result<Self> {
        let mut template = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find(['\\', '<']) {
            template.push_bytes(&rest.as_bytes()[..at]);
            let place = &rest[at..];
            if place == "\\" {
                return Ok(template);
            }
            rest = match place.strip_prefix('\\') {
                Some(escape) => template.push_escape(escape)?,
                None => template.push_place(&place[1..])?,
            };
        }
        template.push_bytes(rest.as_bytes());
        template.push_bytes(b"\r\n");
        Ok(template)
    }

    /// Creates a template of exactly these bytes.
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        let mut template = Self::default();
        template.push_bytes(bytes);
        template
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            _ if bytes.is_empty() => {}
            Some(Part::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.0.push(Part::Bytes(bytes.to_vec())),
        }
    }

    /// Parses the text after a backslash and returns the rest.
    fn push_escape<'a>(&mut self, escape: &'a str) -> Result<&'a str> {
        let (byte, rest) = unescape(escape)?;
        self.push_bytes(&[byte]);
        Ok(rest)
    }

    /// Parses the text after a `<` and returns the rest.
    fn push_place<'a>(&mut self, place: &'a str) -> Result<&'a str> {
        if let Some(quoted) = place.strip_prefix('"') {
            return self.push_repetition(quoted);
        }
        let (name, rest) = place.split_once('>').context("a `<` without its `>`")?;
        let is_word = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        self.0.push(match name {
            "digits" => Part::Digits,
            "version" => Part::Version,
            "text" => Part::Text,
            _ if is_word && name != "now" => Part::Number(name.into()),
            _ if name.contains("..") => range(name)?,
            _ => {
                let offset_secs =
                    name.strip_prefix("now").and_then(|offset| offset.parse().ok()).with_context(
                        || format!("`<{name}>` is not a placeholder: write `\\<` for `<`"),
                    )?;
                Part::Now(offset_secs)
            }
        });
        Ok(rest)
    }

    /// Parses the `abc"*3>` of `<"abc"*3>` and returns the rest.
    fn push_repetition<'a>(&mut self, quoted: &'a str) -> Result<&'a str> {
        let mut bytes = Vec::new();
        let mut rest = quoted;
        loop {
            let at = rest.find(['\\', '"']).context("a repetition without its closing quote")?;
            bytes.extend_from_slice(&rest.as_bytes()[..at]);
            if rest[at..].starts_with('"') {
                rest = &rest[at + 1..];
                break;
            }
            let (byte, behind) = unescape(&rest[at + 1..])?;
            bytes.push(byte);
            rest = behind;
        }
        let (count, rest) = rest
            .strip_prefix('*')
            .and_then(|rest| rest.split_once('>'))
            .context("expected a repetition such as `<\"text\"*count>`")?;
        let count: usize = count.parse().with_context(|| format!("`{count}` times"))?;
        ensure!(
            bytes.len().saturating_mul(count) <= REPETITION_BYTES_MAX,
            "a repetition of more than {REPETITION_BYTES_MAX} bytes"
        );
        self.push_bytes(&bytes.repeat(count));
        Ok(rest)
    }

    /// Returns the bytes to send.
    ///
    /// # Errors
    /// A number has not been received yet, or a part is a pattern.
    pub fn fill_in(&self, numbers: &Numbers) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for part in &self.0 {
            match part {
                Part::Bytes(part) => bytes.extend_from_slice(part),
                Part::Number(name) => {
                    let number = numbers.0.get(name);
                    bytes.extend_from_slice(
                        number.with_context(|| format!("`<{name}>` has not been received yet"))?,
                    );
                }
                Part::Now(offset_secs) => bytes.extend_from_slice(&now_plus(*offset_secs)?),
                Part::Digits | Part::Within(..) | Part::Version | Part::Text => {
                    bail!("cannot send a pattern")
                }
            }
        }
        Ok(bytes)
    }

    /// Returns the bytes to receive; `None` if the template has placeholders.
    pub fn exact(&self) -> Option<&[u8]> {
        match &self.0[..] {
            [Part::Bytes(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// Returns true if a received line matches. Assigns the received values to numbers that are
    /// named for the first time.
    pub fn matches(&self, line: &[u8], numbers: &mut Numbers) -> bool {
        let mut rest = line;
        for (index, part) in self.0.iter().enumerate() {
            let length = match part {
                Part::Bytes(bytes) if rest.starts_with(bytes) => bytes.len(),
                Part::Bytes(_) | Part::Now(_) => return false,
                Part::Digits | Part::Within(..) | Part::Number(_) => {
                    leading(rest, |byte| byte.is_ascii_digit())
                }
                Part::Version => leading(rest, |byte| byte.is_ascii_digit() || byte == b'.'),
                Part::Text => match self.0.get(index + 1) {
                    Some(Part::Bytes(end)) => find(rest, end).unwrap_or(rest.len()),
                    _ => rest.len(),
                },
            };
            let (found, behind) = rest.split_at(length);
            if found.is_empty() && !matches!(part, Part::Text) {
                return false;
            }
            if let Part::Within(from, to) = part
                && !is_within(found, *from, *to)
            {
                return false;
            }
            if let Part::Number(name) = part
                && !numbers.agrees(name, found)
            {
                return false;
            }
            rest = behind;
        }
        rest.is_empty()
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.0 {
            match part {
                Part::Bytes(bytes) if bytes.len() > SHOWN_BYTES => {
                    let (shown, more) = (&bytes[..SHOWN_BYTES], bytes.len() - SHOWN_BYTES);
                    write!(f, "{} …{more} bytes more… ", shown.escape_ascii())?;
                }
                Part::Bytes(bytes) => write!(f, "{}", bytes.escape_ascii())?,
                Part::Number(name) => write!(f, "<{name}>")?,
                Part::Now(offset_secs) => write!(f, "<now{offset_secs:+}>")?,
                Part::Digits => f.write_str("<digits>")?,
                Part::Within(from, to) => write!(f, "<{from}..{to}>")?,
                Part::Version => f.write_str("<version>")?,
                Part::Text => f.write_str("<text>")?,
            }
        }
        Ok(())
    }
}

impl Numbers {
    /// Checks that a name always has the same number, and that different names have different
    /// numbers.
    fn agrees(&mut self, name: &str, found: &[u8]) -> bool {
        match self.0.get(name) {
            Some(number) => number == found,
            None if self.0.values().any(|number| number == found) => false,
            None => {
                self.0.insert(name.into(), found.to_vec());
                true
            }
        }
    }
}

/// Returns the byte of the escape after a backslash, and the rest.
fn unescape(escape: &str) -> Result<(u8, &str)> {
    let name = escape.chars().next().context("a backslash at the end of quoted text")?;
    let rest = &escape[name.len_utf8()..];
    Ok(match name {
        'r' => (b'\r', rest),
        'n' => (b'\n', rest),
        't' => (b'\t', rest),
        '0' => (0, rest),
        '\\' | '<' | '"' => (name as u8, rest),
        'x' => {
            let digits = rest.get(..2).context("expected two digits after `\\x`")?;
            let byte = u8::from_str_radix(digits, 16)
                .with_context(|| format!("`\\x{digits}` is not hexadecimal"))?;
            (byte, &rest[2..])
        }
        _ => bail!("`\\{name}` is not an escape: expected \\r \\n \\t \\0 \\\\ \\< \\\" \\xHH"),
    })
}

/// Parses the `1..3` of `<1..3>`.
fn range(name: &str) -> Result<Part> {
    let numbers = name.split_once("..").map(|(from, to)| (from.parse(), to.parse()));
    match numbers {
        Some((Ok(from), Ok(to))) if from <= to => Ok(Part::Within(from, to)),
        _ => bail!("`<{name}>` is not a range of numbers such as `<1..3>`"),
    }
}

fn is_within(digits: &[u8], from: u64, to: u64) -> bool {
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.is_some_and(|number| (from..=to).contains(&number))
}

fn now_plus(offset_secs: i64) -> Result<Vec<u8>> {
    let now_secs = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    Ok((now_secs + offset_secs).to_string().into_bytes())
}

fn leading(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&byte| !wanted(byte)).unwrap_or(bytes.len())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

const REPETITION_BYTES_MAX: usize = 64 << 20;
const SHOWN_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        Template::parse(text).unwrap().fill_in(&Numbers::default()).unwrap()
    }

    #[test]
    fn a_line_gets_its_end_unless_it_ends_in_a_backslash() {
        assert_eq!(bytes("get k"), b"get k\r\n");
        assert_eq!(bytes("get k\\n\\"), b"get k\n");
        assert_eq!(bytes("\\"), b"");
    }

    #[test]
    fn escapes_and_repetitions_stand_for_bytes() {
        assert_eq!(bytes(r#"\x80\0\<\\<"a\x62"*3>z"#), b"\x80\0<\\abababz\r\n");
    }

    #[test]
    fn an_error_names_the_invalid_part() {
        for (text, part) in [
            ("\\q", "\\q"),
            ("<Cas>", "<Cas>"),
            ("<\"a\"3>", "count"),
            ("<a", ">"),
            ("<3..1>", "3..1"),
        ] {
            let error = format!("{:#}", Template::parse(text).unwrap_err());
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn one_name_is_one_number_and_two_names_are_two() {
        let (one, two) = (Template::parse("<cas1>").unwrap(), Template::parse("<cas2>").unwrap());
        let mut numbers = Numbers::default();
        assert!(one.matches(b"17\r\n", &mut numbers));
        assert!(one.matches(b"17\r\n", &mut numbers));
        assert!(!one.matches(b"18\r\n", &mut numbers));
        assert!(!two.matches(b"17\r\n", &mut numbers));
        assert!(two.matches(b"18\r\n", &mut numbers));
        assert_eq!(two.fill_in(&numbers).unwrap(), b"18\r\n");
    }

    #[test]
    fn patterns_match_text_of_their_kind() {
        let template = Template::parse("VERSION <version> is <text> <digits>").unwrap();
        let mut numbers = Numbers::default();
        assert!(template.matches(b"VERSION 1.6.45 is any 7\r\n", &mut numbers));
        assert!(!template.matches(b"VERSION x is any 7\r\n", &mut numbers));
        assert!(!template.matches(b"VERSION 1.6.45 is any x\r\n", &mut numbers));
    }

    #[test]
    fn a_range_matches_the_numbers_in_it() {
        let (template, mut numbers) = (Template::parse("l<1..3>").unwrap(), Numbers::default());
        for (line, is_match) in [("l0", false), ("l1", true), ("l3", true), ("l4", false)] {
            let line = format!("{line}\r\n");
            assert_eq!(template.matches(line.as_bytes(), &mut numbers), is_match, "{line}");
        }
    }
}
