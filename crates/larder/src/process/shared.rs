//! [`Shared`]: the state of a cache in one process.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use larder_engine::{CreateError, Engine};
use larder_item::Second;
use larder_region::forks;

use crate::process::attached::Attached;
use crate::process::flight::Flights;
use crate::process::outside::Outside;
use crate::process::removals::Queues;
use crate::process::slots::ThreadSlots;
use crate::system::clock::{Clock, HandleTime, Time, Wall};

/// The state that all clones of a cache share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) time: Time,
    pub(crate) wall: Wall,
    pub(crate) thread_slots: ThreadSlots,
    pub(crate) queues: Queues,
    /// The maintainer thread, set once if the cache has one.
    pub(crate) maintainer: OnceLock<Maintainer>,
    /// Held by the maintainer while it works, and by callers that must exclude it.
    pub(crate) tidying: Mutex<()>,
    pub(crate) flights: Flights,
    /// Number of forks between the first process and the process that owns this state.
    pub(crate) forks: u32,
    /// The state for a child forked from that process. The child creates it at first use.
    pub(crate) in_child: OnceLock<Arc<Self>>,
    /// The reason why this process could not join the cache; `None` if it joined.
    pub(crate) lost: Option<CreateError>,
    /// The cache, if this process could not join it but can read it.
    pub(crate) outside: Option<Outside>,
    /// True if a child that cannot use this cache creates its own small cache.
    pub(crate) has_substitute: bool,
    /// The file of the region; `None` for memory that no file backs.
    pub(crate) file: Option<File>,
    pub(crate) opening: Opening,
    /// The disk tier. Dropped after the last use of the engine.
    pub(crate) tier: Attached,
}

impl Shared {
    #[inline]
    pub(crate) fn now(&self) -> Second {
        match self.time.clock {
            Clock::System | Clock::Handle => self.time.system_second(),
            Clock::Ticked => self.engine.now(),
        }
    }

    /// Returns the current second for a handle.
    #[inline]
    pub(crate) fn now_of(&self, handle: &HandleTime) -> Second {
        match self.time.clock {
            Clock::System => self.time.system_second(),
            Clock::Ticked => self.engine.now(),
            Clock::Handle => self.time.handle_second(handle),
        }
    }

    /// Returns the state of this process: in a child, the state that replaces the parent's.
    #[inline]
    pub(crate) fn here(self: &Arc<Self>) -> &Arc<Self> {
        if self.is_of_this_process() { self } else { self.in_this_process() }
    }

    /// True if this process opened the cache, or took it over after a fork.
    #[inline]
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.forks == forks()
    }

    pub(crate) fn new(engine: Engine, time: Time) -> Self {
        Self {
            thread_slots: ThreadSlots::new(&engine),
            wall: Wall::new(engine.epoch(), &time),
            engine,
            time,
            queues: Queues::default(),
            maintainer: OnceLock::new(),
            tidying: Mutex::default(),
            flights: Flights::default(),
            forks: forks(),
            in_child: OnceLock::new(),
            lost: None,
            outside: None,
            has_substitute: true,
            file: None,
            opening: Opening::None,
            tier: Attached::None,
        }
    }

    /// Keeps the maintainer waiting until the guard is dropped.
    pub(crate) fn tidying(&self) -> MutexGuard<'_, ()> {
        self.tidying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    /// A clean stop: in cache mode the items in memory are written to the disk.
    fn drop(&mut self) {
        if let Some(tier) = self.tier.own()
            && self.is_of_this_process()
        {
            let now = self.now();
            self.thread_slots.borrow(&self.engine, |engine, thread| {
                tier.keep_memory(engine, thread, now);
            });
        }
    }
}

/// How the file of a cache was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The cache has no file.
    None,
    /// The file did not exist; the cache starts empty.
    Created,
    /// The file contained a cache, and this process has joined it.
    Attached,
    /// The existing content was unusable, for this reason; an empty cache replaced it.
    Replaced(String),
}

/// The maintainer thread of a cache. Dropping it wakes the thread, so that it ends.
#[derive(Debug)]
pub(crate) struct Maintainer(pub(crate) Thread);

impl Drop for Maintainer {
    fn drop(&mut self) {
        self.0.unpark();
    }
}
