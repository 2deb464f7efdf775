//! A directory in use: its lock, its manifest and its log.

use std::sync::Arc;

use thiserror::Error;

use crate::disk::{Directory, DiskError, File};
use crate::format::{
    Address, Manifest, ManifestError, Mode, SEGMENT_BYTES, Seal, SegmentNumber, Uuid,
};
use crate::log::{self, Log};

const MANIFEST: &str = "MANIFEST";
/// The name that a manifest has until it is whole.
const MANIFEST_NEW: &str = "MANIFEST.new";
/// The space that a new manifest takes, with what the file system notes of it.
const MANIFEST_SPACE_BYTES: u64 = 16 << 10;
/// The epoch of a directory that was never started.
const EPOCH_MADE: u32 = 1;
/// Segments that a log has at least: one takes records, one is free for reclaim, one is reclaimed.
pub const EXTENTS_MIN: u32 = 3;

/// Why a directory is not opened. Nothing was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The disk failed, or the directory is in use or not ours.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The manifest does not fit this release.
    #[error("{path}: {reason}")]
    Manifest {
        /// The directory.
        path: String,
        /// What is wrong.
        reason: ManifestError,
    },
    /// The directory is a store and was asked for as a cache, or the other way round.
    #[error(
        "{path} is a {found}, and is asked for as a {asked}: start it as a {found}, or export it \
         there and import it into a new directory"
    )]
    OtherMode {
        /// The directory.
        path: String,
        /// What it is.
        found: Mode,
        /// What was asked for.
        asked: Mode,
    },
    /// The directory is none that larderd has made.
    #[error("{path} has no MANIFEST: it is not a directory of --tier-path")]
    NoTier {
        /// The directory.
        path: String,
    },
    /// The directory has a log and no manifest.
    #[error("{path} holds a log without a MANIFEST: restore the file, or name an empty directory")]
    NoManifest {
        /// The directory.
        path: String,
    },
    /// The directory has a manifest and no log.
    #[error("{path} has a MANIFEST and no log: restore the file, or name an empty directory")]
    NoLog {
        /// The directory.
        path: String,
    },
    /// The log is shorter than the manifest says.
    #[error(
        "the log in {path} has {found_bytes} bytes, expected {expected_bytes}: it was cut off. \
         Restore the directory from a backup, or save what can be read with larder export {path} \
         FILE --past-damage readable, and import it into a new directory"
    )]
    CutOff {
        /// The directory.
        path: String,
        /// The length of the file.
        found_bytes: u64,
        /// Its length as the manifest says.
        expected_bytes: u64,
    },
    /// The size is smaller than the segments that the log may have now.
    #[error(
        "{path} has a size of {found_bytes} bytes, and {asked_bytes} are asked for: a directory can \
         grow, not shrink. Export it and import it into a smaller one"
    )]
    Shrinks {
        /// The directory.
        path: String,
        /// The size that it has.
        found_bytes: u64,
        /// The size that was asked for.
        asked_bytes: u64,
    },
    /// The file system has no space for a manifest.
    #[error(
        "{path} has {free_bytes} bytes of free space, and a start needs {MANIFEST_SPACE_BYTES}: \
         remove other files of its volume, or enlarge it"
    )]
    NoSpace {
        /// The directory.
        path: String,
        /// The space that is left.
        free_bytes: u64,
    },
    /// The log is too small to be of use.
    #[error("a size of {bytes} bytes is too small: a log needs {min_bytes} at least")]
    TooSmall {
        /// The size that was asked for.
        bytes: u64,
        /// The smallest size.
        min_bytes: u64,
    },
    /// The directory was started without its memory 2³² times, or has written 2⁶⁷ bytes.
    #[error("{path} has used up its numbers: export it and import it into a new directory")]
    NumbersUsedUp {
        /// The directory.
        path: String,
    },
}

/// The random bytes of a new directory, from the system's generator.
#[derive(Clone, Copy, Debug)]
pub struct Entropy {
    /// The directory's identity.
    pub uuid: Uuid,
    /// The seed of the index's hash.
    pub index_seed: u64,
    /// The key of the hash in summaries.
    pub hash_key: [u8; 16],
}

