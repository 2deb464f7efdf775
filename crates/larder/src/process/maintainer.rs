//! The maintainer: an optional background thread that reclaims memory ahead of the writers.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use larder_engine::{Engine, ThreadSlot};
use larder_stats::Counter;

use crate::process::registered;
use crate::process::shared::{Maintainer, Shared};

/// Interval between searches for reclaimable memory while no writer is short of memory.
const PERIOD: Duration = Duration::from_secs(1);

/// The number of slices of the expiry sweep in a second, while expired items wait: about a third of
/// a processor. Other work is done between the slices.
const SWEEP_SLICES_MAX: u32 = 32;

/// Starts the maintainer of a cache. It holds no reference to the cache and ends with the last
/// clone.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Maintainer> {
    let weak = Arc::downgrade(shared);
    // Registered in the opening thread, so that the order of thread slots does not depend on which
    // thread runs first.
    let thread = shared.engine.register();
    let thread = thread::Builder::new()
        .name("larder-maintain".to_owned())
        .spawn(move || maintain(&weak, thread.as_ref()))?
        .thread()
        .clone();
    let woken = thread.clone();
    shared.engine.call_when_short(Box::new(move || woken.unpark()));
    Ok(Maintainer(thread))
}

fn maintain(cache: &Weak<Shared>, thread: Option<&ThreadSlot>) {
    let (mut maintained, mut slices_left) = (0, 0);
    while let Some(shared) = cache.upgrade() {
        let now = shared.now();
        let tidying = shared.tidying();
        let mut tidy = |engine: &Engine, thread: &ThreadSlot| {
            if let Some(tier) = shared.tier.own() {
                tier.share_memory_if_due(engine, thread, now);
            }
            engine.refill(thread, now);
            engine.populate();
            let more = engine.shrink(thread, now);
            let is_more_expired = if now != maintained {
                engine.bump(thread, Counter::MaintainerRounds, 1);
                slices_left = SWEEP_SLICES_MAX;
                engine.maintain(thread, now)
            } else {
                slices_left > 0 && engine.sweep(thread, now)
            };
            slices_left = if is_more_expired { slices_left - 1 } else { 0 };
            more || slices_left > 0
        };
        let more = match thread {
            Some(thread) => tidy(&shared.engine, thread),
            None => registered::with_thread_slot(&shared, tidy),
        };
        maintained = now;
        drop(tidying);
        drop(shared);
        match more {
            true => thread::yield_now(),
            false => thread::park_timeout(PERIOD),
        }
    }
}
