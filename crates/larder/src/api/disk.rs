//! The disk tier of a cache: durability, status and stop.

use larder_engine::StoreError;

use super::cache::Cache;
use crate::tier::ticket::{DurabilityTicket, TicketState, TierStatus};

impl Cache {
    /// Returns whether the changes on which a response depends are durable. The ticket comes from
    /// [`Deferred::take_awaited`](crate::Deferred::take_awaited).
    ///
    /// Cost: a load.
    pub fn durability(&self, awaited: DurabilityTicket) -> TicketState {
        let tier = self.shared().tier.own();
        tier.map_or(TicketState::Durable, |tier| tier.store().durable(awaited.0).into())
    }

    /// Waits until the changes that [`Cache::durability`] describes are durable, or the log fails.
    pub fn wait_durable(&self, awaited: DurabilityTicket) -> TicketState {
        let tier = self.shared().tier.own();
        tier.map_or(TicketState::Durable, |tier| tier.store().wait_durable(awaited.0).into())
    }

    /// Registers `wake`, which a thread of the tier calls after each sync of the log and after a
    /// failure of the log. Does nothing without a disk tier.
    pub fn on_sync(&self, wake: impl Fn() + Send + Sync + 'static) {
        if let Some(tier) = self.shared().tier.own() {
            tier.store().on_sync(wake);
        }
    }

    /// Returns the status of the disk tier; `None` without a disk tier.
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

    /// True if a write or a sync of the disk tier's log has failed. In store mode changes then
    /// fail; in cache mode evicted items are no longer written to the disk.
    ///
    /// Cost: a load.
    pub fn has_tier_failed(&self) -> bool {
        self.shared().tier.own().is_some_and(|tier| tier.store().has_failed())
    }

    /// Stops the disk tier, as dropping the last clone does: makes all changes durable and accepts
    /// no more. Returns the number of bytes that are not durable: 0 unless the disk hangs or has
    /// failed.
    ///
    /// Cost: waits for the disk, at most for the time set with
    /// [`DiskTier::stop`](crate::DiskTier::stop).
    pub fn stop_tier(&self) -> u64 {
        if !self.shared.is_of_this_process() {
            return 0;
        }
        let Some(tier) = self.shared.tier.own() else { return 0 };
        let now = self.now();
        self.with_thread_slot(|engine, thread| tier.keep_memory(engine, thread, now));
        tier.stop()
    }

    /// Stops the disk tier as [`Cache::stop_tier`] does, so that another process can take over the
    /// directory. Then hides the items in memory, because readers of the memory (see
    /// [`Builder::readable`](crate::Builder::readable)) would not see the changes of the other
    /// process.
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
    /// [`StoreError::Journal`] if the log has failed, or if this process is a child of the process
    /// that opened it.
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
