//! The counters of one thread.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{ClassCounter, Counter};

/// The counters of one thread, for one writer and any number of readers, which add up the counters
/// of several threads.
///
/// Counting is a relaxed load and a relaxed store, not a read-modify-write, since only one thread
/// writes. It costs about a nanosecond and does not access a cache line that another thread writes.
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

    /// Adds `n`, wrapping. To decrease a level, add the two's complement.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        let cell = &self.0[counter as usize];
        cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Returns the current count.
    pub fn read(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Relaxed)
    }
}

/// The counters of one thread by size class, with the same rules as [`Counters`]. Their size is
/// about 8 KiB.
#[derive(Debug)]
pub struct ClassCounters([[AtomicU64; ClassCounter::COUNT]; CLASSES]);

/// Number of classes: memcached's class numbers are 1 to 63.
const CLASSES: usize = 64;

impl Default for ClassCounters {
    fn default() -> Self {
        Self([const { [const { AtomicU64::new(0) }; ClassCounter::COUNT] }; CLASSES])
    }
}

impl ClassCounters {
    /// Adds one. An invalid class number is mapped to a valid one.
    #[inline]
    pub fn bump(&self, class: u8, counter: ClassCounter) {
        let cell = self.cell(class, counter);
        cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Adds one to counters that several threads write. Costs some nanoseconds, more under
    /// contention.
    pub fn count_shared(&self, class: u8, counter: ClassCounter) {
        self.cell(class, counter).fetch_add(1, Relaxed);
    }

    /// Returns the current count.
    pub fn read(&self, class: u8, counter: ClassCounter) -> u64 {
        self.cell(class, counter).load(Relaxed)
    }

    #[inline]
    fn cell(&self, class: u8, counter: ClassCounter) -> &AtomicU64 {
        &self.0[usize::from(class) % CLASSES][counter as usize]
    }
}
