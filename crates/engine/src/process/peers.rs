//! Peers: the processes that are attached to a region.
//!
//! Each peer has a row in the table of peers. While the process lives, it holds a lock on the row's
//! byte of the region's file, or of another file that all peers have open. The kernel drops the
//! lock however the process dies, across namespaces, and no process can hold it by mistake. If a
//! process acquires the lock of a row in use, the row's process is therefore dead, and no other
//! process is repairing what the dead process left (`repair`).
//!
//! ```text
//! row of a peer    0  in use u64 │ 8  process id, for people u64 │ 16  segments pinned u64
//!                 24  attachments so far u64
//! its holds        for each segment: arriving pieces 32 │ pins 32
//! holders          for each segment, a bit for each peer that may hold something in it
//! ```
//!
//! A peer *holds* a segment while one of its threads pins it, which keeps other threads from
//! emptying it, or while a piece of a large value is arriving in it. A peer sets its bit in the
//! segment's holders before it holds anything. The bit stays until the next use of the segment
//! begins. So a thread that checks who holds a segment looks at few peers, whatever their number.

use std::fmt;
use std::sync::TryLockError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use larder_region::layout::{HOLD_BYTES, PEER_BYTES, global};
use larder_region::platform::fd::OwnedFd;
use larder_region::{LockError, Locks, forks, locks};

use crate::process::Peers;

const IN_USE: usize = 0;
const PROCESS_ID: usize = 8;
const PINNED: usize = 16;
const ATTACHMENTS: usize = 24;

/// The byte that a process locks while it opens the region. The bytes of the peers follow.
pub const OPENING_BYTE: u64 = locks::BYTES_AT + 1;

/// The number of bytes after [`OPENING_BYTE`] that are reserved for peers.
pub const PEER_BYTES_MAX: u64 = larder_region::layout::PEERS_MAX as u64;

/// The byte that a process locks while it looks for dead peers, if the table of peers is large.
const REAPING_BYTE: u64 = OPENING_BYTE + 1 + PEER_BYTES_MAX;

/// The number of rows that a process looks at without coordinating with other processes.
const REAPED_AT_ONCE: u64 = 32;

/// How often in a row a process leaves the search for dead peers to the process that is already
/// searching. After that it searches itself, because the other process may be stopped.
const TURNS_PASSED_MAX: u32 = 20;

/// One arriving piece in a peer's hold word. The bits below count pins.
const ARRIVING: u64 = 1 << 32;
const PINS_MASK: u64 = ARRIVING - 1;

/// The row of a process.
#[derive(Debug)]
pub(crate) struct Row {
    number: u32,
    /// The result of [`forks`] when the process took the row. In a forked child `forks` returns
    /// another number, which shows that the row belongs to the parent.
    forks: u32,
    /// Distinguishes this process from all other processes that had or will have the row.
    attachment: u64,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers")
            .field("row", &self.row)
            .field("stuck", &self.stuck)
            .finish_non_exhaustive()
    }
}

/// A process that is attached to the region, or died while it was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerReport {
    /// The row of the process in the table of peers.
    pub row: u32,
    /// The process id in the process's own namespace.
    pub process_id: u64,
    /// The number of segments that the process pins.
    pub pinned_segments: u64,
    /// The byte of the region's file that the process locks while it lives.
    pub lock_byte: u64,
}

/// The reason why a process cannot become a peer of a region.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Living processes hold all rows.
    #[error(
        "{0} processes use the cache, and it has no room for another; end one, or create the cache for more"
    )]
    Full(usize),
    /// The locks cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
}

fn lock_byte(peer: u32) -> u64 {
    OPENING_BYTE + 1 + u64::from(peer)
}

impl Peers {
    /// Reopens the file of the locks, for a forked child.
    pub(crate) fn reopened_locks(&self) -> Result<Option<Locks>, JoinError> {
        Ok(self.locks.as_ref().map(Locks::reopened).transpose()?)
    }

    /// Returns the row of this process; 0 before it is a peer.
    pub(crate) fn row(&self) -> u32 {
        self.row.get().map_or(0, |row| row.number)
    }

    /// See `Engine::end_opening`.
    pub(crate) fn end_opening(&self) {
        if let Some(locks) = &self.locks {
            // If this fails, the next process waits until this process ends.
            let _ = locks.unlock(OPENING_BYTE);
        }
    }

