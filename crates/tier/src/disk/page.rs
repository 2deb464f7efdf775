//! The unit of I/O.

use std::fmt;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The length of a page, in bytes: the unit of every read and write.
pub const PAGE_BYTES: usize = 4096;

/// 4096 bytes at an address that is a multiple of 4096, as direct I/O requires.
///
/// Pages must be on the heap: use [`zeroed_page`] or [`zeroed_pages`]. LLVM 22 miscompiles a
/// function that has such a value on its stack and can return before it uses the value. It omits
/// the prologue, and the function then overwrites the stack of its caller (rustc 1.95, x86-64).
/// `tests/it/tidy.rs` of the test kit checks that this crate has no pages on the stack.
#[derive(Clone, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
pub struct Page([u8; PAGE_BYTES]);

impl Page {
    /// Returns a page with a copy of these bytes. Only tests may use it: see above.
    #[must_use]
    pub const fn new(bytes: [u8; PAGE_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the page.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; PAGE_BYTES] {
        &self.0
    }

    /// True if all bytes are zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// Returns the bytes of the page, mutable.
    pub const fn bytes_mut(&mut self) -> &mut [u8; PAGE_BYTES] {
        &mut self.0
    }
}

impl fmt::Debug for Page {
    /// Writes the first 16 bytes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Page({}…)", self.0[..16].escape_ascii())
    }
}

/// Returns a page of zero bytes, on the heap.
///
/// # Panics
///
/// Panics if memory is exhausted.
#[must_use]
pub fn zeroed_page() -> Box<Page> {
    Page::new_box_zeroed().unwrap_or_else(|_| panic!("cannot allocate a page"))
}

/// Appends pages of zero bytes, or removes the last pages.
///
/// # Panics
///
/// Panics if memory is exhausted. The caller bounds `count`.
pub fn resize_pages(pages: &mut Vec<Page>, count: usize) {
    let more = count.saturating_sub(pages.len());
    pages.truncate(count);
    Page::extend_vec_zeroed(pages, more)
        .unwrap_or_else(|_| panic!("cannot allocate {more} more pages"));
}

/// Returns `count` pages of zero bytes, on the heap.
///
/// # Panics
///
/// Panics if memory is exhausted. The caller bounds `count`.
#[must_use]
pub fn zeroed_pages(count: usize) -> Vec<Page> {
    let pages = Page::new_vec_zeroed(count);
    pages.unwrap_or_else(|_| panic!("cannot allocate {count} pages"))
}

/// Returns the bytes of pages, mutable.
pub fn page_bytes_mut(pages: &mut [Page]) -> &mut [u8] {
    pages.as_mut_bytes()
}
