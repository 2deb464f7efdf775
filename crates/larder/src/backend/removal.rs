//! Removal of items by prefix from a disk tier.
//!
//! In store mode every item is on the disk: a removal walks over the disk, and deletes each item.
//! In cache mode the disk holds the items that memory evicts. There a removal drops items from the
//! disk's index without a record in the log:
//!
//! ```text
//! begin in memory ─▶ begin on the disk ─▶ cut-off ─▶ remove from the disk ─▶ remove from memory
//! ```
//!
//! Items that were stored before the *cut-off* are removed, later ones stay.
//!
//! While a removal is in progress, the items that it covers do not move between memory and disk: an
//! evicted item is dropped, and a read does not promote it.

use std::mem;
use std::sync::Arc;
use std::task::Poll;

use larder_engine::{Deletion, Dumped, Engine, Operation, PrefixRemoval, Refusal, StoreError};
use larder_item::Meta;
use larder_tier::store::{self, PLACES, Removal, WalkStep};

use super::Backend;
use super::walk::Walk;
use crate::backend::waited;
use crate::system::clock::HandleTime;
use crate::tier::store_journal::refusal;
use crate::tier::wait::Wait;
use crate::tier::{Dependency, NotPerformed, Target};

/// A removal in progress in store mode: a walk, and a delete of each item that it returns, unless
/// the item is newer than the removal.
#[derive(Debug)]
pub(crate) struct StoreRemoval {
    walk: Walk,
    /// The removal from the disk. It distinguishes older items from newer ones.
    removal: Arc<Removal>,
    /// Items that are found but not tried yet.
    found: Vec<Dumped>,
    removed: u64,
}

/// A removal in progress in cache mode, from memory and disk.
#[derive(Debug)]
pub(crate) struct CacheRemoval {
    prefix: Box<[u8]>,
    /// The walk over the rest of the disk; `None` once it has ended.
    walk: Option<store::Walk>,
    /// Keys on the disk that are found but not removed yet.
    found: Vec<Box<[u8]>>,
    /// The removal from the disk. It distinguishes older items from newer ones.
    removal: Arc<Removal>,
    /// The removal from memory, which follows the removal from the disk.
    memory: PrefixRemoval,
    /// Number of removed items that were not in memory.
    removed: u64,
}

impl Backend<'_> {
    /// Begins a removal in cache mode; `None` in store mode and without a disk tier.
    pub(crate) fn begin_cache_removal(
        self,
        prefix: &[u8],
    ) -> Result<Option<CacheRemoval>, StoreError> {
        let Some(tier) = self.shared.tier.own().filter(|tier| tier.is_cache()) else {
            return Ok(None);
        };
        let (now, begin) = (self.now, || tier.store().begin_removal(prefix));
        let (memory, removal) = self.with_thread_slot(|engine, thread| {
            engine.begin_prefix_removal_with(thread, prefix, begin, now)
        })?;
        let (prefix, walk) = (prefix.into(), Some(tier.store().walk(PLACES)));
        Ok(Some(CacheRemoval { prefix, walk, found: Vec::new(), removal, memory, removed: 0 }))
    }

    /// Begins a removal in store mode; `None` in cache mode and without a disk tier.
    pub(crate) fn begin_store_removal(self, prefix: &[u8]) -> Option<StoreRemoval> {
        let tier = self.shared.tier.own().filter(|tier| !tier.is_cache())?;
        let removal = tier.store().begin_removal(prefix);
        Some(StoreRemoval {
            walk: Walk::begin(self.shared, HandleTime::default(), prefix),
            removal,
            found: Vec::new(),
            removed: 0,
        })
    }
}

impl CacheRemoval {
    /// Tries about `items_max` items on the disk or groups of the index. Returns false once the
    /// removal is complete.
    pub(crate) fn step(
        &mut self,
        backend: Backend<'_>,
        items_max: usize,
    ) -> Result<bool, StoreError> {
        let now = backend.now;
        for _ in 0..items_max {
            if self.found.is_empty() && self.walk.is_some() {
                self.walk_on(backend);
                continue;
            }
            let Some(key) = self.found.pop() else {
                let is_under_way = backend.with_thread_slot(|engine, thread| {
                    engine.remove_prefix_of_group(thread, &mut self.memory, now)
                })?;
                if !is_under_way {
                    return Ok(false);
                }
                continue;
            };
            self.forget(backend, &key)?;
        }
        Ok(true)
    }

