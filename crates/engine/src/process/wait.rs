//! Waiting for another thread's few instructions.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use larder_region::turns::{self, YieldPoint};

use crate::{Engine, Stuck};

/// Spins a little, then lets others run, so that a holder that lost its processor gets it back; then sleeps, for the holder
/// may be kept from running for long.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    rounds: u32,
}

impl Wait {
    const SPINS_MAX: u32 = 64;
    /// After so many rounds who is waited for is not just without a processor.
    const YIELDS_MAX: u32 = 1000;
    /// So many naps later, a second where the machine is busy, who is waited for lives but does not run: somebody has stopped it.
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

/// Gives up the processor to a thread that can use it.
pub(crate) fn let_others_run() {
    turns::offer(YieldPoint::Wait);
    thread::yield_now();
}

impl Engine {
    /// Does a wait take so long that another process may have been stopped?
    pub(crate) fn is_held_up(&self, wait: &Wait) -> bool {
        self.has_peers() && wait.rounds > Wait::YIELDS_MAX
    }

    /// As [`Wait::pause`], for something that another process may hold: who has died is put in order, who has been
    /// stopped is not waited for for ever.
    pub(crate) fn wait_for_peers(&self, wait: &mut Wait) -> Result<(), Stuck> {
        wait.pause();
        if !self.has_peers() || wait.rounds <= Wait::YIELDS_MAX {
            return Ok(());
        }
        if self.reap_peers() {
            wait.rounds = 0;
            return Ok(());
        }
        if wait.rounds > Wait::YIELDS_MAX + Wait::NAPS_MAX {
            self.stuck.fetch_add(1, Relaxed);
            return Err(Stuck);
        }
        Ok(())
    }

    /// How often somebody was waited for in vain. Where that grows, who waits for several in a row shall give up: an
    /// operation waits a second or two, not for each.
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
    fn a_long_wait_leaves_the_processor_to_others() {
        const TIME: Duration = Duration::from_millis(500);
        let (begun, mut wait) = (Instant::now(), Wait::default());
        while begun.elapsed() < TIME {
            wait.pause();
        }
        let naps_max = TIME.as_millis() as u32;
        assert!(wait.rounds <= Wait::YIELDS_MAX + naps_max + 1, "{} rounds", wait.rounds);
    }
}
