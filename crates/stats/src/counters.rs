//! The counters one thread keeps.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{ClassCounter, Counter};

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
    pub fn bump(&self, counter: Counter) {
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

/// One thread's counters by size class, as [`Counters`]. Takes some 8 KiB.
#[derive(Debug)]
pub struct ClassCounters([[AtomicU64; ClassCounter::COUNT]; CLASSES]);

/// memcached has no class with a higher number than 63, and none with number 0.
const CLASSES: usize = 64;

impl Default for ClassCounters {
    fn default() -> Self {
        Self([const { [const { AtomicU64::new(0) }; ClassCounter::COUNT] }; CLASSES])
    }
}

impl ClassCounters {
    /// Adds one. A number that no class has is that of another.
    #[inline]
    pub fn bump(&self, class: u8, counter: ClassCounter) {
        let cell = self.cell(class, counter);
        cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Adds one where several threads count. Costs some nanoseconds, more when they meet.
    pub fn count_shared(&self, class: u8, counter: ClassCounter) {
        self.cell(class, counter).fetch_add(1, Relaxed);
    }

    /// The count so far.
    pub fn read(&self, class: u8, counter: ClassCounter) -> u64 {
        self.cell(class, counter).load(Relaxed)
    }

    #[inline]
    fn cell(&self, class: u8, counter: ClassCounter) -> &AtomicU64 {
        &self.0[usize::from(class) % CLASSES][counter as usize]
    }
}
