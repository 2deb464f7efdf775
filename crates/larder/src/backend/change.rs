//! Changes of an item that may be only on the disk.

use std::task::Poll;

use larder_engine::{Deletion, Engine, Operation, StoreError};

use super::Backend;
use crate::tier::{Dependency, Target, Tier, Undone};

impl Backend<'_> {
    /// Runs a change of an item. `is_absent` returns true for outcomes that mean that the item is
    /// absent; then it may still be on the disk.
    #[inline]
    pub(crate) fn change<T>(
        self,
        key: &[u8],
        uses: Dependency,
        is_absent: impl Fn(&T) -> bool,
        mut change: impl FnMut(&Engine, &Operation<'_>) -> Result<T, StoreError>,
    ) -> Poll<Result<T, StoreError>> {
        let Some(tier) = self.shared.tier.usable()? else {
            return Poll::Ready(self.in_memory(change));
        };
        let target = Target::new(key, uses, self.wait);
        let outcome = self.in_memory(|engine, operation| {
            let change = |operation: &Operation<'_>| change(engine, operation);
            tier.change(engine, operation, &target, change, is_absent)
        });
        self.concluded(tier, key, outcome)
    }

    /// Removes an item, which may be only on the disk.
    pub(crate) fn remove(self, key: &[u8], cas: Option<u64>) -> Poll<Result<Deletion, StoreError>> {
        let Some(tier) = self.shared.tier.usable()? else {
            return Poll::Ready(
                self.in_memory(|engine, operation| engine.delete(operation, key, cas)),
            );
        };
        let target = Target::new(key, Dependency::Needs, self.wait);
        let outcome =
            self.in_memory(|engine, operation| tier.remove(engine, operation, &target, cas));
        self.concluded(tier, key, outcome)
    }

    /// Returns the outcome of a change once the change is durable, or records the durability that
    /// the caller must wait for.
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
}
