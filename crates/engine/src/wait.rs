//! Waiting for another thread's few instructions.

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
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}
