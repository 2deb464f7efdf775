//! The engine: a region, and the values derived from its superblock.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use larder_item::{Epoch, KEY_BYTES_MAX};
use larder_region::layout::{self, global};
use larder_region::{Layout, Memory};
use rapidhash::v3::RapidSecrets;

use crate::Birth;
use crate::index::removal::RemovalListeners;
use crate::process::peers::Table;
use crate::segment::record::HEADER_BYTES;
use crate::segment::shortage::Wake;
use crate::segment::slot::TAG_BITS;

/// The index and segments of a cache. All methods take `&self`. Any number of threads may call
/// them, each with a [`ThreadSlot`](crate::ThreadSlot) of its own.
#[derive(Debug)]
pub struct Engine {
    pub(crate) memory: Memory,
    pub(crate) layout: Layout,
    /// The row of this process in the table of peers.
    pub(crate) peer: u32,
    /// The number of forks that led to this process when it took that row; 0 if it has none.
    pub(crate) joined_after: u32,
    pub(crate) table: Table,
    pub(crate) keeps_versions: bool,
    pub(crate) evicts: bool,
    pub(crate) item_bytes_max: usize,
    pub(crate) epoch: Epoch,
    pub(crate) birth: Birth,
    pub(crate) secrets: RapidSecrets,
    /// The number of low hash bits that choose a group before any group is split.
    pub(crate) first_level: u32,
    /// A group's number shifted right by this is the number of its segment in the directory.
    pub(crate) group_shift: u32,
    /// The maintainer that keeps segments free in the background, if one runs.
    pub(crate) wake: OnceLock<Wake>,
    /// The listeners that removals are reported to.
    pub(crate) removals: RemovalListeners,
    /// The number of waits that ended without success.
    pub(crate) stuck: AtomicU64,
    /// The next segment whose memory is returned to the system after the limit was lowered.
    pub(crate) release_next: AtomicU64,
}

/// memcached's overhead when it compares an item with `-I`: 48 bytes of header, 8 of cas token, the
/// key's end and the value's line end. Clients that know the limit compute it this way.
const MEMCACHED_HEADER_BYTES: usize = 48;
const MEMCACHED_CAS_BYTES: usize = 8;
const MEMCACHED_ENDS_BYTES: usize = 3;

/// A longer value is kept in pieces, whatever the length of a segment. Pieces are written in place
/// as they arrive and read in place, for one more lookup. The number was measured.
const INLINE_BYTES_MAX: usize = 16 << 10;

impl Engine {
    /// True if an item with a key and a value of these lengths is small enough. Counts as memcached
    /// does: 48 bytes of header, 8 of cas token if versions are kept, and 3 for the ends of key and
    /// value.
    pub fn accepts(&self, key_bytes: usize, value_bytes: usize) -> bool {
        let cas_bytes = if self.keeps_versions { MEMCACHED_CAS_BYTES } else { 0 };
        let overhead = MEMCACHED_HEADER_BYTES + cas_bytes + MEMCACHED_ENDS_BYTES;
        value_bytes
            .checked_add(key_bytes + overhead)
            .is_some_and(|item_bytes| item_bytes <= self.item_bytes_max)
    }

    /// True if each item carries a version, its cas token.
    pub fn keeps_versions(&self) -> bool {
        self.keeps_versions
    }

    /// Returns the length of the longest value that is kept in one piece.
    pub fn inline_bytes_max(&self) -> usize {
        const FIELDS_BYTES: usize = HEADER_BYTES + 16;
        let record_bytes_max = self.layout.segment_bytes / 8;
        let head_bytes_max = (FIELDS_BYTES + KEY_BYTES_MAX).next_multiple_of(8);
        (record_bytes_max - head_bytes_max).min(INLINE_BYTES_MAX)
    }

    /// Returns the tie between the cache's seconds and Unix time.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the origin of the region.
    pub fn birth(&self) -> &Birth {
        &self.birth
    }
}

const _: () = assert!(TAG_BITS == 15 && layout::SUPERBLOCK_BYTES <= global::CLOCK);
