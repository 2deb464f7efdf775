//! The systemd unit of a process.

use std::process::Command;
use std::time::Duration;

/// Returns the system unit whose control group contains a process, from its /proc/PID/cgroup.
pub(super) fn unit(groups: &str) -> Option<String> {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    // A user unit has another manager, which only that user can query.
    let mut units = paths.filter(|path| !path.contains("/user@")).filter_map(|path| {
        let (_, name) = path.rsplit_once('/')?;
        name.ends_with(".service").then(|| name.to_owned())
    });
    units.next()
}

/// Returns the time that systemd gives a unit to stop. Returns `None` without systemd, or if the
/// time is unlimited.
pub(super) fn stop_limit(unit: &str) -> Option<Duration> {
    let ask = ["show", "--property=TimeoutStopUSec", "--", unit];
    let output = Command::new("systemctl").args(ask).output().ok()?;
    let answer = String::from_utf8(output.stdout).ok()?;
    span(answer.trim().strip_prefix("TimeoutStopUSec=")?)
}

/// Parses a time in systemd's form, for example `1min 30s`. Returns `None` for `infinity` and for
/// other forms.
fn span(text: &str) -> Option<Duration> {
    let mut parts = text.split_whitespace().peekable();
    parts.peek()?;
    parts.try_fold(Duration::ZERO, |sum, part| {
        let digits = part.find(|character: char| !character.is_ascii_digit())?;
        let number: u64 = part[..digits].parse().ok()?;
        let part = match &part[digits..] {
            "us" => Duration::from_micros(number),
            "ms" => Duration::from_millis(number),
            unit => Duration::from_secs(number.checked_mul(unit_secs(unit)?)?),
        };
        sum.checked_add(part)
    })
}

fn unit_secs(unit: &str) -> Option<u64> {
    Some(match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_the_last_part_of_the_control_group() {
        for (groups, expected) in [
            ("0::/system.slice/larderd.service\n", Some("larderd.service")),
            ("4:memory:/a\n1:name=systemd:/system.slice/x.service\n", Some("x.service")),
            ("0::/system.slice/system-l.slice/l@1.service\n", Some("l@1.service")),
            ("0::/user.slice/user-1.slice/user@1.service/app.slice/l.service\n", None),
            ("0::/user.slice/user-1.slice/session-1.scope\n", None),
            ("0::/\n", None),
            ("", None),
        ] {
            assert_eq!(unit(groups).as_deref(), expected, "{groups:?}");
        }
    }

    #[test]
    fn a_span_is_the_sum_of_its_parts() {
        for (text, millis) in [
            ("1min 30s", Some(90_000)),
            ("1h 1min 1s 5ms", Some(3_661_005)),
            ("500us", Some(0)),
            ("1w 1d", Some(691_200_000)),
            ("infinity", None),
            ("", None),
            ("30", None),
            ("-1s", None),
            ("99999999999999999999s", None),
            ("18446744073709551615w", None),
        ] {
            assert_eq!(span(text).map(|span| span.as_millis()), millis, "{text}");
        }
    }
}
