//! Windows.

use std::fs::Metadata;

use super::Ownership;
pub(crate) use super::unsupported::{files, locks};
pub use super::unsupported::{peer_groups, socket};

/// Noticing forks: there are none on Windows.
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

/// Stand-ins for the descriptors of Unix. No value of them exists, so a function that takes one
/// cannot be called.
pub mod fd {
    use std::fs::File;
    use std::marker::PhantomData;

    use crate::platform::unsupported::Never;

    /// Stands for a descriptor.
    #[derive(Debug)]
    pub struct OwnedFd(Never);

    /// Stands for a borrowed descriptor.
    #[derive(Clone, Copy, Debug)]
    pub struct BorrowedFd<'a>(Never, PhantomData<&'a ()>);

    /// Stands for the trait of types with a descriptor.
    pub trait AsFd {
        /// Cannot be called.
        fn as_fd(&self) -> BorrowedFd<'_>;
    }

    impl AsFd for OwnedFd {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match self.0 {}
        }
    }

    impl AsFd for BorrowedFd<'_> {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match self.0 {}
        }
    }

    /// Files cannot be mapped here. No function of the library makes one, so this is never called.
    impl AsFd for File {
        fn as_fd(&self) -> BorrowedFd<'_> {
            unreachable!("the library opens no file on Windows")
        }
    }

    impl<T: AsFd> AsFd for &T {
        fn as_fd(&self) -> BorrowedFd<'_> {
            T::as_fd(self)
        }
    }

    impl From<File> for OwnedFd {
        fn from(_: File) -> Self {
            unreachable!("the library opens no file on Windows")
        }
    }

    impl From<OwnedFd> for File {
        fn from(fd: OwnedFd) -> Self {
            match fd.0 {}
        }
    }
}

/// Paths from callers in C.
pub mod path {
    use std::path::Path;

    /// Returns the path with these bytes. They must be UTF-8.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<&Path> {
        std::str::from_utf8(bytes).ok().map(Path::new)
    }
}

/// Returns `None`: no cache is in a file on Windows, so no file is compared.
#[must_use]
pub fn file_id(_file: &Metadata) -> Option<(u64, u64)> {
    None
}

/// Returns `None`: the permissions of Windows are of another kind.
#[must_use]
pub fn ownership(_file: &Metadata) -> Option<Ownership> {
    None
}

/// Returns 0: Windows does not number users.
#[must_use]
pub fn user() -> u32 {
    0
}

/// Private memory.
pub(crate) mod memory {
    use std::io;
    use std::mem::MaybeUninit;
    use std::ptr::{NonNull, null};

    use windows_sys::Win32::System::Memory::{
        MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, MEM_RESET, PAGE_NOACCESS, PAGE_READWRITE,
        VirtualAlloc, VirtualFree,
    };
    use windows_sys::Win32::System::SystemInformation::{GetSystemInfo, SYSTEM_INFO};

    pub(crate) use crate::platform::unsupported::memory::{
        collapse, map_anonymous_shared, map_file, map_huge, release_shared, take,
    };

    pub(crate) fn page_bytes() -> usize {
        let mut info = MaybeUninit::<SYSTEM_INFO>::zeroed();
        // SAFETY: the system writes the struct, whose bytes are all set.
        let info = unsafe {
            GetSystemInfo(info.as_mut_ptr());
            info.assume_init()
        };
        info.dwPageSize as usize
    }

    /// Maps zeroed private memory: page-aligned. The system allocates pages at first access, but
    /// counts all of them as committed at once.
    pub(crate) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
        // SAFETY: fresh memory at an address of the system's choice aliases nothing.
        let base = unsafe { VirtualAlloc(null(), bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
        NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)
    }

    /// Tells the system that the content of whole pages is not needed. It may take their memory
    /// instead of writing them to the page file.
    ///
    /// # Safety
    /// The pages must be of one mapping made by [`map`], without plain references into them.
    pub(crate) unsafe fn release(at: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller guarantees this for the pages, which stay accessible. The protection
        // is ignored. If the system refuses, the pages keep their content, which is allowed.
        let _ = unsafe { VirtualAlloc(at.as_ptr().cast(), bytes, MEM_RESET, PAGE_NOACCESS) };
    }

    /// Removes a mapping.
    ///
    /// # Safety
    /// The mapping must have been made by [`map`] with this size, and must no longer be in use.
    pub(crate) unsafe fn unmap(base: NonNull<u8>, _bytes: usize) {
        // SAFETY: the caller upholds the same contract. The size must be 0 for this call.
        let is_unmapped = unsafe { VirtualFree(base.as_ptr().cast(), 0, MEM_RELEASE) };
        debug_assert!(is_unmapped != 0, "cannot unmap: {}", io::Error::last_os_error());
    }
}

/// The system's clocks.
pub mod clock {
    use std::time::{SystemTime, UNIX_EPOCH};

    use windows_sys::Win32::System::SystemInformation::GetTickCount64;

    use crate::platform::Moment;

    /// Returns the time since the system started, which is late by up to 16 ms. The clock is the
    /// same for all processes.
    #[inline]
    #[must_use]
    pub fn monotonic() -> Moment {
        monotonic_coarse()
    }

    /// Same as [`monotonic`].
    #[inline]
    #[must_use]
    pub fn monotonic_coarse() -> Moment {
        // SAFETY: the call has no requirements.
        let ms = unsafe { GetTickCount64() };
        Moment { secs: (ms / 1000).cast_signed(), ns: (ms % 1000) as u32 * 1_000_000 }
    }

    /// Same as [`monotonic`].
    #[inline]
    #[must_use]
    pub fn boot() -> Moment {
        monotonic_coarse()
    }

    /// Returns the Unix time.
    #[inline]
    #[must_use]
    pub fn wall() -> Moment {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { secs: now.as_secs().cast_signed(), ns: now.subsec_nanos() }
    }

    /// Same as [`wall`].
    #[inline]
    #[must_use]
    pub fn wall_coarse() -> Moment {
        wall()
    }
}
