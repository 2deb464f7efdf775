//! The threads and processes that share a region: thread slots (the state of one thread in the
//! region), peers (the attached processes), the context of an operation, and waiting.
//!
//! This is the lowest layer. It calls the reclaimer, a higher layer, only through the trait
//! [`op::Above`].

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use larder_region::Locks;

use crate::process::peers::Row;
use crate::region::Region;

pub(crate) mod op;
pub(crate) mod operation;
pub(crate) mod peers;
pub(crate) mod thread_slot;
pub(crate) mod wait;

/// The processes and threads of a region: rows of peers with their locks, and thread slots.
pub(crate) struct Peers {
    region: Region,
    /// The locks of the rows; `None` if the memory is private to this process.
    locks: Option<Locks>,
    /// The row of this process, once it is a peer.
    row: OnceLock<Row>,
    /// The number of the thread slot at which the search for a free one begins. When this process
    /// last looked, all slots before it were taken.
    slot_hint: AtomicU32,
    /// Held by the thread of this process that reaps dead peers, because file locks do not
    /// distinguish threads.
    reaping: Mutex<()>,
    /// The time when this process opened the region.
    opened: Instant,
    /// The earliest time of the next search for dead peers by waiting threads, in microseconds
    /// after `opened`.
    reap_due: AtomicU64,
    /// How many searches for dead peers this process left to another process.
    turns_passed: AtomicU32,
    /// The number of waits that ended without success.
    stuck: AtomicU64,
    /// When the last unsuccessful wait ended, in microseconds after `opened`, and how many
    /// unsuccessful waits followed each other closely.
    stuck_at: AtomicU64,
    stuck_run: AtomicU64,
}

impl Peers {
    pub(crate) fn new(region: Region, locks: Option<Locks>) -> Self {
        Self {
            region,
            locks,
            row: OnceLock::new(),
            slot_hint: AtomicU32::new(0),
            reaping: Mutex::new(()),
            opened: Instant::now(),
            reap_due: AtomicU64::new(0),
            turns_passed: AtomicU32::new(0),
            stuck: AtomicU64::new(0),
            stuck_at: AtomicU64::new(0),
            stuck_run: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }
}
