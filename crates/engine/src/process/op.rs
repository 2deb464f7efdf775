//! The context of one operation.

use std::time::Duration;

use larder_item::Second;

use crate::error::{StoreError, Stuck};
use crate::journal::Journal;
use crate::process::Peers;
use crate::process::operation::Operation;
use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::Wait;

/// The context that an operation passes through the layers: its thread, the current second, and the
/// way to call the reclaimer, which is in a higher layer.
#[derive(Clone, Copy)]
pub(crate) struct Op<'a> {
    pub(crate) thread: &'a ThreadSlot,
    pub(crate) now: Second,
    /// See [`Operation::journal`].
    pub(crate) journal: Option<&'a dyn Journal>,
    above: &'a dyn Above,
    /// How long the operation waits for another thread before it gives up, if that is less than
    /// usual.
    patience: Option<Duration>,
}

/// The calls from lower layers to the reclaimer. There are only two: a store or a split that finds
/// no free segment evicts, and a thread that has waited for a while checks whether the process that
/// it waits for is dead.
pub(crate) trait Above {
    /// Takes a segment for a new use, and evicts if necessary. The caller holds neither group nor
    /// appender.
    fn take_segment(&self, op: &Op<'_>) -> Result<u32, StoreError>;

    /// Looks for dead peers and repairs what they left. Returns true if there were any.
    fn reap_peers(&self) -> bool;
}

impl<'a> Op<'a> {
    pub(crate) fn new(thread: &'a ThreadSlot, now: Second, above: &'a dyn Above) -> Self {
        Self { thread, now, journal: None, above, patience: None }
    }

    /// Returns the context of a caller's operation.
    pub(crate) fn of(operation: &Operation<'a>, above: &'a dyn Above) -> Self {
        let &Operation { thread, now, journal } = operation;
        Self { journal, ..Self::new(thread, now, above) }
    }

    /// Returns the same context for work that a later call can do as well. With it, an operation
    /// waits only a millisecond for a lock that another thread holds, because a running thread
    /// releases the lock earlier than that.
    pub(crate) fn hurried(&self) -> Self {
        self.with_patience(Duration::from_millis(1))
    }

    /// Same as [`Self::hurried`], but with this time in place of a millisecond.
    pub(crate) fn with_patience(&self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..*self }
    }

    /// Waits for another thread, same as [`Peers::wait_for_peers`].
    pub(crate) fn wait(&self, peers: &Peers, wait: &mut Wait) -> Result<(), Stuck> {
        peers.wait_for_peers(wait, || self.reap_peers())?;
        match self.patience {
            Some(patience) if wait.is_longer_than(patience) => Err(Stuck),
            _ => Ok(()),
        }
    }

    /// Same as [`Above::take_segment`].
    pub(crate) fn take_segment(&self) -> Result<u32, StoreError> {
        self.above.take_segment(self)
    }

    /// Same as [`Above::reap_peers`].
    pub(crate) fn reap_peers(&self) -> bool {
        self.above.reap_peers()
    }
}