    /// Removes the item of a key from the disk and from memory.
    fn forget(&mut self, backend: Backend<'_>, key: &[u8]) -> Result<(), StoreError> {
        let Some(tier) = backend.shared.tier.own() else { return Ok(()) };
        let (is_forgotten, now) =
            (tier.store().forget_covered(key, &self.removal).map_err(refusal)?, backend.now);
        let is_removed = backend.with_thread_slot(|engine, thread| {
            engine.remove_prefix_of_key(thread, &self.memory, key, now)
        })?;
        backend.shared.engine.report_change(key);
        // An item that was also in memory has been counted there.
        self.removed += u64::from(is_forgotten && !is_removed);
        Ok(())
    }

    /// Performs one step of the walk over the disk, including its reads, and adds the keys that it
    /// finds.
    fn walk_on(&mut self, backend: Backend<'_>) {
        let (Some(walk), Some(tier)) = (&mut self.walk, backend.shared.tier.own()) else { return };
        let (prefix, found, mut read) = (&self.prefix, &mut self.found, Vec::new());
        loop {
            let step = tier.store().walk_on(walk, mem::take(&mut read), |_, item| {
                if item.key.starts_with(prefix) {
                    found.push(item.key.into());
                }
            });
            let damaged = walk.take_unreadable_keys();
            found.extend(damaged.into_iter().filter(|key| key.starts_with(prefix)));
            match step {
                WalkStep::Reads(reads) => {
                    read = reads.into_iter().map(|wanted| tier.store().read(wanted)).collect();
                }
                WalkStep::GoesOn | WalkStep::Slice => return,
                WalkStep::Over => return self.walk = None,
            }
        }
    }

    pub(crate) fn removed(&self) -> u64 {
        self.removed + self.memory.removed()
    }

    pub(crate) fn progress(&self, engine: &Engine) -> f64 {
        match &self.walk {
            Some(walk) => walk.progress() / 2.0,
            None => 0.5 + engine.progress_of(&self.memory) / 2.0,
        }
    }
}

impl StoreRemoval {
    /// Tries about `items_max` items. Returns false once the removal is complete and durable.
    pub(crate) fn step(
        &mut self,
        backend: Backend<'_>,
        items_max: usize,
    ) -> Result<bool, StoreError> {
        for _ in 0..items_max {
            while self.found.is_empty() {
                let goes_on = self.walk.advance(&mut self.found);
                // For damaged items only the key is known.
                let meta = Meta::default();
                let damaged = self.walk.take_unreadable_keys().into_iter();
                self.found.extend(damaged.map(|key| Dumped { key: key.into(), meta }));
                if !goes_on && self.found.is_empty() {
                    return backend.sync().map(|()| false);
                }
            }
            let Some(dumped) = self.found.pop() else { continue };
            match self.remove(backend, &dumped.key) {
                Ok(Deletion::Deleted(_)) => self.removed += 1,
                Ok(_) | Err(StoreError::Journal(Refusal::Newer)) => {}
                Err(error) => {
                    self.found.push(dumped);
                    return match error {
                        // The disk cannot keep up: the next step tries again.
                        StoreError::Journal(Refusal::Busy) => Ok(true),
                        error => Err(error),
                    };
                }
            }
        }
        Ok(true)
    }

    fn remove(&self, backend: Backend<'_>, key: &[u8]) -> Result<Deletion, StoreError> {
        let (shared, now) = (backend.shared, backend.now);
        let Some(tier) = shared.tier.own() else { return Ok(Deletion::NotFound) };
        let target = Target::new(key, Dependency::Needs, Wait::Block);
        let target = Target { removal: Some(&self.removal), ..target };
        let removed = backend.with_thread_slot(|engine, thread| {
            tier.remove(engine, &Operation::new(thread, now), &target, None)
        });
        shared.engine.report_change(key);
        waited(removed.map_or_else(NotPerformed::into_poll, |removed| Poll::Ready(Ok(removed))))
    }

    pub(crate) fn removed(&self) -> u64 {
        self.removed
    }

    pub(crate) fn progress(&self) -> f64 {
        self.walk.progress()
    }
}
