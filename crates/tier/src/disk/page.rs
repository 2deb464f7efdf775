//! The unit of I/O.

use std::fmt;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The length of a page, in bytes: the unit of every read and write.
pub const PAGE_BYTES: usize = 4096;

/// 4096 bytes at an address that is a multiple of 4096, as I/O around the page cache needs them.
#[derive(Clone, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
pub struct Page([u8; PAGE_BYTES]);

impl Page {
    /// A page of zero bytes.
    pub const ZERO: Self = Self([0; PAGE_BYTES]);

    /// Returns a page that holds a copy of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; PAGE_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the page.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; PAGE_BYTES] {
        &self.0
    }

    /// Returns the bytes of the page, to be changed.
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

/// Returns the bytes of pages, to be changed.
pub fn page_bytes_mut(pages: &mut [Page]) -> &mut [u8] {
    pages.as_mut_bytes()
}
