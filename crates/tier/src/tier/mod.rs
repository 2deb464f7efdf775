//! A directory in use: its lock, its manifest and its log.
//!
//! The *manifest* is a small file that this module replaces as a unit. Its *epoch* counts the
//! starts without the memory of the previous process. It also contains the *lease*: the highest
//! segment number that the log may use. A lease is durable before its numbers are used, so no
//! number is used twice, even after a crash.

mod dictionaries;
mod error;

use std::sync::Arc;

use crate::compression::{Dictionaries, DictionaryDamage};
use crate::disk::{Directory, DiskError, File};
use crate::format::{Address, Manifest, Mode, SEGMENT_BYTES, Seal, SegmentNumber, Uuid};
use crate::log::{self, Log};
pub use error::OpenError;

const MANIFEST: &str = "MANIFEST";
/// The name of a new manifest until it is complete.
const MANIFEST_NEW: &str = "MANIFEST.new";
/// The space for a new manifest, including the metadata of the file system.
const MANIFEST_SPACE_BYTES: u64 = 16 << 10;
/// The epoch of a directory that was created but never started.
const EPOCH_MADE: u32 = 1;
/// The minimum number of segments in a log: one for new records, a free one into which reclaim can
/// copy live records, and one whose live records are copied.
pub const EXTENTS_MIN: u32 = 3;

/// Random bytes for a new directory, from the system's generator.
#[derive(Clone, Copy, Debug)]
pub struct Entropy {
    /// The directory's identity.
    pub uuid: Uuid,
    /// The seed of the index's hash.
    pub index_seed: u64,
    /// The key of the hash in summaries.
    pub hash_key: [u8; 16],
}

/// The requested mode and size of a directory.
#[derive(Clone, Copy, Debug)]
pub struct RequestedTier {
    /// Store or cache.
    pub mode: Mode,
    /// The size of the log, in bytes, rounded down to whole segments.
    pub bytes: u64,
}

impl RequestedTier {
    fn extents(self) -> Result<u32, OpenError> {
        let extents = self.bytes / SEGMENT_BYTES as u64;
        let min_bytes = u64::from(EXTENTS_MIN) * SEGMENT_BYTES as u64;
        match u32::try_from(extents.min(u64::from(u32::MAX))) {
            Ok(extents) if extents >= EXTENTS_MIN => Ok(extents),
            _ => Err(OpenError::TooSmall { bytes: self.bytes, min_bytes }),
        }
    }
}

/// A range of leased segment numbers. The iterator returns them in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    next: Option<SegmentNumber>,
    last: SegmentNumber,
}

impl Iterator for Lease {
    type Item = SegmentNumber;

    fn next(&mut self) -> Option<SegmentNumber> {
        let next = self.next.filter(|next| *next <= self.last)?;
        self.next = next.further(1);
        Some(next)
    }
}

/// The offset between the log's time and the system clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogTime {
    /// The log's time minus the system clock, in seconds.
    pub ahead_secs: i64,
    /// The number of seconds by which the system clock was set back to before the log's latest
    /// time; 0 if it is later than that time.
    pub skew_secs: u64,
}

/// A directory that this process has locked.
#[derive(Debug)]
pub struct Tier<D: Directory> {
    directory: D,
    manifest: Manifest,
    /// True if the manifest file has a flipped bit. The next start or stop rewrites the file.
    is_manifest_flipped: bool,
    log: Arc<Log<D::File>>,
    dictionaries: Arc<Dictionaries>,
    /// The copies of dictionaries that were damaged when the directory was opened.
    damaged: Vec<DictionaryDamage>,
    _lock: D::Lock,
}

