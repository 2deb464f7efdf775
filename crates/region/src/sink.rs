//! The targets of reads from a region.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// A target for bytes of a region: a `Vec`, which grows, or borrowed memory of fixed length
/// ([`Lent`]).
///
/// # Safety
/// [`Sink::append`] calls `copy` at most once, with memory that is valid for writes of `len` bytes
/// and exclusive during the call. The callers of the trait rely on this.
pub unsafe trait Sink {
    /// Returns the number of bytes read into the sink.
    fn filled(&self) -> usize;

    /// Appends `len` bytes, which `copy` writes to the given address. If they do not fit, `copy` is
    /// not called.
    ///
    /// # Safety
    /// `copy` writes all `len` bytes, and nothing else.
    unsafe fn append(&mut self, len: usize, copy: impl FnOnce(NonNull<u8>));

    /// True if all bytes fitted. Otherwise the content must not be used.
    fn is_whole(&self) -> bool;

    /// Truncates to the first `filled` bytes.
    fn truncate(&mut self, filled: usize);

    /// Appends bytes from outside a region.
    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        // SAFETY: exactly the announced bytes are written. By the contract of the trait the memory
        // is exclusive, so it does not overlap `bytes`.
        unsafe {
            self.append(bytes.len(), |to| {
                to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            });
        }
    }
}

// SAFETY: `reserve` allocates the memory, which belongs to the Vec.
unsafe impl Sink for Vec<u8> {
    #[inline]
    fn filled(&self) -> usize {
        self.len()
    }

    #[inline]
    unsafe fn append(&mut self, len: usize, copy: impl FnOnce(NonNull<u8>)) {
        self.reserve(len);
        let filled = self.len();
        // SAFETY: `reserve` allocated `len` bytes after the filled bytes. The caller guarantees
        // that `copy` initialises them before they count as filled.
        unsafe {
            copy(NonNull::new_unchecked(self.as_mut_ptr().add(filled)));
            self.set_len(filled + len);
        }
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }

    #[inline]
    fn truncate(&mut self, filled: usize) {
        Self::truncate(self, filled);
    }
}

/// Borrowed memory of fixed length. Bytes that do not fit are counted but not written.
///
/// ```
/// use larder_region::{Lent, Sink};
/// let mut memory = [0; 4];
/// let mut lent = Lent::new(&mut memory);
/// lent.extend(b"abc");
/// assert!(lent.is_whole());
/// lent.extend(b"de");
/// assert_eq!((lent.filled(), lent.is_whole()), (5, false));
/// assert_eq!(&memory, b"abc\0");
/// ```
#[derive(Debug)]
pub struct Lent<'a> {
    memory: &'a mut [MaybeUninit<u8>],
    filled: usize,
}

impl<'a> Lent<'a> {
    /// Borrows initialised memory.
    pub fn new(memory: &'a mut [u8]) -> Self {
        // SAFETY: initialised memory may be treated as possibly uninitialised; this type writes
        // only initialised bytes.
        Self::uninit(unsafe { &mut *(std::ptr::from_mut(memory) as *mut [MaybeUninit<u8>]) })
    }

    /// Borrows possibly uninitialised memory.
    #[inline]
    pub fn uninit(memory: &'a mut [MaybeUninit<u8>]) -> Self {
        Self { memory, filled: 0 }
    }

    /// Returns the number of bytes that still fit into the memory.
    #[inline]
    pub fn left(&self) -> usize {
        self.memory.len().saturating_sub(self.filled)
    }
}

// SAFETY: the memory passed to `copy` is a part of the exclusively borrowed memory, with the
// requested length.
unsafe impl Sink for Lent<'_> {
    #[inline]
    fn filled(&self) -> usize {
        self.filled
    }

    #[inline]
    unsafe fn append(&mut self, len: usize, copy: impl FnOnce(NonNull<u8>)) {
        let end = self.filled.saturating_add(len);
        if end <= self.memory.len() {
            copy(NonNull::from(&mut self.memory[self.filled..end]).cast());
        }
        self.filled = end;
    }

    #[inline]
    fn is_whole(&self) -> bool {
        self.filled <= self.memory.len()
    }

    #[inline]
    fn truncate(&mut self, filled: usize) {
        self.filled = self.filled.min(filled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills any sink, so that Miri checks both kinds.
    fn fill(sink: &mut impl Sink) {
        sink.extend(b"abc");
        sink.extend(b"");
        sink.truncate(2);
        sink.extend(b"xyz");
    }

    #[test]
    fn bytes_are_appended_to_the_existing_ones() {
        let mut vec = Vec::new();
        fill(&mut vec);
        assert_eq!((&vec[..], vec.is_whole()), (&b"abxyz"[..], true));
        let mut memory = [0; 6];
        let mut lent = Lent::new(&mut memory);
        fill(&mut lent);
        assert_eq!((lent.filled(), lent.left(), lent.is_whole()), (5, 1, true));
        assert_eq!(&memory, b"abxyz\0");
    }

    #[test]
    fn bytes_that_do_not_fit_are_counted_and_not_written() {
        let mut memory = [MaybeUninit::new(7); 4];
        let mut lent = Lent::uninit(&mut memory);
        fill(&mut lent);
        assert_eq!((lent.filled(), lent.left(), lent.is_whole()), (5, 0, false));
        lent.truncate(2);
        lent.extend(b"12");
        assert!(lent.is_whole());
        // SAFETY: all bytes have been written.
        let written = memory.map(|byte| unsafe { byte.assume_init() });
        assert_eq!(&written, b"ab12");
    }
}
