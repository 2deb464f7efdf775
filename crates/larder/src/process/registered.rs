//! The thread slots of this thread. A *thread slot* is a thread's entry in the memory of a cache;
//! every operation needs one. A thread has one slot in each cache that it uses, and keeps it until
//! the thread ends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use larder_engine::{Engine, ThreadSlot};

use crate::process::shared::Shared;

thread_local! {
    static THREAD_SLOTS: RefCell<Vec<Rc<RegisteredSlots>>> = const { RefCell::new(Vec::new()) };
    /// The cache in which this thread last failed to register, so that it borrows slots there, and
    /// the number of operations before the next attempt.
    static BORROWS: Cell<(*const Shared, u32)> = const { Cell::new((std::ptr::null(), 0)) };
}

/// Number of operations after which a borrowing thread tries to register again.
const BORROWED_OPERATIONS: u32 = 1024;

/// This thread's thread slot in one cache; released when the thread ends.
struct RegisteredSlots {
    /// Address of the state that the cache's clones share. The address is unique while `cache` can
    /// be upgraded.
    address: *const Shared,
    cache: Weak<Shared>,
    thread: ThreadSlot,
}

impl Drop for RegisteredSlots {
    fn drop(&mut self) {
        // A slot that the parent of a forked process registered still belongs to the parent.
        if let Some(cache) = self.cache.upgrade()
            && cache.is_of_this_process()
        {
            cache.thread_slots.release(&cache.engine, &self.thread);
        }
    }
}

/// Runs `f` with this thread's thread slot in the cache, or with a borrowed one.
#[inline]
pub(crate) fn with_thread_slot<T>(
    cache: &Arc<Shared>,
    f: impl FnOnce(&Engine, &ThreadSlot) -> T,
) -> T {
    match thread_slot_in(cache) {
        Some(registered) => f(&cache.engine, &registered.thread),
        None => cache.thread_slots.borrow(&cache.engine, f),
    }
}

#[inline]
fn thread_slot_in(cache: &Arc<Shared>) -> Option<Rc<RegisteredSlots>> {
    // While the thread exits, the thread-local list is gone, and the thread borrows a slot.
    THREAD_SLOTS
        .try_with(|thread_slots| {
            let address = Arc::as_ptr(cache);
            let known = thread_slots
                .borrow()
                .iter()
                .find(|registered| std::ptr::eq(registered.address, address))
                .cloned();
            known.or_else(|| register(cache, thread_slots))
        })
        .ok()
        .flatten()
}

/// Returns the number of thread slots that this thread has in one cache: 0 or 1.
pub(crate) fn of_this_thread(shared: &Shared) -> usize {
    let is_here = |registered: &&Rc<RegisteredSlots>| std::ptr::eq(registered.address, shared);
    THREAD_SLOTS
        .try_with(|thread_slots| thread_slots.borrow().iter().filter(is_here).count())
        .unwrap_or(0)
}

#[cold]
fn register(
    cache: &Arc<Shared>,
    thread_slots: &RefCell<Vec<Rc<RegisteredSlots>>>,
) -> Option<Rc<RegisteredSlots>> {
    let (borrows_in, left) = BORROWS.get();
    if left > 0 && std::ptr::eq(borrows_in, Arc::as_ptr(cache)) {
        BORROWS.set((borrows_in, left - 1));
        return None;
    }
    let Some(thread) = cache.thread_slots.take(&cache.engine) else {
        BORROWS.set((Arc::as_ptr(cache), BORROWED_OPERATIONS));
        return None;
    };
    let (address, cache) = (Arc::as_ptr(cache), Arc::downgrade(cache));
    let registered = Rc::new(RegisteredSlots { address, cache, thread });
    let mut thread_slots = thread_slots.borrow_mut();
    // Drops slots in caches that are gone, since their addresses may be reused.
    thread_slots.retain(|registered| registered.cache.strong_count() > 0);
    thread_slots.push(Rc::clone(&registered));
    Some(registered)
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::Cache;
    use crate::process::slots::lent_max;

    /// Runs `then` while enough threads live to take all thread slots.
    fn with_all_thread_slots_taken(cache: &Cache, then: impl FnOnce()) {
        let engine = &cache.shared().engine;
        let threads = engine.thread_slot_count() - lent_max(engine);
        let (registered, over) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    assert!(!cache.contains("k"));
                    assert_eq!(of_this_thread(cache.shared()), 1);
                    registered.wait();
                    over.wait();
                });
            }
            registered.wait();
            then();
            over.wait();
        });
    }

    #[test]
    fn a_thread_without_a_thread_slot_does_not_wait_for_a_borrowing_thread() {
        let cache = Cache::builder().memory_bytes(1 << 20).open().unwrap();
        with_all_thread_slots_taken(&cache, || {
            // Simulates a thread that was preempted in the middle of an operation.
            let held = cache.shared().thread_slots.try_borrow();
            assert!(held.is_some());
            let (sender, receiver) = mpsc::channel();
            let other = cache.clone();
            let borrower = thread::spawn(move || {
                for key in 0..2 * BORROWED_OPERATIONS {
                    other.set(key.to_le_bytes(), "v", None).unwrap();
                }
                sender.send(of_this_thread(other.shared())).unwrap();
            });
            let thread_slots = receiver.recv_timeout(Duration::from_secs(20));
            drop(held);
            borrower.join().unwrap();
            assert_eq!(thread_slots, Ok(0));
        });
        cache.validate().unwrap();
    }

    #[test]
    fn a_thread_that_waits_for_a_borrowed_thread_slot_is_woken_by_its_return() {
        const ROUNDS: u32 = 21;
        let cache = Cache::builder().memory_bytes(1 << 20).open().unwrap();
        let thread_slots = &cache.shared().thread_slots;
        let engine = &cache.shared().engine;
        let mut waits: Vec<Duration> = Vec::new();
        with_all_thread_slots_taken(&cache, || {
            for _ in 0..ROUNDS {
                let lent = lent_max(engine);
                let (all_borrowed, over) = (Barrier::new(lent + 1), Barrier::new(lent + 1));
                waits.push(thread::scope(|scope| {
                    for _ in 0..lent {
                        scope.spawn(|| {
                            thread_slots.borrow(engine, |_, _| {
                                all_borrowed.wait();
                                over.wait();
                            });
                        });
                    }
                    all_borrowed.wait();
                    let waiter = scope.spawn(|| {
                        assert!(!cache.contains("k"));
                        Instant::now()
                    });
                    // Long enough for the waiting thread to fall asleep.
                    thread::sleep(Duration::from_millis(5));
                    let returned = Instant::now();
                    over.wait();
                    waiter.join().unwrap().saturating_duration_since(returned)
                }));
            }
        });
        waits.sort_unstable();
        // Without a wake, a thread sleeps for 50 ms.
        let median = waits[waits.len() / 2];
        assert!(median < Duration::from_millis(25), "waits after the return: {waits:?}");
    }

    #[test]
    fn a_borrowing_thread_gets_a_thread_slot_of_its_own_when_other_threads_end() {
        let cache = Cache::builder().memory_bytes(1 << 20).open().unwrap();
        with_all_thread_slots_taken(&cache, || {
            cache.contains("k");
            assert_eq!(of_this_thread(cache.shared()), 0);
        });
        for _ in 0..=BORROWED_OPERATIONS {
            cache.contains("k");
        }
        assert_eq!(of_this_thread(cache.shared()), 1);
    }
}
