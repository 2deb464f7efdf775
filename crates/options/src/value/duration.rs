//! A duration with its unit, such as `10ms`.

use std::time::Duration;

/// Parses a duration; `None` if it has another form, or is out of range.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    // `s` is last, because the other units end with it.
    let units = [("us", 1), ("ms", 1000), ("s", 1_000_000)];
    let (digits, unit_us) = units.iter().find_map(|(unit, us)| {
        text.strip_suffix(unit).map(|digits| (digits.trim_ascii_end(), us))
    })?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let duration_us = digits.parse::<u64>().ok()?.checked_mul(*unit_us)?;
    (1..=DURATION_US_MAX).contains(&duration_us).then(|| Duration::from_micros(duration_us))
}

/// The form of a duration, for errors and documents.
pub(crate) const DURATION_EXPECTED: &str =
    "a number with us, ms or s after it, such as 10ms, from 1us to 3600s";

const DURATION_US_MAX: u64 = 3_600_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_its_unit() {
        for (text, us) in [
            ("500us", Some(500)),
            ("10ms", Some(10_000)),
            ("10 ms", Some(10_000)),
            ("1s", Some(1_000_000)),
            ("3600s", Some(3_600_000_000)),
            ("3601s", None),
            ("0s", None),
            ("0us", None),
            ("10", None),
            ("ms", None),
            ("", None),
            ("+1s", None),
            ("-1s", None),
            ("1.5s", None),
            ("10m", None),
            ("18446744073709551615s", None),
            ("99999999999999999999us", None),
        ] {
            assert_eq!(duration(text), us.map(Duration::from_micros), "{text:?}");
        }
    }
}
