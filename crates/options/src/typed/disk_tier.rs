//! The disk tier: `--tier-path` and the options that belong to it.

use std::path::PathBuf;
use std::time::Duration;

use crate::given::values::Values;
use crate::table::Id;
use crate::table::kind::MEBIBYTE;
use crate::value::durability::Durability;
use crate::value::file_size::file_size;

/// The longest value of an item that fits into a segment of the disk, with any key. It must equal
/// `larder_tier::format::VALUE_BYTES_MAX`, which this crate does not import; a test of larderd
/// compares the two.
pub(crate) const ITEM_BYTES_MAX: u64 = (4 << 20) - 4096 - 48 - 32 - 250 - 7;

/// The smallest log, in bytes: eight segments.
pub(crate) const SIZE_MIN: u64 = 8 * (4 << 20);

/// The largest log, in bytes.
pub(crate) const SIZE_MAX: u64 = 64 << 40;

/// The mode of a disk tier's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierMode {
    /// The directory stores all items durably.
    Store,
    /// The directory stores the items that memory evicts.
    Cache,
}

/// The evicted items that are written to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierAdmission {
    /// Items that were read since they were stored, and items that are stored again soon after an
    /// eviction.
    Reused,
    /// All evicted items.
    All,
}

/// The directory that stores items on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskTier {
    /// `--tier-path`: the directory.
    pub path: PathBuf,
    /// `--tier-size`: the size of its log, in bytes.
    pub bytes: u64,
    /// `--tier-mode`: its mode.
    pub mode: TierMode,
    /// `--tier-admit`: the evicted items that are written to it.
    pub admission: TierAdmission,
    /// `-o ext_item_size`: the smallest size of key and value together of an item that a
    /// cache writes to disk, in bytes.
    pub item_bytes_min: usize,
    /// `--durability`: when a change survives a power loss.
    pub durability: Durability,
    /// `--tier-wait-secs`: how long a change waits for the disk before it fails.
    pub wait: Duration,
    /// `--tier-stop-secs`: how long a stop of the server waits until all changes are on the disk.
    pub stop: Duration,
    /// `--tier-dirty-bytes`: memory for changes that are not on the disk yet, in bytes.
    pub dirty_bytes: u64,
    /// `--tier-compress`: compress values on the disk.
    pub compress: bool,
    /// `--tier-accept-loss`: open a damaged store without the items that may be out of date.
    pub accept_loss: bool,
}

impl DiskTier {
    pub(crate) fn new(values: &Values) -> Option<Self> {
        let asked = RequestedDiskTier::of(values)?;
        let secs = |id: Id| Duration::from_secs(values.unsigned(id));
        let dirty = values.bytes(Id::TierDirtyBytes);
        let largest = values.bytes(Id::MemoryLimit) / DIRTY_PART;
        Some(Self {
            path: asked.path,
            // `check` has refused a directory without a size and a mode.
            bytes: asked.bytes?,
            mode: asked.mode?,
            admission: match values.text(Id::TierAdmit) {
                Some("reused") => TierAdmission::Reused,
                _ => TierAdmission::All,
            },
            item_bytes_min: values
                .given(Id::ExtItemSize)
                .map_or(0, |_| values.unsigned(Id::ExtItemSize)),
            durability: values.text(Id::Durability).and_then(Durability::parse).unwrap_or_default(),
            wait: secs(Id::TierWaitSecs),
            stop: secs(Id::TierStopSecs),
            // Lowers a default that is too large. `check` has refused a given value that is.
            dirty_bytes: dirty.min(largest.max(DIRTY_MIN)),
            compress: values.switch(Id::TierCompress),
            accept_loss: values.switch(Id::TierAcceptLoss),
        })
    }
}

/// The directory that the options name.
pub(crate) struct RequestedDiskTier {
    /// The option that names it.
    pub(crate) id: Id,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Option<u64>,
    pub(crate) mode: Option<TierMode>,
}

impl RequestedDiskTier {
    /// `--tier-path`, or memcached's `-o ext_path`; `None` without a disk tier.
    pub(crate) fn of(values: &Values) -> Option<Self> {
        if let Some(path) = values.text(Id::TierPath) {
            let size = values.given(Id::TierSize).map(|_| values.bytes(Id::TierSize));
            let mode = values.text(Id::TierMode).map(|mode| match mode {
                "cache" => TierMode::Cache,
                _ => TierMode::Store,
            });
            return Some(Self { id: Id::TierPath, path: path.into(), bytes: size, mode });
        }
        let (file, bytes) = values.text(Id::ExtPath).and_then(file_size)?;
        let path = format!("{file}.tier").into();
        Some(Self { id: Id::ExtPath, path, bytes: Some(bytes), mode: Some(TierMode::Cache) })
    }
}

/// The memory for changes that are not on the disk yet is at most the memory of `-m` divided by
/// this number …
pub(crate) const DIRTY_PART: u64 = 8;
/// … but never limited to less than this many bytes.
pub(crate) const DIRTY_MIN: u64 = MEBIBYTE;
