//! Drain: the server reports that it is not ready, and then closes its connections between
//! requests, so that no request is interrupted when the server is ended.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// The state of a drain. An operator begins and undoes it, and an upgrade begins it. The workers
/// react to it.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// The monotonic time in microseconds from which connections are closed; 0 during normal
    /// service.
    closes_at_us: AtomicI64,
}

/// The progress of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainState {
    /// No drain is in progress.
    Serving,
    /// A drain is in progress: the server reports that it is not ready, but still has connections
    /// or is still in its grace period.
    Draining,
    /// The server has closed all connections.
    Drained,
}

impl Drain {
    /// Begins a drain that closes connections from this time on. Returns false if one has already
    /// begun, whose grace period does not start again.
    pub(crate) fn begin(&self, closes_at_us: i64) -> bool {
        self.closes_at_us.compare_exchange(0, closes_at_us.max(1), Relaxed, Relaxed).is_ok()
    }

    /// Undoes the drain.
    pub(crate) fn undo(&self) {
        self.closes_at_us.store(0, Relaxed);
    }

    /// Returns the time from which connections are closed; `None` during normal service.
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
    /// Returns the name of the state in documents.
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
