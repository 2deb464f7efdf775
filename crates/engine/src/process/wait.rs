//! Waiting for another thread that holds a lock and needs only a few more instructions before it
//! releases it.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;
#[cfg(not(any(feature = "interleavings", miri)))]
use std::time::Instant;

use larder_region::turns::{self, YieldPoint};

use crate::error::Stuck;
use crate::process::Peers;

/// A wait for the thread that holds a lock. It first spins a little. Then it yields, so that a
/// holder without a processor can run. Then it sleeps, because a yield does not help a holder of
/// lower priority and uses up a quota of processor time. Sleeping in place of the yields would make
/// concurrent sets slower.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    spins: u32,
    /// The time since the last spin.
    waited: Duration,
}

impl Wait {
    /// A model explores all orders of threads that spin, so it spins as little as possible.
    const SPINS_MAX: u32 = if cfg!(feature = "interleavings") { 1 } else { 8 };
    /// The total time of yields. After that, the thread sleeps between attempts.
    const YIELDS: Duration = Duration::from_millis(1);
    const NAP: Duration = Duration::from_millis(1);
    /// After this time, the holder does not just wait for a processor. Its process may be stopped
    /// or dead.
    const LONG: Duration = Duration::from_millis(1);
    /// After this time, the holder lives but does not run: its process is stopped.
    const STUCK: Duration = Duration::from_secs(1);
    /// The longest time that one pause counts for: if the waiter was stopped itself, it has not
    /// waited for the holder during that time.
    const PAUSE_MAX: Duration = Duration::from_millis(10);

    pub(crate) fn pause(&mut self) {
        if self.is_spinning() {
            self.spins += 1;
            turns::offer(YieldPoint::Wait);
            std::hint::spin_loop();
            return;
        }
        let took = time_of(|| match self.waited < Self::YIELDS {
            true => let_others_run(),
            false => {
                turns::offer(YieldPoint::Wait);
                thread::sleep(Self::NAP);
            }
        });
        self.waited += took.min(Self::PAUSE_MAX);
    }

    /// True while the waiter keeps its processor.
    pub(crate) fn is_spinning(&self) -> bool {
        self.spins < Self::SPINS_MAX
    }

    /// True if the wait has taken so long that the holder does not just wait for a processor.
    pub(crate) fn is_long(&self) -> bool {
        self.is_longer_than(Self::LONG)
    }

    /// True if the wait has taken at least this time.
    pub(crate) fn is_longer_than(&self, time: Duration) -> bool {
        self.waited >= time
    }
}

/// Returns how long a pause took.
#[cfg(not(any(feature = "interleavings", miri)))]
fn time_of(pause: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    pause();
    begun.elapsed()
}

/// Returns the same time for every pause, because the order of threads must not depend on the
/// clock.
#[cfg(any(feature = "interleavings", miri))]
fn time_of(pause: impl FnOnce()) -> Duration {
    pause();
    Duration::from_micros(1)
}

/// Yields the processor to another runnable thread.
pub(crate) fn let_others_run() {
    turns::offer(YieldPoint::Wait);
    thread::yield_now();
}

impl Peers {
    /// The time between two searches for dead peers by waiting threads of this process, if the
    /// table of peers has up to 64 rows. It grows with the table, because each search costs a
    /// system call for each peer.
    const REAP_PERIOD: Duration = Duration::from_millis(3);
    /// Failed waits within this time of each other count as one series.
    const STUCK_RUN: Duration = Duration::from_secs(10);
    const STUCK_RUN_MIN: u64 = 3;

    /// True if a wait has taken so long that another process may be stopped.
    pub(crate) fn is_held_up(&self, wait: &Wait) -> bool {
        self.has_peers() && wait.is_long()
    }

    /// Same as [`Wait::pause`], for a resource that another process may hold. Calls `reap` to
    /// repair after dead processes, and gives up on stopped ones.
    pub(crate) fn wait_for_peers(
        &self,
        wait: &mut Wait,
        reap: impl FnOnce() -> bool,
    ) -> Result<(), Stuck> {
        wait.pause();
        if !self.is_held_up(wait) {
            return Ok(());
        }
        if self.is_reap_due() && reap() {
            *wait = Wait::default();
            return Ok(());
        }
        if wait.waited >= Wait::STUCK {
            self.note_stuck();
            return Err(Stuck);
        }
        Ok(())
    }

