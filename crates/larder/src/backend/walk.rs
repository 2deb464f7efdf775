//! Walks over the metadata of the items in memory and on the disk.

use std::sync::Arc;

use larder_engine::{Cursor, DumpFilter, Dumped};

use super::Backend;
use crate::process::registered;
use crate::process::shared::Shared;
use crate::system::clock::HandleTime;
use crate::tier::lookup::{DiskPages, DiskRead};
use crate::tier::wait::Wait;
use crate::tier::walking::{TierWalk, Visit, WalkStep};

/// A walk over the metadata of all items, in steps; see [`Cache::walk`](crate::Cache::walk).
#[derive(Debug)]
pub struct Walk {
    shared: Arc<Shared>,
    /// The time of the handle that began the walk.
    time: HandleTime,
    prefix: Vec<u8>,
    over: Over,
}

/// The position of a walk: without and with a disk tier.
#[derive(Debug)]
enum Over {
    Memory(Cursor),
    Tier(Box<TierWalk>),
}

impl Walk {
    pub(crate) fn begin(shared: &Arc<Shared>, time: HandleTime, prefix: &[u8]) -> Self {
        let over = match shared.tier.own() {
            Some(tier) => Over::Tier(Box::new(tier.walk(&shared.engine))),
            None => Over::Memory(Cursor::default()),
        };
        Self { shared: Arc::clone(shared), time, prefix: prefix.to_vec(), over }
    }

    /// Begins a walk over a part of the disk's index. Also returns the place at which the next part
    /// starts. `None` after the last part, and without a disk tier.
    pub(crate) fn over_disk(
        shared: &Arc<Shared>,
        place: u64,
        entries: usize,
        prefix: &[u8],
    ) -> Option<(Self, u64)> {
        let (walk, end) = shared.tier.own()?.walk_slice(place, entries)?;
        let over = Over::Tier(Box::new(walk));
        let (shared, time) = (Arc::clone(shared), HandleTime::default());
        Some((Self { shared, time, prefix: prefix.to_vec(), over }, end))
    }

    /// Appends the next items to `out`: a few, sometimes none. Returns false after the last item.
    ///
    /// Cost: in memory about the same as storing a few items; a group of the index is locked while
    /// its keys are copied. With a disk tier the call may read the disk and wait for it: up to half
    /// a MiB, or one longer item.
    pub fn advance(&mut self, out: &mut Vec<Dumped>) -> bool {
        let mut read = Vec::new();
        loop {
            match self.step(read, Wait::Block, out) {
                WalkStep::Reads(reads) => {
                    read = reads.into_iter().map(DiskRead::perform).collect();
                }
                WalkStep::GoesOn => return true,
                WalkStep::Over => return false,
            }
        }
    }

    /// Same as [`Walk::advance`], but the caller performs the reads of the disk and passes the
    /// results to the next step, in the same order. `wait` decides how the step waits until the
    /// returned items are durable.
    pub fn step(
        &mut self,
        read: Vec<DiskPages>,
        wait: Wait<'_>,
        out: &mut Vec<Dumped>,
    ) -> WalkStep {
        let Self { shared, time, prefix, over } = self;
        let shared = shared.here();
        let now = shared.now_of(time);
        let shown = out.len();
        let step = registered::with_thread_slot(shared, |engine, thread| {
            match (over, shared.tier.own()) {
                (Over::Tier(walk), Some(tier)) => {
                    tier.walk_on(walk, read, &mut Visit { engine, thread, now, prefix, out })
                }
                (Over::Memory(cursor), _) => {
                    let filter = DumpFilter { key_prefix: prefix };
                    match engine.dump_group(thread, cursor, &filter, now, out) {
                        true => WalkStep::GoesOn,
                        false => WalkStep::Over,
                    }
                }
                (Over::Tier(_), None) => WalkStep::Over,
            }
        });
        if let Some(tier) = shared.tier.own() {
            let backend = Backend { shared, now, wait, announces: true };
            for dumped in &out[shown..] {
                // A listed item must not disappear in a power loss, unless the log has failed.
                let _ = backend.await_durable(tier, &dumped.key);
            }
        }
        step
    }

    /// Returns how many items the disk has failed to return so far, or returned damaged. The walk
    /// does not return these items.
    pub fn unreadable(&self) -> u64 {
        match &self.over {
            Over::Memory(_) => 0,
            Over::Tier(walk) => walk.unreadable(),
        }
    }

    /// Takes the keys of items that are damaged on the disk and begin with the walk's prefix, if
    /// the keys can be read.
    pub(crate) fn take_unreadable_keys(&mut self) -> Vec<Box<[u8]>> {
        let Over::Tier(walk) = &mut self.over else { return Vec::new() };
        let mut keys = walk.take_unreadable_keys();
        keys.retain(|key| key.starts_with(&self.prefix));
        keys
    }

    /// Returns the part of the disk's index that the walk has passed, from 0 to 1.
    pub(crate) fn progress(&self) -> f64 {
        match &self.over {
            Over::Memory(_) => 0.0,
            Over::Tier(walk) => walk.progress(),
        }
    }

    /// Returns the memory that the walk holds, in bytes.
    pub fn held_bytes(&self) -> usize {
        match &self.over {
            Over::Memory(_) => 0,
            Over::Tier(walk) => size_of::<TierWalk>() + walk.held_bytes(),
        }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        if let (Over::Tier(walk), Some(tier)) = (&mut self.over, self.shared.here().tier.own()) {
            tier.end_walk(walk);
        }
    }
}
