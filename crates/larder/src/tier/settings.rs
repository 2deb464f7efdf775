//! The settings of a disk tier.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use larder_tier::RequestedTier;
use larder_tier::format::{Mode, VALUE_BYTES_MAX};
use larder_tier::store::{BYTES_MIN, Damage, Report, StartError};

/// When a change becomes durable and survives a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A change is durable before the operation returns. The changes of all threads share a sync of
    /// the disk.
    Sync,
    /// A change is durable at most twice this long after the operation returned.
    Interval(Duration),
    /// A change is durable some time later, usually within 100 ms.
    Async,
}

impl Durability {
    pub(super) fn of_store(self) -> larder_tier::store::Durability {
        match self {
            Self::Sync => larder_tier::store::Durability::Sync,
            Self::Interval(interval) => larder_tier::store::Durability::Interval(interval),
            Self::Async => larder_tier::store::Durability::Async,
        }
    }
}

/// The purpose of a disk tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierMode {
    /// A durable store: the disk has all items.
    Store,
    /// A larger cache: the disk has the items that memory evicts. It is empty after a crash, and
    /// complete after a clean stop.
    Cache,
}

impl TierMode {
    pub(super) fn of_store(self) -> Mode {
        match self {
            Self::Store => Mode::Store,
            Self::Cache => Mode::Cache,
        }
    }
}

/// Which evicted items are written to the disk of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// All items.
    All,
    /// Items that were read after they were stored, and items that were stored again soon after an
    /// eviction.
    Reused,
}

/// Called while a log is read, with the number of segments read so far and their total.
type Progress = Arc<dyn Fn(usize, usize) + Send + Sync>;

/// A directory on disk for all items of a cache, or for the items that memory evicts.
#[derive(Clone)]
pub struct DiskTier {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) mode: TierMode,
    pub(super) admission: Admission,
    pub(super) item_bytes_min: usize,
    pub(super) durability: Durability,
    pub(super) wait: Duration,
    pub(super) stop: Duration,
    pub(super) dirty_bytes: Option<u64>,
    pub(super) progress: Option<Progress>,
    pub(super) before_change: Option<Arc<dyn Fn() + Send + Sync>>,
    pub(super) accept_loss: Option<Report>,
    pub(super) compress: bool,
}

impl fmt::Debug for DiskTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, bytes, mode, durability, .. } = self;
        f.debug_struct("DiskTier")
            .field("path", path)
            .field("bytes", bytes)
            .field("mode", mode)
            .field("durability", durability)
            .finish_non_exhaustive()
    }
}

impl DiskTier {
    /// Returns a tier in a directory, which is created if it does not exist, with a log of at most
    /// `bytes`: 32 MiB to 64 TiB. The log can grow from one start to the next, but cannot shrink.
    pub fn new(path: impl Into<PathBuf>, bytes: u64) -> Self {
        Self {
            path: path.into(),
            bytes,
            mode: TierMode::Store,
            admission: Admission::All,
            item_bytes_min: 0,
            durability: Durability::Interval(Duration::from_millis(100)),
            wait: Duration::from_secs(1),
            stop: Duration::from_secs(60),
            dirty_bytes: None,
            progress: None,
            before_change: None,
            accept_loss: None,
            compress: false,
        }
    }

    /// Returns the requested mode and size of the directory.
    pub(super) fn wanted(&self) -> RequestedTier {
        RequestedTier { mode: self.mode.of_store(), bytes: self.bytes }
    }

    /// Checks the settings that do not depend on the directory.
    pub(crate) fn check(&self, item_bytes_max: u64) -> Result<(), TierError> {
        if self.bytes < BYTES_MIN {
            return Err(StartError::TooSmall.into());
        }
        let max = VALUE_BYTES_MAX as u64;
        if item_bytes_max > max && !self.is_cache() {
            return Err(TierError::ItemTooLarge { asked: item_bytes_max, max });
        }
        Ok(())
    }

    pub(crate) fn is_cache(&self) -> bool {
        self.mode == TierMode::Cache
    }

    /// Sets the mode: [`TierMode::Store`] by default. The mode of an existing directory cannot
    /// change.
    #[must_use]
    pub fn mode(mut self, mode: TierMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets which evicted items are written to the disk, with [`TierMode::Cache`]: all by default.
    #[must_use]
    pub fn admission(mut self, admission: Admission) -> Self {
        self.admission = admission;
        self
    }

    /// Sets the minimum size of an item's key and value together on the disk, in bytes, with
    /// [`TierMode::Cache`]: 0 by default. Smaller items are lost when memory evicts them, and at a
    /// stop.
    #[must_use]
    pub fn item_bytes_min(mut self, bytes: usize) -> Self {
        self.item_bytes_min = bytes;
        self
    }

    /// Sets when changes become durable, with [`TierMode::Store`]: by default within 200 ms.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how long a change waits for a slow disk before it fails: a second by default.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets how long the stop waits for the disk: a minute by default.
    #[must_use]
    pub fn stop(mut self, stop: Duration) -> Self {
        self.stop = stop;
        self
    }

    /// Sets the memory for changes that are not durable yet, in bytes: by default an eighth of the
    /// cache's memory, but at most 64 MiB. It is in addition to the cache's memory.
    #[must_use]
    pub fn dirty_bytes(mut self, bytes: u64) -> Self {
        self.dirty_bytes = Some(bytes);
        self
    }

    /// Sets whether values are compressed on the disk: off by default. larder trains dictionaries
    /// from the values, so values from about 64 bytes on become shorter.
    ///
    /// Releases before this setting cannot open a directory in which it was ever set.
    #[must_use]
    pub fn compress(mut self, compress: bool) -> Self {
        self.compress = compress;
        self
    }

    /// Calls `progress` while the log is read at the start, with the number of segments read so far
    /// and their total.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Calls `act` once, at the end of the opening. Until then a killed process loses nothing;
    /// after it, a kill loses what only a clean stop saves: the index of the disk, and with it, in
    /// [`TierMode::Cache`], all items on the disk. `act` may never return: a process that was asked
    /// to stop can exit there and leave the directory as it was.
    #[must_use]
    pub fn before_change(mut self, act: impl Fn() + Send + Sync + 'static) -> Self {
        self.before_change = Some(Arc::new(act));
        self
    }

    /// Opens a store whose log is damaged, but drops all items that may be out of date. These are
    /// the items stored before the last lost record. Without this setting the opening fails. Calls
    /// `report` with each damaged place.
    ///
    /// The start repairs the log, so the next start does not need this setting. It has no effect if
    /// the start reads the index of a clean stop, or with [`TierMode::Cache`].
    #[must_use]
    pub fn accept_loss(mut self, report: impl Fn(&Damage) + Send + Sync + 'static) -> Self {
        self.accept_loss = Some(Arc::new(report));
        self
    }
}

/// The reason why a disk tier could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum TierError {
    /// The directory or its log cannot be used.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The memory of the cache is shared with other processes.
    #[error("a cache with a disk tier is in the memory of one process; open it without sharing")]
    Shared,
    /// The item size limit is too high for the log.
    #[error("the item size limit is {asked} bytes, but a disk tier supports at most {max}")]
    ItemTooLarge {
        /// The item size limit, in bytes.
        asked: u64,
        /// The highest supported limit, in bytes.
        max: u64,
    },
}

impl From<larder_tier::OpenError> for TierError {
    fn from(error: larder_tier::OpenError) -> Self {
        Self::Start(error.into())
    }
}
