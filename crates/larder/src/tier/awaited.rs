//! Waiting until changes are durable.

use std::cell::Cell;

use larder_engine::{Engine, Operation, Refusal, StoreError};
use larder_tier::disk::real::Caution;
use larder_tier::format::Address;
use larder_tier::store::{Durable, Started, Statistics};

use super::TierMode;
use super::operate::{Target, Undone, Use};
use crate::cache::Cache;

thread_local! {
    /// True if the thread's operations do not wait.
    static DEFERS: Cell<bool> = const { Cell::new(false) };
    /// What the results of the thread's operations wait for.
    static AWAITED: Cell<Option<Address>> = const { Cell::new(None) };
}

/// A place in the log of a disk tier that an answer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Awaited(Address);

/// Whether what an answer waits for is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It is.
    Durable,
    /// Not yet.
    Pending,
    /// The log has failed: it may be durable or not.
    Unknown,
}

/// How a disk tier does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierStatus {
    /// What the directory promises.
    pub mode: TierMode,
    /// What the start has found.
    pub started: Started,
    /// Its statistics.
    pub statistics: Statistics,
    /// Items that the disk did not return, or that were damaged.
    pub unreadable: u64,
    /// Why it does not work as it should; `None` if it does.
    pub trouble: Option<String>,
    /// What its file system does not promise; `None`: nothing is known.
    pub caution: Option<Caution>,
}

impl From<Durable> for Durability {
    fn from(durable: Durable) -> Self {
        match durable {
            Durable::Yes => Self::Durable,
            Durable::NotYet => Self::Pending,
            Durable::Failed => Self::Unknown,
        }
    }
}

impl Cache {
    /// Lets the operations of the calling thread return before their changes are durable. Their
    /// results may be shown when [`Cache::take_awaited`] is durable. Without a disk tier, and with
    /// another durability than [`Durability::Sync`](crate::Durability::Sync), nothing ever waits.
    pub fn defer_durability(&self) {
        DEFERS.set(true);
    }

    /// Returns what the results of the calling thread's operations since the last call wait for;
    /// `None` if they may be shown at once.
    ///
    /// Cost: a load.
    #[inline]
    pub fn take_awaited(&self) -> Option<Awaited> {
        AWAITED.take().map(Awaited)
    }

    /// Returns whether it is durable.
    ///
    /// Cost: a load.
    pub fn durability(&self, awaited: Awaited) -> Durability {
        let tier = self.shared().tier.own();
        tier.map_or(Durability::Durable, |tier| tier.store().durable(awaited.0).into())
    }

    /// Waits until it is durable, or the log fails.
    pub fn wait_durable(&self, awaited: Awaited) -> Durability {
        let tier = self.shared().tier.own();
        tier.map_or(Durability::Durable, |tier| tier.store().wait_durable(awaited.0).into())
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
        let tier = self.shared().tier.usable()?;
        match tier.map(|tier| tier.store().sync()) {
            Some(Durable::Failed) => Err(StoreError::Journal(Refusal::Failed)),
            _ => Ok(()),
        }
    }

    /// Runs a change of an item. `is_absent` says whether an outcome means that the key has none:
    /// the disk may have it.
    #[inline]
    pub(crate) fn change<T>(
        &self,
        key: &[u8],
        uses: Use,
        is_absent: impl Fn(&T) -> bool,
        mut change: impl FnMut(&Engine, &Operation<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (tier, now) = (self.shared().tier.usable()?, self.now());
        let Some(tier) = tier else {
            return self
                .with_thread_slot(|engine, thread| change(engine, &Operation::new(thread, now)));
        };
        let target = Target::new(key, uses);
        let outcome = self.with_thread_slot(|engine, thread| {
            let change = |operation: &Operation<'_>| change(engine, operation);
            tier.change(engine, &Operation::new(thread, now), &target, change, is_absent)
        });
        self.note_awaited(key)?;
        outcome.map_err(Undone::into_error)
    }

    /// Waits for what a result about the key depends on, or leaves it to the thread.
    #[inline]
    pub(crate) fn note_awaited(&self, key: &[u8]) -> Result<(), StoreError> {
        let Some(tier) = self.shared().tier.own() else { return Ok(()) };
        let Some(at) = tier.store().awaited(key) else { return Ok(()) };
        match tier.store().durable(at) {
            Durable::Yes => Ok(()),
            _ if DEFERS.get() => {
                AWAITED.set(AWAITED.get().max(Some(at)));
                Ok(())
            }
            _ if tier.store().wait_durable(at) == Durable::Yes => Ok(()),
            _ => Err(StoreError::Journal(Refusal::Failed)),
        }
    }
}
