//! Looking into a cache in a file, whether processes use it or not, without changing anything.

use std::fs::File;
use std::path::{Path, PathBuf};

use larder_engine::OPENING_BYTE;
use larder_engine::{Broken, Dumped, Engine, PeerReport, Report, SegmentReport};
use larder_item::{Epoch, Second};
use larder_region::{Memory, boot, file, locks};
use larder_stats::Counter;
use rustix::time::{ClockId, clock_gettime};

use crate::open::share::{SharedError, Unusable};

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
    /// Whose locks tell who lives.
    file: File,
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
        let named = path.clone();
        let unusable = |reason: Unusable| SharedError::Unusable { path: named.clone(), reason };
        let opened = file::open_to_read(&path)?;
        let memory = Memory::read_only(&opened).map_err(|error| unusable(error.into()))?;
        let engine = Engine::read_only(memory).map_err(|error| unusable(error.into()))?;
        let inspection = Self { engine, path, file: opened };
        // Where it is in use, words are seen that do not fit together.
        if !inspection.peers().iter().any(|peer| peer.lives) {
            inspection.engine.check_words().map_err(|error| unusable(error.into()))?;
        }
        Ok(inspection)
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

    /// The processes that are attached, and those that died so and have not been reaped yet. Where the system does not
    /// say none is said to live.
    pub fn peers(&self) -> Vec<Peer> {
        let lives =
            |told: &PeerReport| locks::is_locked(&self.file, told.lock_byte).unwrap_or(false);
        let peers = self.engine.peer_reports().into_iter();
        peers.map(|told| Peer { told, lives: lives(&told) }).collect()
    }

    /// Can it be told which processes live?
    pub fn knows_who_lives(&self) -> bool {
        locks::is_locked(&self.file, OPENING_BYTE).is_ok()
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
