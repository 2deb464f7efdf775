//! Amounts of memory on the command line.

/// Parses bytes: a number, or one with k, m or g (KiB, MiB, GiB) after it.
///
/// # Errors
/// The text is not an amount. The message names the expected form.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let (digits, unit_bytes) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse().ok().and_then(|count: u64| count.checked_mul(unit_bytes));
    bytes.ok_or_else(|| "expected bytes, or a number with k, m or g after it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_powers_of_1024() {
        for (text, bytes) in [("7", 7), ("3k", 3072), ("16M", 16 << 20), ("2g", 2 << 30)] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for bad in ["", "k", "-1", "1.5m", "1t", "17179869184g", "é"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
