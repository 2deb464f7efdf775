//! The options of a near cache.

use std::path::PathBuf;
use std::time::Duration;

use crate::given::values::Values;
use crate::table::Id;
use crate::value::duration::duration;
use crate::value::origin::OriginAddress;

/// A server that copies the items of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    /// `--origin`: the server whose items are copied.
    pub origin: OriginAddress,
    /// `--origin-timeout`: how long a request waits for the origin before it fails.
    pub timeout: Duration,
    /// `--origin-ca`: file of the authorities that sign the origin's certificate.
    pub authorities: Option<PathBuf>,
    /// `--origin-login`: file of the user and the password with which to log in at the origin.
    pub login: Option<PathBuf>,
    /// `--near-max-stale`: how long after a change a copy may still be out of date.
    pub stale_max: Duration,
    /// `--near-item-max`: the longest value that is copied, in bytes.
    pub value_bytes_max: usize,
}

impl Near {
    pub(crate) fn new(values: &Values) -> Option<Self> {
        let origin = values.text(Id::Origin).and_then(OriginAddress::parse)?;
        // Both rows have a default.
        let time = |id| values.text(id).and_then(duration).unwrap_or_default();
        Some(Self {
            origin,
            timeout: time(Id::OriginTimeout),
            authorities: values.text(Id::OriginCa).map(PathBuf::from),
            login: values.text(Id::OriginLogin).map(PathBuf::from),
            stale_max: time(Id::NearMaxStale),
            value_bytes_max: usize::try_from(values.bytes(Id::NearItemMax)).unwrap_or(usize::MAX),
        })
    }
}

/// The limits of `--near-max-stale`. Below, the messages of the origin would often arrive too late.
pub(crate) const STALE_MIN: Duration = Duration::from_millis(100);
pub(crate) const STALE_MAX: Duration = Duration::from_secs(60);
