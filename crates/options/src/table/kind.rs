//! The kinds of option values: parses texts into values and shows values as text.

use std::fmt::Write;

use crate::value::admin::{self, AdminListen};
use crate::value::cluster::{CLUSTER_NAME_EXPECTED, ClusterName};
use crate::value::durability::Durability;
use crate::value::duration::{DURATION_EXPECTED, duration};
use crate::value::file_size::{self, FILE_SIZE_EXPECTED};
use crate::value::forms::{form_of, one_of};
use crate::value::listen::{self, Listen};
use crate::value::origin::{self, ORIGINS_EXPECTED};
use crate::value::readers::LocalReaders;

/// The kind of values an option takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// On or off; no argument on the command line.
    Switch,
    /// The number of occurrences; no argument on the command line.
    Count,
    /// An integer within limits.
    Number { min: i64, max: i64 },
    /// A number above one limit and up to another.
    Real { above: f64, max: f64 },
    /// An amount of memory in bytes: a number of units of `unit` bytes, or a number with k, m or g
    /// after it.
    Bytes { unit: u64, min: u64, max: u64 },
    /// An amount of memory in MiB as in `Bytes`, or a percentage of the memory of the process.
    Memory { min: u64, max: u64 },
    /// File permissions, in octal.
    Mask,
    /// An ASCII character: the first one of the text.
    Character,
    /// Ascending sizes in bytes, separated by `-`.
    Sizes,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text that is not empty.
    Text,
    /// A path.
    Path,
    /// Addresses to listen on.
    Listen,
    /// Admin listeners.
    AdminListen,
    /// The processes that may read the memory: see [`crate::LocalReaders`].
    Readers,
    /// When a change survives a power loss: see [`crate::Durability`].
    Durability,
    /// A number with the unit us, ms or s.
    Duration,
    /// A list of origins: see [`origin::Origin`].
    Origins,
    /// The DNS name of the servers of a cluster: see [`ClusterName`].
    ClusterName,
    /// The path of a file and its size, separated by a colon.
    FileSize,
}

/// A value that its kind has accepted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Switch(bool),
    Number(i64),
    Real(f64),
    Bytes(u64),
    /// From 1 to 100.
    Percent(u8),
    Mask(u32),
    Text(String),
    Sizes(Vec<u32>),
    Listen(Vec<Listen>),
    AdminListen(Vec<AdminListen>),
}

impl Kind {
    /// Parses a value.
    ///
    /// # Errors
    /// The expected form.
    pub(crate) fn parse(self, text: &str) -> Result<Value, String> {
        let trimmed = text.trim_ascii_start();
        let value = match self {
            Self::Switch => switch(trimmed).map(Value::Switch),
            Self::Count => number(trimmed, 0, COUNT_MAX).map(Value::Number),
            Self::Number { min, max } => number(trimmed, min, max).map(Value::Number),
            Self::Real { above, max } => real(trimmed, above, max).map(Value::Real),
            Self::Bytes { unit, min, max } => bytes(trimmed, unit, min, max).map(Value::Bytes),
            Self::Memory { min, max } => match trimmed.strip_suffix('%') {
                Some(percent) => number(percent, 1, 100).map(|of| Value::Percent(of as u8)),
                None => bytes(trimmed, MEBIBYTE, min, max).map(Value::Bytes),
            },
            Self::Mask => mask(trimmed).map(Value::Mask),
            Self::Character => {
                let first = text.chars().next().filter(char::is_ascii);
                first.map(|first| Value::Text(first.into()))
            }
            Self::Sizes => sizes(trimmed).map(Value::Sizes),
            Self::Choice(words) => {
                form_of(words, trimmed).map(|(word, _)| Value::Text(word.to_owned()))
            }
            Self::Text | Self::Path => {
                (!trimmed.is_empty()).then(|| Value::Text(trimmed.to_owned()))
            }
            Self::FileSize => {
                file_size::file_size(trimmed).map(|_| Value::Text(trimmed.to_owned()))
            }
            Self::Durability => Durability::parse(trimmed).map(|_| Value::Text(trimmed.to_owned())),
            Self::Duration => duration(trimmed).map(|_| Value::Text(trimmed.to_owned())),
            Self::Readers => LocalReaders::parse(trimmed).map(|_| Value::Text(trimmed.to_owned())),
            Self::Origins => {
                origin::Origin::parse_list(trimmed).map(|_| Value::Text(trimmed.to_owned()))
            }
            Self::ClusterName => {
                ClusterName::parse(trimmed).map(|_| Value::Text(trimmed.to_owned()))
            }
            Self::Listen => return listen::parse(trimmed).map(Value::Listen),
            Self::AdminListen => return admin::parse(trimmed).map(Value::AdminListen),
        };
        value.ok_or_else(|| self.expected())
    }