    /// See `Engine::lock_file_to_pass`.
    pub(crate) fn lock_file_to_pass(&self) -> Option<Result<OwnedFd, LockError>> {
        self.locks.as_ref().map(Locks::to_pass)
    }

    /// See `Engine::has_peers`.
    #[inline]
    pub(crate) fn has_peers(&self) -> bool {
        self.locks.is_some()
    }

    /// Locks the row of the table of peers that this process will use: a free row or, if none is
    /// free, the row of a dead process. Returns row 0 in private memory.
    pub(crate) fn lock_a_row(&self) -> Result<u32, JoinError> {
        let Some(locks) = &self.locks else {
            return Ok(0);
        };
        let (free, in_use): (Vec<u32>, Vec<u32>) =
            (0..self.region.layout().peers as u32).partition(|row| !self.is_row_in_use(*row));
        // The process of a row in use may be dead. Trying its lock is a system call, so free rows
        // come first.
        for row in free.into_iter().chain(in_use) {
            if locks.try_lock(lock_byte(row))? {
                return Ok(row);
            }
        }
        Err(JoinError::Full(self.region.layout().peers))
    }

    /// Makes this process the peer of a row that it has locked.
    pub(crate) fn take_row(&self, row: u32) {
        // Stored before the process holds anything, because a count of pins covers all rows up to
        // this one.
        self.region.word(global::PEERS_USED).fetch_max(u64::from(row) + 1, SeqCst);
        self.peer_word(row, PROCESS_ID).store(u64::from(std::process::id()), Relaxed);
        self.peer_word(row, PINNED).store(0, Relaxed);
        let attachment = self.peer_word(row, ATTACHMENTS).fetch_add(1, Relaxed) + 1;
        self.peer_word(row, IN_USE).store(1, Release);
        let _ = self.row.set(Row { number: row, forks: forks(), attachment });
    }

    /// Frees the row of this process after `repair` has released everything that its threads still
    /// hold. No operation may be in progress. Does nothing in a process whose memory is private.
    pub(crate) fn leave(&self, repair: impl FnOnce(u32)) {
        if let Some(locks) = &self.locks
            && let Some(row) = self.row.get()
            // In a forked child the row still belongs to the parent.
            && row.forks == forks()
        {
            repair(row.number);
            // If this fails, the lock is dropped when the process ends.
            let _ = locks.unlock(lock_byte(row.number));
        }
    }

    pub(crate) fn free_row(&self, row: u32) {
        self.peer_word(row, IN_USE).store(0, Release);
    }

    fn peer_word(&self, row: u32, field: usize) -> &AtomicU64 {
        self.region.word(self.region.layout().peers_at + row as usize * PEER_BYTES + field)
    }

    /// Returns the row of this process, and a number that distinguishes it from other processes in
    /// that row.
    pub(crate) fn attachment(&self) -> (u64, u64) {
        self.row.get().map_or((0, 0), |row| (row.number.into(), row.attachment))
    }

    /// True if the process with this result of [`Self::attachment`] lives, or if that is unknown.
    ///
    /// Cost: a system call, unless it is this process.
    pub(crate) fn is_attached(&self, row: u64, attachment: u64) -> bool {
        if (row, attachment) == self.attachment() {
            return true;
        }
        let is_in_row = |row| {
            self.is_row_in_use(row) && self.peer_word(row, ATTACHMENTS).load(Relaxed) == attachment
        };
        let lives = |locks: &Locks, row| locks.is_locked_by_other(lock_byte(row)).unwrap_or(true);
        self.is_peer(row)
            && is_in_row(row as u32)
            && self.locks.as_ref().is_some_and(|locks| lives(locks, row as u32))
    }

    /// True if a process is attached with this number, or died while it was attached.
    pub(crate) fn is_peer(&self, peer: u64) -> bool {
        peer < self.region.layout().peers as u64 && self.is_row_in_use(peer as u32)
    }

    /// True if another living process is attached, or if that is unknown.
    pub(crate) fn has_living_peers(&self) -> bool {
        let rows = self.region.layout().peers as u64;
        self.locks.as_ref().is_some_and(|locks| {
            locks.is_any_locked_by_other(lock_byte(0)..lock_byte(0) + rows).unwrap_or(true)
        })
    }

    pub(crate) fn is_row_in_use(&self, row: u32) -> bool {
        self.peer_word(row, IN_USE).load(Acquire) != 0
    }

    /// Returns the rows that peers may use.
    pub(crate) fn rows(&self) -> std::ops::Range<u32> {
        let used = self.region.word(global::PEERS_USED).load(SeqCst);
        0..used.min(self.region.layout().peers as u64) as u32
    }

