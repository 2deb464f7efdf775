//! The state of a cache in a forked child of the process that opened it.

use std::sync::Arc;

use larder_engine::{Config, Engine, JoinError, Role};
use larder_item::Epoch;

use crate::events::{Event, report};
use crate::process::attached::TierAccess;
use crate::process::outside::Outside;
use crate::process::registered;
use crate::process::shared::Shared;
use crate::system::clock::Time;
use crate::system::random::random;

/// The settings of the small cache that a forked process uses when it cannot use the parent's.
const SUBSTITUTE: Config = Config {
    memory_bytes: 1 << 20,
    memory_bytes_max: 1 << 20,
    item_bytes_max: 1 << 19,
    huge_pages: false,
    keeps_versions: true,
    evicts: true,
    hash_seed: 0,
    epoch: Epoch { unix_secs: 0 },
    peers: 0,
};

impl Shared {
    /// Returns the state that replaces this one in a process forked from its owner.
    ///
    /// Other threads of the parent may hold locks or resources of the region at the fork. These
    /// threads do not exist in the child, so in the child's copy the locks are never released. The
    /// child therefore creates its own state. If the child cannot join the region, it uses a small
    /// private cache instead. If the settings exclude such a substitute, changes fail; if the only
    /// reason is that all process slots are taken, the child reads the region, and joins as soon as
    /// a slot is free. With a disk tier the child also creates a small private cache, and each
    /// operation on an item fails.
    #[cold]
    pub(crate) fn in_this_process(&self) -> &Arc<Self> {
        let mut last = self;
        // The last state that joined the region: the children of a child that uses a substitute try
        // to join the region again.
        let mut joined = self;
        loop {
            let next = last.in_child.get_or_init(|| Arc::new(joined.forked()));
            if next.is_of_this_process() {
                return next.outside.as_ref().and_then(Outside::joined).unwrap_or(next);
            }
            last = next;
            if last.lost.is_none() {
                joined = last;
            }
        }
    }

    fn forked(&self) -> Self {
        if matches!(self.tier, TierAccess::Own(_) | TierAccess::Parents) {
            let mut shared = Self::new(substitute(&self.engine), self.time);
            shared.tier = TierAccess::Parents;
            return shared;
        }
        // Each process has at least one slot to lend (`slots.rs`), in addition to the slot of this
        // thread.
        let own_thread_slots = 1 + registered::of_this_thread(self);
        let error = match self.engine.in_child(own_thread_slots) {
            Ok(Role::Peer(engine)) => {
                let mut shared = Self::new(engine, self.time);
                shared.has_substitute = self.has_substitute;
                return shared;
            }
            Ok(Role::Reader(engine, full)) if !self.has_substitute => {
                return Self::outside(engine, full, self.time);
            }
            Ok(Role::Reader(_, full)) => full.into(),
            Err(error) => error,
        };
        report(Event::Lost(&error));
        let mut shared = Self::new(substitute(&self.engine), self.time);
        shared.lost = Some(error);
        if !self.has_substitute {
            shared.tier = TierAccess::Lost;
        }
        shared
    }

    /// Returns the state of a process that only reads a cache, because all its process slots are
    /// taken.
    pub(crate) fn outside(engine: Engine, full: JoinError, time: Time) -> Self {
        let mut shared = Self::new(substitute(&engine), time);
        shared.has_substitute = false;
        shared.lost = Some(full.into());
        shared.tier = TierAccess::Lost;
        shared.outside = Some(Outside::new(engine, time));
        shared
    }
}

/// Creates the small cache of a process that cannot use this one.
fn substitute(lost: &Engine) -> Engine {
    let (hash_seed, epoch) = (random(), lost.epoch());
    let engine = Engine::create(&Config { hash_seed, epoch, ..SUBSTITUTE })
        .expect("cannot allocate the 1 MiB cache of a process that cannot use another one");
    engine.tick(lost.now());
    engine
}