    /// Returns the allowed values, as errors and docs/options.md show them.
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Switch => one_of(self.forms()),
            Self::Count => format!("a number from 0 to {COUNT_MAX}"),
            Self::Number { min, max } if min == max => format!("{min}"),
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::Real { above, max } if max == f64::MAX => format!("a number above {above}"),
            Self::Real { above, max } => format!("a number above {above}, up to {max}"),
            Self::Bytes { unit, min, max } => format!(
                "a number of {} from {} to {}, or one with k, m or g after it",
                if unit == MEBIBYTE { "MiB" } else { "bytes" },
                min / unit,
                max / unit
            ),
            Self::Memory { min, max } => format!(
                "a number of MiB from {} to {}, one with k, m or g after it, or a percentage from \
                 1% to 100%",
                min / MEBIBYTE,
                max / MEBIBYTE
            ),
            Self::Mask => "an octal number from 0 to 777".to_owned(),
            Self::Character => "a character of ASCII".to_owned(),
            Self::Sizes => format!(
                "a list like 96-120-152 of at most {SIZE_COUNT_MAX} sizes in bytes, each more than \
                 {SIZE_STEP_BYTES} above the one before"
            ),
            Self::Text => "a text".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Listen => listen::EXPECTED.to_owned(),
            Self::AdminListen => admin::EXPECTED.to_owned(),
            Self::Choice(_) | Self::Readers => one_of(self.forms()),
            Self::Durability => {
                format!("{}, with MS {}", one_of(self.forms()), Durability::INTERVALS)
            }
            Self::Duration => DURATION_EXPECTED.to_owned(),
            Self::Origins => ORIGINS_EXPECTED.to_owned(),
            Self::ClusterName => CLUSTER_NAME_EXPECTED.to_owned(),
            Self::FileSize => FILE_SIZE_EXPECTED.to_owned(),
        }
    }

    /// Returns the allowed forms if the value is one of a few words; otherwise empty. See
    /// `value/forms.rs`.
    pub(crate) fn forms(self) -> &'static [&'static str] {
        match self {
            Self::Switch => &SWITCH_WORDS,
            Self::Choice(words) => words,
            Self::Readers => LocalReaders::FORMS,
            Self::Durability => Durability::FORMS,
            _ => &[],
        }
    }

    /// Returns the placeholder of the argument in `-h`; empty for options without an argument.
    pub(crate) fn argument(self) -> &'static str {
        match self {
            Self::Switch | Self::Count => "",
            Self::Number { .. } | Self::Real { .. } | Self::Bytes { .. } | Self::Memory { .. } => {
                "<num>"
            }
            Self::Mask => "<mask>",
            Self::Character => "<char>",
            Self::Sizes => "<sizes>",
            Self::Choice(_) | Self::ClusterName => "<name>",
            Self::Text => "<text>",
            Self::Path => "<file>",
            Self::Listen | Self::AdminListen | Self::Origins => "<addr>",
            Self::Readers | Self::Durability => "<mode>",
            Self::Duration => "<time>",
            Self::FileSize => "<file:size>",
        }
    }

    /// True if the option takes an argument on the command line.
    pub(crate) fn takes_argument(self) -> bool {
        !self.argument().is_empty()
    }

    /// Combines two values of an option that is given twice in one source: lists and counts add up,
    /// otherwise the later value counts.
    pub(crate) fn repeated(self, earlier: Value, later: Value) -> Value {
        match (self, earlier, later) {
            (Self::Count, Value::Number(earlier), Value::Number(later)) => {
                Value::Number((earlier + later).min(COUNT_MAX))
            }
            (Self::Listen, Value::Listen(mut list), Value::Listen(later)) => {
                list.extend(later);
                Value::Listen(list)
            }
            (Self::AdminListen, Value::AdminListen(mut list), Value::AdminListen(later)) => {
                list.extend(later);
                Value::AdminListen(list)
            }
            (_, _, later) => later,
        }
    }

    /// Returns the value in TOML syntax.
    pub(crate) fn toml(self, value: &Value) -> String {
        match value {
            Value::Switch(on) => on.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Real(number) => format!("{number:?}"),
            Value::Bytes(bytes) => match self {
                Self::Bytes { unit, .. } if bytes % unit == 0 => (bytes / unit).to_string(),
                Self::Memory { .. } if bytes % MEBIBYTE == 0 => (bytes / MEBIBYTE).to_string(),
                _ => format!("\"{}k\"", bytes / KIBIBYTE),
            },
            Value::Percent(percent) => format!("\"{percent}%\""),
            Value::Mask(mask) => format!("\"{mask:o}\""),
            Value::Text(text) => quoted(text),
            Value::Sizes(sizes) => quoted(&sizes_text(sizes)),
            Value::Listen(list) => quoted(&listen::text(list)),
            Value::AdminListen(list) => quoted(&admin::text(list)),
        }
    }
}

