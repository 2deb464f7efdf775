//! Miri, which does not support system calls: the memory is from the allocator.

pub use super::unix::{fd, file_id, ownership, path, user};
pub(crate) use super::unsupported::{files, locks};
pub use super::unsupported::{peer_groups, socket};

/// Forks, which Miri does not support.
pub(crate) mod fork {
    pub(crate) use crate::platform::unsupported::kept::{
        borrow, close, into_number, reopen_in_place,
    };

    pub(crate) fn at_fork(
        _before: extern "C" fn(),
        _in_parent: extern "C" fn(),
        _in_child: extern "C" fn(),
    ) -> bool {
        true
    }
}

/// Private memory.
pub(crate) mod memory {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;
    use std::ptr::NonNull;

    pub(crate) use crate::platform::unsupported::memory::{
        collapse, map_anonymous_shared, map_file, map_huge, release_shared, take,
    };

    pub(crate) fn page_bytes() -> usize {
        4096
    }

    fn layout(bytes: usize) -> io::Result<Layout> {
        Layout::from_size_align(bytes, page_bytes()).map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    pub(crate) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
        // SAFETY: a region has more than 0 bytes.
        let base = unsafe { alloc_zeroed(layout(bytes)?) };
        NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    /// Keeps the pages, as the system is also allowed to do.
    ///
    /// # Safety
    /// No requirements. Unsafe only to match the version for the system.
    pub(crate) unsafe fn release(_at: NonNull<u8>, _bytes: usize) {}

    /// Frees the allocation.
    ///
    /// # Safety
    /// The allocation must have been made by [`map`] with this size, and must no longer be in use.
    pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        let layout = layout(bytes).expect("the allocation has this layout");
        // SAFETY: the caller upholds the same contract.
        unsafe { dealloc(base.as_ptr(), layout) };
    }
}

/// The clocks of the standard library.
pub mod clock {
    use std::sync::OnceLock;
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    use crate::platform::Moment;

    /// Returns the time since the first call.
    #[must_use]
    pub fn monotonic() -> Moment {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        let since = FIRST.get_or_init(Instant::now).elapsed();
        Moment { secs: since.as_secs().cast_signed(), ns: since.subsec_nanos() }
    }

    /// Same as [`monotonic`].
    #[must_use]
    pub fn monotonic_coarse() -> Moment {
        monotonic()
    }

    /// Same as [`monotonic`].
    #[must_use]
    pub fn boot() -> Moment {
        monotonic()
    }

    /// Returns the Unix time.
    #[must_use]
    pub fn wall() -> Moment {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { secs: now.as_secs().cast_signed(), ns: now.subsec_nanos() }
    }

    /// Same as [`wall`].
    #[must_use]
    pub fn wall_coarse() -> Moment {
        wall()
    }
}