/// What a directory is asked to be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// What it promises.
    pub mode: Mode,
    /// The size of its log, in bytes; rounded down to whole segments.
    pub bytes: u64,
}

impl Wanted {
    fn extents(self) -> Result<u32, OpenError> {
        let extents = self.bytes / SEGMENT_BYTES as u64;
        let min_bytes = u64::from(EXTENTS_MIN) * SEGMENT_BYTES as u64;
        match u32::try_from(extents.min(u64::from(u32::MAX))) {
            Ok(extents) if extents >= EXTENTS_MIN => Ok(extents),
            _ => Err(OpenError::TooSmall { bytes: self.bytes, min_bytes }),
        }
    }
}

/// Segment numbers, the next one first.
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

/// The time of a log beside the system's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogTime {
    /// How far it is ahead, in seconds.
    pub ahead_secs: i64,
    /// By how much the system's clock is behind where it was at the log's latest time, in seconds.
    pub skew_secs: u64,
}

/// A directory that this process has locked.
#[derive(Debug)]
pub struct Tier<D: Directory> {
    directory: D,
    manifest: Manifest,
    /// A bit of the file was flipped. The next start or stop writes it anew.
    is_manifest_flipped: bool,
    log: Arc<Log<D::File>>,
    _lock: D::Lock,
}

