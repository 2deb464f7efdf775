//! The index: a hash table of groups. Each group has 15 slots, and each slot names the record of an
//! item. The index grows by splitting groups.

use std::sync::Arc;

use rapidhash::v3::RapidSecrets;

use crate::index::removal::RemovalListeners;
use crate::index::removal::by_prefix::PrefixRemovals;
use crate::process::Peers;
use crate::region::Region;
use crate::segment::Segments;

pub(crate) mod chain;
pub(crate) mod cursor;
pub(crate) mod find;
pub(crate) mod ghost;
pub(crate) mod group;
pub(crate) mod grow;
pub(crate) mod hash;
pub(crate) mod item;
pub(crate) mod life;
pub(crate) mod overflow;
pub(crate) mod prefetch;
pub(crate) mod removal;
pub(crate) mod selection;
pub(crate) mod unlink;

/// The index: groups whose slots name the records in the segments.
#[derive(Debug)]
pub(crate) struct Index {
    segments: Segments,
    secrets: RapidSecrets,
    /// The number of low hash bits that choose a group before the first split.
    first_level: u32,
    /// The shift from a group's number to the number of its segment in the directory.
    group_shift: u32,
    /// The listeners that removals are reported to.
    removals: RemovalListeners,
    /// The removals by prefix of this process.
    prefix_removals: Arc<PrefixRemovals>,
}

impl Index {
    /// Returns an index whose first `1 << first_level` groups exist from the start.
    pub(crate) fn new(segments: Segments, hash_seed: u64, first_level: u32) -> Self {
        let group_shift = segments.region().layout().groups_per_segment().ilog2();
        Self {
            segments,
            secrets: RapidSecrets::seed(hash_seed),
            first_level,
            group_shift,
            removals: RemovalListeners::default(),
            prefix_removals: Arc::default(),
        }
    }

    #[inline]
    pub(crate) fn region(&self) -> &Region {
        self.segments.region()
    }

    #[inline]
    pub(crate) fn peers(&self) -> &Peers {
        self.segments.peers()
    }

    #[inline]
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    pub(crate) fn first_level(&self) -> u32 {
        self.first_level
    }

    pub(crate) fn group_shift(&self) -> u32 {
        self.group_shift
    }

    pub(crate) fn removals(&self) -> &RemovalListeners {
        &self.removals
    }
}
