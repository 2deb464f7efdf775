//! The mapped bytes of a region, and safe access to them.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::Sink;
use crate::platform::{HUGE_PAGE_BYTES, memory as mapping};
use crate::raw;
use crate::turns::{YieldPoint, offer, parts};

/// The size of a prefetch.
const CACHE_LINE_BYTES: usize = 64;

/// The mapped bytes of a region: private memory, or memory shared with other processes (module
/// [`crate::shared`]).
///
/// All access goes through shared references: words are atomics, and bytes are copied by primitives
/// that tolerate concurrent change. An offset outside the mapping, or not aligned for the requested
/// word, is moved to the nearest valid one. Such a read returns arbitrary bytes, which every reader
/// must handle anyway, and is never undefined behaviour.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    bytes: usize,
    sharing: Sharing,
    mapping: Arc<Mapping>,
}

/// A mapping. It is removed with the last [`Memory`] that refers to it.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    /// Size in bytes; a little larger than the memory if its pages are large.
    bytes: usize,
}

// SAFETY: this is an address and a length; the bytes are accessed only through `Memory`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// The processes that share a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// No other process: the mapping is private.
    Private,
    /// Other processes map it, and may write.
    Shared,
    /// Other processes write; this process only reads.
    ReadOnly,
}

/// The system could not map the memory.
#[derive(Debug, thiserror::Error)]
#[error("cannot map {bytes} bytes of memory: {source}{}", remedy(source))]
pub struct MapError {
    /// The requested size, in bytes.
    pub bytes: usize,
    /// The system's error.
    pub source: io::Error,
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::Unsupported => "",
        _ => "; request less, or free some",
    }
}

// SAFETY: the mapping belongs to no thread, and all access to it is atomic or by copies that
// tolerate concurrent change (module `raw`).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Smallest mapping, in bytes: every clamped access must still find space for a word.
pub(crate) const BYTES_MIN: usize = 4096;

impl Memory {
    /// Maps `bytes` of zeroed private memory. The system allocates pages at first access.
    ///
    /// # Errors
    /// [`MapError`] if the system refuses.
    pub fn private(bytes: usize) -> Result<Self, MapError> {
        let bytes = bytes.max(BYTES_MIN);
        let base = mapping::map(bytes).map_err(|source| MapError { bytes, source })?;
        Ok(Self::mapped(base, bytes, Sharing::Private))
    }

    /// Maps memory as [`Memory::private`] does, in huge pages reserved by the administrator
    /// (`/proc/sys/vm/nr_hugepages`). All of them are allocated immediately and never swapped.
    ///
    /// # Errors
    /// [`MapError`] if too few huge pages are free.
    pub fn private_huge(bytes: usize) -> Result<Self, MapError> {
        let mapped_bytes = bytes.max(BYTES_MIN).next_multiple_of(HUGE_PAGE_BYTES);
        let base = mapping::map_huge(mapped_bytes)
            .map_err(|source| MapError { bytes: mapped_bytes, source })?;
        let mapping = Arc::new(Mapping { base, bytes: mapped_bytes });
        Ok(Self { base, bytes: bytes.max(BYTES_MIN), sharing: Sharing::Private, mapping })
    }

    /// Wraps a mapping of at least [`BYTES_MIN`] made by `mapping`.
    pub(crate) fn mapped(base: NonNull<u8>, bytes: usize, sharing: Sharing) -> Self {
        debug_assert!(bytes >= BYTES_MIN, "a mapping of {bytes} bytes is too small");
        Self { base, bytes, sharing, mapping: Arc::new(Mapping { base, bytes }) }
    }

    /// Returns another handle of the same mapping.
    #[must_use]
    pub fn again(&self) -> Self {
        let Self { base, bytes, sharing, .. } = *self;
        Self { base, bytes, sharing, mapping: Arc::clone(&self.mapping) }
    }

    /// Returns the size of the mapping, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if the mapping is read-only. A store into it kills the process; the caller may only
    /// load words and read bytes.
    pub fn is_read_only(&self) -> bool {
        self.sharing == Sharing::ReadOnly
    }