fn switch(text: &str) -> Option<bool> {
    let at = SWITCH_WORDS.iter().position(|word| *word == text)?;
    Some(at % 2 == 0)
}

/// The spellings of on and off, alternately.
const SWITCH_WORDS: [&str; 8] = ["yes", "no", "true", "false", "on", "off", "1", "0"];

fn number(text: &str, min: i64, max: i64) -> Option<i64> {
    text.parse().ok().filter(|number| (min..=max).contains(number))
}

fn real(text: &str, above: f64, max: f64) -> Option<f64> {
    text.parse().ok().filter(|number| *number > above && *number <= max)
}

fn bytes(text: &str, unit: u64, min: u64, max: u64) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], KIBIBYTE),
        b'm' | b'M' => (&text[..text.len() - 1], MEBIBYTE),
        b'g' | b'G' => (&text[..text.len() - 1], GIBIBYTE),
        _ => (text, unit),
    };
    let count: u64 = digits.parse().ok()?;
    count.checked_mul(unit).filter(|bytes| (min..=max).contains(bytes))
}

fn mask(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().filter(|mask| *mask <= 0o777)
}

fn sizes(text: &str) -> Option<Vec<u32>> {
    let sizes: Vec<u32> = text.split('-').map(|size| size.parse().ok()).collect::<Option<_>>()?;
    let starts_above = |below: u32, size: u32| size > below.saturating_add(SIZE_STEP_BYTES);
    let rises = sizes.windows(2).all(|pair| starts_above(pair[0], pair[1]));
    let fits = sizes.len() <= SIZE_COUNT_MAX && starts_above(0, sizes[0]);
    (rises && fits).then_some(sizes)
}

/// Returns the list as `-o slab_sizes` takes it.
fn sizes_text(sizes: &[u32]) -> String {
    sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join("-")
}

/// Returns the text as a TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character.is_control() => {
                write!(quoted, "\\u{:04X}", u32::from(character))
                    .expect("writing to a String cannot fail");
            }
            character => quoted.push(character),
        }
    }
    quoted + "\""
}

