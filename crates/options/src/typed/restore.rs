//! The options of items that a start restores.

use std::path::PathBuf;
use std::time::Duration;

use crate::given::values::Values;
use crate::table::Id;
use crate::typed::check::Contradiction;
use crate::typed::disk_tier::{RequestedDiskTier, TierMode};

/// What a server keeps over a restart, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restore {
    /// `--dump`: the file to which a stop writes the items, and from which a start loads them.
    pub dump: Option<PathBuf>,
    /// `--dump-secs`: how long a stop writes.
    pub dump_time: Duration,
    /// `--restore-secs`: how long a start loads.
    pub load_time: Duration,
    /// `--restore-ttl`: how long restored items live after a start; `None`: as long as before.
    pub ttl: Option<Duration>,
}

impl Restore {
    pub(crate) fn new(values: &Values) -> Self {
        let secs = |id| Duration::from_secs(values.unsigned(id));
        Self {
            dump: values.text(Id::Dump).map(PathBuf::from),
            dump_time: secs(Id::DumpSecs),
            load_time: secs(Id::RestoreSecs),
            ttl: Some(secs(Id::RestoreTtl)).filter(|ttl| !ttl.is_zero()),
        }
    }
}

/// Only one option keeps the items over a restart. `--restore-ttl` needs one of them, and cas
/// tokens, by which it tells restored items from others.
pub(super) fn contradiction(values: &Values) -> Contradiction {
    let has = |id| values.given(id).is_some();
    let tier = RequestedDiskTier::of(values);
    let wrong = |id, what: &str| Some((id, what.to_owned()));
    if has(Id::Dump) {
        if has(Id::MemoryFile) {
            return wrong(
                Id::Dump,
                "the file of -e keeps the items already: leave out one of them",
            );
        }
        if tier.is_some() {
            return wrong(
                Id::Dump,
                "the directory of --tier-path keeps the items already: leave out one of them",
            );
        }
        if values.switch(Id::DropPrivileges) {
            return wrong(
                Id::Dump,
                "-o drop_privileges forbids to write it: leave out one of them",
            );
        }
        if has(Id::Origin) {
            return wrong(Id::Dump, "a near cache begins without copies: leave it out");
        }
    }
    Restore::new(values).ttl?;
    if tier.as_ref().is_some_and(|tier| tier.mode == Some(TierMode::Store)) {
        return wrong(Id::RestoreTtl, "a store must not lose items: leave it out");
    }
    if !has(Id::Dump) && !has(Id::MemoryFile) && tier.is_none() {
        return wrong(
            Id::RestoreTtl,
            "this server restores no items: give --dump, -e or --tier-path as well",
        );
    }
    match values.switch(Id::DisableCas) {
        true => wrong(Id::RestoreTtl, "it needs the cas tokens that -C turns off"),
        false => None,
    }
}
