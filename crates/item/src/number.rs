//! The numeric interpretation of a value, for `incr` and `decr`.

/// The direction of a counter's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Up, wrapping at 2^64.
    Increment,
    /// Down, stopping at 0.
    Decrement,
}

/// The error for a value that is not an unsigned decimal number of at most 20 digits below 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotANumber;

/// A value as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(pub u64);

impl Number {
    /// Length of the longest decimal text of a number, in bytes.
    pub const TEXT_BYTES_MAX: usize = 20;

    /// Parses a stored value as memcached does: spaces around the digits are accepted; a sign, an
    /// empty value and an overflow are not.
    ///
    /// # Errors
    /// [`NotANumber`] for any other value.
    pub fn parse(value: &[u8]) -> Result<Self, NotANumber> {
        let digits = value.trim_ascii();
        if digits.is_empty() || digits.len() > Self::TEXT_BYTES_MAX {
            return Err(NotANumber);
        }
        digits
            .iter()
            .try_fold(0u64, |number, byte| {
                let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
                number.checked_mul(10)?.checked_add(u64::from(digit))
            })
            .map(Self)
            .ok_or(NotANumber)
    }

    /// Returns the number changed by `delta`.
    #[must_use]
    pub fn moved(self, direction: Direction, delta: u64) -> Self {
        match direction {
            Direction::Increment => Self(self.0.wrapping_add(delta)),
            Direction::Decrement => Self(self.0.saturating_sub(delta)),
        }
    }

    /// Returns the text that replaces a value of `old_bytes`. It is padded with spaces on the right
    /// to that length, unless the number is longer: memcached overwrites the value in place, so
    /// clients receive the padding.
    pub fn text_over(self, old_bytes: usize) -> Vec<u8> {
        let mut text = self.0.to_string().into_bytes();
        if text.len() < old_bytes {
            text.resize(old_bytes, b' ');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_tolerated_signs_and_overflow_are_not() {
        assert_eq!(Number::parse(b" 12 "), Ok(Number(12)));
        assert_eq!(Number::parse(b"18446744073709551615"), Ok(Number(u64::MAX)));
        for bad in [&b""[..], b" ", b"-1", b"+1", b"1a", b"18446744073709551616", b"1 2"] {
            assert_eq!(Number::parse(bad), Err(NotANumber), "{bad:?}");
        }
    }

    #[test]
    fn increments_wrap_and_decrements_stop() {
        assert_eq!(Number(u64::MAX).moved(Direction::Increment, 2), Number(1));
        assert_eq!(Number(1).moved(Direction::Decrement, 2), Number(0));
    }

    #[test]
    fn a_shorter_number_is_padded_to_the_old_length() {
        assert_eq!(Number(9).text_over(2), b"9 ");
        assert_eq!(Number(100).text_over(2), b"100");
    }
}
