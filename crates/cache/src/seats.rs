//! Every thread's seat in every cache it uses.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, PoisonError, Weak};

use larder_engine::{Engine, Seat};

use crate::cache::Shared;

thread_local! {
    static SEATS: RefCell<Vec<Rc<Seated>>> = const { RefCell::new(Vec::new()) };
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
        }
    }
}

/// Runs `f` with this thread's seat in the cache. Where all seats are taken, threads share one and wait for
/// each other.
#[inline]
pub(crate) fn with_seat<T>(cache: &Arc<Shared>, f: impl FnOnce(&Engine, &Seat) -> T) -> T {
    match seat_in(cache) {
        Some(seated) => f(&cache.engine, &seated.seat),
        None => {
            let seat = cache.shared_seat.lock().unwrap_or_else(PoisonError::into_inner);
            f(&cache.engine, &seat)
        }
    }
}

#[inline]
fn seat_in(cache: &Arc<Shared>) -> Option<Rc<Seated>> {
    // A thread that is ending has no thread locals any more; it uses the shared seat.
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
    let seat = cache.engine.sit()?;
    let (address, cache) = (Arc::as_ptr(cache), Arc::downgrade(cache));
    let seated = Rc::new(Seated { address, cache, seat });
    let mut seats = seats.borrow_mut();
    // Seats in caches that are gone: their addresses may be given to new ones.
    seats.retain(|seated| seated.cache.strong_count() > 0);
    seats.push(Rc::clone(&seated));
    Some(seated)
}
