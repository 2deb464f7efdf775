//! Numbers as people read them.

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

/// Returns a time in the unit that shows its size.
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
}
