//! What is asked of the system for a region's bytes, or of the allocator under Miri, which knows no mappings.

pub(crate) use self::system::{
    map, map_anonymous_shared, map_file, map_huge, release, release_shared, take, unmap,
};

/// The size of the huge pages asked for.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

#[cfg(not(miri))]
mod system {
    use std::io;
    use std::os::fd::BorrowedFd;
    use std::ptr::{NonNull, null_mut};

    use rustix::io::Errno;
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

    /// Maps zeroed private memory: page-aligned, taken from the system when it is first touched, in huge
    /// pages where the system offers them, for a cache's reads are mostly TLB misses.
    pub(crate) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe { mmap_anonymous(null_mut(), bytes, access, flags) }?;
        // SAFETY: the mapping was just made with this size.
        Ok(unsafe { in_huge_pages(base, bytes) })
    }

    /// As [`map`], but shared with the processes that are forked from this one.
    pub(crate) fn map_anonymous_shared(bytes: usize) -> io::Result<NonNull<u8>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe { mmap_anonymous(null_mut(), bytes, access, flags) }?;
        // SAFETY: the mapping was just made with this size.
        Ok(unsafe { in_huge_pages(base, bytes) })
    }

    /// Maps the first `bytes` of a file, shared with whoever else maps it.
    pub(crate) fn map_file(
        file: BorrowedFd<'_>,
        bytes: usize,
        writable: bool,
    ) -> io::Result<NonNull<u8>> {
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a mapping at an address of the kernel's choice aliases nothing of this program's own. What others
        // do to the bytes is what every access through `Memory` is ready for.
        let base = unsafe { mmap(null_mut(), bytes, access, flags, file, 0) }?;
        // SAFETY: the mapping was just made with this size.
        Ok(unsafe { in_huge_pages(base, bytes) })
    }

    /// # Safety
    /// The mapping was just made with this size.
    unsafe fn in_huge_pages(base: *mut std::ffi::c_void, bytes: usize) -> NonNull<u8> {
        // SAFETY: the advice concerns the caller's mapping and does not change its contents. That it is
        // not taken (a kernel without huge pages) costs speed only.
        let _ = unsafe { madvise(base, bytes, Advice::LinuxHugepage) };
        NonNull::new(base.cast()).expect("mmap without MAP_FIXED never returns null")
    }

    /// Maps zeroed private memory in huge pages that the system has set aside; an error where it has not
    /// enough of them. `bytes` is a multiple of their size.
    pub(crate) fn map_huge(bytes: usize) -> io::Result<NonNull<u8>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // The pages are reserved with the mapping: one that cannot be had later would kill the process.
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe { mmap_anonymous(null_mut(), bytes, access, flags) }?;
        Ok(NonNull::new(base.cast()).expect("mmap without MAP_FIXED never returns null"))
    }

    /// Gives whole pages back to the system; they read as zeros from then on.
    ///
    /// # Safety
    /// The pages must be of one mapping made by [`map`], and nobody holds a plain reference into them.
    pub(crate) unsafe fn release(at: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller vouches for the pages. Where the system does not take them they keep their
        // content, which is as good.
        let _ = unsafe { madvise(at.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
    }

    /// As [`release`], for pages that other processes map too: they are taken out of the file.
    ///
    /// # Safety
    /// The pages must be of one mapping made by [`map_file`] or [`map_anonymous_shared`], and nobody holds a plain
    /// reference into them.
    pub(crate) unsafe fn release_shared(at: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller vouches for the pages. Where the system does not take them (the file is sealed against
        // writing, or of a file system without holes) they keep their content, which is as good.
        let _ = unsafe { madvise(at.as_ptr().cast(), bytes, Advice::LinuxRemove) };
    }

    /// Has the system find memory for pages now, without changing what they hold.
    ///
    /// # Safety
    /// The pages must be of one writable mapping made here.
    pub(crate) unsafe fn take(at: NonNull<u8>, bytes: usize) -> io::Result<()> {
        // SAFETY: the caller vouches for the pages; what they hold stays.
        match unsafe { madvise(at.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) } {
            // A kernel before 5.14 cannot be asked.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            // Instead of the signal that a write would have been answered with.
            Err(Errno::FAULT) => Err(Errno::NOSPC.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a mapping.
    ///
    /// # Safety
    /// It must have been made here with this size, and nobody may use it any more.
    pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller vouches for it.
        let unmapped = unsafe { munmap(base.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok(), "the region's mapping could not be removed: {unmapped:?}");
    }
}

#[cfg(miri)]
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;
    use std::os::fd::BorrowedFd;
    use std::ptr::NonNull;

    fn layout(bytes: usize) -> io::Result<Layout> {
        Layout::from_size_align(bytes, 4096).map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    pub(crate) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
        // SAFETY: a region has more than 0 bytes.
        let base = unsafe { alloc_zeroed(layout(bytes)?) };
        NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    pub(crate) fn map_huge(_bytes: usize) -> io::Result<NonNull<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn map_anonymous_shared(_bytes: usize) -> io::Result<NonNull<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn map_file(
        _file: BorrowedFd<'_>,
        _bytes: usize,
        _writable: bool,
    ) -> io::Result<NonNull<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Keeps the pages, as a system may.
    ///
    /// # Safety
    /// None; as that of the system.
    pub(crate) unsafe fn release(_at: NonNull<u8>, _bytes: usize) {}

    /// As [`release`]; nothing is shared here.
    ///
    /// # Safety
    /// None; as that of the system.
    pub(crate) unsafe fn release_shared(_at: NonNull<u8>, _bytes: usize) {}

    /// The allocator has given all of it.
    ///
    /// # Safety
    /// None; as that of the system.
    pub(crate) unsafe fn take(_at: NonNull<u8>, _bytes: usize) -> io::Result<()> {
        Ok(())
    }

    /// Frees the allocation.
    ///
    /// # Safety
    /// It must have been made by [`map`] with this size, and nobody may use it any more.
    pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        let layout = layout(bytes).expect("it was made with this layout");
        // SAFETY: the caller vouches for it.
        unsafe { dealloc(base.as_ptr(), layout) };
    }
}
