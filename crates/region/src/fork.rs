//! The effect of a fork on files that are open for their locks.
//!
//! A lock belongs to an open file description, and a forked child inherits the description. While
//! the child is alive, its parent would therefore appear to be alive. To prevent this, a fork
//! handler in the child first replaces each inherited descriptor of such a file with a newly opened
//! descriptor that holds no lock. The new descriptor has the same number, so that the child cannot
//! later close an unrelated descriptor with this number.
//!
//! The handler runs at every call of the C library's `fork`, by any code, after the first call of
//! [`forks`]. It does not run for a fork that is already in progress in another thread at that
//! first call. It also does not run for the bare system call, after which a child must execute
//! another program or exit.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32};

use crate::platform::fd::{BorrowedFd, OwnedFd};
use crate::platform::fork::{at_fork, borrow, close, into_number, reopen_in_place};

/// Largest number of files that a process can have open for their locks.
pub(crate) const KEPT_MAX: usize = 256;

const FREE: i32 = -1;
/// Marks a descriptor that a child closed because it could not be reopened.
const LOST: i32 = -2;

/// 0 until the fork handlers are registered.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// The descriptors of files that are open for their locks. A static table, because a forked child
/// may neither allocate nor wait.
static KEPT: [AtomicI32; KEPT_MAX] = [const { AtomicI32::new(FREE) }; KEPT_MAX];
/// A spin lock: the id of the process in which a thread is changing [`KEPT`] or forking, or 0. It
/// excludes forks while the table is changed, so that a child never inherits a descriptor that is
/// not in the table.
static TURN: AtomicU32 = AtomicU32::new(0);

/// Returns the number of forks between the process of the first call and this process, plus 1;
/// never 0. The number differs between a process and its children. Cost: a load and a comparison.
///
/// # Examples
/// ```
/// let before = larder_region::forks();
/// assert_eq!(larder_region::forks(), before, "the process did not fork");
/// ```
#[inline]
pub fn forks() -> u32 {
    match FORKS.load(Relaxed) {
        0 => watch(),
        forks => forks,
    }
}

#[cold]
fn watch() -> u32 {
    take_turn();
    let is_watched = FORKS.load(Relaxed) != 0 || at_fork(before, in_parent, in_child);
    if is_watched {
        let _ = FORKS.compare_exchange(0, 1, Relaxed, Relaxed);
    }
    end_turn();
    // Fails only if a few bytes cannot be allocated; then the process cannot continue anyway.
    assert!(is_watched, "cannot register fork handlers: the C library is out of memory");
    FORKS.load(Relaxed)
}

fn take_turn() {
    let me = std::process::id();
    loop {
        match TURN.compare_exchange_weak(0, me, Acquire, Relaxed) {
            Ok(_) => return,
            Err(holder) if holder == me || holder == 0 => std::thread::yield_now(),
            // The lock was held during a fork that happened before the handlers were registered.
            // Its holder is a thread of the parent, and will not release it in this process.
            Err(holder) => drop(TURN.compare_exchange(holder, 0, Relaxed, Relaxed)),
        }
    }
}

fn end_turn() {
    TURN.store(0, Release);
}

extern "C" fn before() {
    take_turn();
}

extern "C" fn in_parent() {
    end_turn();
}

/// Calls only functions that are allowed in a child of a multi-threaded process.
extern "C" fn in_child() {
    for kept in &KEPT {
        let fd = kept.load(Relaxed);
        // SAFETY: the descriptor is from the table, and only its owner uses it, which has not run
        // in this process yet.
        if fd >= 0 && !unsafe { reopen_in_place(fd) } {
            kept.store(LOST, Relaxed);
        }
    }
    FORKS.fetch_add(1, Relaxed);
    end_turn();
}

/// A descriptor that the fork handler replaces in a child.
#[derive(Debug)]
pub(crate) struct LockDescriptor {
    /// The index of the descriptor in [`KEPT`].
    place: usize,
    /// The result of [`forks`] when the file was opened, by which a child detects an inherited
    /// value.
    made_after: u32,
    /// True once another value owns the place and the descriptor.
    is_taken_over: AtomicBool,
}

impl LockDescriptor {
    /// Calls `open` while no thread forks. Returns `None` if [`KEPT_MAX`] files are open already.
    pub(crate) fn open<E>(open: impl FnOnce() -> Result<OwnedFd, E>) -> Result<Option<Self>, E> {
        let made_after = forks();
        take_turn();
        let place = KEPT.iter().position(|kept| kept.load(Relaxed) == FREE);
        let opened = place.map(|place| {
            open().map(|fd| {
                KEPT[place].store(into_number(fd), Relaxed);
                Self { place, made_after, is_taken_over: AtomicBool::new(false) }
            })
        });
        end_turn();
        opened.transpose()
    }

    /// True if a parent of this process created it; then it holds no lock in this process.
    pub(crate) fn is_inherited(&self) -> bool {
        self.made_after != forks()
    }

    /// Takes over the descriptor of a value that a parent of this process created. The fork handler
    /// has reopened the file, with the permissions that the parent had at the fork. Returns `None`
    /// if that failed, or if the descriptor has already been taken over.
    pub(crate) fn take_over(inherited: &Self) -> Option<Self> {
        debug_assert!(inherited.is_inherited());
        let (place, made_after) = (inherited.place, forks());
        let is_open = KEPT[place].load(Relaxed) >= 0;
        let is_first = is_open && !inherited.is_taken_over.swap(true, Relaxed);
        is_first.then(|| Self { place, made_after, is_taken_over: AtomicBool::new(false) })
    }

    /// Returns the descriptor; `None` if a child could not reopen it, or has not taken it over.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        if self.is_inherited() {
            return None;
        }
        let fd = KEPT[self.place].load(Relaxed);
        // SAFETY: a descriptor in the table stays open until its owner is dropped. The owner is
        // `self`, since another value takes over only inherited descriptors.
        (fd >= 0).then(|| unsafe { borrow(fd) })
    }
}

impl Drop for LockDescriptor {
    fn drop(&mut self) {
        if *self.is_taken_over.get_mut() {
            return;
        }
        take_turn();
        let fd = KEPT[self.place].swap(FREE, Relaxed);
        if fd >= 0 {
            // SAFETY: only this value owned the descriptor, and the table no longer names it.
            unsafe { close(fd) };
        }
        end_turn();
    }
}
