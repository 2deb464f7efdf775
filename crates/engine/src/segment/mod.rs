//! Segments: ranges of memory that hold records, and that are emptied and reused as a unit. The
//! modules contain the records, the segments' headers, the appenders that write to segments, and
//! the allocator.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use crate::listener::ChangeListener;
use crate::process::Peers;
use crate::region::Region;
use crate::segment::shortage::Wake;
use crate::segment::slot::Slot;

pub(crate) mod allocator;
pub(crate) mod appender;
pub(crate) mod filing;
pub(crate) mod flush;
pub(crate) mod fresh;
pub(crate) mod header;
pub(crate) mod moment;
pub(crate) mod record;
pub(crate) mod shortage;
pub(crate) mod slot;
pub(crate) mod stream;
pub(crate) mod suspect;
pub(crate) mod used;

/// The segments of a region, and the appenders that write to them.
#[derive(Debug)]
pub(crate) struct Segments {
    peers: Peers,
    keeps_versions: bool,
    evicts: bool,
    /// The callback of the maintainer that keeps segments free in the background, if one runs.
    wake: OnceLock<Wake>,
    /// The end of the fresh segments whose memory this process has populated.
    populated: AtomicU64,
    /// Is called after each change, if it is set.
    listener: OnceLock<Arc<dyn ChangeListener>>,
}

impl Segments {
    pub(crate) fn new(peers: Peers, keeps_versions: bool, evicts: bool) -> Self {
        let (wake, populated, listener) = Default::default();
        Self { peers, keeps_versions, evicts, wake, populated, listener }
    }

    #[inline]
    pub(crate) fn region(&self) -> &Region {
        self.peers.region()
    }

    #[inline]
    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Returns the offset of the record that a slot names.
    #[inline]
    pub(crate) fn record_at(&self, slot: Slot) -> usize {
        self.region().segment_at(slot.segment()) + slot.offset()
    }

    /// Sets the change listener, once.
    pub(crate) fn set_listener(&self, listener: Arc<dyn ChangeListener>) {
        let _ = self.listener.set(listener);
    }

    /// Returns the change listener.
    #[inline]
    pub(crate) fn listener(&self) -> Option<&dyn ChangeListener> {
        self.listener.get().map(|listener| &**listener)
    }

    /// True if each record of an item has a version.
    #[inline]
    pub(crate) fn keeps_versions(&self) -> bool {
        self.keeps_versions
    }

    /// True if live items may be evicted to make room.
    #[inline]
    pub(crate) fn evicts(&self) -> bool {
        self.evicts
    }
}
