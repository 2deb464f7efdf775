//! The sizes of values.

use std::fmt;

use crate::mix::mix;

/// A range of value sizes in bytes, both ends included. Each key has its own size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    min: u32,
    max: u32,
}

impl Sizes {
    pub(crate) const DEFAULT: Self = Self { min: 100, max: 100 };

    /// Parses a number, or two with a hyphen between them.
    ///
    /// # Errors
    /// The text is not a size. The message names the expected form.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text.parse() {
            Ok(bytes @ ..=VALUE_BYTES_MAX) => Ok(bytes),
            Ok(_) => Err(format!("expected a number of bytes from 0 to {VALUE_BYTES_MAX}")),
            Err(_) => Err("expected a number of bytes, or a range such as 10-4096".to_owned()),
        };
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        let sizes = Self { min: number(min)?, max: number(max)? };
        match sizes.min <= sizes.max {
            true => Ok(sizes),
            false => Err(format!("the minimum {min} exceeds the maximum {max}")),
        }
    }

    /// Returns the size of the value of this key.
    pub(crate) fn of_key(self, number: u32) -> u32 {
        let span = u64::from(self.max - self.min) + 1;
        self.min + ((u128::from(mix(u64::from(number))) * u128::from(span)) >> 64) as u32
    }

    pub(crate) fn max(self) -> u32 {
        self.max
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { min, max } if min == max => write!(f, "{min}"),
            Self { min, max } => write!(f, "{min}-{max}"),
        }
    }
}

/// The largest value that servers accept by default, in bytes.
pub(crate) const VALUE_BYTES_MAX: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_includes_both_ends_and_a_number_is_exact() {
        let sizes = Sizes::parse("3-7").unwrap();
        let mut seen = [0; 10];
        (0..10_000).for_each(|key| seen[sizes.of_key(key) as usize] += 1);
        assert_eq!(
            seen.map(|times| times > 1800),
            [false, false, false, true, true, true, true, true, false, false]
        );
        assert_eq!(Sizes::parse("0").unwrap().of_key(5), 0);
        assert_eq!(Sizes::parse("0-1048576").unwrap().to_string(), "0-1048576");
    }

    #[test]
    fn an_invalid_size_is_refused() {
        for bad in ["", "-", "1-", "-1", "x", "1-2-3", "7-3", "1048577"] {
            assert!(Sizes::parse(bad).is_err(), "{bad:?}");
        }
    }
}
