//! Group commit: how many records a sync covers with [`Durability::Sync`](super::super::Durability::Sync).
//!
//! A client sends its next change when it has received the response to the previous one. While the
//! disk syncs the changes of some clients, the others send theirs:
//!
//! ```text
//! clients  │ execute B │ execute A │ execute B │
//! disk     │  sync A   │  sync B   │  sync A   │
//! ```
//!
//! A sync that begins with the first change that waits would cover only this one: the groups of a
//! fast disk are small, and each costs a write, a sync and two wake-ups. The flusher therefore
//! waits until half of the recent clients have sent a change. It waits at most as long as the last
//! sync took. A single client never waits for others.

use std::time::{Duration, Instant};

/// The groups of records that share a sync. Records are counted by their number since the start.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The number of the first record that the current sync does not cover.
    sealed: u64,
    /// The number of records that the current sync covers.
    covered: u64,
    /// The flusher waits until this many records were appended.
    wanted: u64,
    /// The end of the last sync, and how long it took.
    synced: Option<(Instant, Duration)>,
}

impl Groups {
    /// Called when the flusher takes all records appended so far.
    pub(super) fn note_sealed(&mut self, appended: u64) {
        self.covered = appended - self.sealed;
        self.sealed = appended;
    }

    /// Called after the sync of these records.
    pub(super) fn note_synced(&mut self, appended: u64, took: Duration) {
        // The clients of the records that were synced, and those whose records came since.
        let clients = self.covered + (appended - self.sealed);
        self.wanted = self.sealed + clients.div_ceil(2);
        self.synced = Some((Instant::now(), took));
    }

    /// Returns the number of records at which the next sync begins.
    pub(super) fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Returns how long the flusher waits for more records.
    pub(super) fn wait(&self, appended: u64) -> Duration {
        match self.synced {
            Some((at, took)) if appended < self.wanted => took.saturating_sub(at.elapsed()),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1000);

    #[test]
    fn a_single_client_never_waits() {
        let mut groups = Groups::default();
        assert_eq!(groups.wait(1), Duration::ZERO, "before the first sync");
        for appended in 1..100 {
            groups.note_sealed(appended);
            groups.note_synced(appended, LONG);
            assert_eq!(groups.wait(appended + 1), Duration::ZERO, "record {appended}");
        }
    }

    #[test]
    fn a_group_waits_for_half_of_the_clients() {
        let mut groups = Groups::default();
        groups.note_sealed(10);
        // 50 clients: the records of 10 are durable, and those of the others have come.
        groups.note_synced(50, LONG);
        assert_eq!((groups.wanted(), groups.wait(35)), (35, Duration::ZERO));
        assert!(groups.wait(34) > LONG / 2, "half of the clients have not sent a record");
        // The others have gone: the next sync waits for half of the rest.
        groups.note_sealed(34);
        groups.note_synced(34, LONG);
        assert_eq!(groups.wanted(), 46);
        groups.note_sealed(35);
        groups.note_synced(35, LONG);
        assert_eq!(groups.wanted(), 36);
    }

    #[test]
    fn a_group_waits_at_most_as_long_as_the_last_sync_took() {
        let mut groups = Groups::default();
        groups.note_sealed(50);
        groups.note_synced(50, Duration::ZERO);
        assert_eq!(groups.wait(51), Duration::ZERO);
    }
}
