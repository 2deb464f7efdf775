//! Hot keys: the keys with the most commands and the keys with the most bytes.
//!
//! Workers sample their commands ([`sampler`]) and pass the samples through rings to one thread. It
//! keeps counts of the heaviest keys ([`sketch`], [`collector`]) and publishes the list. The thread
//! decides how many commands one sample stands for (the *mean*), so that the number of samples is
//! about the same under any load. This bounds the cost, and the estimate is as good at 400,000
//! requests per second as at four million. Nothing is sampled until a client requests the list,
//! unless there is an admin listener.

mod collector;
mod sampler;
mod sketch;

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use rtrb::Consumer;

pub(crate) use self::collector::{HotKey, HotList, LISTED_MAX};
pub(crate) use self::sampler::{SampleResult, Sampler};

use self::collector::Collector;
use self::sampler::Mean;
use crate::clock::monotonic_us;
use crate::observe::prefix_stats::PrefixCounter;
use crate::stop::Stop;

/// The hot keys of a server.
#[derive(Default)]
pub(crate) struct HotKeys {
    mean: Arc<Mean>,
    /// The collector's ends of the samplers' rings. Only the thread that evaluates them holds the
    /// lock for longer than it takes to add a ring.
    rings: Mutex<Vec<Consumer<u8>>>,
    /// The list, which is replaced as a whole.
    list: Mutex<Arc<HotList>>,
    /// The thread that evaluates the samples.
    thread: OnceLock<Thread>,
}

impl HotKeys {
    /// Creates the sampler of a thread.
    pub(crate) fn sampler(&self) -> Sampler {
        let seed = u64::from(monotonic_us().unsigned_abs() as u32);
        let mut rings = lock(&self.rings);
        rings.retain(|ring| !ring.is_abandoned());
        let seed = seed << 32 | rings.len() as u64;
        let (sampler, ring) = Sampler::new(Arc::clone(&self.mean), seed);
        rings.push(ring);
        sampler
    }

    /// Returns the current hottest keys. The first call starts the sampling.
    pub(crate) fn list(&self) -> Arc<HotList> {
        self.enable();
        Arc::clone(&lock(&self.list))
    }

    /// Starts the sampling, unless it has already started.
    pub(crate) fn enable(&self) {
        if self.mean.load(Relaxed) == 0
            && self.mean.compare_exchange(0, MEAN_FIRST, Relaxed, Relaxed).is_ok()
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Starts the thread that evaluates the samples. It ends with the process.
    ///
    /// # Errors
    /// Fails if the system cannot start another thread.
    pub(crate) fn start(
        self: &Arc<Self>,
        stop: &Arc<Stop>,
        prefixes: PrefixCounter,
    ) -> io::Result<()> {
        let (hot_keys, stop) = (Arc::clone(self), Arc::clone(stop));
        let started = thread::Builder::new().name("hot keys".to_owned()).spawn(move || {
            while hot_keys.mean.load(Relaxed) == 0 {
                thread::park();
            }
            hot_keys.evaluate(&stop, prefixes);
        })?;
        self.thread.set(started.thread().clone()).expect("the thread is started once");
        Ok(())
    }

    /// Evaluates samples until the server stops.
    fn evaluate(&self, stop: &Stop, mut prefixes: PrefixCounter) {
        let (mut collector, mut bytes) = (Collector::new(), Vec::new());
        let (mut now_us, mut sampled) = (monotonic_us(), 0);
        let mut published_us = now_us;
        let adapt = |rate| self.mean.store(adapted(self.mean.load(Relaxed), rate), Relaxed);
        while stop.requested().is_none() {
            thread::sleep(PAUSE);
            let before = sampled;
            for ring in lock(&self.rings).iter_mut() {
                sampler::take(ring, &mut bytes, |sample| {
                    collector.take(&sample);
                    prefixes.take(sample.key, sample.access, sample.weight);
                    sampled += 1;
                });
            }
            let before_us = std::mem::replace(&mut now_us, monotonic_us());
            collector.age(secs(now_us - before_us));
            let rate = f64::from(sampled - before) / secs(now_us - before_us);
            if rate > SUDDEN * SAMPLES_PER_SEC {
                adapt(rate);
            }
            if now_us - published_us >= PUBLISHED_EVERY_US {
                adapt(f64::from(sampled) / secs(now_us - published_us));
                (sampled, published_us) = (0, now_us);
                let list = Arc::new(collector.list());
                // The previous list is dropped after the lock is released.
                let _previous = std::mem::replace(&mut *lock(&self.list), list);
            }
            prefixes.turn(now_us);
        }
    }
}

/// Returns how many commands a sample should stand for, if the current mean leads to `rate` samples
/// per second.
fn adapted(mean: u32, rate: f64) -> u32 {
    // The mean grows immediately but shrinks slowly: a server that was idle for a moment must not
    // sample everything.
    let factor = (rate / SAMPLES_PER_SEC).max(0.5);
    ((f64::from(mean) * factor) as u32).clamp(MEAN_MIN, MEAN_MAX)
}

fn secs(us: i64) -> f64 {
    us as f64 / 1e6
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for HotKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HotKeys").field("mean", &self.mean).finish_non_exhaustive()
    }
}

/// The intended number of samples per second of all workers together:
/// docs/decisions/0027-hot-keys.md.
const SAMPLES_PER_SEC: f64 = 12_500.0;

/// If a check finds this many times the intended number of samples, it adapts the mean immediately
/// instead of with the next list.
const SUDDEN: f64 = 2.0;

/// How many commands a sample stands for: initially, at least and at most.
const MEAN_FIRST: u32 = 128;
const MEAN_MIN: u32 = 8;
const MEAN_MAX: u32 = 1 << 16;

/// The pause between two checks of the rings.
const PAUSE: Duration = Duration::from_millis(100);

const PUBLISHED_EVERY_US: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_the_load() {
        assert_eq!(adapted(32, SAMPLES_PER_SEC), 32);
        assert_eq!(adapted(32, 10.0 * SAMPLES_PER_SEC), 320);
        assert_eq!(adapted(320, 0.0), 160);
        assert_eq!(adapted(8, 0.0), MEAN_MIN);
        assert_eq!(adapted(MEAN_MAX, 2.0 * SAMPLES_PER_SEC), MEAN_MAX);
    }

    #[test]
    fn rings_of_samplers_that_are_gone_are_dropped() {
        let hot_keys = HotKeys::default();
        for _ in 0..100 {
            let _sampler = hot_keys.sampler();
        }
        assert_eq!(lock(&hot_keys.rings).len(), 1);
    }
}
