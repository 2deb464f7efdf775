//! Drain: the server stays, but stops being ready and then closes its connections between requests,
//! so that ending it interrupts no request.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Whether the server is being drained. An operator begins and undoes it; the workers obey.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// The monotonic time in microseconds from which connections are closed; 0: the server serves.
    closes_at_us: AtomicI64,
}

/// How far a drain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainState {
    /// There is none.
    Serving,
    /// The server is not ready, and has connections or still serves as usual.
    Draining,
    /// It has closed all connections.
    Drained,
}

impl Drain {
    /// Begins a drain that closes connections from this time on. Returns false if one has begun
    /// before: its grace does not start again.
    pub(crate) fn begin(&self, closes_at_us: i64) -> bool {
        self.closes_at_us.compare_exchange(0, closes_at_us.max(1), Relaxed, Relaxed).is_ok()
    }

    /// Undoes the drain.
    pub(crate) fn undo(&self) {
        self.closes_at_us.store(0, Relaxed);
    }

    /// Returns the time from which connections are closed; `None` if the server serves.
    #[inline]
    pub(crate) fn closes_at_us(&self) -> Option<i64> {
        Some(self.closes_at_us.load(Relaxed)).filter(|at_us| *at_us != 0)
    }

    /// Returns the state at a time, with this number of open connections.
    pub(crate) fn state(&self, now_us: i64, connection_count: usize) -> DrainState {
        match self.closes_at_us() {
            None => DrainState::Serving,
            Some(at_us) if now_us >= at_us && connection_count == 0 => DrainState::Drained,
            Some(_) => DrainState::Draining,
        }
    }
}

impl DrainState {
    /// Returns its name in documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_is_over_once_its_grace_and_the_connections_are() {
        let drain = Drain::default();
        assert_eq!(drain.state(100, 0), DrainState::Serving);
        assert!(drain.begin(50));
        assert!(!drain.begin(500));
        assert_eq!(drain.closes_at_us(), Some(50), "a second request does not prolong the grace");
        for (now_us, connection_count, state) in [
            (49, 0, DrainState::Draining),
            (50, 1, DrainState::Draining),
            (50, 0, DrainState::Drained),
        ] {
            assert_eq!(drain.state(now_us, connection_count), state, "{now_us} {connection_count}");
        }
        drain.undo();
        assert_eq!(drain.state(100, 0), DrainState::Serving);
    }
}