    /// Notes that a wait has failed.
    fn note_stuck(&self) {
        self.stuck.fetch_add(1, Relaxed);
        let now = self.micros();
        let last = self.stuck_at.swap(now, Relaxed);
        match now.saturating_sub(last) < Self::STUCK_RUN.as_micros() as u64 {
            true => self.stuck_run.fetch_add(1, Relaxed),
            false => self.stuck_run.swap(1, Relaxed),
        };
    }

    /// True if several waits have recently failed. A stopped process holds at most a few groups, so
    /// repeated failures mean that another program has overwritten the region. A walk over all
    /// groups then stops waiting: a second for each group would add up to hours.
    pub(crate) fn has_failed_often(&self) -> bool {
        let since = || self.micros().saturating_sub(self.stuck_at.load(Relaxed));
        self.stuck_run.load(Relaxed) >= Self::STUCK_RUN_MIN
            && since() < Self::STUCK_RUN.as_micros() as u64
    }

    fn micros(&self) -> u64 {
        self.opened.elapsed().as_micros() as u64
    }

    /// True for one waiting thread of this process in each period.
    pub(crate) fn is_reap_due(&self) -> bool {
        let now = self.micros();
        let due = self.reap_due.load(Relaxed);
        let rows = u64::from(self.rows().end);
        let next = now + Self::REAP_PERIOD.as_micros() as u64 * rows.div_ceil(64).max(1);
        now >= due && self.reap_due.compare_exchange(due, next, Relaxed, Relaxed).is_ok()
    }

    /// Returns the number of waits that have failed. A caller that waits for several resources in
    /// turn gives up when this number grows, so that an operation waits a second or two in total
    /// and not for each resource.
    pub(crate) fn times_stuck(&self) -> u64 {
        self.stuck.load(Relaxed)
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use std::mem;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use super::*;
    use crate::fixtures::two_peers;

    #[test]
    fn a_long_wait_leaves_the_processor_to_other_threads() {
        const TIME: Duration = Duration::from_millis(500);
        let (begun, mut wait, mut pauses) = (Instant::now(), Wait::default(), 0);
        let mut long_since = None;
        while begun.elapsed() < TIME {
            wait.pause();
            if wait.is_long() {
                long_since.get_or_insert(begun.elapsed());
                pauses += 1;
            }
        }
        let naps_max = TIME.as_millis() as u32;
        assert!(pauses <= naps_max + 1, "{pauses} pauses after the first millisecond");
        // On a busy machine, a yield returns only after other threads have used the processor.
        let long_since = long_since.expect("a wait of half a second is long");
        assert!(long_since < TIME / 2, "the naps began after {long_since:?}");
    }

    #[test]
    fn a_waiter_repairs_after_a_dead_owner_within_milliseconds_on_a_busy_machine() {
        const ATTEMPTS: u32 = 10;
        const BUSY_THREADS: usize = 8;
        // A thread that wakes waits for a processor, a few milliseconds for each busy thread there,
        // and other tests run at the same time. When this test counted rounds instead, it took
        // seconds.
        const MEAN_MAX: Duration = Duration::from_millis(300);
        let is_over = AtomicBool::new(false);
        let times: Vec<Duration> = thread::scope(|scope| {
            for _ in 0..BUSY_THREADS {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let times = (0..ATTEMPTS).map(|_| time_to_lock_what_a_dead_process_held()).collect();
            is_over.store(true, Relaxed);
            times
        });
        let mean = times.iter().sum::<Duration>() / ATTEMPTS;
        assert!(mean < MEAN_MAX, "waits for a dead process took {mean:?} each: {times:?}");
    }

    fn time_to_lock_what_a_dead_process_held() -> Duration {
        let (dead, engine) = two_peers();
        let (holder, thread) = (dead.register().unwrap(), engine.register().unwrap());
        mem::forget(dead.index().lock(&dead.op(&holder, 10), 1).unwrap());
        dead.peers().die();
        mem::forget(dead);
        let begun = Instant::now();
        drop(engine.index().lock(&engine.op(&thread, 10), 1).unwrap());
        let took = begun.elapsed();
        engine.validate().unwrap();
        took
    }
}
