//! Formats numbers for people.

use std::time::Duration;

use time::OffsetDateTime;

/// Returns a count in at most six characters.
pub(crate) fn count(number: f64) -> String {
    for (unit, name) in [(1e9, "G"), (1e6, "M"), (1e4, "k")] {
        if number >= unit {
            return format!("{:.1} {name}", number / if name == "k" { 1e3 } else { unit });
        }
    }
    if number >= 10.0 || number.fract() == 0.0 {
        format!("{number:.0}")
    } else {
        format!("{number:.1}")
    }
}

/// Returns bytes in binary units.
pub(crate) fn bytes(number: f64) -> String {
    let exponent = (1..=4).rev().find(|exponent| number >= 1024_f64.powi(*exponent));
    match exponent {
        Some(exponent) => {
            let name = ["KiB", "MiB", "GiB", "TiB"][exponent as usize - 1];
            format!("{:.1} {name}", number / 1024_f64.powi(exponent))
        }
        None => format!("{number:.0} B"),
    }
}

/// Returns a time in a unit that fits its size.
pub(crate) fn duration(secs: f64) -> String {
    match secs {
        0.0 => "0 s".to_owned(),
        ..1e-3 => format!("{:.0} µs", secs * 1e6),
        ..0.01 => format!("{:.1} ms", secs * 1e3),
        ..1.0 => format!("{:.0} ms", secs * 1e3),
        ..120.0 => format!("{secs:.0} s"),
        ..7200.0 => format!("{:.0} min", secs / 60.0),
        ..172_800.0 => format!("{:.0} h", secs / 3600.0),
        _ => format!("{:.0} days", secs / 86400.0),
    }
}

/// Returns a measured time in a unit that fits its size.
pub(crate) fn duration_of(time: Duration) -> String {
    duration(time.as_secs_f64())
}

/// Returns a Unix time as a date and a time of day, in UTC.
pub(crate) fn date(unix_secs: i64) -> String {
    match OffsetDateTime::from_unix_timestamp(unix_secs) {
        Ok(time) => format!(
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC",
            time.year(),
            u8::from(time.month()),
            time.day(),
            time.hour(),
            time.minute(),
            time.second()
        ),
        // After the year 9999.
        Err(_) => format!("Unix time {unix_secs}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (number, text) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (7.0, "7"),
            (9999.4, "9999"),
            (12_345.0, "12.3 k"),
            (2e6, "2.0 M"),
        ] {
            assert_eq!(count(number), text);
        }
        for (number, text) in
            [(0.0, "0 B"), (1023.0, "1023 B"), (1536.0, "1.5 KiB"), (2e12, "1.8 TiB")]
        {
            assert_eq!(bytes(number), text);
        }
        for (secs, text) in [
            (0.0, "0 s"),
            (4e-6, "4 µs"),
            (0.0042, "4.2 ms"),
            (0.25, "250 ms"),
            (119.0, "119 s"),
            (300.0, "5 min"),
            (86_400.0, "24 h"),
            (1e7, "116 days"),
        ] {
            assert_eq!(duration(secs), text);
        }
    }
    #[test]
    fn a_time_is_shown_as_a_date() {
        for (secs, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (1_795_736_859, "2026-11-26 23:47:39 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
            (i64::MAX, "Unix time 9223372036854775807"),
        ] {
            assert_eq!(date(secs), text);
        }
    }
}
