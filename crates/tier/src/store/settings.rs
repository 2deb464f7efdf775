//! The settings of a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::inspect::damage::Damage;

/// When an acknowledged change is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before it is acknowledged. The changes of all threads share a sync.
    Sync,
    /// At most twice this long after it is acknowledged.
    Interval(Duration),
    /// Some time later: usually within 100 ms.
    Async,
}

impl Durability {
    /// How long the flusher collects records.
    pub(super) fn pause(self) -> Duration {
        match self {
            // A change wakes it.
            Self::Sync => Duration::from_secs(1),
            Self::Interval(interval) => interval,
            Self::Async => Duration::from_millis(100),
        }
    }
}

/// Receives each damaged place of a log whose loss the caller accepts.
pub type Report = Arc<dyn Fn(&Damage) + Send + Sync>;

/// The settings of a store.
#[derive(Clone)]
pub struct Settings {
    /// When an acknowledged change is durable.
    pub durability: Durability,
    /// Memory for what is not durable yet, in bytes. Writers that find it full wait.
    pub dirty_bytes_max: u64,
    /// Memory for the catalog, in bytes: 10 to 12.5 bytes an item.
    pub catalog_bytes_max: u64,
    /// Returns the present second of the log's time: a Unix time that never goes back. At the start
    /// it is that of the system's clock; the caller adds [`Started::time`] afterwards.
    ///
    /// [`Started::time`]: super::Started::time
    pub clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Returns the present second of the system's clock, as a Unix time.
    pub wall: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Called once, before the directory changes so that a kill would lose what a stop keeps. It
    /// need not return.
    pub before_change: Arc<dyn Fn() + Send + Sync>,
    /// If set, a start with a damaged log drops the damaged records and all that they may have
    /// changed, and reports each damaged place.
    pub accept_loss: Option<Report>,
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
