//! The thread that keeps a cache tidy in the background, for those who ask for one.

use std::sync::{Arc, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

use larder_engine::{Engine, Seat};
use larder_stats::Counter;

use crate::cache::Shared;
use crate::thread::seats;

/// How often dead memory is looked for when nobody is short of it.
const PERIOD: Duration = Duration::from_secs(1);

/// Tells the maintainer of a cache that is gone to end.
#[derive(Debug)]
pub(crate) struct Maintainer(Thread);

impl Drop for Maintainer {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

impl Maintainer {
    /// Starts the maintainer of a cache. It holds none of it: it ends with the last clone.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let weak = Arc::downgrade(shared);
        // Here, so that which seats threads get does not depend on who comes first.
        let seat = shared.engine.sit();
        let thread = thread::Builder::new()
            .name("larder-maintain".to_owned())
            .spawn(move || maintain(&weak, seat.as_ref()))?
            .thread()
            .clone();
        let woken = thread.clone();
        shared.engine.call_when_short(Box::new(move || woken.unpark()));
        Ok(Self(thread))
    }
}

fn maintain(cache: &Weak<Shared>, seat: Option<&Seat>) {
    let mut maintained = 0;
    while let Some(shared) = cache.upgrade() {
        let now = shared.now();
        let tidying = shared.tidying();
        let tidy = |engine: &Engine, seat: &Seat| {
            engine.refill(seat, now);
            let more = engine.shrink(seat, now);
            if now != maintained {
                engine.maintain(seat, now);
                engine.count(seat, Counter::MaintainerRounds, 1);
            }
            more
        };
        let more = match seat {
            Some(seat) => tidy(&shared.engine, seat),
            None => seats::with_seat(&shared, tidy),
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
