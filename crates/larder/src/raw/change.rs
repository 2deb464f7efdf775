//! Changes, removals and clears.

use std::task::Poll;

use larder_engine::{Arithmetic, ArithmeticRequest, Deletion, MetaOutcome, MetaUpdate, StoreError};
use larder_item::Second;

use super::Raw;
use crate::backend::Backend;
use crate::tier::Dependency;

impl Raw<'_> {
    /// Removes an item as [`Cache::delete_if`](crate::Cache::delete_if) does.
    ///
    /// # Errors
    /// Same as [`Cache::delete_if`](crate::Cache::delete_if).
    pub fn delete(self, key: &[u8], cas: Option<u64>) -> Poll<Result<Deletion, StoreError>> {
        self.backend.shared.flights.detach(key);
        self.backend.remove(key, cas)
    }

    /// Changes an item's metadata as [`Cache::mark_stale`](crate::Cache::mark_stale) and
    /// [`Cache::touch_as`](crate::Cache::touch_as) do.
    ///
    /// # Errors
    /// Same as [`Cache::touch_until`](crate::Cache::touch_until).
    pub fn update(self, key: &[u8], update: &MetaUpdate) -> Poll<Result<MetaOutcome, StoreError>> {
        if update.stale {
            self.backend.shared.flights.detach(key);
        }
        let is_absent = |outcome: &MetaOutcome| *outcome == MetaOutcome::NotFound;
        self.backend.change(key, Dependency::Needs, is_absent, |engine, operation| {
            engine.update_meta(operation, key, update)
        })
    }

    /// Changes a counter as [`Cache::arithmetic_as`](crate::Cache::arithmetic_as) does.
    ///
    /// # Errors
    /// Same as [`Cache::arithmetic_as`](crate::Cache::arithmetic_as).
    pub fn arithmetic(
        self,
        request: &ArithmeticRequest<'_>,
    ) -> Poll<Result<Arithmetic, StoreError>> {
        self.backend.shared.flights.detach(request.key);
        let is_absent = |outcome: &Arithmetic| *outcome == Arithmetic::NotFound;
        self.backend.change(request.key, Dependency::Needs, is_absent, |engine, operation| {
            engine.arithmetic(operation, request)
        })
    }

    /// Clears the cache as [`Cache::try_clear`](crate::Cache::try_clear) does.
    ///
    /// # Errors
    /// Same as [`Cache::try_clear`](crate::Cache::try_clear).
    pub fn clear(self) -> Result<(), StoreError> {
        let shared = self.backend.shared;
        shared.flights.detach_all(|_| true);
        match shared.tier.usable()? {
            None => shared.engine.flush(),
            Some(tier) => {
                tier.clear(|| shared.engine.flush())?;
                shared.engine.report_clear();
                return self.backend.await_durable(tier, b"");
            }
        }
        shared.engine.report_clear();
        Ok(())
    }

    /// Clears the cache later, as [`Cache::try_clear_at`](crate::Cache::try_clear_at) does.
    ///
    /// # Errors
    /// Same as [`Cache::try_clear_at`](crate::Cache::try_clear_at).
    pub fn clear_at(self, at: Second) -> Result<(), StoreError> {
        let Backend { shared, now, .. } = self.backend;
        match shared.tier.usable()? {
            _ if at <= now => return self.clear(),
            None => shared.engine.flush_at(at, now),
            Some(tier) => {
                tier.clear_at(at, || shared.engine.flush_at(at, now))?;
                self.backend.await_durable(tier, b"")?;
            }
        }
        Ok(())
    }

    /// Clears the cache as [`Cache::try_clear_second`](crate::Cache::try_clear_second) does.
    ///
    /// # Errors
    /// Same as [`Cache::try_clear_second`](crate::Cache::try_clear_second).
    pub fn clear_second(self) -> Result<(), StoreError> {
        let Backend { shared, now, .. } = self.backend;
        if shared.tier.is_none() {
            shared.engine.flush_second(now);
            shared.engine.report_clear();
            return Ok(());
        }
        self.clear()?;
        self.clear_at(now + 1)
    }
}
