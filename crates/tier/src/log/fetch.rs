//! Computes which pages contain a record.

use zerocopy::IntoBytes;

use super::Extent;
use crate::disk::{PAGE_BYTES, Page, zeroed_pages};
use crate::format::{Address, RECORD_HEADER_BYTES, Record, SEGMENT_PAGES};

/// A read of a record. The length is a guess until the first pages were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch {
    extent: Extent,
    pub(super) at: Address,
    pages: usize,
}

impl Fetch {
    /// Fetches the record at an address. `content_bytes` is the expected length of its key and
    /// value together.
    pub(crate) fn new(extent: Extent, at: Address, content_bytes: usize) -> Self {
        Self { extent, at, pages: pages_of(at, RECORD_HEADER_BYTES + content_bytes) }
    }

    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    pub(crate) fn at(&self) -> Address {
        self.at
    }

    /// Returns this fetch, extended to at least this many pages.
    pub(crate) fn with_pages(self, pages: usize) -> Self {
        Self { pages: self.pages.max(pages), ..self }
    }

    /// Returns the page after its last one, counted from the start of the file.
    pub(crate) fn end_page(&self) -> u64 {
        self.first_page() + self.pages as u64
    }

    /// Returns its first page, counted from the start of the file.
    pub(crate) fn first_page(&self) -> u64 {
        u64::from(self.extent) * SEGMENT_PAGES as u64 + self.at.page() as u64
    }

    /// Returns a zeroed buffer for its pages.
    pub(crate) fn pages(&self) -> Vec<Page> {
        zeroed_pages(self.pages)
    }

    /// Returns a fetch of the complete record, if this one did not read all of it.
    pub(crate) fn longer(&self, pages: &[Page]) -> Option<Self> {
        let within = self.at.offset() % PAGE_BYTES;
        let claimed = Record::claimed_bytes(&pages.as_bytes()[within..])?;
        let pages = pages_of(self.at, claimed);
        (pages > self.pages).then_some(Self { pages, ..*self })
    }
}

/// Returns the number of pages that contain the bytes from an address on, at most up to the end of
/// the segment.
fn pages_of(at: Address, bytes: usize) -> usize {
    let within = at.offset() % PAGE_BYTES;
    (within + bytes).div_ceil(PAGE_BYTES).min(SEGMENT_PAGES - at.page())
}
