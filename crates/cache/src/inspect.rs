//! Looking into a cache in a file, whether processes use it or not, without changing anything.

use std::path::{Path, PathBuf};

use larder_engine::{Broken, Dumped, Engine, PeerReport, Report, SegmentReport};
use larder_item::{Epoch, Second};
use larder_region::{Locks, Memory, boot, file};
use larder_stats::Counter;
use rustix::time::{ClockId, clock_gettime};

use crate::share::{SharedError, Unusable, lock_path};

/// A cache in a file that is only read: nobody notices, and nothing that others left is put in order.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("cache");
/// use larder::{Cache, Inspection};
/// let cache = Cache::open_shared(&path)?;
/// cache.set("k", "v", None)?;
/// let inspection = Inspection::open(&path)?;
/// assert_eq!(inspection.report().items, 1);
/// assert!(inspection.peers()[0].lives);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Inspection {
    engine: Engine,
    path: PathBuf,
    /// None where there is no lock file, or this process may not open it.
    locks: Option<Locks>,
}

/// A process that is attached to a cache, or died so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// What it says of itself.
    pub told: PeerReport,
    /// Does it live?
    pub lives: bool,
}

impl Inspection {
    /// Opens the file of a cache to look into it.
    ///
    /// # Errors
    /// [`SharedError`] says what is wrong with the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SharedError> {
        let path = path.as_ref().to_owned();
        let unusable = |reason: Unusable| SharedError::Unusable { path: path.clone(), reason };
        let opened = file::open_to_read(&path)?;
        let memory = Memory::read_only(&opened).map_err(|error| unusable(error.into()))?;
        let engine = Engine::read_only(memory).map_err(|error| unusable(error.into()))?;
        let lock_path = lock_path(&path);
        // Opening it would make it.
        let locks = lock_path.exists().then(|| Locks::open(&lock_path, &Default::default()).ok());
        Ok(Self { engine, path, locks: locks.flatten() })
    }

    /// The sizes of its parts.
    pub fn report(&self) -> Report {
        self.engine.report()
    }

    /// The sum of a counter over all threads that ever used it.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.engine.counter(counter)
    }

    /// Its segments that have ever been used.
    pub fn segments(&self) -> impl Iterator<Item = SegmentReport> {
        self.engine.segment_reports()
    }

    /// The processes that are attached, and those that died so and have not been buried yet. Where the lock file cannot be
    /// asked none is said to live.
    pub fn peers(&self) -> Vec<Peer> {
        let lives = |told: &PeerReport| {
            let locks = self.locks.as_ref();
            locks.is_some_and(|locks| locks.is_locked_by_other(told.lock_byte).unwrap_or(false))
        };
        let peers = self.engine.peer_reports().into_iter();
        peers.map(|told| Peer { told, lives: lives(&told) }).collect()
    }

    /// Can it be told which processes live?
    pub fn knows_who_lives(&self) -> bool {
        self.locks.is_some()
    }

    /// Its present second.
    pub fn now(&self) -> Second {
        let lived = clock_gettime(ClockId::MonotonicCoarse)
            .tv_sec
            .saturating_sub(self.engine.birth().monotonic_secs)
            .saturating_add(i64::from(Epoch::FIRST_SECOND));
        if self.is_of_this_boot() {
            Second::try_from(lived).unwrap_or(0)
        } else {
            self.engine.now()
        }
    }

    /// The Unix time in which it was made.
    pub fn made_unix_secs(&self) -> i64 {
        self.engine.epoch().unix_of(Epoch::FIRST_SECOND)
    }

    /// A number that no other cache has.
    pub fn identity(&self) -> u128 {
        self.engine.birth().identity
    }

    /// Was it made since the system was started? Else it is not used any more.
    pub fn is_of_this_boot(&self) -> bool {
        boot() == Some(self.engine.birth().boot)
    }

    /// Do its items carry cas tokens?
    pub fn keeps_versions(&self) -> bool {
        self.engine.keeps_versions()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Shows its live items to `visit` until that says no, in no particular order. Where processes use it items may be shown
    /// twice, or not.
    pub fn dump(&self, visit: impl FnMut(Dumped) -> bool) {
        self.engine.dump(self.now(), visit);
    }

    /// Checks everything that holds where no operation is under way.
    ///
    /// # Errors
    /// The first invariant found broken; where processes use the cache, or died in it, that may be what they are, or were, about.
    pub fn validate(&self) -> Result<(), Broken> {
        self.engine.validate()
    }
}
