//! The progress of opening a cache: how much of its directory has been read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// How much of a directory has been read. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<AtomicU8>);

impl Progress {
    /// Records that `done` of `total` parts have been read.
    pub(crate) fn note(&self, done: usize, total: usize) {
        // 100 is reserved for a cache that serves.
        let percent = (done * 100).checked_div(total).unwrap_or(0).min(99);
        self.0.store(percent as u8, Relaxed);
    }

    /// Returns how much has been read, in percent, from 0 to 99.
    pub(crate) fn percent(&self) -> u8 {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_cache_is_never_wholly_read() {
        let progress = Progress::default();
        for (done, total, percent) in [(0, 0, 0), (0, 7, 0), (3, 7, 42), (7, 7, 99)] {
            progress.note(done, total);
            assert_eq!(progress.clone().percent(), percent, "{done} of {total}");
        }
    }
}
