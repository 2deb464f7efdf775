//! Whole pages in memory, aligned as the disk wants them.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::format::PAGE_BYTES;

/// Pages of zeros to begin with. Their start is a multiple of [`PAGE_BYTES`], as `O_DIRECT` asks.
pub struct Pages {
    /// One page more than there is, so that an aligned start lies in it.
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Pages {
    /// Allocates pages.
    pub fn zeroed(pages: usize) -> Self {
        let bytes = pages * PAGE_BYTES;
        let memory = vec![0; bytes + PAGE_BYTES];
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        assert!(start < PAGE_BYTES, "an address is less than a page below a multiple of one");
        Self { memory, start, bytes }
    }

    /// Keeps the first pages.
    pub(crate) fn truncate(&mut self, pages: usize) {
        self.bytes = self.bytes.min(pages * PAGE_BYTES);
    }

    /// The number of pages.
    pub fn count(&self) -> usize {
        self.bytes / PAGE_BYTES
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("count", &self.count()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_begin_where_direct_io_may() {
        for count in [1, 2, 7] {
            let mut pages = Pages::zeroed(count);
            assert!(pages.as_ptr().addr().is_multiple_of(PAGE_BYTES));
            pages[count * PAGE_BYTES - 1] = 1;
            assert_eq!((pages.len(), pages.count()), (count * PAGE_BYTES, count));
        }
    }
}
