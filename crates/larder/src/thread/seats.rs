//! Every thread's seat in every cache it uses.
//!
//! A thread keeps its seat until it ends. A part of the seats is kept back for threads that come when all others are
//! taken: they borrow one of these for each operation. So a process with many threads that do not end, as those of Go's
//! runtime, goes on at the speed of its processors.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError, Weak};

use larder_engine::{Engine, Seat};

use crate::cache::Shared;

thread_local! {
    static SEATS: RefCell<Vec<Rc<Seated>>> = const { RefCell::new(Vec::new()) };
    /// The cache in which this thread found no seat of its own last, and for how many operations it does not look again.
    static BORROWS: Cell<(*const Shared, u32)> = const { Cell::new((std::ptr::null(), 0)) };
}

/// How many seats a process lends.
const LENT_MAX: usize = 16;

/// After this many operations a thread that borrows seats looks for one of its own.
const BORROWED_OPERATIONS: u32 = 1024;

/// The seats that a process has in one cache besides those of its threads.
#[derive(Debug)]
pub(crate) struct Seats {
    /// The one that is always there.
    first: Mutex<Seat>,
    /// What else is lent, taken when it is first needed. Where other processes have all seats it is empty.
    lent: OnceLock<Vec<Mutex<Seat>>>,
    /// How many threads have a seat of their own.
    threads: AtomicUsize,
}

impl Seats {
    pub(crate) fn new(engine: &Engine) -> Self {
        let first = Mutex::new(engine.sit_first());
        Self { first, lent: OnceLock::new(), threads: AtomicUsize::new(0) }
    }

    /// Takes a seat for a thread, unless only those are left that are lent.
    fn take(&self, engine: &Engine) -> Option<Seat> {
        let is_within = self.threads.fetch_add(1, Relaxed) < engine.seat_count() - lent_max(engine);
        let seat = if is_within { engine.sit() } else { None };
        if seat.is_none() {
            self.threads.fetch_sub(1, Relaxed);
        }
        seat
    }

