//! Changes of an item that memory may lack.

use std::task::Poll;

use larder_engine::{Deletion, Engine, Operation, Refusal, StoreError};
use larder_tier::store::Durable;

use crate::raw::Raw;
use crate::tier::{Target, Tier, Undone, Use};

impl Raw<'_> {
    /// Runs a change of an item. `is_absent` says whether an outcome means that the key has none:
    /// the disk may have it.
    #[inline]
    pub(crate) fn change<T>(
        self,
        key: &[u8],
        uses: Use,
        is_absent: impl Fn(&T) -> bool,
        mut change: impl FnMut(&Engine, &Operation<'_>) -> Result<T, StoreError>,
    ) -> Poll<Result<T, StoreError>> {
        let Self { cache, wait } = self;
        let (tier, now) = (cache.shared().tier.usable()?, cache.now());
        let Some(tier) = tier else {
            return Poll::Ready(
                cache.with_thread_slot(|engine, thread| {
                    change(engine, &Operation::new(thread, now))
                }),
            );
        };
        let target = Target::new(key, uses, wait);
        let outcome = cache.with_thread_slot(|engine, thread| {
            let change = |operation: &Operation<'_>| change(engine, operation);
            tier.change(engine, &Operation::new(thread, now), &target, change, is_absent)
        });
        self.concluded(tier, key, outcome)
    }

    /// Removes an item, of which the disk may have the only record.
    pub(crate) fn remove(self, key: &[u8], cas: Option<u64>) -> Poll<Result<Deletion, StoreError>> {
        let Self { cache, wait } = self;
        let (tier, now) = (cache.shared().tier.usable()?, cache.now());
        let Some(tier) = tier else {
            return Poll::Ready(cache.with_thread_slot(|engine, thread| {
                engine.delete(&Operation::new(thread, now), key, cas)
            }));
        };
        let target = Target::new(key, Use::Needs, wait);
        let outcome = cache.with_thread_slot(|engine, thread| {
            tier.remove(engine, &Operation::new(thread, now), &target, cas)
        });
        self.concluded(tier, key, outcome)
    }

    /// Returns the outcome of a change once that is durable, or notes what it waits for.
    fn concluded<T>(
        self,
        tier: &Tier,
        key: &[u8],
        outcome: Result<T, Undone>,
    ) -> Poll<Result<T, StoreError>> {
        if let Err(Undone::Pending) = outcome {
            return Poll::Pending;
        }
        self.await_durable(tier, key)?;
        outcome.map_or_else(Undone::into_poll, |outcome| Poll::Ready(Ok(outcome)))
    }

    /// Waits until what a result about the key depends on is durable, or leaves that to the caller.
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
