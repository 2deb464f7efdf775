//! Waiting for another thread's few instructions.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use larder_region::turns::{self, Turn};

use crate::{Engine, Stuck};

/// Spins a little, then lets others run: a holder that lost its processor gets it back.
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
        self.rounds += 1;
        if self.rounds <= Self::SPINS_MAX {
            turns::offer(Turn::Wait);
            std::hint::spin_loop();
        } else {
            let_others_run();
        }
    }
}

/// Gives up the processor to a thread that can use it.
pub(crate) fn let_others_run() {
    turns::offer(Turn::Wait);
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
        if self.bury_dead() {
            wait.rounds = 0;
            return Ok(());
        }
        if wait.rounds > Wait::YIELDS_MAX + Wait::NAPS_MAX {
            self.stuck.fetch_add(1, Relaxed);
            return Err(Stuck);
        }
        thread::sleep(Wait::NAP);
        Ok(())
    }

    /// How often somebody was waited for in vain. Where that grows, who waits for several in a row shall give up: an
    /// operation waits a second or two, not for each.
    pub(crate) fn times_stuck(&self) -> u64 {
        self.stuck.load(Relaxed)
    }
}
