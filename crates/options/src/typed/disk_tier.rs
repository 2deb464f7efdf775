//! The disk tier: `--tier-path` and the options that belong to it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::source::values::Values;
use crate::table::Id;
use crate::table::kind::MEBIBYTE;

/// The longest value of an item that a segment of the disk holds, with any key.
/// `larder_tier::format::VALUE_BYTES_MAX`; a test of larderd compares them.
pub(crate) const ITEM_BYTES_MAX: u64 = (4 << 20) - 4096 - 48 - 32 - 250 - 7;

/// The smallest log of a store, in bytes: eight segments.
pub(crate) const SIZE_MIN: u64 = 8 * (4 << 20);

/// The directory that keeps all items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskTier {
    /// `--tier-path`: the directory.
    pub path: PathBuf,
    /// `--tier-size`: the size of its log, in bytes.
    pub bytes: u64,
    /// `--durability`: when a change survives a power loss.
    pub durability: Durability,
    /// `--tier-wait-secs`: how long a change waits for the disk before it fails.
    pub wait: Duration,
    /// `--tier-stop-secs`: how long the stop waits for the disk.
    pub stop: Duration,
    /// `--tier-dirty-bytes`: memory for changes that are not on the disk yet, in bytes.
    pub dirty_bytes: u64,
}

impl DiskTier {
    pub(crate) fn new(values: &Values) -> Option<Self> {
        let path = values.text(Id::TierPath).map(PathBuf::from)?;
        // `check` has refused a path without them.
        let (_size, _mode) = (values.given(Id::TierSize)?, values.text(Id::TierMode)?);
        let secs = |id: Id| Duration::from_secs(values.unsigned(id));
        let dirty = values.bytes(Id::TierDirtyBytes);
        let largest = values.bytes(Id::MemoryLimit) / DIRTY_PART;
        Some(Self {
            path,
            bytes: values.bytes(Id::TierSize),
            durability: values.text(Id::Durability).and_then(Durability::parse).unwrap_or_default(),
            wait: secs(Id::TierWaitSecs),
            stop: secs(Id::TierStopSecs),
            // A default that is too large is lowered; `check` refuses a given one.
            dirty_bytes: dirty.min(largest.max(DIRTY_MIN)),
        })
    }
}

/// The memory for changes that are not on the disk is at most this part of `-m` …
pub(crate) const DIRTY_PART: u64 = 8;
/// … or this many bytes.
pub(crate) const DIRTY_MIN: u64 = MEBIBYTE;

/// `--durability`: when a change survives a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before it is answered.
    Sync,
    /// At most twice this long after it was answered.
    Interval(Duration),
    /// Some time later, usually within 100 ms.
    Async,
}

impl Default for Durability {
    fn default() -> Self {
        Self::Interval(Duration::from_millis(100))
    }
}

impl Durability {
    pub(crate) const EXPECTED: &str = "sync, async, or interval=MS with 1 to 60000 milliseconds";

    /// Parses a text; `None` if it has another form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "sync" => Self::Sync,
            "async" => Self::Async,
            _ => {
                let millis: u64 = text.strip_prefix("interval=")?.parse().ok()?;
                (1..=60_000).contains(&millis).then_some(())?;
                Self::Interval(Duration::from_millis(millis))
            }
        })
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sync => f.write_str("sync"),
            Self::Interval(interval) => write!(f, "interval={}", interval.as_millis()),
            Self::Async => f.write_str("async"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durability_is_one_of_three_words() {
        let interval = |millis| Some(Durability::Interval(Duration::from_millis(millis)));
        for (text, durability) in [
            ("sync", Some(Durability::Sync)),
            ("async", Some(Durability::Async)),
            ("interval=1", interval(1)),
            ("interval=60000", interval(60_000)),
            ("interval=0", None),
            ("interval=60001", None),
            ("interval=-1", None),
            ("interval=", None),
            ("interval", None),
            ("", None),
            ("always", None),
        ] {
            assert_eq!(Durability::parse(text), durability, "{text}");
            assert!(durability.is_none_or(|durability| durability.to_string() == text), "{text}");
        }
        assert_eq!(Durability::default().to_string(), "interval=100");
    }
}
