//! Peers: the processes that are attached to a region.
//!
//! Each peer has a row in the table of peers. While it lives, it holds a lock on the row's byte of
//! the region's file, or of another file that all peers have. The kernel drops the lock at any
//! death, across namespaces, and no process can hold it by mistake. A process that gets the lock of
//! a row in use therefore knows that its process is dead, and that no other process repairs what
//! that one left (`repair`).
//!
//! ```text
//! row of a peer    0  in use u64 │ 8  process id, for people u64 │ 16  segments pinned u64
//! what it holds    for each segment: pieces that are arriving 32 │ pins 32
//! ```

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use larder_region::layout::{HOLD_BYTES, PEER_BYTES, global};
use larder_region::{LockError, Locks, forks, locks};

use crate::Engine;

const IN_USE: usize = 0;
const PROCESS_ID: usize = 8;
const PINNED: usize = 16;

/// The byte that a process locks while it opens the region. The bytes of the peers follow.
pub const OPENING_BYTE: u64 = locks::BYTES_AT + 1;

/// The number of bytes that follow for peers.
pub const PEER_BYTES_MAX: u64 = larder_region::layout::PEERS_MAX as u64;

/// One arriving piece in a peer's hold word; the bits below count pins.
const ARRIVING: u64 = 1 << 32;
const PINS_MASK: u64 = ARRIVING - 1;

/// The locks of a peer. A process that uses its memory alone has none.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) locks: Option<Locks>,
    /// Held by the thread of this process that reaps dead peers: file locks do not distinguish
    /// threads.
    pub(crate) reaping: Mutex<()>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("is_shared", &self.locks.is_some()).finish_non_exhaustive()
    }
}

/// A process that is attached, or died while it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerReport {
    /// Its row in the table of peers.
    pub row: u32,
    /// Its process id in its own namespace.
    pub process_id: u64,
    /// The number of segments that it pins.
    pub pinned_segments: u64,
    /// The byte of the region's file that it locks while it lives.
    pub lock_byte: u64,
}

/// Why a process cannot become a peer of a region.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Living processes hold all rows.
    #[error(
        "{0} processes use the cache, and it has no room for another; end one, or open a larger cache"
    )]
    Full(usize),
    /// The locks cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
}

pub(crate) fn lock_byte(peer: u32) -> u64 {
    OPENING_BYTE + 1 + u64::from(peer)
}

impl Table {
    pub(crate) fn new(locks: Option<Locks>) -> Self {
        Self { locks, reaping: Mutex::new(()) }
    }

    /// Reopens the file of the locks, for a forked child.
    pub(crate) fn reopened(&self) -> Result<Option<Locks>, JoinError> {
        Ok(self.locks.as_ref().map(Locks::reopened).transpose()?)
    }
}

impl Engine {
    /// Ends the opening of the region: other processes may open it.
    pub fn end_opening(&self) {
        if let Some(locks) = &self.table.locks {
            // If this fails, the next process waits until this one ends.
            let _ = locks.unlock(OPENING_BYTE);
        }
    }

    /// Reopens the lock file, to pass it to a process that is to attach to the region. Returns
    /// `None` if no other process can use the region.
    pub fn lock_file_to_pass(&self) -> Option<Result<OwnedFd, LockError>> {
        self.table.locks.as_ref().map(Locks::to_pass)
    }

    /// True if other processes can use the region.
    #[inline]
    pub fn has_peers(&self) -> bool {
        self.table.locks.is_some()
    }

    pub(crate) fn lock_a_row(&self) -> Result<u32, JoinError> {
        let Some(locks) = &self.table.locks else {
            return Ok(0);
        };
        for row in 0..self.layout.peers as u32 {
            if locks.try_lock(lock_byte(row))? {
                return Ok(row);
            }
        }
        Err(JoinError::Full(self.layout.peers))
    }

    pub(crate) fn take_row(&mut self, row: u32) {
        // Before the process holds anything there: a count of pins covers all rows up to this one.
        self.memory.word(global::PEERS_USED).fetch_max(u64::from(row) + 1, SeqCst);
        self.peer_word(row, PROCESS_ID).store(u64::from(std::process::id()), Relaxed);
        self.peer_word(row, PINNED).store(0, Relaxed);
        self.peer_word(row, IN_USE).store(1, Release);
        self.joined_after = forks();
    }

    pub(crate) fn free_row(&self, row: u32) {
        self.peer_word(row, IN_USE).store(0, Release);
    }

    fn peer_word(&self, row: u32, field: usize) -> &AtomicU64 {
        self.memory.word(self.layout.peers_at + row as usize * PEER_BYTES + field)
    }

    /// True if a process is attached with this number, or died while it was.
    pub(crate) fn is_peer(&self, peer: u64) -> bool {
        peer < self.layout.peers as u64 && self.is_row_in_use(peer as u32)
    }

    /// True if another living process is attached, or if that is unknown.
    pub(crate) fn has_living_peers(&self) -> bool {
        self.table.locks.as_ref().is_some_and(|locks| {
            (0..self.layout.peers as u32)
                .any(|row| locks.is_locked_by_other(lock_byte(row)).unwrap_or(true))
        })
    }

