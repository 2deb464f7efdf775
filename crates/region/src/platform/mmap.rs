//! Private memory and clocks of the Unix systems other than Linux. Compiled, never run: no machine
//! with such a system was at hand.

/// Noticing forks.
pub(crate) mod fork {
    pub(crate) use crate::platform::unix::at_fork;
    pub(crate) use crate::platform::unsupported::kept::{
        borrow, close, into_number, reopen_in_place,
    };
}

/// Private memory.
pub(crate) mod memory {
    use std::io;
    use std::ptr::{NonNull, null_mut};

    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    use crate::platform::system::RELEASE;

    pub(crate) use crate::platform::unsupported::memory::{
        collapse, map_anonymous_shared, map_file, map_huge, release_shared, take,
    };

    pub(crate) fn page_bytes() -> usize {
        rustix::param::page_size()
    }

    /// Maps zeroed private memory: page-aligned, and allocated by the system at first access.
    pub(crate) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe { mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE) }?;
        Ok(NonNull::new(base.cast()).expect("mmap without MAP_FIXED never returns null"))
    }

    /// Tells the system that the content of whole pages is not needed. It may take their memory at
    /// any time until they are written; then they read as zeros.
    ///
    /// # Safety
    /// The pages must be of one mapping made by [`map`], without plain references into them.
    pub(crate) unsafe fn release(at: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller guarantees this for the pages. If the system refuses, the pages keep
        // their content, which is allowed.
        let _ = unsafe { libc::madvise(at.as_ptr().cast(), bytes, RELEASE) };
    }

    /// Removes a mapping.
    ///
    /// # Safety
    /// The mapping must have been made by [`map`] with this size, and must no longer be in use.
    pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller upholds the same contract.
        let unmapped = unsafe { munmap(base.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok(), "cannot unmap the region: {unmapped:?}");
    }
}

/// The system's clocks.
pub mod clock {
    use std::mem::MaybeUninit;

    use crate::platform::Moment;
    use crate::platform::system::{MONOTONIC, MONOTONIC_COARSE, WALL_COARSE};

    /// Returns the time since a moment in the past. The clock is the same for all processes.
    #[inline]
    #[must_use]
    pub fn monotonic() -> Moment {
        read(MONOTONIC)
    }

    /// Same as [`monotonic`], but late by up to some milliseconds, and faster.
    #[inline]
    #[must_use]
    pub fn monotonic_coarse() -> Moment {
        read(MONOTONIC_COARSE)
    }

    /// Same as [`monotonic`].
    #[inline]
    #[must_use]
    pub fn boot() -> Moment {
        read(MONOTONIC)
    }

    /// Returns the Unix time.
    #[inline]
    #[must_use]
    pub fn wall() -> Moment {
        read(libc::CLOCK_REALTIME)
    }

    /// Same as [`wall`], but late by up to some milliseconds, and faster where the system offers
    /// that.
    #[inline]
    #[must_use]
    pub fn wall_coarse() -> Moment {
        read(WALL_COARSE)
    }

    #[inline]
    fn read(clock: libc::clockid_t) -> Moment {
        let mut now = MaybeUninit::<libc::timespec>::zeroed();
        // SAFETY: the system writes a `timespec`, of which all bytes are set, also if the call
        // fails. It does not fail for a clock that the system has.
        let now = unsafe {
            libc::clock_gettime(clock, now.as_mut_ptr());
            now.assume_init()
        };
        Moment { secs: now.tv_sec, ns: now.tv_nsec as u32 }
    }
}
