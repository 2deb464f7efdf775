//! Numbers in memcached's text dialects.
//!
//! Most arguments are parsed strictly: only digits, with a width that depends on the argument. The
//! flags and the exptime of a store predate that rule: they are parsed at 64 bits and truncated to
//! the lower 32 bits.

/// The maximum length of a 32-bit number in bytes, including leading zeros and sign.
const TEXT_32_BYTES_MAX: usize = 11;
/// The maximum length of a 64-bit number in bytes, including leading zeros.
const TEXT_64_BYTES_MAX: usize = 22;

/// Parses digits below 2^32.
pub(crate) fn unsigned_32(token: &[u8]) -> Option<u32> {
    short(token, TEXT_32_BYTES_MAX).and_then(digits)?.try_into().ok()
}

/// Parses digits below 2^64.
pub(crate) fn unsigned_64(token: &[u8]) -> Option<u64> {
    short(token, TEXT_64_BYTES_MAX).and_then(digits)
}

/// Parses digits with an optional minus sign, from -2^31 to 2^31 - 1.
pub(crate) fn signed_32(token: &[u8]) -> Option<i32> {
    signed(short(token, TEXT_32_BYTES_MAX)?)?.try_into().ok()
}

/// Parses the exptime of `touch`, `gat`, `gats` and `flush_all`: a [`signed_32`], or the
/// [`unsigned_32`] with the same bits.
///
/// The second form is necessary because routers send a negative exptime as such a number: -1
/// arrives as 4294967295.
pub(crate) fn exptime(token: &[u8]) -> Option<i64> {
    signed_32(token).or_else(|| unsigned_32(token).map(u32::cast_signed)).map(i64::from)
}

/// Parses the exptime of a store: digits with an optional sign, within 64 bits, truncated to the
/// lower 32.
pub(crate) fn exptime_wrapping(token: &[u8]) -> Option<i64> {
    let wide: i64 = match token.strip_prefix(b"+") {
        Some(positive) => digits(positive)?.try_into().ok()?,
        None => signed(token)?,
    };
    Some(i64::from(wide as i32))
}

/// Parses the flags of a store: digits with an optional plus sign, within 64 bits, truncated to the
/// lower 32.
pub(crate) fn flags_wrapping(token: &[u8]) -> Option<u32> {
    digits(token.strip_prefix(b"+").unwrap_or(token)).map(|wide| wide as u32)
}

/// Parses a number below 2^64 with any number of digits.
pub(crate) fn digits(token: &[u8]) -> Option<u64> {
    if token.is_empty() {
        return None;
    }
    token.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn signed(token: &[u8]) -> Option<i64> {
    match token.strip_prefix(b"-") {
        Some(positive) => 0i64.checked_sub_unsigned(digits(positive)?),
        None => digits(token)?.try_into().ok(),
    }
}

fn short(token: &[u8], bytes_max: usize) -> Option<&[u8]> {
    (token.len() <= bytes_max).then_some(token)
}

/// Appends a number in decimal.
#[inline]
pub(crate) fn push_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_numbers_are_digits_within_their_width() {
        assert_eq!(unsigned_32(b"4294967295"), Some(u32::MAX));
        assert_eq!(unsigned_32(b"00000000007"), Some(7));
        assert_eq!(unsigned_64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned_64(b"0000000000000000000007"), Some(7));
        for bad in [&b""[..], b"4294967296", b"000000000007", b"-1", b"+1", b" 1", b"1\t", b"1a"] {
            assert_eq!(unsigned_32(bad), None, "{bad:?}");
        }
        for bad in [&b"18446744073709551616"[..], b"00000000000000000000007", b"-1", b"x"] {
            assert_eq!(unsigned_64(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn signed_numbers_take_a_minus_only() {
        assert_eq!(signed_32(b"-2147483648"), Some(i32::MIN));
        assert_eq!(signed_32(b"2147483647"), Some(i32::MAX));
        assert_eq!(signed_32(b"-0"), Some(0));
        for bad in [&b"2147483648"[..], b"-2147483649", b"-", b"--1", b"+1", b""] {
            assert_eq!(signed_32(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn an_exptime_above_the_signed_range_is_a_negative_one() {
        assert_eq!(exptime(b"100"), Some(100));
        assert_eq!(exptime(b"-1"), Some(-1));
        assert_eq!(exptime(b"4294967295"), Some(-1));
        assert_eq!(exptime(b"4294967296"), None);
        assert_eq!(exptime(b"soon"), None);
    }

    #[test]
    fn the_flags_and_exptime_of_a_store_are_truncated_to_32_bits() {
        assert_eq!(flags_wrapping(b"4294967296"), Some(0));
        assert_eq!(flags_wrapping(b"+5"), Some(5));
        assert_eq!(flags_wrapping(b"18446744073709551616"), None);
        assert_eq!(flags_wrapping(b"-1"), None);
        assert_eq!(exptime_wrapping(b"4294967295"), Some(-1));
        assert_eq!(exptime_wrapping(b"-1"), Some(-1));
        assert_eq!(exptime_wrapping(b"+9"), Some(9));
        assert_eq!(exptime_wrapping(b"9223372036854775808"), None);
        assert_eq!(exptime_wrapping(b"+-1"), None);
    }
}
