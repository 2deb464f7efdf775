//! The promises of decision 43, judged from the answers of a near cache.
//!
//! A change gives its key the next *version*, so an older value has a smaller version. Nothing here
//! is a step of the scene.

use std::sync::Mutex;

use super::{KEYS, MAX_STALE_MS};

/// What clients have seen.
#[derive(Debug, Default)]
pub(crate) struct Spec(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// The newest version of each key that the near cache has answered.
    answered: [u64; KEYS],
    /// The keys and versions that were acknowledged to their writers, and when.
    acknowledged: Vec<(usize, u64, u64)>,
}

/// A read that has begun, and the oldest versions that it may return.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) key: usize,
    pub(crate) now_ms: u64,
    answered: u64,
    due: u64,
}

impl Spec {
    /// Begins a read.
    pub(crate) fn begin(&self, key: usize, now_ms: u64) -> Begun {
        let seen = self.0.lock().unwrap();
        let due =
            seen.acknowledged.iter().filter(|(of, _, at)| *of == key && at + MAX_STALE_MS < now_ms);
        let due = due.map(|(_, version, _)| *version).max().unwrap_or(0);
        Begun { key, now_ms, answered: seen.answered[key], due }
    }

    /// Ends a read with an answer.
    pub(crate) fn judge(&self, begun: &Begun, version: u64) {
        let Begun { key, now_ms, answered, due } = begun;
        assert!(
            version >= *answered,
            "promise 2: a read of key {key} returned {version} after {answered}"
        );
        assert!(
            version >= *due,
            "promise 3: a read of key {key} at {now_ms} returned {version} instead of {due}"
        );
        self.answer(*key, version);
    }

    /// Notes that the near cache has answered a version.
    pub(crate) fn answer(&self, key: usize, version: u64) {
        let answered = &mut self.0.lock().unwrap().answered[key];
        *answered = version.max(*answered);
    }

    /// Notes that a writer knows that its change is done.
    pub(crate) fn acknowledge(&self, key: usize, version: u64, now_ms: u64) {
        self.0.lock().unwrap().acknowledged.push((key, version, now_ms));
    }
}
