//! Where a region's bytes come from: the system, or the allocator under Miri, which knows no mappings.

pub(crate) use self::source::{map, map_huge, release, unmap};

/// The size of the huge pages asked for.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

#[cfg(not(miri))]
mod source {
    use std::io;
    use std::ptr::{NonNull, null_mut};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// Maps zeroed private memory: page-aligned, taken from the system when it is first touched, in huge
    /// pages where the system offers them, for a cache's reads are mostly TLB misses.
    pub(crate) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe { mmap_anonymous(null_mut(), bytes, access, flags) }?;
        // SAFETY: the advice concerns the mapping just made and does not change its contents. That it is
        // not taken (a kernel without huge pages) costs speed only.
        let _ = unsafe { madvise(base, bytes, Advice::LinuxHugepage) };
        Ok(NonNull::new(base.cast()).expect("mmap without MAP_FIXED never returns null"))
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

    /// Removes a mapping.
    ///
    /// # Safety
    /// It must have been made by [`map`] with this size, and nobody may use it any more.
    pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller vouches for it.
        let unmapped = unsafe { munmap(base.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok(), "the region's mapping could not be removed: {unmapped:?}");
    }
}

#[cfg(miri)]
mod source {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;
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

    /// Keeps the pages, as a system may.
    ///
    /// # Safety
    /// None; as that of the system.
    pub(crate) unsafe fn release(_at: NonNull<u8>, _bytes: usize) {}

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
