//! The thread slots of a process in one cache.
//!
//! Some are reserved for threads that start when all others are taken: such a thread borrows one of
//! them for each operation. A process with many long-lived threads, such as those of Go's runtime,
//! therefore keeps the speed of its processors.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};

use larder_engine::{Engine, ThreadSlot};

/// Largest number of thread slots that a process lends.
const LENT_MAX: usize = 16;

/// The thread slots of a process in one cache that do not belong to its threads.
#[derive(Debug)]
pub(crate) struct ThreadSlots {
    /// The thread slot that always exists.
    pub(super) first: Mutex<ThreadSlot>,
    /// The other slots to lend, taken at first use. Empty if other processes hold all thread slots.
    lent: OnceLock<Vec<Mutex<ThreadSlot>>>,
    /// Number of threads with a thread slot of their own.
    threads: AtomicUsize,
}

impl ThreadSlots {
    pub(crate) fn new(engine: &Engine) -> Self {
        let first = Mutex::new(engine.register_reserved());
        Self { first, lent: OnceLock::new(), threads: AtomicUsize::new(0) }
    }

    /// Takes a thread slot for a thread, unless only the slots reserved for lending are left.
    pub(super) fn take(&self, engine: &Engine) -> Option<ThreadSlot> {
        let is_within =
            self.threads.fetch_add(1, Relaxed) < engine.thread_slot_count() - lent_max(engine);
        let thread = if is_within { engine.register() } else { None };
        if thread.is_none() {
            self.threads.fetch_sub(1, Relaxed);
        }
        thread
    }

    /// Releases the thread slot of a thread.
    pub(super) fn release(&self, engine: &Engine, thread: &ThreadSlot) {
        engine.deregister(thread);
        self.threads.fetch_sub(1, Relaxed);
    }

    /// Runs `f` with a thread slot that no other thread uses meanwhile.
    #[inline(never)]
    pub(super) fn borrow<T>(
        &self,
        engine: &Engine,
        f: impl FnOnce(&Engine, &ThreadSlot) -> T,
    ) -> T {
        let lent = self.lent.get_or_init(|| {
            let thread_slots = (1..lent_max(engine)).map_while(|_| engine.register());
            thread_slots.map(Mutex::new).collect()
        });
        let start = place_of_thread() as usize % (1 + lent.len());
        // Index 0 is the first thread slot.
        let thread_slot_at =
            |place: usize| place.checked_sub(1).map_or(&self.first, |at| &lent[at]);
        for place in (start..=lent.len()).chain(0..start) {
            match thread_slot_at(place).try_lock() {
                Ok(thread) => return f(engine, &thread),
                Err(TryLockError::Poisoned(thread)) => return f(engine, &thread.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        f(engine, &thread_slot_at(start).lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the number of a cache's thread slots that a process lends.
pub(super) fn lent_max(engine: &Engine) -> usize {
    (engine.thread_slot_count() / 4).clamp(1, LENT_MAX)
}

/// Returns a number per thread, so that threads start their search at different slots.
fn place_of_thread() -> u32 {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static PLACE: u32 = THREADS.fetch_add(1, Relaxed);
    }
    PLACE.try_with(|place| *place).unwrap_or(0)
}
