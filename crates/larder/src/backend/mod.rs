//! Operations on items that may be in memory or, with a disk tier, only on the disk.

mod change;
mod effect;
pub(crate) mod large;
mod read;
pub(crate) mod removal;
pub(crate) mod walk;

use std::sync::Arc;
use std::task::Poll;

use larder_engine::{Engine, Operation, Refusal, StoreError, ThreadSlot};
use larder_item::Second;
use larder_tier::store::Durable;

use self::large::Read;
use crate::process::registered;
use crate::process::shared::Shared;
use crate::tier::Tier;
use crate::tier::wait::Wait;

/// The items of a cache, in memory and on its disk tier, for one operation of a caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    /// The second in which the operation takes place.
    pub(crate) now: Second,
    /// How the operation waits for the disk.
    pub(crate) wait: Wait<'a>,
    /// False if the change listener does not learn beforehand that the operation begins.
    pub(crate) announces: bool,
}

impl Backend<'_> {
    /// Tells the change listener that a change of this key begins.
    #[inline]
    pub(crate) fn announce(self, key: &[u8]) {
        if self.announces {
            self.shared.engine.expect_change(key);
        }
    }

    /// Runs an operation in memory.
    #[inline]
    pub(crate) fn in_memory<T>(self, run: impl FnOnce(&Engine, &Operation<'_>) -> T) -> T {
        self.with_thread_slot(|engine, thread| run(engine, &Operation::new(thread, self.now)))
    }

    #[inline]
    pub(crate) fn with_thread_slot<T>(self, f: impl FnOnce(&Engine, &ThreadSlot) -> T) -> T {
        registered::with_thread_slot(self.shared, f)
    }

    /// Makes all changes so far durable.
    pub(crate) fn sync(self) -> Result<(), StoreError> {
        match self.shared.tier.usable()?.map(|tier| tier.store().sync()) {
            Some(Durable::Failed) => Err(StoreError::Journal(Refusal::Failed)),
            _ => Ok(()),
        }
    }

    /// Waits until all changes on which a result for the key depends are durable, or defers this to
    /// the caller.
    #[inline]
    pub(crate) fn await_durable(self, tier: &Tier, key: &[u8]) -> Result<(), StoreError> {
        let Some(at) = tier.store().awaited(key) else { return Ok(()) };
        match (tier.store().durable(at), self.wait.deferred()) {
            (Durable::Yes, _) => Ok(()),
            (_, Some(deferred)) => {
                deferred.note_awaited(at);
                Ok(())
            }
            (_, None) if tier.store().wait_durable(at) == Durable::Yes => Ok(()),
            (_, None) => Err(StoreError::Journal(Refusal::Failed)),
        }
    }
}

/// Returns the outcome of an operation that reads the disk itself and is therefore never pending.
#[inline]
pub fn waited<T>(outcome: Poll<Result<T, StoreError>>) -> Result<T, StoreError> {
    match outcome {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(Refusal::NeedsDisk.into()),
    }
}

/// Returns the outcome of a read that reads the disk itself.
#[inline]
pub(crate) fn waited_read(read: Poll<Read>) -> Read {
    match read {
        Poll::Ready(read) => read,
        Poll::Pending => Read::Failed(Refusal::NeedsDisk.into()),
    }
}