    /// Runs `f` with a seat that no other thread uses meanwhile.
    #[inline(never)]
    fn borrow<T>(&self, engine: &Engine, f: impl FnOnce(&Engine, &Seat) -> T) -> T {
        let lent = self.lent.get_or_init(|| {
            let seats = (1..lent_max(engine)).map_while(|_| engine.sit());
            seats.map(Mutex::new).collect()
        });
        let start = place_of_thread() as usize % (1 + lent.len());
        // Place 0 is the first seat.
        let seat_at = |place: usize| place.checked_sub(1).map_or(&self.first, |at| &lent[at]);
        for place in (start..=lent.len()).chain(0..start) {
            match seat_at(place).try_lock() {
                Ok(seat) => return f(engine, &seat),
                Err(TryLockError::Poisoned(seat)) => return f(engine, &seat.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        f(engine, &seat_at(start).lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How many of a cache's seats a process lends.
fn lent_max(engine: &Engine) -> usize {
    (engine.seat_count() / 4).clamp(1, LENT_MAX)
}

/// A number by which threads begin at different seats.
fn place_of_thread() -> u32 {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static PLACE: u32 = THREADS.fetch_add(1, Relaxed);
    }
    PLACE.try_with(|place| *place).unwrap_or(0)
}

/// This thread's seat in one cache, given back when the thread ends.
struct Seated {
    /// Which cache: the address of what its clones share. While `cache` can be upgraded it is unique.
    address: *const Shared,
    cache: Weak<Shared>,
    seat: Seat,
}

impl Drop for Seated {
    fn drop(&mut self) {
        // One of the process from which this one was forked is still its.
        if let Some(cache) = self.cache.upgrade()
            && cache.is_of_this_process()
        {
            cache.engine.leave(&self.seat);
            cache.seats.threads.fetch_sub(1, Relaxed);
        }
    }
}

/// Runs `f` with this thread's seat in the cache, or with one that it borrows.
#[inline]
pub(crate) fn with_seat<T>(cache: &Arc<Shared>, f: impl FnOnce(&Engine, &Seat) -> T) -> T {
    match seat_in(cache) {
        Some(seated) => f(&cache.engine, &seated.seat),
        None => cache.seats.borrow(&cache.engine, f),
    }
}

#[inline]
fn seat_in(cache: &Arc<Shared>) -> Option<Rc<Seated>> {
    // A thread that is ending has no thread locals any more; it borrows a seat.
    SEATS
        .try_with(|seats| {
            let address = Arc::as_ptr(cache);
            let known =
                seats.borrow().iter().find(|seated| std::ptr::eq(seated.address, address)).cloned();
            known.or_else(|| sit_down(cache, seats))
        })
        .ok()
        .flatten()
}

/// How many seats this thread has in one cache: one or none.
pub(crate) fn of_this_thread(shared: &Shared) -> usize {
    let is_here = |seated: &&Rc<Seated>| std::ptr::eq(seated.address, shared);
    SEATS.try_with(|seats| seats.borrow().iter().filter(is_here).count()).unwrap_or(0)
}

#[cold]
fn sit_down(cache: &Arc<Shared>, seats: &RefCell<Vec<Rc<Seated>>>) -> Option<Rc<Seated>> {
    let (borrows_in, left) = BORROWS.get();
    if left > 0 && std::ptr::eq(borrows_in, Arc::as_ptr(cache)) {
        BORROWS.set((borrows_in, left - 1));
        return None;
    }
    let Some(seat) = cache.seats.take(&cache.engine) else {
        BORROWS.set((Arc::as_ptr(cache), BORROWED_OPERATIONS));
        return None;
    };
    let (address, cache) = (Arc::as_ptr(cache), Arc::downgrade(cache));
    let seated = Rc::new(Seated { address, cache, seat });
    let mut seats = seats.borrow_mut();
    // Seats in caches that are gone: their addresses may be given to new ones.
    seats.retain(|seated| seated.cache.strong_count() > 0);
    seats.push(Rc::clone(&seated));
    Some(seated)
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::Cache;

    /// Runs `then` while as many threads live as find seats of their own.
    fn with_all_seats_taken(cache: &Cache, then: impl FnOnce()) {
        let engine = &cache.shared().engine;
        let threads = engine.seat_count() - lent_max(engine);
        let (seated, over) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    assert!(!cache.contains("k"));
                    assert_eq!(of_this_thread(cache.shared()), 1);
                    seated.wait();
                    over.wait();
                });
            }
            seated.wait();
            then();
            over.wait();
        });
    }

    #[test]
    fn a_thread_without_a_seat_does_not_wait_for_one_that_borrows() {
        let cache = Cache::builder().memory_bytes(1 << 20).open().unwrap();
        with_all_seats_taken(&cache, || {
            // As a thread that has lost its processor in the middle of an operation.
            let held = cache.shared().seats.first.lock().unwrap();
            let (tell, told) = mpsc::channel();
            let other = cache.clone();
            let borrower = thread::spawn(move || {
                for key in 0..2 * BORROWED_OPERATIONS {
                    other.set(key.to_le_bytes(), "v", None).unwrap();
                }
                tell.send(of_this_thread(other.shared())).unwrap();
            });
            let seats = told.recv_timeout(Duration::from_secs(20));
            drop(held);
            borrower.join().unwrap();
            assert_eq!(seats, Ok(0));
        });
        cache.validate().unwrap();
    }

    #[test]
    fn a_thread_that_borrows_finds_a_seat_of_its_own_when_others_have_ended() {
        let cache = Cache::builder().memory_bytes(1 << 20).open().unwrap();
        with_all_seats_taken(&cache, || {
            cache.contains("k");
            assert_eq!(of_this_thread(cache.shared()), 0);
        });
        for _ in 0..=BORROWED_OPERATIONS {
            cache.contains("k");
        }
        assert_eq!(of_this_thread(cache.shared()), 1);
    }
}