pub(crate) const KIBIBYTE: u64 = 1 << 10;
pub(crate) const MEBIBYTE: u64 = 1 << 20;
pub(crate) const GIBIBYTE: u64 = 1 << 30;
pub(crate) const TEBIBYTE: u64 = 1 << 40;
const COUNT_MAX: i64 = 255;
/// memcached has 63 size classes; the last one is the largest chunk.
const SIZE_COUNT_MAX: usize = 62;
/// memcached aligns its chunks to this many bytes.
const SIZE_STEP_BYTES: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_of_memory_has_a_unit_or_a_suffix() {
        let kind = Kind::Bytes { unit: MEBIBYTE, min: MEBIBYTE, max: TEBIBYTE };
        for (text, bytes) in
            [("64", 64 * MEBIBYTE), ("1g", GIBIBYTE), (" 1536K", 1536 * KIBIBYTE), ("2M", 2 << 20)]
        {
            assert_eq!(kind.parse(text), Ok(Value::Bytes(bytes)), "{text}");
        }
        for bad in ["", "k", "0", "-5", "1t", "1.5g", "18446744073709551615g", "1100000"] {
            let expected = "a number of MiB from 1 to 1048576, or one with k, m or g after it";
            assert_eq!(kind.parse(bad), Err(expected.to_owned()), "{bad:?}");
        }
    }

    #[test]
    fn the_memory_of_a_cache_may_be_a_percentage() {
        let kind = Kind::Memory { min: MEBIBYTE, max: TEBIBYTE };
        assert_eq!(kind.parse("64"), Ok(Value::Bytes(64 * MEBIBYTE)));
        assert_eq!(kind.parse(" 80%"), Ok(Value::Percent(80)));
        assert_eq!(kind.toml(&Value::Percent(80)), "\"80%\"");
        for bad in ["0%", "101%", "-1%", "%", "80%%", "80.5%", "80 %", "1k%", "%80", "0"] {
            let expected = "a number of MiB from 1 to 1048576, one with k, m or g after it, or a \
                            percentage from 1% to 100%";
            assert_eq!(kind.parse(bad), Err(expected.to_owned()), "{bad:?}");
        }
    }

    #[test]
    fn numbers_stay_within_their_limits() {
        let kind = Kind::Number { min: -1, max: 65_535 };
        assert_eq!(kind.parse(" 11211"), Ok(Value::Number(11_211)));
        for bad in ["-2", "65536", "abc", "", "1x", "99999999999999999999"] {
            assert_eq!(kind.parse(bad), Err("a number from -1 to 65535".to_owned()), "{bad:?}");
        }
        let kind = Kind::Real { above: 0.0, max: 1.0 };
        assert_eq!(kind.parse("0.8"), Ok(Value::Real(0.8)));
        for bad in ["0", "1.1", "nan", "inf", "x"] {
            assert!(kind.parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_rise_by_more_than_the_alignment() {
        assert_eq!(Kind::Sizes.parse("100-109-400"), Ok(Value::Sizes(vec![100, 109, 400])));
        assert_eq!(Kind::Sizes.parse("9"), Ok(Value::Sizes(vec![9])));
        let list = |count: u32| {
            let sizes: Vec<_> = (1..=count).map(|number| number * 100).collect();
            sizes_text(&sizes)
        };
        assert!(Kind::Sizes.parse(&list(62)).is_ok());
        for bad in ["", "-", "8", "100-", "100-100", "100-108", "200-100", "4294967296", &list(63)]
        {
            assert!(Kind::Sizes.parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn toml_values_can_be_read_again() {
        let unit = Kind::Bytes { unit: MEBIBYTE, min: 0, max: TEBIBYTE };
        assert_eq!(unit.toml(&Value::Bytes(64 * MEBIBYTE)), "64");
        assert_eq!(unit.toml(&Value::Bytes(1536 * KIBIBYTE)), "\"1536k\"");
        assert_eq!(Kind::Text.toml(&Value::Text("a\"\\\n".into())), r#""a\"\\\u000A""#);
        assert_eq!(Kind::Mask.toml(&Value::Mask(0o70)), "\"70\"");
        assert_eq!(Kind::Real { above: 0.0, max: 9.0 }.toml(&Value::Real(2.0)), "2.0");
    }
}