impl<D: Directory> Tier<D> {
    /// Locks a directory, and makes it a tier if it is none.
    ///
    /// Cost: a few small reads; for a new directory a few syncs. The log's space is not allocated.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open(
        directory: D,
        wanted: Wanted,
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
        Ok(Self { directory, manifest, is_manifest_flipped, log, _lock: lock })
    }

    /// Checks whether a directory that another process serves could be opened as it is wanted.
    /// Changes nothing, and needs no lock.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: that of [`Tier::open`], but for what the other process may still change.
    pub fn rehearse(directory: &D, wanted: Wanted) -> Result<(), OpenError> {
        let extents = wanted.extents()?;
        let Some((manifest, _)) = Self::read_manifest(directory)? else { return Ok(()) };
        Self::check(directory, &manifest, wanted, extents)?;
        if manifest.epoch != EPOCH_MADE {
            Self::log_of(directory, &manifest)?;
        }
        let free_bytes = directory.space()?.free_bytes;
        if free_bytes < MANIFEST_SPACE_BYTES && directory.open(MANIFEST_NEW)?.is_none() {
            return Err(OpenError::NoSpace { path: path(directory), free_bytes });
        }
        Ok(())
    }

    /// Locks a directory that is a tier, to read it. Changes nothing.
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
        // A log that was cut off can be read as far as it goes. Memory is not taken for more.
        let whole = file.len()?.div_ceil(SEGMENT_BYTES as u64);
        let extents = manifest.extents.min(u32::try_from(whole).unwrap_or(u32::MAX));
        let log = Arc::new(Log::new(file, Seal::of(manifest.uuid), extents));
        Ok(Self { directory, manifest, is_manifest_flipped, log, _lock: lock })
    }

    /// Reads the manifest. Returns true with it if a bit of it was flipped.
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

    /// Opens the log of a directory that has a manifest.
    fn log_of(directory: &D, manifest: &Manifest) -> Result<D::File, OpenError> {
        let expected_bytes = u64::from(manifest.extents) * SEGMENT_BYTES as u64;
        if manifest.epoch == EPOCH_MADE {
            // The directory was made and never started: the end may have come before the log.
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

    /// Makes the log as long as it may get. Its space is not allocated.
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
        };
        directory.replace_small(MANIFEST, &manifest.encode())?;
        let file = Self::file_of(directory, u64::from(extents) * SEGMENT_BYTES as u64)?;
        Ok((manifest, file))
    }

    /// Fails if a directory is not, and does not become, what is wanted.
    fn check(
        directory: &D,
        manifest: &Manifest,
        wanted: Wanted,
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
        wanted: Wanted,
        extents: u32,
    ) -> Result<Manifest, OpenError> {
        Self::check(directory, &manifest, wanted, extents)?;
        if extents > manifest.extents {
            manifest.extents = extents;
            // The log is never shorter than the manifest says.
            file.set_len(u64::from(extents) * SEGMENT_BYTES as u64)?;
            file.sync_data()?;
            directory.replace_small(MANIFEST, &manifest.encode())?;
        }
        Ok(manifest)
    }

    /// The path of the directory, for messages.
    pub fn path(&self) -> String {
        path(&self.directory)
    }

    /// The length that the log has lost, in bytes, if it is shorter than the manifest says.
    pub(crate) fn cut_bytes(&self) -> u64 {
        match self.manifest.epoch {
            // It was never started: the end may have come before the log.
            EPOCH_MADE => 0,
            _ => u64::from(self.manifest.extents - self.log.extents()) * SEGMENT_BYTES as u64,
        }
    }

    /// True if the file of the manifest had a flipped bit, which [`Tier::manifest`] has not.
    pub fn is_manifest_flipped(&self) -> bool {
        self.is_manifest_flipped
    }

    /// The directory's files.
    pub(crate) fn directory(&self) -> &D {
        &self.directory
    }

    /// The log, for those who read it.
    pub(crate) fn shared_log(&self) -> Arc<Log<D::File>> {
        Arc::clone(&self.log)
    }

    /// The log.
    pub fn log(&self) -> &Log<D::File> {
        &self.log
    }

    /// What the directory is.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether the memory that has this epoch knows all of the log: it served it last, and since
    /// then the machine has not been started again, or the last stop was clean.
    pub fn fits(&self, epoch: u32, is_same_boot: bool) -> bool {
        epoch == self.manifest.epoch && (is_same_boot || self.manifest.clean)
    }

    /// Begins to serve with the memory that [`Tier::fits`].
    ///
    /// # Errors
    ///
    /// [`OpenError::Disk`]. The directory must then not be changed.
    pub fn go_on(&mut self) -> Result<(), OpenError> {
        match self.manifest.clean {
            true => self.replace(Manifest { clean: false, ..self.manifest.clone() }),
            false => Ok(()),
        }
    }

    /// Begins without memory: raises the epoch, so that no earlier memory fits. Recovery comes
    /// next.
    ///
    /// # Errors
    ///
    /// [`OpenError::NumbersUsedUp`] and [`OpenError::Disk`].
    pub fn begin_anew(&mut self) -> Result<(), OpenError> {
        let epoch = self.manifest.epoch.checked_add(1).ok_or_else(|| self.used_up())?;
        self.replace(Manifest { epoch, clean: false, ..self.manifest.clone() })
    }

    /// Leases the next `count` segment numbers, durably. No other lease has them, not even one of
    /// an earlier process that never used them.
    ///
    /// # Errors
    ///
    /// [`OpenError::NumbersUsedUp`] and [`OpenError::Disk`]. The lease is then not to be used.
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

    /// Marks a stop as clean: all that memory knows is in the log, which is durable below
    /// `durable`. Recovery then takes damage below it for damage, not for a power loss.
    ///
    /// # Errors
    ///
    /// [`OpenError::Disk`].
    pub fn mark_clean(&mut self, durable: Option<Address>) -> Result<(), OpenError> {
        let durable = durable.max(self.manifest.durable);
        self.replace(Manifest { clean: true, durable, ..self.manifest.clone() })
    }

    /// Notes the end of the log, below which a start has found everything durable. The next change
    /// of the manifest makes the note durable.
    pub(crate) fn set_durable(&mut self, end: Option<Address>) {
        self.manifest.durable = end;
    }

    /// Forgets what was durable: all of it is lost, and the loss is accepted.
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

    /// Returns how far the time of a log, whose latest time is `stamp_unix_secs`, is ahead of the
    /// system's clock, and by how much that clock is behind where it was then.
    ///
    /// Deadlines in the log count by the log's time, which never goes back. Since the last stamp as
    /// much of it has passed as of the system's; none if the clock was set back meanwhile.
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

    /// Notes how far the log's time is ahead of the system's clock. The next change of the manifest
    /// makes it durable.
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
