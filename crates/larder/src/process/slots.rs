//! The thread slots of a process in one cache. A *thread slot* is an entry in the memory of the
//! cache, which an operation needs; one thread at a time can use it.
//!
//! A thread keeps its slot until it ends, and a process can have more threads than there are slots.
//! Some slots are therefore reserved for lending. A thread that starts when all other slots are
//! taken borrows a reserved slot for each operation. A process with many long-lived threads, such
//! as the threads of Go's runtime, can therefore still use all its processors.
//!
//! A thread that finds all lent slots borrowed sleeps. Returning a slot wakes one sleeping thread,
//! unless a thread has already been woken and does not run yet: the slot may be borrowed again
//! before that thread runs, and a system call for each operation costs more than the operation. The
//! woken thread later returns a slot itself, which wakes the next thread.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use larder_engine::{Engine, ThreadSlot};

/// Largest number of thread slots that a process lends.
const LENT_MAX: usize = 64;

/// The longest sleep before a thread looks again: another process may have freed thread slots.
const SLEEP_MAX: Duration = Duration::from_millis(50);

thread_local! {
    /// Index of the lent slot that this thread tries first: the slot that it borrowed last.
    static PLACE: Cell<usize> = Cell::new(next_place());
}

/// The thread slots of a process in one cache that do not belong to its threads.
#[derive(Debug)]
pub(crate) struct ThreadSlots {
    /// The thread slots to lend. The first slot always exists.
    lent: Box<[LentSlot]>,
    /// Number of slots at the start of `lent` that exist. When all of them are borrowed, one more
    /// is created.
    lent_count: AtomicUsize,
    /// Number of threads that have registered a thread slot.
    threads: AtomicUsize,
    /// Number of threads that sleep, or check a last time before they sleep.
    sleepers: AtomicU32,
    /// True if a thread has been woken and does not run yet.
    is_waking: AtomicBool,
    /// Held by a thread that creates another slot to lend, or is about to sleep.
    sleeping: Mutex<()>,
    woken: Condvar,
}

/// A thread slot to lend, in a separate cache line: a borrower writes it twice per operation.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct LentSlot(Mutex<Option<ThreadSlot>>);

impl LentSlot {
    /// Returns the thread slot if it exists and no thread has borrowed it.
    pub(super) fn try_borrow(&self) -> Option<MutexGuard<'_, Option<ThreadSlot>>> {
        match self.0.try_lock() {
            Ok(thread) => Some(thread),
            Err(TryLockError::Poisoned(thread)) => Some(thread.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl ThreadSlots {
    pub(crate) fn new(engine: &Engine) -> Self {
        let first = LentSlot(Mutex::new(Some(engine.register_reserved())));
        let others = (1..lent_max(engine)).map(|_| LentSlot::default());
        Self {
            lent: std::iter::once(first).chain(others).collect(),
            lent_count: AtomicUsize::new(1),
            threads: AtomicUsize::new(0),
            sleepers: AtomicU32::new(0),
            is_waking: AtomicBool::new(false),
            sleeping: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    /// Takes a thread slot for a thread, unless only the slots reserved for lending are left.
    pub(super) fn take(&self, engine: &Engine) -> Option<ThreadSlot> {
        let threads_max = engine.thread_slot_count() - lent_max(engine);
        // A load first: only threads that start and end should write this cache line.
        if self.threads.load(Relaxed) >= threads_max {
            return None;
        }
        let is_within = self.threads.fetch_add(1, Relaxed) < threads_max;
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

    /// Runs `f` with a thread slot that no other thread uses during the call.
    #[inline(never)]
    pub(crate) fn borrow<T>(
        &self,
        engine: &Engine,
        f: impl FnOnce(&Engine, &ThreadSlot) -> T,
    ) -> T {
        let borrowed = self.try_borrow().unwrap_or_else(|| self.wait(engine));
        let thread = borrowed.as_ref().expect("a counted thread slot exists");
        let result = f(engine, thread);
        drop(borrowed);
        self.wake_one();
        result
    }

    /// Borrows a free thread slot. Tries the slot that this thread borrowed last first.
    pub(super) fn try_borrow(&self) -> Option<MutexGuard<'_, Option<ThreadSlot>>> {
        // Pairs with the release in `take_another`: the slot exists.
        let count = self.lent_count.load(Acquire);
        let start = PLACE.try_with(Cell::get).unwrap_or(0) % count;
        for place in (start..count).chain(0..start) {
            if let Some(borrowed) = self.lent[place].try_borrow() {
                if place != start {
                    // Fails while the thread exits; then nothing is remembered.
                    let _ = PLACE.try_with(|last| last.set(place));
                }
                return Some(borrowed);
            }
        }
        None
    }

    /// Waits until a slot can be borrowed: another thread returns one, or a new one can be
    /// registered in the region.
    #[cold]
    fn wait(&self, engine: &Engine) -> MutexGuard<'_, Option<ThreadSlot>> {
        let mut sleeping = self.sleeping.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            self.sleepers.fetch_add(1, Relaxed);
            let borrowed = self.try_borrow().or_else(|| self.take_another(engine));
            if borrowed.is_none() {
                let slept = self.woken.wait_timeout(sleeping, SLEEP_MAX);
                (sleeping, _) = slept.unwrap_or_else(PoisonError::into_inner);
            }
            self.sleepers.fetch_sub(1, Relaxed);
            self.is_waking.store(false, SeqCst);
            if let Some(borrowed) = borrowed {
                return borrowed;
            }
        }
    }

    /// Registers one more thread slot to lend. The caller holds `sleeping`.
    fn take_another(&self, engine: &Engine) -> Option<MutexGuard<'_, Option<ThreadSlot>>> {
        let count = self.lent_count.load(Relaxed);
        let lent = self.lent.get(count)?;
        let thread = engine.register()?;
        let mut borrowed = lent.0.lock().unwrap_or_else(PoisonError::into_inner);
        *borrowed = Some(thread);
        self.lent_count.store(count + 1, Release);
        Some(borrowed)
    }

    /// Wakes a sleeping thread, if any, unless a woken thread is about to run.
    fn wake_one(&self) {
        // A fence between the return of the slot and this load would cost each borrower more than
        // the operation. If the load is reordered before the return, the thread wakes at the next
        // return, or at the end of its sleep.
        if self.sleepers.load(Relaxed) > 0 && !self.is_waking.swap(true, SeqCst) {
            // A thread that checked before the return is asleep once this lock is taken, or has
            // found a slot.
            let _sleeping = self.sleeping.lock().unwrap_or_else(PoisonError::into_inner);
            if self.sleepers.load(Relaxed) > 0 {
                self.woken.notify_one();
            } else {
                self.is_waking.store(false, SeqCst);
            }
        }
    }
}

/// Returns the maximum number of thread slots that a process lends.
pub(super) fn lent_max(engine: &Engine) -> usize {
    (engine.thread_slot_count() / 4).clamp(1, LENT_MAX)
}

/// Returns a different number for each thread, so that threads start their search at different
/// slots.
fn next_place() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    THREADS.fetch_add(1, Relaxed)
}
