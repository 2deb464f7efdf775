//! Patience with files that cannot be used. A program may replace them one after the other, and
//! may write them in place.

use std::time::{Duration, Instant};

/// The failures of one [`Reloaded`](super::Reloaded) since its files were last usable.
#[derive(Debug, Default)]
pub(super) struct Patience {
    failing: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    /// When to try again without an event; `None` once the failure was reported.
    next: Option<Instant>,
    /// The pause before that attempt.
    pause: Duration,
    /// The error that the log contains, and since when.
    logged: Option<(String, Instant)>,
}

/// The way to treat a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The files may become usable within moments.
    Wait,
    /// The failure counts, and is logged.
    Report,
    /// The failure counts, but the log already contains it.
    Count,
}

impl Patience {
    /// Returns when to try again without an event, if that is soon.
    pub(super) fn next(&self) -> Option<Instant> {
        self.failing.as_ref()?.next
    }

    /// Notes that the files are usable. Returns true if the log contains that they were not.
    pub(super) fn end(&mut self) -> bool {
        self.failing.take().is_some_and(|failing| failing.logged.is_some())
    }

    /// Judges a failed attempt. `is_final` means that someone waits for the outcome.
    pub(super) fn judge(&mut self, now: Instant, error: &str, is_final: bool) -> Verdict {
        let failing = self.failing.get_or_insert(Failing {
            since: now,
            next: None,
            pause: PAUSE_MIN,
            logged: None,
        });
        if failing.logged.is_none() && !is_final && now < failing.since + SETTLE {
            let last = failing.since + SETTLE;
            failing.next = Some((now + failing.pause).min(last));
            failing.pause = (failing.pause * 2).min(SETTLE);
            return Verdict::Wait;
        }
        failing.next = None;
        let is_known = failing
            .logged
            .as_ref()
            .is_some_and(|(logged, at)| logged == error || now.duration_since(*at) < LOG_PAUSE);
        if is_known && !is_final {
            return Verdict::Count;
        }
        failing.logged = Some((error.to_owned(), now));
        Verdict::Report
    }
}

/// The first pause between attempts. Each further pause is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(200);

/// How long files may be unusable before that is a failure.
const SETTLE: Duration = Duration::from_secs(5);

/// The shortest time between log lines with different errors.
const LOG_PAUSE: Duration = Duration::from_secs(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_once_and_only_if_it_lasts() {
        let begun = Instant::now();
        let at = |secs: f64| begun + Duration::from_secs_f64(secs);
        let mut patience = Patience::default();
        assert_eq!(patience.judge(at(0.0), "a", false), Verdict::Wait);
        assert_eq!(patience.next(), Some(at(0.2)));
        assert!(!patience.end(), "it was repaired in time");
        let mut now = at(10.0);
        let mut attempts = 1;
        while patience.judge(now, "a", false) == Verdict::Wait {
            now = patience.next().unwrap();
            attempts += 1;
        }
        assert_eq!((now, attempts), (at(15.0), 6));
        assert_eq!(patience.next(), None);
        assert_eq!(patience.judge(at(16.0), "a", false), Verdict::Count);
        assert_eq!(patience.judge(at(17.0), "b", false), Verdict::Count);
        assert_eq!(patience.judge(at(75.0), "b", false), Verdict::Report);
        assert_eq!(patience.judge(at(999.0), "b", false), Verdict::Count);
        assert!(patience.end());
        assert_eq!(patience.judge(at(1000.0), "a", true), Verdict::Report);
        assert_eq!(patience.judge(at(1000.0), "a", true), Verdict::Report);
    }
}