    /// See `Engine::peer_reports`.
    pub(crate) fn peer_reports(&self) -> Vec<PeerReport> {
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

    /// See `Engine::peer_process_ids`.
    pub(crate) fn peer_process_ids(&self) -> Vec<u64> {
        let in_use = self.rows().filter(|row| self.is_row_in_use(*row));
        in_use.map(|row| self.peer_word(row, PROCESS_ID).load(Relaxed)).collect()
    }

    /// Returns the word with the holds of a peer on a segment.
    fn hold(&self, row: u32, segment: u32) -> &AtomicU64 {
        let at = row as usize * self.region.layout().segments + segment as usize;
        self.region.word(self.region.layout().holds_at + at * HOLD_BYTES)
    }

    fn holds(&self, segment: u32) -> impl Iterator<Item = u64> + '_ {
        self.holders(segment).map(move |row| self.hold(row, segment).load(SeqCst))
    }

    /// Returns a word with bits of a segment's holders.
    fn holder_word(&self, segment: u32, word: usize) -> &AtomicU64 {
        let layout = self.region.layout();
        let number = word * layout.segments + segment as usize;
        self.region.word(layout.holders_at + 8 * number)
    }

    /// Returns the range of holder words for all rows that have ever been used. A peer raises the
    /// number of these rows before it holds anything.
    fn used_holder_words(&self) -> std::ops::Range<usize> {
        0..self.rows().len().div_ceil(64)
    }

