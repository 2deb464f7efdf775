//! What a fork does to files that are open for their locks.
//!
//! A lock belongs to what was opened, and a child inherits that: while it lives its parent would look alive. So in a
//! child, before it runs anything else, each inherited descriptor of such a file is replaced by one that was opened
//! anew and holds nothing. Its number stays taken, so that nothing else gets it which the child would close later.
//!
//! This holds for `fork` of the C library, by whomever it is called, from the first call of [`forks`] on; not for a fork
//! that another thread has under way at that first call, and not for the bare system call, after which a child must
//! execute another program or end.

use std::io::Write;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32};

/// How many files a process can have open for their locks.
pub(crate) const KEPT_MAX: usize = 256;

const FREE: i32 = -1;
/// A descriptor that a child closed because it could not be opened anew.
const LOST: i32 = -2;

/// 0 until forks are counted.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Descriptors of files that are open for their locks. A child finds them here, where it may neither allocate nor wait.
static KEPT: [AtomicI32; KEPT_MAX] = [const { AtomicI32::new(FREE) }; KEPT_MAX];
/// The process a thread of which is changing [`KEPT`] or forking, 0 for none: no child inherits a descriptor that is
/// not in the table.
static TURN: AtomicU32 = AtomicU32::new(0);

/// A number that changes with every fork that led to this process, since it was asked for first; never 0. A load and a
/// comparison.
///
/// # Examples
/// ```
/// let before = larder_region::forks();
/// assert_eq!(larder_region::forks(), before, "still the same process");
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
    // SAFETY: the functions live as long as the program, and call nothing that a child of a process with threads must
    // not.
    let is_watched = FORKS.load(Relaxed) != 0
        || cfg!(miri)
        || unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) } == 0;
    if is_watched {
        let _ = FORKS.compare_exchange(0, 1, Relaxed, Relaxed);
    }
    end_turn();
    // It fails for want of a few bytes only, and then no other part of this process gets any further.
    assert!(is_watched, "the C library has no memory to watch for forks");
    FORKS.load(Relaxed)
}

fn take_turn() {
    let me = std::process::id();
    loop {
        match TURN.compare_exchange_weak(0, me, Acquire, Relaxed) {
            Ok(_) => return,
            Err(holder) if holder == me || holder == 0 => std::thread::yield_now(),
            // It was inherited in the middle of a turn, from before forks were watched: no such thread is here.
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

extern "C" fn in_child() {
    for kept in &KEPT {
        let fd = kept.load(Relaxed);
        if fd >= 0 && !reopen_in_place(fd) {
            kept.store(LOST, Relaxed);
        }
    }
    FORKS.fetch_add(1, Relaxed);
    end_turn();
}

/// Has the number `fd` mean the same file, opened anew; closes it where that cannot be.
fn reopen_in_place(fd: i32) -> bool {
    let name = proc_name(fd);
    // SAFETY: the name ends with a zero; `fd` is of the table and used by its owner alone, who has not come to it in
    // this process yet. Each call may be made between fork and exec.
    unsafe {
        let opened = libc::open(name.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC);
        let done = opened >= 0 && libc::dup3(opened, fd, libc::O_CLOEXEC) >= 0;
        if opened >= 0 {
            libc::close(opened);
        }
        if !done {
            libc::close(fd);
        }
        done
    }
}

/// The name under which this process can open again what it has open, with a zero behind it.
fn proc_name(fd: i32) -> [u8; 32] {
    let mut name = [0; 32];
    // 25 bytes at most, so that there is room for all of it.
    let _ = write!(&mut name[..31], "/proc/self/fd/{fd}");
    name
}

/// A descriptor that no child inherits as it is.
#[derive(Debug)]
pub(crate) struct Kept {
    place: usize,
    made_after: u32,
}

impl Kept {
    /// Opens with `open` while nobody forks; none if there are [`KEPT_MAX`] already.
    pub(crate) fn open<E>(open: impl FnOnce() -> Result<OwnedFd, E>) -> Result<Option<Self>, E> {
        let made_after = forks();
        take_turn();
        let place = KEPT.iter().position(|kept| kept.load(Relaxed) == FREE);
        let opened = place.map(|place| {
            open().map(|fd| {
                KEPT[place].store(fd.into_raw_fd(), Relaxed);
                Self { place, made_after }
            })
        });
        end_turn();
        opened.transpose()
    }

    /// Was it made by a process from which this one was forked? Then it holds no lock here.
    pub(crate) fn is_inherited(&self) -> bool {
        self.made_after != forks()
    }

    /// The descriptor; none where a child could not open it anew.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        let fd = KEPT[self.place].load(Relaxed);
        // SAFETY: what is in the table is open until its owner, `self`, is dropped.
        (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        take_turn();
        let fd = KEPT[self.place].swap(FREE, Relaxed);
        if fd >= 0 {
            // SAFETY: it was this value's alone, and the table does not name it any more.
            unsafe { libc::close(fd) };
        }
        end_turn();
    }
}