    /// Returns the 64-bit word at `offset`.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        offer(YieldPoint::Access);
        let offset = offset.min(self.bytes - 8) & !7;
        // SAFETY: the offset is aligned (the mapping begins on a page) and leaves eight bytes; the
        // mapping lives as long as `self`. The only plain references into the mapping come from
        // `unchanging`, whose callers guarantee that the bytes are not written while the references
        // exist.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Returns the 32-bit word at `offset`.
    #[inline]
    pub fn half(&self, offset: usize) -> &AtomicU32 {
        offer(YieldPoint::Access);
        let offset = offset.min(self.bytes - 4) & !3;
        // SAFETY: as in `word`, with four bytes.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Appends `len` bytes at `offset` to `out`. They may be changing: validate afterwards.
    #[inline]
    pub fn read(&self, offset: usize, len: usize, out: &mut impl Sink) {
        let (offset, len) = self.clamp(offset, len);
        // SAFETY: the source is within the mapping by `clamp`. The target has space for `len` bytes
        // by the contract of `Sink`, and all of them are written. The target is exclusive, so it is
        // not part of the mapping, and the ranges do not overlap.
        unsafe {
            let from = self.base.as_ptr().add(offset);
            out.append(len, |to| {
                parts(len)
                    .for_each(|(at, part)| raw::copy(from.add(at), to.as_ptr().add(at), part));
            });
        }
    }

    /// Writes `bytes` at `offset`. The caller owns that part of the region.
    ///
    /// # Panics
    /// If the bytes are not within the region: an owner must stay within its bounds.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        debug_assert!(!self.is_read_only(), "a write into a read-only mapping");
        assert!(self.holds(offset, bytes.len()), "a write at {offset} leaves the region");
        // SAFETY: the target is within the mapping by the assertion, and a slice is never in the
        // mapping.
        unsafe {
            let to = self.base.as_ptr().add(offset);
            parts(bytes.len()).for_each(|(at, part)| raw::put(&bytes[at..at + part], to.add(at)));
        }
    }

    /// Copies `len` bytes from one part of the region to another that the caller owns. Later stores
    /// of this thread come after the copy. Earlier stores come before it only if the thread has
    /// made an atomic read-modify-write in between, as the one that claims a segment.
    ///
    /// # Panics
    /// If one of the parts is not within the region, or if they overlap.
    pub fn copy(&self, from: usize, to: usize, len: usize) {
        debug_assert!(!self.is_read_only(), "a copy into a read-only mapping");
        assert!(self.holds(from, len) && self.holds(to, len), "a copy leaves the region");
        assert!(from.abs_diff(to) >= len, "a copy overlaps itself");
        // SAFETY: both ranges are within the mapping and disjoint by the assertions.
        unsafe {
            let (from, to) = (self.base.as_ptr().add(from), self.base.as_ptr().add(to));
            parts(len).for_each(|(at, part)| raw::copy_past(from.add(at), to.add(at), part));
        }
    }

    /// Returns the pages between two offsets to the system. Afterwards they read as zeros in every
    /// process that maps them. The caller owns that part of the region. Pages of a sealed file
    /// ([`crate::file::seal`]) and of a read-only mapping are not returned, and keep their content.
    ///
    /// The next write allocates memory again. On a full file system that write would kill the
    /// process. In a region of a file, call [`Memory::take`] first, which returns an error instead.
    pub fn release(&self, offset: usize, len: usize) {
        let len = len.min(self.bytes.saturating_sub(offset));
        let Some((start, end)) = whole_pages(offset, len, mapping::page_bytes()) else { return };
        offer(YieldPoint::Access);
        // SAFETY: the pages are within the mapping, and the caller owns them. No reference from
        // `unchanging` points into them: such references point into segments in use, which are not
        // released before the last pin is gone. Other readers read zeros, and they tolerate any
        // bytes.
        unsafe {
            match self.sharing {
                Sharing::Private => mapping::release(self.base.add(start), end - start),
                Sharing::Shared => mapping::release_shared(self.base.add(start), end - start),
                Sharing::ReadOnly => (),
            }
        }
    }