    /// Returns the rows of the peers that may hold something in a segment.
    fn holders(&self, segment: u32) -> impl Iterator<Item = u32> + '_ {
        let rows = self.rows().end;
        self.used_holder_words().flat_map(move |word| {
            let mut bits = self.holder_word(segment, word).load(SeqCst);
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
                // In a damaged region, the bits may name rows that do not exist.
                Some(word as u32 * 64 + bit).filter(|row| bit < 64 && *row < rows)
            })
        })
    }

    /// Notes that this process may hold something in a segment from now on.
    fn become_holder(&self, segment: u32) {
        let word = self.holder_word(segment, self.row() as usize / 64);
        let bit = 1 << (self.row() % 64);
        // The bit may still be set from an earlier hold. A thread that begins the next use of the
        // segment after this check clears the bit, before that use has a sequence. Then the caller
        // finds another sequence than it expected, and drops its hold.
        if word.load(SeqCst) & bit == 0 {
            word.fetch_or(bit, SeqCst);
        }
    }

    /// Notes a piece of a value that is still arriving. Moving the segment's records would lose the
    /// piece, because no slot names it yet.
    pub(crate) fn note_arriving(&self, segment: u32) {
        self.become_holder(segment);
        self.hold(self.row(), segment).fetch_add(ARRIVING, Relaxed);
    }

    /// Ends the note because the value is complete or was abandoned.
    pub(crate) fn note_arrived(&self, segment: u32) {
        self.hold(self.row(), segment).fetch_sub(ARRIVING, Relaxed);
    }

    /// Prepares the next use of a segment, before it has a sequence: pieces that were arriving in
    /// the last use are lost.
    pub(crate) fn forget_holders(&self, segment: u32) {
        for row in self.holders(segment) {
            let hold = self.hold(row, segment);
            if hold.load(Relaxed) >= ARRIVING {
                hold.fetch_and(PINS_MASK, Relaxed);
            }
        }
        for word in self.used_holder_words() {
            self.holder_word(segment, word).store(0, SeqCst);
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

    /// Adds a pin of this process. The pin is one of the two flags in `Segments::pin`.
    pub(crate) fn raise_pin(&self, segment: u32) {
        self.become_holder(segment);
        if self.hold(self.row(), segment).fetch_add(1, SeqCst) & PINS_MASK == 0 {
            // Before the load in `pinned_segments`: of two processes that pin, at least one
            // observes the pin of the other.
            self.peer_word(self.row(), PINNED).fetch_add(1, SeqCst);
        }
    }

    /// Drops a pin that was added by `Segments::pin`.
    pub(crate) fn unpin(&self, segment: u32) {
        // Pairs with the accesses of `begin_emptying`: all reads are done.
        if self.hold(self.row(), segment).fetch_sub(1, SeqCst) & PINS_MASK == 1 {
            self.peer_word(self.row(), PINNED).fetch_sub(1, Relaxed);
        }
    }

    /// Returns the number of pinned segments. A segment that two processes pin counts twice.
    pub(crate) fn pinned_segments(&self) -> u64 {
        self.rows().map(|row| self.peer_word(row, PINNED).load(SeqCst)).sum()
    }

    /// Drops all holds of a dead peer on some segments, and passes each held segment to `was_held`.
    /// No slot will ever name the peer's arriving pieces, so their segments must be recounted.
    /// Pinned segments must also be recounted, because the peer may have been recounting them.
    ///
    /// This walks over the peer's complete row of holds, 8 bytes for each segment. It cannot use
    /// the bits of the segments' holders: a peer that pins a segment just when the segment's next
    /// use begins has a pin in its row, but its bit may be cleared; see [`Self::become_holder`].
    pub(crate) fn release_holds(
        &self,
        row: u32,
        segments: impl Iterator<Item = u32>,
        was_held: impl Fn(u32),
    ) {
        for segment in segments {
            let hold = self.hold(row, segment);
            // Most words are 0, and a load leaves their pages unchanged.
            if hold.load(Relaxed) != 0 {
                was_held(segment);
                hold.store(0, SeqCst);
            }
        }
        self.peer_word(row, PINNED).store(0, Relaxed);
    }

    /// Calls `repair` for the row of each dead peer. Returns true if there were any.
    ///
    /// Cost: a system call for each peer. The more peers there are, the longer each call takes.
    pub(crate) fn reap(&self, repair: impl Fn(u32)) -> bool {
        self.reap_rows(self.rows(), repair)
    }

    /// Same as [`Self::reap`], for a process that joins others. It looks at a few rows, and the
    /// next process at the rows that follow. Otherwise a thousand starting processes would look at
    /// a million rows.
    pub(crate) fn reap_some(&self, repair: impl Fn(u32)) -> bool {
        let rows = u64::from(self.rows().end);
        if rows <= REAPED_AT_ONCE {
            return self.reap(repair);
        }
        let from = self.region.word(global::REAP_NEXT).fetch_add(REAPED_AT_ONCE, Relaxed) % rows;
        self.reap_rows((from..from + REAPED_AT_ONCE).map(|row| (row % rows) as u32), repair)
    }

    /// Same as [`Self::reap`], for a process that waits for another process. Does nothing if a
    /// third process is searching at the moment. So if a thousand processes wait for a dead one,
    /// only one of them searches.
    pub(crate) fn reap_in_turn(&self, repair: impl Fn(u32)) -> bool {
        let Some(locks) = &self.locks else {
            return false;
        };
        if u64::from(self.rows().end) <= REAPED_AT_ONCE {
            return self.reap(repair);
        }
        let is_turn = locks.try_lock(REAPING_BYTE).unwrap_or(true);
        if !is_turn && self.turns_passed.fetch_add(1, Relaxed) < TURNS_PASSED_MAX {
            return false;
        }
        self.turns_passed.store(0, Relaxed);
        let any = self.reap(repair);
        if is_turn {
            // If this fails, other processes skip some searches.
            let _ = locks.unlock(REAPING_BYTE);
        }
        any
    }

    fn reap_rows(&self, rows: impl Iterator<Item = u32>, repair: impl Fn(u32)) -> bool {
        let Some(locks) = &self.locks else {
            return false;
        };
        let _reaping = match self.reaping.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let mut any = false;
        for row in rows.filter(|row| *row != self.row() && self.is_row_in_use(*row)) {
            // If the system call fails, the peer counts as alive.
            if !locks.try_lock(lock_byte(row)).unwrap_or(false) {
                continue;
            }
            // The peer may have left between the two checks.
            if self.is_row_in_use(row) {
                repair(row);
                any = true;
            }
            let _ = locks.unlock(lock_byte(row));
        }
        any
    }

    /// Drops the lock of the row, like the kernel when the process is killed.
    #[cfg(test)]
    #[cfg(not(any(feature = "interleavings", miri)))]
    pub(crate) fn die(&self) {
        let locks = self.locks.as_ref().expect("a peer has locks");
        locks.unlock(lock_byte(self.row())).expect("the row was locked");
    }

    /// Pretends that a peer pins this many segments.
    #[cfg(test)]
    #[cfg(any(feature = "interleavings", miri))]
    pub(crate) fn pretend_pinned(&self, change: impl Fn(u64) -> u64) {
        let pinned = self.peer_word(0, PINNED);
        pinned.store(change(pinned.load(Relaxed)), Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests;