impl<D: Directory> Tier<D> {
    /// Locks a directory. Creates the files of a tier if the directory has none.
    ///
    /// Cost: a few small reads; for a new directory also a few syncs. No space is allocated for the
    /// log.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open(
        directory: D,
        wanted: RequestedTier,
        entropy: Entropy,
        now_unix_secs: u64,
    ) -> Result<Self, OpenError> {
        let extents = wanted.extents()?;
        let lock = directory.lock()?;
        let found = Self::read_manifest(&directory)?;
        let is_manifest_flipped = found.as_ref().is_some_and(|(_, is_flipped)| *is_flipped);
        let (manifest, file) = match found {
            Some((manifest, _)) => {
                let file = Self::log_of(&directory, &manifest)?;
                (Self::grown(&directory, &file, manifest, wanted, extents)?, file)
            }
            None => Self::made(&directory, wanted.mode, extents, entropy, now_unix_secs)?,
        };
        let log = Arc::new(Log::new(file, Seal::of(manifest.uuid), manifest.extents));
        let (dictionaries, damaged) = Self::read_dictionaries(&directory, &manifest)?;
        let dictionaries = Arc::new(dictionaries);
        let tier = Self {
            directory,
            manifest,
            is_manifest_flipped,
            log,
            dictionaries,
            damaged,
            _lock: lock,
        };
        tier.mend_dictionaries()?;
        Ok(tier)
    }

    /// Checks whether a directory that another process uses could be opened with these settings.
    /// Changes nothing, and takes no lock.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: same as [`Tier::open`], except for conditions that the other process can
    /// still change.
    pub fn rehearse(directory: &D, wanted: RequestedTier) -> Result<(), OpenError> {
        let extents = wanted.extents()?;
        let Some((manifest, _)) = Self::read_manifest(directory)? else { return Ok(()) };
        Self::check(directory, &manifest, wanted, extents)?;
        if manifest.epoch != EPOCH_MADE {
            Self::log_of(directory, &manifest)?;
        }
        Self::read_dictionaries(directory, &manifest)?;
        let free_bytes = directory.space()?.free_bytes;
        if free_bytes < MANIFEST_SPACE_BYTES && directory.open(MANIFEST_NEW)?.is_none() {
            return Err(OpenError::NoSpace { path: path(directory), free_bytes });
        }
        Ok(())
    }

    /// Locks an existing tier for reading. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open_existing(directory: D) -> Result<Self, OpenError> {
        let lock = directory.lock()?;
        let Some((manifest, is_manifest_flipped)) = Self::read_manifest(&directory)? else {
            return Err(OpenError::NoTier { path: path(&directory) });
        };
        let Some(file) = directory.open(log::FILE_NAME)? else {
            return Err(OpenError::NoLog { path: path(&directory) });
        };
        // A truncated log is readable up to its end. No memory is reserved for the missing part.
        let whole = file.len()?.div_ceil(SEGMENT_BYTES as u64);
        let extents = manifest.extents.min(u32::try_from(whole).unwrap_or(u32::MAX));
        let log = Arc::new(Log::new(file, Seal::of(manifest.uuid), extents));
        let (dictionaries, damaged) = Self::readable_dictionaries(&directory, &manifest)?;
        let dictionaries = Arc::new(dictionaries);
        Ok(Self {
            directory,
            manifest,
            is_manifest_flipped,
            log,
            dictionaries,
            damaged,
            _lock: lock,
        })
    }

    /// Reads the manifest. The returned bool is true if one of its bits was flipped.
    fn read_manifest(directory: &D) -> Result<Option<(Manifest, bool)>, OpenError> {
        let Some(bytes) = directory.read_small(MANIFEST)? else {
            return match directory.open(log::FILE_NAME)? {
                Some(_) => Err(OpenError::NoManifest { path: path(directory) }),
                None => Ok(None),
            };
        };
        match Manifest::decode(&bytes) {
            Ok(manifest) => Ok(Some((manifest, false))),
            Err(reason) => match Manifest::decode_flipped(&bytes) {
                Some(manifest) => Ok(Some((manifest, true))),
                None => Err(OpenError::Manifest { path: path(directory), reason }),
            },
        }
    }

    /// Opens the log of a directory with a manifest.
    fn log_of(directory: &D, manifest: &Manifest) -> Result<D::File, OpenError> {
        let expected_bytes = u64::from(manifest.extents) * SEGMENT_BYTES as u64;
        if manifest.epoch == EPOCH_MADE {
            // The directory was created but never started: the process may have ended before it
            // created the log.
            return Self::file_of(directory, expected_bytes);
        }
        let Some(file) = directory.open(log::FILE_NAME)? else {
            return Err(OpenError::NoLog { path: path(directory) });
        };
        let found_bytes = file.len()?;
        if found_bytes < expected_bytes {
            return Err(OpenError::CutOff { path: path(directory), found_bytes, expected_bytes });
        }
        Ok(file)
    }

    /// Creates the log with its maximum length. No space is allocated for it.
    fn file_of(directory: &D, bytes: u64) -> Result<D::File, OpenError> {
        let file = directory.create(log::FILE_NAME)?;
        file.set_len(bytes)?;
        file.sync_data()?;
        directory.sync()?;
        Ok(file)
    }

    fn made(
        directory: &D,
        mode: Mode,
        extents: u32,
        entropy: Entropy,
        now_unix_secs: u64,
    ) -> Result<(Manifest, D::File), OpenError> {
        let manifest = Manifest {
            uuid: entropy.uuid,
            mode,
            extents,
            epoch: EPOCH_MADE,
            lease: None,
            durable: None,
            clean: false,
            index_seed: entropy.index_seed,
            hash_key: entropy.hash_key,
            made_unix_secs: now_unix_secs,
            ahead_secs: 0,
            dictionaries: None,
        };
        directory.replace_small(MANIFEST, &manifest.encode())?;
        let file = Self::file_of(directory, u64::from(extents) * SEGMENT_BYTES as u64)?;
        Ok((manifest, file))
    }

    /// Fails if the directory has another mode or is larger than requested.
    fn check(
        directory: &D,
        manifest: &Manifest,
        wanted: RequestedTier,
        extents: u32,
    ) -> Result<(), OpenError> {
        let path = || path(directory);
        if manifest.mode != wanted.mode {
            let (found, asked) = (manifest.mode, wanted.mode);
            return Err(OpenError::OtherMode { path: path(), found, asked });
        }
        if extents < manifest.extents {
            let found_bytes = u64::from(manifest.extents) * SEGMENT_BYTES as u64;
            return Err(OpenError::Shrinks {
                path: path(),
                found_bytes,
                asked_bytes: wanted.bytes,
            });
        }
        Ok(())
    }

    fn grown(
        directory: &D,
        file: &D::File,
        mut manifest: Manifest,
        wanted: RequestedTier,
        extents: u32,
    ) -> Result<Manifest, OpenError> {
        Self::check(directory, &manifest, wanted, extents)?;
        if extents > manifest.extents {
            manifest.extents = extents;
            // The file is extended first, so that the log is never shorter than the manifest
            // requires.
            file.set_len(u64::from(extents) * SEGMENT_BYTES as u64)?;
            file.sync_data()?;
            directory.replace_small(MANIFEST, &manifest.encode())?;
        }
        Ok(manifest)
    }

    /// Returns the path of the directory, for messages.
    pub fn path(&self) -> String {
        path(&self.directory)
    }

    /// Returns how many bytes are missing at the end of the log, compared to the manifest.
    pub(crate) fn cut_bytes(&self) -> u64 {
        match self.manifest.epoch {
            // The directory was never started: the process may have ended before it created the
            // log.
            EPOCH_MADE => 0,
            _ => u64::from(self.manifest.extents - self.log.extents()) * SEGMENT_BYTES as u64,
        }
    }

    /// True if the manifest file has a flipped bit. [`Tier::manifest`] returns the repaired
    /// content.
    pub fn is_manifest_flipped(&self) -> bool {
        self.is_manifest_flipped
    }

    /// Returns the files of the directory.
    pub(crate) fn directory(&self) -> &D {
        &self.directory
    }

    /// Returns a shared handle of the log, for readers.
    pub(crate) fn shared_log(&self) -> Arc<Log<D::File>> {
        Arc::clone(&self.log)
    }

    /// Returns the log.
    pub fn log(&self) -> &Log<D::File> {
        &self.log
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// True if memory with this epoch, which another process has left, contains all changes of the
    /// log. This requires that no later process used the log without this memory. In addition, the
    /// last stop must have been clean, or the machine must not have been restarted since.
    pub fn fits(&self, epoch: u32, is_same_boot: bool) -> bool {
        epoch == self.manifest.epoch && (is_same_boot || self.manifest.clean)
    }

    /// Starts with the memory of an earlier process, for which [`Tier::fits`] has returned true.
    ///
    /// # Errors
    ///
    /// [`OpenError::Disk`]. The caller must then not change the directory.
    pub fn go_on(&mut self) -> Result<(), OpenError> {
        match self.manifest.clean {
            true => self.replace(Manifest { clean: false, ..self.manifest.clone() }),
            false => Ok(()),
        }
    }

    /// Starts without the memory of an earlier process. Increments the epoch, so that
    /// [`Tier::fits`] returns false for all earlier memory. The caller runs recovery next.
    ///
    /// # Errors
    ///
    /// [`OpenError::NumbersUsedUp`] and [`OpenError::Disk`].
    pub fn begin_anew(&mut self) -> Result<(), OpenError> {
        let epoch = self.manifest.epoch.checked_add(1).ok_or_else(|| self.used_up())?;
        self.replace(Manifest { epoch, clean: false, ..self.manifest.clone() })
    }

    /// Leases the next `count` segment numbers, durably. Numbers are never leased twice, even if an
    /// earlier process leased them and did not use them.
    ///
    /// # Errors
    ///
    /// [`OpenError::NumbersUsedUp`] and [`OpenError::Disk`]. The caller must not use the lease
    /// then.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    pub fn lease(&mut self, count: u64) -> Result<Lease, OpenError> {
        assert!(count > 0, "a lease has a number");
        let next = match self.manifest.lease {
            // Rule: NumbersAreNew
            Some(last) => last.further(1),
            None => Some(SegmentNumber::FIRST),
        };
        let lease = next.and_then(|next| {
            let last = next.further(count - 1)?;
            Some(Lease { next: Some(next), last })
        });
        let lease = lease.ok_or_else(|| self.used_up())?;
        // Rule: LeaseIsDurable
        self.replace(Manifest { lease: Some(lease.last), ..self.manifest.clone() })?;
        Ok(lease)
    }

    fn used_up(&self) -> OpenError {
        OpenError::NumbersUsedUp { path: path(&self.directory) }
    }

    /// Marks a stop as clean: the log has all changes in memory, and is durable below `durable`.
    /// Recovery then treats damage below `durable` as damage, not as the effect of a power loss.
    ///
    /// # Errors
    ///
    /// [`OpenError::Disk`].
    pub fn mark_clean(&mut self, durable: Option<Address>) -> Result<(), OpenError> {
        let durable = durable.max(self.manifest.durable);
        self.replace(Manifest { clean: true, durable, ..self.manifest.clone() })
    }

    /// Sets the address below which a start found everything durable. The next change of the
    /// manifest makes it durable.
    pub(crate) fn set_durable(&mut self, end: Option<Address>) {
        self.manifest.durable = end;
    }

    /// Removes the durable address: all records below it are lost, and the user accepted the loss.
    ///
    /// # Errors
    ///
    /// [`DiskError`].
    pub(crate) fn forget_durable(&mut self) -> Result<(), DiskError> {
        let manifest = Manifest { durable: None, ..self.manifest.clone() };
        self.directory.replace_small(MANIFEST, &manifest.encode())?;
        self.manifest = manifest;
        Ok(())
    }

    /// Returns the offset between the log's time and the system clock. `stamp_unix_secs` is the
    /// latest time in the log.
    ///
    /// Deadlines in the log are in the log's time, which never goes back. While no process uses the
    /// log, its time advances with the system clock. If the system clock was set back to a moment
    /// before `stamp_unix_secs`, the log's time continues from `stamp_unix_secs`.
    pub fn log_time(&self, stamp_unix_secs: u64, system_unix_secs: u64) -> LogTime {
        let ahead_secs = i64::from(self.manifest.ahead_secs);
        let stamped_at = secs(stamp_unix_secs).saturating_sub(ahead_secs);
        let skew_secs = match stamp_unix_secs {
            // The log is empty.
            0 => 0,
            _ => stamped_at.saturating_sub(secs(system_unix_secs)).max(0),
        };
        let ahead_secs = ahead_secs.saturating_add(skew_secs);
        LogTime { ahead_secs, skew_secs: skew_secs.unsigned_abs() }
    }

    /// Sets how far the log's time is ahead of the system clock. The next change of the manifest
    /// makes this durable.
    pub fn note_ahead(&mut self, ahead_secs: i64) {
        let least = if ahead_secs < 0 { i32::MIN } else { i32::MAX };
        self.manifest.ahead_secs = i32::try_from(ahead_secs).unwrap_or(least);
    }

    fn replace(&mut self, manifest: Manifest) -> Result<(), OpenError> {
        // Rule: ManifestIsDurable
        self.directory.replace_small(MANIFEST, &manifest.encode())?;
        self.manifest = manifest;
        Ok(())
    }
}

fn secs(unix_secs: u64) -> i64 {
    i64::try_from(unix_secs).unwrap_or(i64::MAX)
}

fn path(directory: &impl Directory) -> String {
    directory.path().display().to_string()
}
