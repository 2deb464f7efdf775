//! Inspection of a disk tier's directory that no process uses.

use std::path::{Path, PathBuf};

use larder_tier::Tier;
use larder_tier::disk::platform::RealDirectory;
use larder_tier::format::{Item, Mode, SEGMENT_BYTES};
use larder_tier::store::{self, Damage, Findings, SalvageReport, Trust};

use super::settings::{TierError, TierMode};

/// The directory of a disk tier, opened for reading only. Other processes cannot use it as long as
/// this value exists.
///
/// ```no_run
/// use larder::TierInspection;
///
/// let directory = TierInspection::open("/var/lib/larder/store".as_ref())?;
/// let findings = directory.read(1_790_000_000, |_, _| (), |item| {
///     println!("{}", item.key.escape_ascii());
///     true
/// })?;
/// println!("{} items in {} segments", findings.items, findings.segments);
/// # Ok::<(), larder::TierError>(())
/// ```
#[derive(Debug)]
pub struct TierInspection {
    path: PathBuf,
    tier: Tier<RealDirectory>,
}

impl TierInspection {
    /// Opens a directory.
    ///
    /// # Errors
    /// [`TierError`] if another process uses the directory, or it is not the directory of a disk
    /// tier.
    pub fn open(path: &Path) -> Result<Self, TierError> {
        let directory = RealDirectory::open(path).map_err(larder_tier::OpenError::from)?;
        Ok(Self { path: path.to_owned(), tier: Tier::open_existing(directory)? })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the mode of the directory.
    pub fn mode(&self) -> TierMode {
        match self.tier.manifest().mode {
            Mode::Store => TierMode::Store,
            Mode::Cache => TierMode::Cache,
        }
    }

    /// Returns the identity of the directory.
    pub fn identity(&self) -> u128 {
        u128::from_be_bytes(self.tier.manifest().uuid.0)
    }

    /// Returns the maximum size of the log, in bytes.
    pub fn size_bytes(&self) -> u64 {
        u64::from(self.tier.manifest().extents) * SEGMENT_BYTES as u64
    }

    /// Returns when the directory was created, as a Unix time.
    pub fn made_unix_secs(&self) -> u64 {
        self.tier.manifest().made_unix_secs
    }

    /// True if the last stop was clean. If it was not, the next start of a cache is empty.
    pub fn is_clean(&self) -> bool {
        self.tier.manifest().clean
    }

    /// Reads the directory, and calls `show` with its items until `show` returns false. Skips items
    /// that are expired at `now_unix_secs`, or flushed by a delayed flush that is due at that time.
    /// Calls `progress` with the number of segments read so far and their total. A store is read
    /// twice.
    ///
    /// Cost: two reads of the log of a store, one of the log of a cache; 19 to 24 bytes of memory
    /// per item.
    ///
    /// # Errors
    /// [`TierError`] if the log is damaged or the disk fails. The items shown before the error are
    /// intact.
    pub fn read(
        &self,
        now_unix_secs: u64,
        mut progress: impl FnMut(usize, usize),
        mut show: impl FnMut(&TierItem<'_>) -> bool,
    ) -> Result<Findings, TierError> {
        let ahead_secs = self.ahead_secs(now_unix_secs);
        let mut show = |item: &Item<'_>| show(&TierItem::of(item, ahead_secs));
        let now = now_unix_secs.saturating_add_signed(ahead_secs);
        let read = store::inspect(&self.tier, now, &mut progress, &mut show);
        let findings = read.map_err(store::StartError::from)?;
        Ok(by_system_clock(findings, ahead_secs))
    }
}

impl TierInspection {
    /// Reads a damaged directory as far as possible. Calls `report` with each damaged place. Calls
    /// `show` with each readable item and with whether it is known to be the newest one of its key.
    /// Skips items that are expired at `now_unix_secs`, or flushed by a delayed flush that is due
    /// at that time. Also skips older items of a key whose newest record is damaged.
    ///
    /// Cost: three reads of the log of a store, one of the log of a cache; 19 to 24 bytes of memory
    /// per item.
    ///
    /// # Errors
    /// [`TierError`] if the disk fails to return the index of a cache.
    pub fn salvage(
        &self,
        now_unix_secs: u64,
        mut progress: impl FnMut(usize, usize),
        mut report: impl FnMut(&Damage),
        mut show: impl FnMut(&TierItem<'_>, Trust),
    ) -> Result<SalvageReport, TierError> {
        let ahead_secs = self.ahead_secs(now_unix_secs);
        let mut show = |item: &Item<'_>, trust| show(&TierItem::of(item, ahead_secs), trust);
        let now = now_unix_secs.saturating_add_signed(ahead_secs);
        let salvaged = store::salvage(&self.tier, now, &mut progress, &mut report, &mut show);
        let salvaged = salvaged.map_err(larder_tier::OpenError::from)?;
        let findings = by_system_clock(salvaged.findings, ahead_secs);
        Ok(SalvageReport { findings, ..salvaged })
    }

    /// Returns how far the log's time, which deadlines use, is ahead of the system clock.
    fn ahead_secs(&self, now_unix_secs: u64) -> i64 {
        self.tier.log_time(store::newest_stamp(&self.tier), now_unix_secs).ahead_secs
    }
}

/// Converts the times in the findings to the system clock.
fn by_system_clock(findings: Findings, ahead_secs: i64) -> Findings {
    let due = |secs: u64| secs.saturating_add_signed(-ahead_secs);
    Findings { due_unix_secs: findings.due_unix_secs.map(due), ..findings }
}

impl<'a> TierItem<'a> {
    fn of(item: &Item<'a>, ahead_secs: i64) -> Self {
        let deadline = |secs: u64| secs.saturating_add_signed(-ahead_secs).max(1);
        Self {
            key: item.key,
            value: item.value,
            flags: item.flags,
            deadline_unix_secs: item.deadline_unix_secs.map(deadline),
            stale: item.stale,
        }
    }
}

/// An item of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierItem<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The client flags.
    pub flags: u32,
    /// The second at which it expires, as a Unix time; `None`: never.
    pub deadline_unix_secs: Option<u64>,
    /// True if the value is out of date.
    pub stale: bool,
}
