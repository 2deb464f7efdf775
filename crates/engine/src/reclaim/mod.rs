//! Reclaiming memory: freeing segments for reuse. Contains the choice of a segment, eviction,
//! compaction (which moves the live records out of a segment), the expiry sweep, the memory limit,
//! and the repair after dead processes.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use larder_item::Second;

use crate::error::{StoreError, Stuck};
use crate::index::Index;
use crate::journal::Journal;
use crate::process::Peers;
use crate::process::op::{Above, Op};
use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::Wait;
use crate::region::Region;
use crate::segment::Segments;

pub(crate) mod demote;
pub(crate) mod empty;
pub(crate) mod evict;
pub(crate) mod limit;
pub(crate) mod maintain;
pub(crate) mod policy;
pub(crate) mod relocate;
pub(crate) mod repair;
pub(crate) mod size_limits;
pub(crate) mod sweep;

/// Frees segments for new records and keeps the region valid.
#[derive(Debug)]
pub(crate) struct Reclaimer {
    index: Index,
    /// The next segment whose memory is returned to the system, after the limit was lowered.
    release_next: AtomicU64,
    /// The journal that receives the items that eviction removes from memory.
    eviction_journal: Option<Arc<dyn Journal>>,
}

impl Reclaimer {
    pub(crate) fn new(index: Index) -> Self {
        Self { index, release_next: AtomicU64::new(u64::MAX), eviction_journal: None }
    }

    #[inline]
    pub(crate) fn region(&self) -> &Region {
        self.index.region()
    }

    #[inline]
    pub(crate) fn peers(&self) -> &Peers {
        self.index.peers()
    }

    #[inline]
    pub(crate) fn segments(&self) -> &Segments {
        self.index.segments()
    }

    #[inline]
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the context of an operation that has no caller's journal.
    pub(crate) fn op<'a>(&'a self, thread: &'a ThreadSlot, now: Second) -> Op<'a> {
        Op::new(thread, now, self)
    }

    /// Same as [`Peers::wait_for_peers`].
    pub(crate) fn wait_for_peers(&self, wait: &mut Wait) -> Result<(), Stuck> {
        self.peers().wait_for_peers(wait, || self.reap_in_turn())
    }
}

impl Above for Reclaimer {
    fn take_segment(&self, op: &Op<'_>) -> Result<u32, StoreError> {
        self.take_segment(op)
    }

    fn reap_peers(&self) -> bool {
        self.reap_in_turn()
    }
}