    pub(crate) fn is_row_in_use(&self, row: u32) -> bool {
        self.peer_word(row, IN_USE).load(Acquire) != 0
    }

    /// Returns the rows that peers may use.
    pub(crate) fn rows(&self) -> std::ops::Range<u32> {
        let used = self.memory.word(global::PEERS_USED).load(SeqCst);
        0..used.min(self.layout.peers as u64) as u32
    }

    /// Returns the attached processes, and those that died attached and have not been reaped.
    pub fn peer_reports(&self) -> Vec<PeerReport> {
        let in_use = self.rows().filter(|row| self.is_row_in_use(*row));
        in_use
            .map(|row| PeerReport {
                row,
                process_id: self.peer_word(row, PROCESS_ID).load(Relaxed),
                pinned_segments: self.peer_word(row, PINNED).load(Relaxed),
                lock_byte: lock_byte(row),
            })
            .collect()
    }

    /// Returns the process ids of the peers, as they see them: in another namespace the numbers
    /// differ.
    pub fn peer_process_ids(&self) -> Vec<u64> {
        let in_use = self.rows().filter(|row| self.is_row_in_use(*row));
        in_use.map(|row| self.peer_word(row, PROCESS_ID).load(Relaxed)).collect()
    }

    /// Returns what a peer holds of a segment.
    fn hold(&self, row: u32, segment: u32) -> &AtomicU64 {
        let at = row as usize * self.layout.segments + segment as usize;
        self.memory.word(self.layout.holds_at + at * HOLD_BYTES)
    }

    fn holds(&self, segment: u32) -> impl Iterator<Item = u64> + '_ {
        self.rows().map(move |row| self.hold(row, segment).load(SeqCst))
    }

    /// Notes a piece of a value that is still arriving. Moving the segment's records would lose it:
    /// no slot names it yet.
    pub(crate) fn note_arriving(&self, segment: u32) {
        self.hold(self.peer, segment).fetch_add(ARRIVING, Relaxed);
    }

    /// Ends the note: the value is complete, or given up.
    pub(crate) fn note_arrived(&self, segment: u32) {
        self.hold(self.peer, segment).fetch_sub(ARRIVING, Relaxed);
    }

    /// Starts a use of a segment: pieces that were arriving in the last one are lost.
    pub(crate) fn forget_arriving(&self, segment: u32) {
        for row in self.rows() {
            let hold = self.hold(row, segment);
            if hold.load(Relaxed) >= ARRIVING {
                hold.fetch_and(PINS_MASK, Relaxed);
            }
        }
    }

    /// True if a piece is arriving in a segment.
    pub(crate) fn is_any_arriving(&self, segment: u32) -> bool {
        self.holds(segment).any(|hold| hold >= ARRIVING)
    }

    /// True if moving a segment's records would lose arriving pieces or take records from a reader.
    pub(crate) fn is_held(&self, segment: u32) -> bool {
        self.holds(segment).any(|hold| hold != 0)
    }

    pub(crate) fn is_pinned(&self, segment: u32) -> bool {
        self.holds(segment).any(|hold| hold & PINS_MASK != 0)
    }

    /// Adds a pin of this process. One of the two flags of [`Engine::pin`].
    pub(crate) fn raise_pin(&self, segment: u32) {
        if self.hold(self.peer, segment).fetch_add(1, SeqCst) & PINS_MASK == 0 {
            // Before the load in `pinned_segments`: of two processes that pin, one sees the pin of
            // the other.
            self.peer_word(self.peer, PINNED).fetch_add(1, SeqCst);
        }
    }

    /// Drops a pin that [`Engine::pin`] took.
    pub(crate) fn unpin(&self, segment: u32) {
        // Pairs with the accesses of `begin_emptying`: all reads are done.
        if self.hold(self.peer, segment).fetch_sub(1, SeqCst) & PINS_MASK == 1 {
            self.peer_word(self.peer, PINNED).fetch_sub(1, Relaxed);
        }
    }

    /// Returns the number of pinned segments. A segment that two processes pin counts twice.
    pub(crate) fn pinned_segments(&self) -> u64 {
        self.rows().map(|row| self.peer_word(row, PINNED).load(SeqCst)).sum()
    }

    /// Drops all holds of a dead peer. Its arriving pieces will never be named, so their segments
    /// are recounted, and so are pinned ones, which it may have been recounting.
    pub(crate) fn release_holds(&self, row: u32) {
        for segment in self.segment_numbers().take(self.used_segments() as usize) {
            let hold = self.hold(row, segment);
            if hold.load(Relaxed) != 0 {
                self.suspect(segment);
            }
            hold.store(0, SeqCst);
        }
        self.peer_word(row, PINNED).store(0, Relaxed);
    }

    /// Pretends that a peer pins this many segments.
    #[cfg(test)]
    #[cfg(any(feature = "interleavings", miri))]
    pub(crate) fn pretend_pinned(&self, change: impl Fn(u64) -> u64) {
        let pinned = self.peer_word(0, PINNED);
        pinned.store(change(pinned.load(Relaxed)), Relaxed);
    }
}
