//! The limit of lines of one kind. The place in the code that logs a line is its kind.

use std::mem;
use std::panic::Location;

use super::level::Level;

/// The lines of all kinds in their current periods. There are as many kinds as places in the code,
/// so the list needs no limit.
#[derive(Debug, Default)]
pub(super) struct Limits(Vec<Kind>);

/// The lines of one kind in its current period.
#[derive(Debug)]
struct Kind {
    place: &'static Location<'static>,
    level: Level,
    began_us: i64,
    /// How many lines were written in the period.
    lines: u32,
    /// How many lines were suppressed since the last written line.
    suppressed: u64,
    /// The beginning of the last written line.
    example: String,
}

/// Lines that were suppressed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suppressed {
    pub(super) level: Level,
    pub(super) lines: u64,
    /// The beginning of a line of the same kind.
    pub(super) example: String,
}

impl Limits {
    /// Creates the limits of a process that has logged nothing.
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Counts a line. Returns its message; `None` if the line must be suppressed.
    pub(super) fn admit(
        &mut self,
        place: &'static Location<'static>,
        level: Level,
        now_us: i64,
        message: impl FnOnce() -> String,
    ) -> Option<String> {
        let at = self.0.iter().position(|kind| kind.place == place).unwrap_or_else(|| {
            let (lines, suppressed, example) = (0, 0, String::new());
            self.0.push(Kind { place, level, began_us: now_us, lines, suppressed, example });
            self.0.len() - 1
        });
        let kind = &mut self.0[at];
        // A kind with suppressed lines begins its next period in `take`, which reports them.
        if kind.suppressed == 0 && now_us - kind.began_us >= PERIOD_US {
            (kind.began_us, kind.lines) = (now_us, 0);
        }
        if kind.lines == LINES_MAX {
            kind.suppressed += 1;
            return None;
        }
        kind.lines += 1;
        let message = message();
        if kind.lines == LINES_MAX {
            kind.example = message.chars().take(EXAMPLE_CHARACTERS_MAX).collect();
        }
        Some(message)
    }

    /// True if lines were suppressed that [`Self::take`] has not returned.
    pub(super) fn has_suppressed(&self) -> bool {
        self.0.iter().any(|kind| kind.suppressed > 0)
    }

    /// Returns the suppressed lines of the kinds whose periods are over at `now_us`, and begins new
    /// periods for them.
    pub(super) fn take(&mut self, now_us: i64) -> Vec<Suppressed> {
        let is_over = |kind: &&mut Kind| {
            kind.suppressed > 0 && now_us.saturating_sub(kind.began_us) >= PERIOD_US
        };
        let kinds = self.0.iter_mut().filter(is_over);
        kinds
            .map(|kind| {
                (kind.began_us, kind.lines) = (now_us, 0);
                Suppressed {
                    level: kind.level,
                    lines: mem::take(&mut kind.suppressed),
                    example: mem::take(&mut kind.example),
                }
            })
            .collect()
    }
}

/// How many lines of a kind are written per period.
const LINES_MAX: u32 = 10;
const PERIOD_US: i64 = 1_000_000;

/// Length of an example.
const EXAMPLE_CHARACTERS_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn place() -> &'static Location<'static> {
        Location::caller()
    }

    #[test]
    fn each_kind_has_ten_lines_in_a_second_and_the_rest_is_counted() {
        let (flood, other) = (place(), place());
        let mut limits = Limits::new();
        let admit = |limits: &mut Limits, kind, now_us| {
            limits.admit(kind, Level::Warn, now_us, || "ü".repeat(70)).is_some()
        };
        let written = (0..1000).filter(|us| admit(&mut limits, flood, *us)).count();
        assert_eq!(written, 10);
        assert!(admit(&mut limits, other, 1000));
        assert_eq!(limits.take(999_999), []);
        let suppressed = Suppressed { level: Level::Warn, lines: 990, example: "ü".repeat(60) };
        assert_eq!(limits.take(1_000_000), [suppressed]);
        assert_eq!(limits.take(i64::MAX), [], "once");
        assert!(admit(&mut limits, flood, 1_000_001));
    }

    #[test]
    fn a_slow_stream_is_never_cut() {
        let (kind, mut limits) = (place(), Limits::new());
        for line in 0..100 {
            let admitted = limits.admit(kind, Level::Info, line * 100_000, String::new);
            assert!(admitted.is_some(), "{line}");
        }
        assert_eq!(limits.take(i64::MAX), []);
    }
}
