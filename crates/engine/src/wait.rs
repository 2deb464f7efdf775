//! Waiting for another thread's few instructions.

use larder_region::turns::{self, Turn};

/// Spins a little, then lets others run: a holder that lost its processor gets it back.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    rounds: u32,
}

impl Wait {
    const SPINS_MAX: u32 = 64;

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
    std::thread::yield_now();
}
