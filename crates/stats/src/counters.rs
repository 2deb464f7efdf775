//! The counters one thread keeps.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Counter;

/// One thread's counters: one writer, any number of readers that add up several threads' counters.
///
/// A count is a relaxed load and store, not a read-modify-write: nobody else writes. It costs about a
/// nanosecond and touches no line that another thread writes.
#[derive(Debug)]
#[repr(transparent)]
pub struct Counters([AtomicU64; Counter::COUNT]);

impl Default for Counters {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; Counter::COUNT])
    }
}

impl Counters {
    /// Adds one.
    #[inline]
    pub fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds `n`, wrapping; a gauge that is kept as a sum of changes adds the two's complement.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        let cell = &self.0[counter as usize];
        cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The count so far.
    pub fn read(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Relaxed)
    }
}
