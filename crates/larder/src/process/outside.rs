//! A shared cache in a process that could not join, because all process slots are taken.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use larder_engine::{Engine, Miss, ReadOptions, Role};
use larder_item::{Meta, Second};
use larder_region::Sink;

use crate::process::shared::Shared;
use crate::system::clock::{Clock, Time};

/// The time between two attempts to join. An attempt is expensive: it reads the entries of all
/// processes in the region, and performs a system call for each.
const TRY_PERIOD: Duration = Duration::from_secs(1);

/// A cache in a process that could not join it. A process that has joined is a *peer*.
#[derive(Debug)]
pub(crate) struct Outside {
    /// Not a peer; only for lookups.
    engine: Engine,
    time: Time,
    since: Instant,
    /// The time of the next attempt, in milliseconds after `since`.
    next_try: AtomicU64,
    joined: OnceLock<Arc<Shared>>,
}

impl Outside {
    pub(crate) fn new(engine: Engine, time: Time) -> Self {
        Self {
            engine,
            time,
            since: Instant::now(),
            next_try: AtomicU64::new(TRY_PERIOD.as_millis() as u64),
            joined: OnceLock::new(),
        }
    }

    /// Returns the cache once this process is a peer. Tries to become a peer, at most once a
    /// second.
    pub(crate) fn joined(&self) -> Option<&Arc<Shared>> {
        if self.joined.get().is_none()
            && self.is_try_due()
            && let Ok(Role::Peer(engine)) = self.engine.in_child(0)
        {
            let mut shared = Shared::new(engine, self.time);
            shared.has_substitute = false;
            // If another thread has joined first, this peer is dropped and deregisters.
            let _ = self.joined.set(Arc::new(shared));
        }
        self.joined.get()
    }

    fn is_try_due(&self) -> bool {
        let now = self.since.elapsed().as_millis() as u64;
        let due = self.next_try.load(Relaxed);
        let next = now + TRY_PERIOD.as_millis() as u64;
        now >= due && self.next_try.compare_exchange(due, next, Relaxed, Relaxed).is_ok()
    }

    /// Reads an item without counting the read. An item that was marked stale is reported as
    /// absent: only a peer can claim it and compute the new value.
    pub(crate) fn read<S: Sink>(
        &self,
        key: &[u8],
        reading: ReadOptions,
        now: Second,
        out: &mut S,
        head: &mut impl FnMut(&mut S, &Meta),
    ) -> Result<Meta, Miss> {
        let now = match self.time.clock {
            Clock::Ticked => self.engine.now(),
            Clock::System | Clock::Handle => now,
        };
        let mut value = Vec::new();
        let looked = self.engine.look_up(key, now, &mut value).filter(|looked| !looked.meta.stale);
        let Some(looked) = looked else { return Err(Miss::Absent) };
        head(out, &looked.meta);
        if reading.value {
            out.extend(&value);
        }
        Ok(looked.meta)
    }
}