    /// Makes the system allocate memory now for all pages that contain any of the `len` bytes at
    /// `offset`. The content is unchanged. Costs about half a microsecond per page that had no
    /// memory.
    ///
    /// Needed for memory that was released or never reserved ([`crate::file::extend`]), in regions
    /// of files, where missing memory would raise a signal later. Does nothing in private memory
    /// and before Linux 5.14.
    ///
    /// # Errors
    /// [`MapError`] if memory is exhausted, or the file system is full.
    pub fn take(&self, offset: usize, len: usize) -> Result<(), MapError> {
        if self.sharing != Sharing::Shared || len == 0 {
            return Ok(());
        }
        let (offset, len) = self.clamp(offset, len);
        let start = page_of(offset, mapping::page_bytes());
        let bytes = offset + len - start;
        // SAFETY: the pages are within the mapping by `clamp`, and it is writable.
        unsafe { mapping::take(self.base.add(start), bytes) }
            .map_err(|source| MapError { bytes, source })
    }

    /// Makes the system allocate private memory now for the pages that contain any of the `len`
    /// bytes at `offset`, so that later writes do not wait for it. The content is unchanged. This
    /// is a hint: if the system refuses, or the memory is not private, the pages are allocated at
    /// first access.
    pub fn populate(&self, offset: usize, len: usize) {
        if self.sharing != Sharing::Private || len == 0 {
            return;
        }
        let (offset, len) = self.clamp(offset, len);
        let start = page_of(offset, mapping::page_bytes());
        // SAFETY: the pages are within the mapping by `clamp`, and it is writable.
        let _ = unsafe { mapping::take(self.base.add(start), offset + len - start) };
    }

    /// Moves the `len` bytes at `offset`, and the bytes around them up to the next multiples of
    /// [`HUGE_PAGE_BYTES`], to huge pages, so that accesses to random offsets cause fewer TLB
    /// misses. The content is unchanged, also while other threads and processes change it. A huge
    /// page replaces all small pages of its block, also those that use no memory yet. This is a
    /// hint: the system may refuse.
    ///
    /// Cost: copies the bytes. One to two milliseconds for each huge page, or more if the system
    /// must first make free memory contiguous.
    pub fn collapse(&self, offset: usize, len: usize) {
        if self.sharing == Sharing::ReadOnly || len == 0 {
            return;
        }
        let (offset, len) = self.clamp(offset, len);
        let start = page_of(offset, HUGE_PAGE_BYTES);
        let end = (offset + len).next_multiple_of(HUGE_PAGE_BYTES).min(self.bytes);
        // SAFETY: the pages are within the mapping by `clamp` and `min`.
        unsafe { mapping::collapse(self.base.add(start), end - start) };
    }

    /// Returns the bytes at `offset` in place; `None` if they are not within the region.
    ///
    /// # Safety
    /// The bytes must not be written while the reference exists.
    #[inline]
    pub unsafe fn unchanging(&self, offset: usize, len: usize) -> Option<&[u8]> {
        if !self.holds(offset, len) {
            return None;
        }
        // SAFETY: the bytes are within the mapping by the check, and the mapping exists as long as
        // `self`. The caller guarantees that they are not written while the reference exists.
        Some(unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset), len) })
    }

    /// Returns the address of `len` bytes at `offset`, for writers outside this program, such as
    /// the kernel; `None` if they are not within the region. As with [`Memory::write`], concurrent
    /// readers may read arbitrary bytes. The address is valid as long as this mapping exists.
    #[inline]
    pub fn address(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        // SAFETY: within the mapping by the check.
        self.holds(offset, len).then(|| unsafe { self.base.add(offset) })
    }

    /// True if the bytes at `offset` are equal to `key`. They may be changing: validate afterwards.
    #[inline]
    pub fn equals(&self, offset: usize, key: &[u8]) -> bool {
        if !self.holds(offset, key.len()) {
            return false;
        }
        // SAFETY: the range is within the mapping by the check above.
        unsafe {
            let bytes = self.base.as_ptr().add(offset);
            parts(key.len()).all(|(at, part)| raw::equals(bytes.add(at), &key[at..at + part]))
        }
    }

    /// Prefetches the cache line at `offset`, without waiting for it.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        let offset = offset.min(self.bytes - 8);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch only affects caches; the address is within the mapping.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.base.as_ptr().add(offset).cast()) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = offset;
    }

    /// Prefetches the cache lines of the `bytes` bytes at `offset`.
    #[inline]
    pub fn prefetch_lines(&self, offset: usize, bytes: usize) {
        for line_at in (0..bytes).step_by(CACHE_LINE_BYTES) {
            self.prefetch(offset + line_at);
        }
    }

    #[inline]
    fn holds(&self, offset: usize, len: usize) -> bool {
        len <= self.bytes && offset <= self.bytes - len
    }

    #[inline]
    fn clamp(&self, offset: usize, len: usize) -> (usize, usize) {
        let len = len.min(self.bytes);
        (offset.min(self.bytes - len), len)
    }
}

