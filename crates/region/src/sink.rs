//! What bytes of a region are read into.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// What bytes of a region are read into: a `Vec`, which grows, or memory that somebody lends, of which there is so much
/// ([`Lent`]).
///
/// # Safety
/// [`Sink::append`] calls `copy` at most once, with memory that `len` bytes can be written to and that is nobody else's
/// meanwhile: whoever copies believes it.
pub unsafe trait Sink {
    /// How many bytes have been read into it.
    fn filled(&self) -> usize;

    /// Appends `len` bytes, which `copy` writes to where it is told; it is not called where there is no room for them.
    ///
    /// # Safety
    /// `copy` writes all `len` bytes, and nothing else.
    unsafe fn append(&mut self, len: usize, copy: impl FnOnce(NonNull<u8>));

    /// Is all there that was read into it? Else what is there is not to be used.
    fn is_whole(&self) -> bool;

    /// Takes back all but the first `filled` bytes.
    fn truncate(&mut self, filled: usize);

    /// Appends bytes that are no region's.
    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        // SAFETY: as many bytes are written as are told, to memory that by the trait's promise is not that of `bytes`.
        unsafe {
            self.append(bytes.len(), |to| {
                to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            });
        }
    }
}

// SAFETY: `reserve` makes the room, which is the Vec's own.
unsafe impl Sink for Vec<u8> {
    #[inline]
    fn filled(&self) -> usize {
        self.len()
    }

    #[inline]
    unsafe fn append(&mut self, len: usize, copy: impl FnOnce(NonNull<u8>)) {
        self.reserve(len);
        let filled = self.len();
        // SAFETY: `reserve` made room for `len` bytes behind the filled ones, which `copy` initialises before they count
        // as filled: the caller vouches for it.
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

/// Memory that somebody lends. What does not fit is not there, and is counted all the same.
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
    /// Lends memory that has been written to before.
    pub fn new(memory: &'a mut [u8]) -> Self {
        // SAFETY: what is initialised is also what may be uninitialised; nothing here ever writes what is not.
        Self::uninit(unsafe { &mut *(std::ptr::from_mut(memory) as *mut [MaybeUninit<u8>]) })
    }

    /// Lends memory that need not have been.
    #[inline]
    pub fn uninit(memory: &'a mut [MaybeUninit<u8>]) -> Self {
        Self { memory, filled: 0 }
    }

    /// How many bytes would still fit.
    #[inline]
    pub fn left(&self) -> usize {
        self.memory.len().saturating_sub(self.filled)
    }
}

// SAFETY: what is given is a part of the memory that is lent exclusively, as long as was asked for.
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

    /// The same for each: so that Miri sees both.
    fn fill(sink: &mut impl Sink) {
        sink.extend(b"abc");
        sink.extend(b"");
        sink.truncate(2);
        sink.extend(b"xyz");
    }

    #[test]
    fn bytes_stand_behind_those_that_are_there() {
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
    fn what_does_not_fit_is_counted_and_not_written() {
        let mut memory = [MaybeUninit::new(7); 4];
        let mut lent = Lent::uninit(&mut memory);
        fill(&mut lent);
        assert_eq!((lent.filled(), lent.left(), lent.is_whole()), (5, 0, false));
        lent.truncate(2);
        lent.extend(b"12");
        assert!(lent.is_whole());
        // SAFETY: all of it has been written to.
        let written = memory.map(|byte| unsafe { byte.assume_init() });
        assert_eq!(&written, b"ab12");
    }
}
