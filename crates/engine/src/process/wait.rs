//! Waiting for a few instructions of another thread.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use larder_region::turns::{self, YieldPoint};

use crate::error::Stuck;
use crate::process::Peers;

/// Spins a little, then yields, so that a holder without a processor gets one; then sleeps, because
/// the holder may be delayed for long.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    rounds: u32,
}

impl Wait {
    const SPINS_MAX: u32 = 64;
    /// After this many rounds, the holder does not just lack a processor.
    const YIELDS_MAX: u32 = 1000;
    /// After this many naps, a second or more on a busy machine, the holder lives but does not run:
    /// its process is stopped.
    const NAPS_MAX: u32 = 500;
    const NAP: Duration = Duration::from_millis(1);

    pub(crate) fn pause(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds <= Self::SPINS_MAX {
            turns::offer(YieldPoint::Wait);
            std::hint::spin_loop();
        } else if self.rounds <= Self::YIELDS_MAX {
            let_others_run();
        } else {
            turns::offer(YieldPoint::Wait);
            thread::sleep(Self::NAP);
        }
    }
}

/// Yields the processor to another runnable thread.
pub(crate) fn let_others_run() {
    turns::offer(YieldPoint::Wait);
    thread::yield_now();
}

impl Peers {
    /// True if a wait takes so long that another process may be stopped.
    pub(crate) fn is_held_up(&self, wait: &Wait) -> bool {
        self.has_peers() && wait.rounds > Wait::YIELDS_MAX
    }

    /// As [`Wait::pause`], for a resource that another process may hold. Repairs after dead
    /// processes by `reap`, and gives up on stopped ones.
    pub(crate) fn wait_for_peers(
        &self,
        wait: &mut Wait,
        reap: impl FnOnce() -> bool,
    ) -> Result<(), Stuck> {
        wait.pause();
        if !self.has_peers() || wait.rounds <= Wait::YIELDS_MAX {
            return Ok(());
        }
        if reap() {
            wait.rounds = 0;
            return Ok(());
        }
        if wait.rounds > Wait::YIELDS_MAX + Wait::NAPS_MAX {
            self.stuck.fetch_add(1, Relaxed);
            return Err(Stuck);
        }
        Ok(())
    }

    /// Returns the number of waits that failed. If it grows, a caller that waits for several
    /// resources in a row gives up: an operation waits a second or two in total, not for each of
    /// them.
    pub(crate) fn times_stuck(&self) -> u64 {
        self.stuck.load(Relaxed)
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_long_wait_leaves_the_processor_to_other_threads() {
        const TIME: Duration = Duration::from_millis(500);
        let (begun, mut wait) = (Instant::now(), Wait::default());
        while begun.elapsed() < TIME {
            wait.pause();
        }
        let naps_max = TIME.as_millis() as u32;
        assert!(wait.rounds <= Wait::YIELDS_MAX + naps_max + 1, "{} rounds", wait.rounds);
    }
}