/// Returns the start and the end of the whole pages within the range; `None` if the range contains
/// no whole page. The kernel refuses a start that is not page-aligned, and rounds a length up to
/// whole pages: with pages larger than assumed it would drop bytes after the range.
fn whole_pages(offset: usize, len: usize, page_bytes: usize) -> Option<(usize, usize)> {
    let start = offset.next_multiple_of(page_bytes);
    let end = page_of(offset + len, page_bytes);
    (start < end).then_some((start, end))
}

/// Returns the start of the page that contains an offset.
fn page_of(offset: usize, page_bytes: usize) -> usize {
    offset / page_bytes * page_bytes
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `mapping` with this size, and no borrow outlives the last
        // `Memory`.
        unsafe { mapping::unmap(self.base, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::SHARES_MEMORY;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn accesses_outside_the_mapping_are_clamped() {
        let memory = Memory::private(8192).unwrap();
        memory.word(8184).store(7, Relaxed);
        assert_eq!(memory.word(usize::MAX).load(Relaxed), 7);
        assert_eq!(memory.half(usize::MAX).load(Relaxed), 0);
        let mut out = Vec::new();
        memory.read(usize::MAX, 4, &mut out);
        assert_eq!(out.len(), 4);
        assert!(!memory.equals(8190, b"four"));
        memory.prefetch(usize::MAX);
    }

    #[test]
    #[cfg_attr(miri, ignore = "pages stay under Miri")]
    fn released_pages_read_as_zeros_and_their_neighbours_stay() {
        let page = mapping::page_bytes();
        let memory = Memory::private(5 * page).unwrap();
        memory.write(0, &vec![7; 5 * page]);
        memory.release(100, 3 * page);
        let mut out = Vec::new();
        memory.read(0, 5 * page, &mut out);
        let zeros: Vec<bool> = out.chunks(page).map(|page| page.iter().all(|b| *b == 0)).collect();
        assert_eq!(zeros, [false, true, true, false, false]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no shared memory")]
    fn memory_in_huge_pages_keeps_its_content() {
        if !SHARES_MEMORY {
            return;
        }
        let memory = Memory::shared_anonymous(4 * HUGE_PAGE_BYTES).unwrap();
        let at = memory.address(0, 1).unwrap().addr().get();
        assert!(at.is_multiple_of(HUGE_PAGE_BYTES), "no huge page fits at {at:#x}");
        let parts = [HUGE_PAGE_BYTES + 100, 3 * HUGE_PAGE_BYTES - 100];
        parts.iter().for_each(|at| memory.write(*at, b"kept"));
        assert_eq!(huge_kib(at), Some(0));
        memory.collapse(parts[0], parts[1] - parts[0]);
        assert!(parts.iter().all(|at| memory.equals(*at, b"kept")));
        let read = |file| std::fs::read_to_string(file).unwrap_or_default();
        let setting = read("/sys/kernel/mm/transparent_hugepage/enabled");
        let version = read("/proc/sys/kernel/osrelease");
        let mut numbers = version.split(['.', '-']).map_while(|number| number.parse().ok());
        let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        // The call exists since Linux 6.1, and the memory of a busy system may have no huge page.
        if version >= (6, 1) && !setting.is_empty() && !setting.contains("[never]") {
            let huge = (0..50).find_map(|_| {
                memory.collapse(parts[0], parts[1] - parts[0]);
                huge_kib(at).filter(|kib| *kib > 0)
            });
            assert_eq!(huge, Some(2 * HUGE_PAGE_BYTES / 1024));
        }
    }

    /// Returns the size of the huge pages in the mapping at an address, in KiB.
    fn huge_kib(at: usize) -> Option<usize> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mapping = maps.split_once(&format!("{at:x}-"))?.1;
        let line = mapping.lines().find(|line| line.starts_with("ShmemPmdMapped:"))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// Kernels for arm64 have pages of 4, 16 or 64 KiB.
    #[test]
    fn whole_pages_follow_the_kernels_page_size() {
        let segment = 64 << 10;
        for (offset, page_bytes, expected) in [
            (4096, 4 << 10, Some((4096, 4096 + segment))),
            (100, 4 << 10, Some((4096, segment))),
            (100, 16 << 10, Some((16 << 10, segment))),
            (100, 64 << 10, None),
            (segment, 64 << 10, Some((segment, 2 * segment))),
            // Whole pages of 4 KiB would begin at the page of 64 KiB and end within it: the kernel
            // would also drop the end of that page, which belongs to the next segment.
            (segment - 100, 64 << 10, None),
        ] {
            let found = whole_pages(offset, segment, page_bytes);
            assert_eq!(found, expected, "{segment} bytes at {offset}, pages of {page_bytes}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn populated_pages_are_resident_before_their_first_access_and_keep_their_content() {
        // Only Linux allocates pages on request.
        if !SHARES_MEMORY {
            return;
        }
        let memory = Memory::private(4 << 20).unwrap();
        memory.write(5000, b"kept");
        let before = resident_bytes(&memory);
        memory.populate(4096, (4 << 20) - 4096);
        let populated = resident_bytes(&memory) - before;
        // The first write may have allocated one huge page.
        assert!(populated >= (2 << 20) - 4096, "only {populated} bytes became resident");
        assert!(memory.equals(5000, b"kept"), "populating changed the content");
        memory.populate(usize::MAX, 1);
    }

    /// Returns the number of resident bytes of a memory.
    fn resident_bytes(memory: &Memory) -> usize {
        let at = memory.base.as_ptr() as usize;
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_inside = false;
        for line in maps.lines() {
            let mut words = line.split_whitespace();
            let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            if let Some((start, end)) = first.split_once('-')
                && let [Ok(start), Ok(end)] =
                    [start, end].map(|word| usize::from_str_radix(word, 16))
            {
                is_inside = (start..end).contains(&at);
            } else if is_inside && first == "Rss:" {
                return second.parse::<usize>().unwrap() * 1024;
            }
        }
        panic!("the memory is not in smaps");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no huge pages, and no /proc")]
    fn huge_pages_are_used_if_reserved_and_an_error_otherwise() {
        let free = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let free = free.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
        let has_some = free.is_some_and(|pages| pages.trim().parse::<u64>().unwrap() > 0);
        match Memory::private_huge(12_345) {
            Ok(memory) => {
                memory.word(0).store(1, Relaxed);
                assert!(has_some);
                assert!(memory.bytes() == 12_345);
            }
            Err(error) => assert!(!has_some || error.to_string().contains("2097152"), "{error}"),
        }
    }

    #[test]
    #[should_panic(expected = "leaves the region")]
    fn a_write_outside_the_mapping_panics() {
        Memory::private(4096).unwrap().write(4095, b"ab");
    }

    #[test]
    fn memory_that_cannot_be_mapped_is_an_error_that_names_the_size() {
        let error = Memory::private(usize::MAX / 2).unwrap_err();
        assert!(error.to_string().contains(&(usize::MAX / 2).to_string()), "{error}");
    }
}
