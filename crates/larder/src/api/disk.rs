//! The disk tier of a cache: durability, status and stop.

use larder_engine::StoreError;

use super::cache::Cache;
use crate::tier::ticket::{DurabilityTicket, TicketState, TierStatus};

impl Cache {
    /// Returns whether it is durable.
    ///
    /// Cost: a load.
    pub fn durability(&self, awaited: DurabilityTicket) -> TicketState {
        let tier = self.shared().tier.own();
        tier.map_or(TicketState::Durable, |tier| tier.store().durable(awaited.0).into())
    }

    /// Waits until it is durable, or the log fails.
    pub fn wait_durable(&self, awaited: DurabilityTicket) -> TicketState {
        let tier = self.shared().tier.own();
        tier.map_or(TicketState::Durable, |tier| tier.store().wait_durable(awaited.0).into())
    }

    /// Calls `wake` after each sync of the log and after its failure, on a thread of the tier. Does
    /// nothing without a disk tier.
    pub fn on_sync(&self, wake: impl Fn() + Send + Sync + 'static) {
        if let Some(tier) = self.shared().tier.own() {
            tier.store().on_sync(wake);
        }
    }

    /// Returns how the disk tier does; `None` without one.
    ///
    /// Cost: a few locks and loads.
    pub fn tier(&self) -> Option<TierStatus> {
        let tier = self.shared().tier.own()?;
        Some(TierStatus {
            mode: tier.mode(),
            started: *tier.started(),
            statistics: tier.statistics(),
            unreadable: tier.unreadable(),
            trouble: tier.trouble(),
            caution: tier.caution(),
        })
    }

    /// True if a write or a sync of the disk tier's log has failed: a store takes no changes, and
    /// the disk of a cache takes no items.
    ///
    /// Cost: a load.
    pub fn has_tier_failed(&self) -> bool {
        self.shared().tier.own().is_some_and(|tier| tier.store().has_failed())
    }

    /// Stops the disk tier, as dropping the last clone does: makes all changes durable and takes no
    /// more. Returns the bytes that are not durable: 0 unless the disk hangs or has failed.
    ///
    /// Cost: waits for the disk, up to [`DiskTier::stop`](crate::DiskTier::stop).
    pub fn stop_tier(&self) -> u64 {
        if !self.shared.is_of_this_process() {
            return 0;
        }
        let Some(tier) = self.shared.tier.own() else { return 0 };
        let now = self.now();
        self.with_thread_slot(|engine, thread| tier.keep_memory(engine, thread, now));
        tier.stop()
    }

    /// Stops the disk tier as [`Cache::stop_tier`] does, because another process takes over the
    /// directory. Then hides the items in memory: readers of the memory (see
    /// [`Builder::readable`](crate::Builder::readable)) would not see that process's changes.
    pub fn hand_tier_over(&self) -> u64 {
        let left = self.stop_tier();
        self.shared().engine.flush();
        left
    }

    /// Makes all changes so far durable. Does nothing without a disk tier.
    ///
    /// Cost: a write and a sync of the disk; the caller waits.
    ///
    /// # Errors
    /// [`StoreError::Journal`] if the log has failed, and in a child of the process that opened it.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// cache.sync()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sync(&self) -> Result<(), StoreError> {
        self.blocking().backend.sync()
    }
}
