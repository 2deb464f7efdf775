//! Changes of an item that may be only on the disk.

use std::task::Poll;

use larder_engine::{Deletion, Engine, Operation, StoreError};

use super::Backend;
use super::effect::Effect;
use crate::tier::{Dependency, NotPerformed, Target, Tier};

impl Backend<'_> {
    /// Runs a change of an item. `is_absent` returns true for outcomes that mean that the item is
    /// absent; then it may still be on the disk.
    #[inline]
    pub(crate) fn change<T: Effect>(
        self,
        key: &[u8],
        uses: Dependency,
        is_absent: impl Fn(&T) -> bool,
        mut change: impl FnMut(&Engine, &Operation<'_>) -> Result<T, StoreError>,
    ) -> Poll<Result<T, StoreError>> {
        self.announce(key);
        let Some(tier) = self.shared.tier.usable()? else {
            let outcome = self.in_memory(change);
            self.report(key, &outcome, &is_absent);
            return Poll::Ready(outcome);
        };
        let target = Target::new(key, uses, self.wait);
        let outcome = self.in_memory(|engine, operation| {
            let change = |operation: &Operation<'_>| change(engine, operation);
            tier.change(engine, operation, &target, change, &is_absent)
        });
        self.concluded(tier, key, outcome, is_absent)
    }

    /// Removes an item, which may be only on the disk.
    pub(crate) fn remove(self, key: &[u8], cas: Option<u64>) -> Poll<Result<Deletion, StoreError>> {
        self.announce(key);
        let is_absent = |deletion: &Deletion| *deletion == Deletion::NotFound;
        let Some(tier) = self.shared.tier.usable()? else {
            let outcome = self.in_memory(|engine, operation| engine.delete(operation, key, cas));
            self.report(key, &outcome, is_absent);
            return Poll::Ready(outcome);
        };
        let target = Target::new(key, Dependency::Needs, self.wait);
        let outcome =
            self.in_memory(|engine, operation| tier.remove(engine, operation, &target, cas));
        self.concluded(tier, key, outcome, is_absent)
    }

    /// Returns the outcome of a change once the change is durable, or records the durability that
    /// the caller must wait for.
    fn concluded<T: Effect>(
        self,
        tier: &Tier,
        key: &[u8],
        outcome: Result<T, NotPerformed>,
        is_absent: impl Fn(&T) -> bool,
    ) -> Poll<Result<T, StoreError>> {
        if let Err(NotPerformed::Pending) = outcome {
            return Poll::Pending;
        }
        self.report(key, &outcome, is_absent);
        self.await_durable(tier, key)?;
        outcome.map_or_else(NotPerformed::into_poll, |outcome| Poll::Ready(Ok(outcome)))
    }

    /// Reports the outcome of an operation to the change listener, after other threads can read the
    /// change. A failed operation may have removed the item. If the key has no item, it may have
    /// been evicted: a client that learns this must not find the item in a copy.
    #[inline]
    fn report<T: Effect, E>(
        self,
        key: &[u8],
        outcome: &Result<T, E>,
        is_absent: impl Fn(&T) -> bool,
    ) {
        let is_change = |outcome: &T| outcome.is_change() || is_absent(outcome);
        if outcome.as_ref().map_or(true, is_change) {
            self.shared.engine.report_change(key);
        }
    }
}
