//! The settings of a disk tier.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use larder_tier::Wanted;
use larder_tier::format::{Mode, VALUE_BYTES_MAX};
use larder_tier::store::{BYTES_MIN, Damage, Report, StartError};

/// When a change is durable: when it survives a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the operation returns. The changes of all threads share a sync of the disk.
    Sync,
    /// At most twice this long after the operation returned.
    Interval(Duration),
    /// Some time later: usually within 100 ms.
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

/// What the directory of a disk tier promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierMode {
    /// All items are on the disk: a durable store.
    Store,
    /// The disk has what memory evicts: a larger cache. After a crash it is empty, after a clean
    /// stop it has everything.
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

/// Which evicted items the disk of a cache gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// All.
    All,
    /// Those that were read since they were stored, and those stored again soon after an eviction.
    Reused,
}

/// What is called while a log is read, with the segments that are read and their number.
type Progress = Arc<dyn Fn(usize, usize) + Send + Sync>;

/// A directory on disk that holds all items of a cache, or those that memory evicts.
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
    /// A directory, which is made if it is missing, with a log of at most `bytes`: 32 MiB to
    /// 64 TiB. A directory can grow, not shrink.
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
        }
    }

    /// What the directory is to be.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted { mode: self.mode.of_store(), bytes: self.bytes }
    }

    /// Checks what can be checked without the directory.
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

    /// Sets what the directory promises: a store by default. A directory keeps its mode.
    #[must_use]
    pub fn mode(mut self, mode: TierMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets which evicted items the disk gets, with [`TierMode::Cache`]: all by default.
    #[must_use]
    pub fn admission(mut self, admission: Admission) -> Self {
        self.admission = admission;
        self
    }

    /// Sets the smallest size of key and value together that the disk gets, in bytes, with
    /// [`TierMode::Cache`]: 0 by default. Smaller items are lost when memory evicts them, and at a
    /// stop.
    #[must_use]
    pub fn item_bytes_min(mut self, bytes: usize) -> Self {
        self.item_bytes_min = bytes;
        self
    }

    /// Sets when changes are durable, with [`TierMode::Store`]: by default within 200 ms.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how long a change waits for a disk that does not keep up before it fails: a second by
    /// default.
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

    /// Sets the memory for changes that are not durable yet, in bytes: an eighth of the cache's
    /// memory by default, and at most 64 MiB. It comes on top of the cache's memory.
    #[must_use]
    pub fn dirty_bytes(mut self, bytes: u64) -> Self {
        self.dirty_bytes = Some(bytes);
        self
    }

    /// Calls `progress` while the log is read at the start, with the segments that are read and
    /// their number.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Calls `act` once, at the end of the opening, before the directory changes so that a kill
    /// would lose what a clean stop keeps. `act` need not return: a process that is asked to stop
    /// may end there, and leaves the directory as it was.
    #[must_use]
    pub fn before_change(mut self, act: impl Fn() + Send + Sync + 'static) -> Self {
        self.before_change = Some(Arc::new(act));
        self
    }

    /// Opens a store whose log is damaged, without all items that may be out of date: those that
    /// were stored before what is lost. Without this the opening fails. It calls `report` for each
    /// damaged place.
    ///
    /// The log is without damage afterwards, so this is not needed again. It has no effect if the
    /// index of a clean stop is read, and with [`TierMode::Cache`].
    #[must_use]
    pub fn accept_loss(mut self, report: impl Fn(&Damage) + Send + Sync + 'static) -> Self {
        self.accept_loss = Some(Arc::new(report));
        self
    }
}

/// The reason why a disk tier cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TierError {
    /// The directory or its log cannot be used.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The cache's memory is shared with other processes.
    #[error("a cache with a disk tier is in the memory of one process; open it without sharing")]
    Shared,
    /// The largest item is too long for the log.
    #[error("the largest item may have {max} bytes with a disk tier, found {asked}")]
    ItemTooLarge {
        /// The item size limit, in bytes.
        asked: u64,
        /// The possible limit, in bytes.
        max: u64,
    },
}

impl From<larder_tier::OpenError> for TierError {
    fn from(error: larder_tier::OpenError) -> Self {
        Self::Start(error.into())
    }
}
