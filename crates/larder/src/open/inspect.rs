//! Read-only inspection of a cache in a file, whether processes use it or not.

use std::fs::File;
use std::path::{Path, PathBuf};

use larder_engine::OPENING_BYTE;
use larder_engine::{Broken, Dumped, Engine, PeerReport, Report, SegmentReport};
use larder_item::{Deadline, Epoch, Meta, Second};
use larder_region::platform::clock;
use larder_region::{Memory, boot, file, locks};
use larder_stats::Counter;

use crate::open::error::{SharedError, Unusable};
use crate::system::clock::{Clock, Time, Wall};

/// A cache in a file, opened read-only. Other processes are not affected, and state that killed
/// processes left in the cache is not repaired.
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
    /// The file whose locks show which peers are alive.
    file: File,
}

/// A process that is attached to a cache, or died while it was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The entry that the process wrote about itself.
    pub report: PeerReport,
    /// True if the process is alive.
    pub lives: bool,
}

impl Inspection {
    /// Opens the file of a cache for inspection.
    ///
    /// # Errors
    /// [`SharedError`] describes the problem with the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SharedError> {
        let path = path.as_ref().to_owned();
        let named = path.clone();
        let unusable = |reason: Unusable| SharedError::Unusable { path: named.clone(), reason };
        let opened = file::open_to_read(&path)?;
        let memory = Memory::read_only(&opened).map_err(|error| unusable(error.into()))?;
        let engine = Engine::read_only(memory).map_err(|error| unusable(error.into()))?;
        let inspection = Self { engine, path, file: opened };
        // While processes use the cache, an inconsistent state is expected.
        if !inspection.peers().iter().any(|peer| peer.lives) {
            inspection.engine.check_words().map_err(|error| unusable(error.into()))?;
        }
        Ok(inspection)
    }

    /// Returns the sizes of the cache's parts.
    pub fn report(&self) -> Report {
        self.engine.report()
    }

    /// Returns a counter, summed over all threads that ever used the cache.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.engine.counter(counter)
    }

    /// Returns the segments that have ever been used.
    pub fn segments(&self) -> impl Iterator<Item = SegmentReport> {
        self.engine.segment_reports()
    }

    /// Returns the attached processes, and the processes that died while attached and whose entries
    /// no other process has removed yet. If the system cannot report locks, all processes are
    /// listed as dead.
    pub fn peers(&self) -> Vec<Peer> {
        let lives =
            |report: &PeerReport| locks::is_locked(&self.file, report.lock_byte).unwrap_or(false);
        let peers = self.engine.peer_reports().into_iter();
        peers.map(|report| Peer { report, lives: lives(&report) }).collect()
    }

    /// True if the system can report which processes are alive.
    pub fn knows_liveness(&self) -> bool {
        locks::is_locked(&self.file, OPENING_BYTE).is_ok()
    }

    /// Returns the current second of the cache.
    pub fn now(&self) -> Second {
        let lived = clock::monotonic_coarse()
            .secs
            .saturating_sub(self.engine.birth().monotonic_secs)
            .saturating_add(i64::from(Epoch::FIRST_SECOND));
        if self.is_of_this_boot() {
            Second::try_from(lived).unwrap_or(0)
        } else {
            self.engine.now()
        }
    }

    /// Returns the Unix time at which the cache was created, in seconds.
    pub fn made_unix_secs(&self) -> i64 {
        self.engine.epoch().unix_of(Epoch::FIRST_SECOND)
    }

    /// Returns a number unique to this cache.
    pub fn identity(&self) -> u128 {
        self.engine.birth().identity
    }

    /// True if the cache was created since the system booted. Processes do not use a cache from an
    /// earlier boot.
    pub fn is_of_this_boot(&self) -> bool {
        boot() == Some(self.engine.birth().boot)
    }

    /// True if items carry cas tokens.
    pub fn keeps_versions(&self) -> bool {
        self.engine.keeps_versions()
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Passes the live items to `visit` until it returns false, in no particular order. While
    /// processes use the cache, items may be visited twice or missed.
    pub fn dump(&self, visit: impl FnMut(Dumped) -> bool) {
        self.engine.dump(self.now(), visit);
    }

    /// Appends the value of an item to `out` and returns its metadata; `None`, with `out`
    /// unchanged, if the item is absent or a writer keeps changing it. Does not count as a read.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("cache");
    /// use larder::{Cache, Inspection};
    /// Cache::open_shared(&path)?.set("k", "value", None)?;
    /// let (inspection, mut value) = (Inspection::open(&path)?, Vec::new());
    /// let meta = inspection.look_up("k", &mut value).expect("the item");
    /// assert_eq!((&value[..], meta.value_bytes), (&b"value"[..], 5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn look_up(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Option<Meta> {
        self.engine.look_up(key.as_ref(), self.now(), out).map(|looked| looked.meta)
    }

    /// Returns a deadline as a Unix time in seconds; `None` if it is never.
    pub fn deadline_unix_secs(&self, deadline: Deadline) -> Option<i64> {
        (deadline != Deadline::NEVER).then(|| self.epoch().unix_of(deadline.0))
    }

    /// Returns the relation of the cache's seconds to Unix time, according to the current wall
    /// clock. If the system has booted since the cache was created, returns the relation at the
    /// time of the creation.
    fn epoch(&self) -> Epoch {
        let (epoch, birth) = (self.engine.epoch(), self.engine.birth());
        match self.is_of_this_boot() {
            true => {
                let time = Time::beginning_at(Clock::System, birth.monotonic_secs, epoch);
                Wall::new(epoch, &time).epoch(&time)
            }
            false => epoch,
        }
    }

    /// Checks all invariants that hold while no operation is in progress.
    ///
    /// # Errors
    /// The first broken invariant. While processes use the cache, or after a process died during an
    /// operation, this may be the effect of the unfinished operation.
    pub fn validate(&self) -> Result<(), Broken> {
        self.engine.validate()
    }
}
