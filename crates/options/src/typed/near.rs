//! The options of a near cache.

use std::path::PathBuf;
use std::time::Duration;

use crate::given::values::Values;
use crate::table::Id;
use crate::typed::check::Contradiction;
use crate::typed::disk_tier::RequestedDiskTier;
use crate::value::duration::duration;
use crate::value::origin::Origin;

/// A server that copies the items of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    /// `--origin`: the servers whose items are copied, at least one.
    pub origins: Vec<Origin>,
    /// `--origin-weights`: file with other weights.
    pub weights: Option<PathBuf>,
    /// `--origin-timeout`: how long a request waits for the origin before it fails.
    pub timeout: Duration,
    /// `--origin-ca`: file of the authorities that sign the origin's certificate.
    pub authorities: Option<PathBuf>,
    /// `--origin-login`: file of the user and the password with which to log in at the origin.
    pub login: Option<PathBuf>,
    /// `--near-max-stale`: how long after a change a copy may still be out of date.
    pub stale_max: Duration,
    /// `--near-ttl`: how long a copy is used if the origin does not report changes.
    pub ttl: Duration,
    /// `--near-item-max`: the longest value that is copied, in bytes.
    pub value_bytes_max: usize,
}

impl Near {
    /// Returns the part of the memory of a near cache that it uses for the keys of its copies.
    pub fn listed_bytes(memory_bytes: u64) -> u64 {
        memory_bytes / LISTED_PART
    }

    pub(crate) fn new(values: &Values) -> Option<Self> {
        let origins = values.text(Id::Origin).and_then(Origin::parse_list)?;
        // Both rows have a default.
        let time = |id| values.text(id).and_then(duration).unwrap_or_default();
        Some(Self {
            origins,
            weights: values.text(Id::OriginWeights).map(PathBuf::from),
            timeout: time(Id::OriginTimeout),
            authorities: values.text(Id::OriginCa).map(PathBuf::from),
            login: values.text(Id::OriginLogin).map(PathBuf::from),
            stale_max: time(Id::NearMaxStale),
            ttl: time(Id::NearTtl),
            value_bytes_max: usize::try_from(values.bytes(Id::NearItemMax)).unwrap_or(usize::MAX),
        })
    }
}

/// The keys of the copies use the memory divided by this.
const LISTED_PART: u64 = 4;

/// The limits of `--near-max-stale`. Below, the messages of the origin would often arrive too late.
const STALE_MIN: Duration = Duration::from_millis(100);
const STALE_MAX: Duration = Duration::from_secs(60);

/// A cache counts the time to live of its items in seconds.
const TTL_MIN: Duration = Duration::from_secs(1);

/// A reader may join a fetch that began up to `--near-max-stale` ago, so a fetch must end before.
pub(super) fn times(values: &Values) -> Contradiction {
    let near = Near::new(values)?;
    if !(STALE_MIN..=STALE_MAX).contains(&near.stale_max) {
        let what = format!("{:?} is not from 100ms to 60s", near.stale_max);
        return Some((Id::NearMaxStale, what));
    }
    if near.ttl < TTL_MIN {
        return Some((Id::NearTtl, format!("{:?} is less than 1s", near.ttl)));
    }
    (near.timeout >= near.stale_max).then(|| {
        let what = format!(
            "{:?} is not less than the {:?} of --near-max-stale",
            near.timeout, near.stale_max
        );
        (Id::OriginTimeout, what)
    })
}

/// An address that is given twice would have two shares of the keys.
pub(super) fn origins(values: &Values) -> Contradiction {
    let origins = Near::new(values)?.origins;
    let is_earlier = |(at, origin): &(usize, &Origin)| {
        let name = origin.address.ketama_name();
        origins[..*at].iter().any(|earlier| earlier.address.ketama_name() == name)
    };
    let (_, twice) = origins.iter().enumerate().find(is_earlier)?;
    Some((Id::Origin, format!("{} is given twice", twice.address)))
}

pub(super) fn files(values: &Values) -> Contradiction {
    let near = Near::new(values)?;
    if near.weights.is_some() && near.origins.len() == 1 {
        return Some((Id::OriginWeights, "it needs several servers in --origin".to_owned()));
    }
    let has_tls = near.origins.iter().any(|origin| origin.address.has_tls());
    match (has_tls, near.authorities.is_some()) {
        (true, false) => {
            Some((Id::Origin, "tls: needs --origin-ca to check the certificate".to_owned()))
        }
        (false, true) => Some((Id::OriginCa, "it needs tls: in --origin".to_owned())),
        _ => None,
    }
}

/// A near cache has copies only, so it begins empty, and clients that cannot wait cannot use it.
pub(super) fn beside(values: &Values) -> Contradiction {
    Near::new(values)?;
    let cannot = |id, why: &str| {
        let what = format!("it cannot be combined with --origin: {why}");
        Some((id, what))
    };
    if values.given(Id::MemoryFile).is_some() {
        return cannot(Id::MemoryFile, "a near cache begins without copies");
    }
    if RequestedDiskTier::of(values).is_some() {
        return cannot(Id::TierPath, "a near cache keeps copies in memory only");
    }
    if values.number(Id::UdpPort).is_some_and(|port| port != 0) {
        return cannot(Id::UdpPort, "a datagram cannot wait for the origin; use -U 0");
    }
    if values.number(Id::Followers).is_some_and(|count| count != 0) {
        return cannot(Id::Followers, "a near cache owns no items that others could copy");
    }
    if values.switch(Id::DropPrivileges) {
        return cannot(Id::DropPrivileges, "a lost connection to the origin must be replaced");
    }
    if values.switch(Id::DisableCas) {
        return cannot(Id::DisableCas, "a copy has the cas token of its item");
    }
    None
}

/// Warns about options of a near cache without `--origin`.
pub(super) fn warn(values: &Values, warnings: &mut Vec<String>) {
    let of_near_cache = [
        Id::OriginWeights,
        Id::OriginTimeout,
        Id::OriginCa,
        Id::OriginLogin,
        Id::NearMaxStale,
        Id::NearTtl,
        Id::NearItemMax,
    ];
    let defaults = Values::defaults();
    for id in of_near_cache {
        let default = defaults.given(id).map(|given| &given.value);
        let is_changed = values.given(id).map(|given| &given.value) != default;
        if is_changed && values.given(Id::Origin).is_none() {
            let spelling = id.row().spelling();
            warnings.push(format!("option {spelling}: it has no effect without --origin"));
        }
    }
}
