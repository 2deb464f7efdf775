//! Human-readable numbers.

/// Formats a latency in microseconds with three digits and a unit.
pub(crate) fn latency(us: f64) -> String {
    match us {
        ..1_000.0 => format!("{} us", digits(us)),
        ..1_000_000.0 => format!("{} ms", digits(us / 1_000.0)),
        _ => format!("{} s", digits(us / 1_000_000.0)),
    }
}

/// Formats a count with three digits and k or M.
pub(crate) fn count(number: f64) -> String {
    match number {
        ..1_000.0 => digits(number),
        ..1_000_000.0 => format!("{}k", digits(number / 1_000.0)),
        _ => format!("{}M", digits(number / 1_000_000.0)),
    }
}

fn digits(number: f64) -> String {
    let text = match number {
        ..9.995 => format!("{number:.2}"),
        ..99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let shown = [0.0, 9.0, 52.13, 999.4, 1_500.0, 20_000.0, 3_000_000.0].map(latency);
        assert_eq!(shown, ["0 us", "9 us", "52.1 us", "999 us", "1.5 ms", "20 ms", "3 s"]);
        let shown = [0.0, 800.0, 401_407.0, 2_340_000.0].map(count);
        assert_eq!(shown, ["0", "800", "401k", "2.34M"]);
    }
}
