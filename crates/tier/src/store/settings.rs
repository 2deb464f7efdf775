//! The settings of a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::inspect::damage::Damage;
use crate::compression::Compression;

/// The time between the acknowledgement of a change and its durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A change is durable before it is acknowledged. The changes of all threads share a sync.
    Sync,
    /// A change is durable at most twice this long after it is acknowledged.
    Interval(Duration),
    /// A change is durable some time later, usually within 100 ms.
    Async,
}

impl Durability {
    /// Returns how long the flusher collects records.
    pub(super) fn pause(self) -> Duration {
        match self {
            // Each change wakes the flusher.
            Self::Sync => Duration::from_secs(1),
            Self::Interval(interval) => interval,
            Self::Async => Duration::from_millis(100),
        }
    }
}

/// Receives each damaged place of a log when the caller accepts the loss.
pub type Report = Arc<dyn Fn(&Damage) + Send + Sync>;

/// The settings of a store.
#[derive(Clone)]
pub struct Settings {
    /// The time between the acknowledgement of a change and its durability.
    pub durability: Durability,
    /// The memory for records that are not durable yet, in bytes. Writers wait when it is full.
    pub dirty_bytes_max: u64,
    /// The memory limit of the catalog, in bytes. It needs 10 to 12.5 bytes per item.
    pub catalog_bytes_max: u64,
    /// Returns the current second of the log's time, a Unix time that never goes back. During the
    /// start this is the system clock. After the start the caller must add [`StartReport::time`].
    ///
    /// [`StartReport::time`]: super::StartReport::time
    pub clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Returns the current second of the system clock, as a Unix time.
    pub wall: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Called once during the start. Until then a killed process loses nothing; after it, a kill
    /// loses what only a clean stop saves, for example the index of the catalog. The function may
    /// never return, for example because the process was asked to stop.
    pub before_change: Arc<dyn Fn() + Send + Sync>,
    /// If set, a start with a damaged log drops the damaged records and everything that they may
    /// have changed. It calls this with each damaged place.
    pub accept_loss: Option<Report>,
    /// If set, values are compressed. Compressed values are always readable.
    pub compression: Option<Compression>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { durability, dirty_bytes_max, catalog_bytes_max, .. } = self;
        f.debug_struct("Settings")
            .field("durability", durability)
            .field("dirty_bytes_max", dirty_bytes_max)
            .field("catalog_bytes_max", catalog_bytes_max)
            .finish_non_exhaustive()
    }
}
