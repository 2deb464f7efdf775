//! Whether this process serves alone, or beside another one during an upgrade. While two processes
//! serve, neither reports changes to near caches, and neither has copies of a near cache.

use std::sync::atomic::{
    AtomicBool, AtomicI32,
    Ordering::{Acquire, Relaxed, Release},
};

use rustix::process::{Pid, getppid};

/// The other process of an upgrade.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    /// True while a successor of this process starts or serves.
    is_suspended: AtomicBool,
    /// The id of the process that started this one to replace it, until that one has ended;
    /// otherwise 0.
    predecessor: AtomicI32,
}

impl Succession {
    /// True if no other process serves.
    pub(crate) fn is_alone(&self) -> bool {
        !self.has_successor() && !self.awaits_predecessor()
    }

    /// True while a successor starts or serves.
    #[inline]
    pub(crate) fn has_successor(&self) -> bool {
        self.is_suspended.load(Acquire)
    }

    /// Notes that a successor is about to start.
    pub(crate) fn begin(&self) {
        self.is_suspended.store(true, Release);
    }

    /// Notes that the successor has not taken over.
    pub(crate) fn give_up(&self) {
        self.is_suspended.store(false, Release);
    }

    /// Notes that this process replaces another one, which started it.
    pub(crate) fn await_end_of(&self, predecessor: Pid) {
        self.predecessor.store(predecessor.as_raw_pid(), Relaxed);
    }

    /// True until the predecessor has ended.
    fn awaits_predecessor(&self) -> bool {
        let predecessor = self.predecessor.load(Relaxed);
        if predecessor == 0 {
            return false;
        }
        // A process whose parent has ended has another parent.
        let has_ended = getppid().map(Pid::as_raw_pid) != Some(predecessor);
        if has_ended {
            self.predecessor.store(0, Relaxed);
        }
        !has_ended
    }
}
