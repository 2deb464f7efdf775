//! Memory of the operating system.

use std::ffi::c_void;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::platform::HUGE_PAGE_BYTES;

/// Returns the size of the kernel's pages, in bytes. On arm64 it is only known at run time.
pub(crate) fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Maps zeroed private memory: page-aligned, and allocated by the system at first access. Uses
/// huge pages if the system offers them, because most misses of a cache are TLB misses.
pub(crate) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
    let base = unsafe { mmap_anonymous(null_mut(), bytes, access, flags) }?;
    // SAFETY: the mapping was just made with this size.
    Ok(unsafe { in_huge_pages(base, bytes) })
}

/// Same as [`map`], but shared with forked children.
pub(crate) fn map_anonymous_shared(bytes: usize) -> io::Result<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    // SAFETY: a fresh anonymous mapping aliases nothing. The address is only a hint, so the
    // kernel maps nothing over another mapping.
    let base = unsafe { mmap_anonymous(aligned_hint(bytes), bytes, access, flags) }?;
    // SAFETY: the mapping was just made with this size.
    Ok(unsafe { in_huge_pages(base, bytes) })
}

/// Maps the first `bytes` of a file, shared with other processes that map it.
pub(crate) fn map_file(
    file: BorrowedFd<'_>,
    bytes: usize,
    writable: bool,
) -> io::Result<NonNull<u8>> {
    let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    // SAFETY: a mapping at an address of the kernel's choice aliases no other memory of this
    // program. Every access through `Memory` tolerates concurrent changes by other processes.
    let base = unsafe { mmap(null_mut(), bytes, access, flags, file, 0) }?;
    // SAFETY: the mapping was just made with this size.
    Ok(unsafe { in_huge_pages(base, bytes) })
}

/// Returns a free address at which a mapping can have huge pages; null without a free one. The
/// kernel aligns shared mappings to small pages only, unless its setting for shared memory
/// offers huge pages.
fn aligned_hint(bytes: usize) -> *mut c_void {
    let reserved_bytes = bytes.saturating_add(HUGE_PAGE_BYTES);
    if bytes < HUGE_PAGE_BYTES {
        return null_mut();
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
    let reserved = unsafe { mmap_anonymous(null_mut(), reserved_bytes, ProtFlags::empty(), flags) };
    let Ok(base) = reserved else { return null_mut() };
    // SAFETY: the mapping was just made with this size, and nothing refers to it.
    let unmapped = unsafe { munmap(base, reserved_bytes) };
    debug_assert!(unmapped.is_ok(), "cannot unmap the reserved address range: {unmapped:?}");
    base.map_addr(|address| address.next_multiple_of(HUGE_PAGE_BYTES))
}

/// Replaces the small pages of some blocks of [`HUGE_PAGE_BYTES`] by huge pages now. The
/// content is unchanged; an access by another thread waits while the kernel copies. This is a
/// hint: the kernel may have no huge pages (before Linux 6.1 it does not support the call), and
/// it leaves a block without memory as it is.
///
/// # Safety
/// The pages must be of one mapping made here.
pub(crate) unsafe fn collapse(at: NonNull<u8>, bytes: usize) {
    // The call overrides the setting of the system, so this function respects `never`.
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if setting.is_ok_and(|setting| !setting.contains("[never]")) {
        // SAFETY: the caller guarantees that the pages are mapped; their content stays.
        let _ = unsafe { libc::madvise(at.as_ptr().cast(), bytes, MADV_COLLAPSE) };
    }
}

/// The advice of [`collapse`], which `rustix` and `libc` do not define.
const MADV_COLLAPSE: libc::c_int = 25;

/// # Safety
/// The mapping was just made with this size.
unsafe fn in_huge_pages(base: *mut c_void, bytes: usize) -> NonNull<u8> {
    // SAFETY: the advice concerns the caller's mapping and does not change its contents. If the
    // kernel refuses it (a kernel without huge pages), only speed is lost.
    let _ = unsafe { madvise(base, bytes, Advice::LinuxHugepage) };
    NonNull::new(base.cast()).expect("mmap without MAP_FIXED never returns null")
}

/// Maps zeroed private memory in huge pages reserved by the administrator; an error if too few
/// are free. `bytes` is a multiple of the page size.
pub(crate) fn map_huge(bytes: usize) -> io::Result<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // The pages are reserved together with the mapping. If a page were unavailable later, the
    // kernel would kill the process.
    let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
    let base = unsafe { mmap_anonymous(null_mut(), bytes, access, flags) }?;
    Ok(NonNull::new(base.cast()).expect("mmap without MAP_FIXED never returns null"))
}

/// Returns whole pages to the system; afterwards they read as zeros.
///
/// # Safety
/// The pages must be of one mapping made by [`map`], without plain references into them.
pub(crate) unsafe fn release(at: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller guarantees this for the pages. If the system refuses, the pages keep
    // their content, which is allowed.
    let _ = unsafe { madvise(at.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
}

/// Same as [`release`], for pages that other processes also map: removes the pages from the
/// file.
///
/// # Safety
/// The pages must be of one mapping made by [`map_file`] or [`map_anonymous_shared`], without
/// plain references into them.
pub(crate) unsafe fn release_shared(at: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller guarantees this for the pages. If the system refuses (the file is
    // sealed against writing, or its file system does not support holes), the pages keep their
    // content, which is allowed.
    let _ = unsafe { madvise(at.as_ptr().cast(), bytes, Advice::LinuxRemove) };
}

/// Makes the system allocate memory for pages now, without changing their content.
///
/// # Safety
/// The pages must be of one writable mapping made here.
pub(crate) unsafe fn take(at: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller guarantees this for the pages; their content stays.
    match unsafe { madvise(at.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) } {
        // Kernels before 5.14 do not support this advice.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        // Returned as an error; a later write would raise a signal instead.
        Err(Errno::FAULT) => Err(Errno::NOSPC.into()),
        Err(error) => Err(error.into()),
    }
}

/// Removes a mapping.
///
/// # Safety
/// The mapping must have been made here with this size, and must no longer be in use.
pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller upholds the same contract.
    let unmapped = unsafe { munmap(base.as_ptr().cast(), bytes) };
    debug_assert!(unmapped.is_ok(), "cannot unmap the region: {unmapped:?}");
}
