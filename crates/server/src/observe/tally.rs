//! Event counters by size class, the classes into which memcached would divide the items.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use larder::{Leaving, Reason};
use larder_item::{Deadline, Second};
use larder_stats::{ClassCounter, ClassCounters};

use crate::observe::classes::{Classes, ItemSize};

/// The counters of all threads by size class.
#[derive(Debug)]
pub(crate) struct ClassTally {
    workers: Vec<Arc<ClassCounters>>,
    /// The counters of the admin listener, which also executes commands.
    admin: Arc<ClassCounters>,
    /// The counters of the threads that wait for the disk.
    disk_threads: Vec<Arc<ClassCounters>>,
    eviction_counters: Arc<EvictionCounters>,
    /// The counter values at the last `stats reset`.
    at_reset: Mutex<Vec<[u64; ClassCounter::COUNT]>>,
}

/// Counts evicted and expired items. Every thread that removes an item counts here.
#[derive(Debug)]
pub(crate) struct EvictionCounters {
    classes: Arc<Classes>,
    counters: ClassCounters,
    /// For each class, the seconds between the last use and the eviction of the item that was
    /// evicted most recently.
    evicted_secs: Vec<AtomicU32>,
}

impl ClassTally {
    pub(crate) fn new(classes: &Arc<Classes>, worker_count: usize, disk_threads: usize) -> Self {
        let of_classes = usize::from(classes.last()) + 1;
        Self {
            workers: (0..worker_count).map(|_| Arc::default()).collect(),
            admin: Arc::default(),
            disk_threads: (0..disk_threads).map(|_| Arc::default()).collect(),
            eviction_counters: Arc::new(EvictionCounters {
                classes: Arc::clone(classes),
                counters: ClassCounters::default(),
                evicted_secs: (0..of_classes).map(|_| AtomicU32::new(0)).collect(),
            }),
            at_reset: Mutex::new(vec![[0; ClassCounter::COUNT]; of_classes]),
        }
    }

    /// Returns a worker's counters.
    pub(crate) fn worker(&self, number: usize) -> Arc<ClassCounters> {
        Arc::clone(&self.workers[number])
    }

    /// Returns the counters of the admin listener.
    pub(crate) fn admin(&self) -> Arc<ClassCounters> {
        Arc::clone(&self.admin)
    }

    /// Returns the counters of a thread that waits for the disk.
    pub(crate) fn disk_thread(&self, number: usize) -> Arc<ClassCounters> {
        Arc::clone(&self.disk_threads[number])
    }

    /// Returns the eviction counters.
    pub(crate) fn eviction_counters(&self) -> &Arc<EvictionCounters> {
        &self.eviction_counters
    }

    /// Returns the counters of a class since the last reset.
    pub(crate) fn read(&self, class: u8) -> [u64; ClassCounter::COUNT] {
        let at_reset = self.at_reset.lock().unwrap_or_else(PoisonError::into_inner);
        let at_reset = at_reset[usize::from(class)];
        let mut counts = self.sums(class);
        for (count, at_reset) in counts.iter_mut().zip(at_reset) {
            *count = count.wrapping_sub(at_reset);
        }
        counts
    }

    /// Resets all counters to 0.
    pub(crate) fn reset(&self) {
        let mut at_reset = self.at_reset.lock().unwrap_or_else(PoisonError::into_inner);
        for (at_reset, class) in at_reset.iter_mut().zip(0..) {
            *at_reset = self.sums(class);
        }
        self.eviction_counters.evicted_secs.iter().for_each(|secs| secs.store(0, Relaxed));
    }

    /// True if an item of the class was ever stored.
    pub(crate) fn is_known(&self, class: u8) -> bool {
        self.sum(class, ClassCounter::CmdSet) > 0
    }

    fn sums(&self, class: u8) -> [u64; ClassCounter::COUNT] {
        let mut counts = [0; ClassCounter::COUNT];
        for (count, counter) in counts.iter_mut().zip(ClassCounter::ALL) {
            *count = self.sum(class, *counter);
        }
        counts
    }

    fn sum(&self, class: u8, counter: ClassCounter) -> u64 {
        let threads = self.workers.iter().chain([&self.admin]).chain(&self.disk_threads);
        let counts = threads.map(|counters| counters.read(class, counter));
        counts.fold(self.eviction_counters.counters.read(class, counter), u64::wrapping_add)
    }
}

impl EvictionCounters {
    /// Counts a removed item.
    pub(crate) fn count(&self, leaving: &Leaving<'_>) {
        let meta = leaving.meta();
        let class = self.classes.class_of(ItemSize::new(leaving.key_bytes(), &meta));
        let count = |counter| self.counters.count_shared(class, counter);
        if leaving.reason() != Reason::Evicted {
            count(match leaving.is_swept() {
                true => ClassCounter::CrawlerReclaimed,
                false => ClassCounter::Reclaimed,
            });
            if !meta.fetched {
                count(ClassCounter::ExpiredUnfetched);
            }
            return;
        }
        count(ClassCounter::Evicted);
        if meta.deadline != Deadline::NEVER {
            count(ClassCounter::EvictedNonzero);
        }
        count(match meta.fetched {
            true => ClassCounter::EvictedActive,
            false => ClassCounter::EvictedUnfetched,
        });
        let secs = leaving.now().saturating_sub(meta.seen);
        self.evicted_secs[usize::from(class)].store(secs, Relaxed);
    }

    /// Returns the seconds between the last use and the eviction of the most recently evicted item
    /// of a class.
    pub(crate) fn evicted_secs(&self, class: u8) -> Second {
        self.evicted_secs[usize::from(class)].load(Relaxed)
    }
}
