//! Copies byte by byte.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Reads a byte that may be changing.
///
/// # Safety
/// `source` must be valid for reads of one byte.
#[inline]
pub(crate) unsafe fn load_u8(source: *const u8) -> u8 {
    // SAFETY: an AtomicU8 has the size and alignment of a byte, and the caller guarantees that the
    // byte is readable. The pointer is used only for a load.
    unsafe { AtomicU8::from_ptr(source.cast_mut()) }.load(Relaxed)
}

macro_rules! load {
    ($name:ident, $int:ty) => {
        /// Reads an unaligned integer that may be changing.
        ///
        /// # Safety
        /// `source` must be valid for reads of the integer's bytes.
        #[inline]
        pub(crate) unsafe fn $name(source: *const u8) -> $int {
            // SAFETY: `at` stays below the integer's size, which the caller guarantees.
            <$int>::from_ne_bytes(std::array::from_fn(|at| unsafe { load_u8(source.add(at)) }))
        }
    };
}
load!(load_u64, u64);
load!(load_u32, u32);

/// Copies `len` bytes; either side may be changing.
///
/// # Safety
/// `source` must be valid for reads and `target` for writes of `len` bytes, and they must not
/// overlap.
#[inline]
pub(crate) unsafe fn copy(source: *const u8, target: *mut u8, len: usize) {
    for at in 0..len {
        // SAFETY: `at < len`; the caller guarantees both ranges.
        unsafe { AtomicU8::from_ptr(target.add(at)).store(load_u8(source.add(at)), Relaxed) };
    }
}

/// Writes unchanging bytes to memory that other threads may be reading and writing. The source is
/// read without atomics: memory of a plain reference must not be accessed with atomics.
///
/// # Safety
/// `target` must be valid for writes of as many bytes, and they must not overlap.
#[inline]
pub(crate) unsafe fn put(bytes: &[u8], target: *mut u8) {
    for (at, byte) in bytes.iter().enumerate() {
        // SAFETY: `at` is within the slice's length; the caller guarantees as many bytes.
        unsafe { AtomicU8::from_ptr(target.add(at)) }.store(*byte, Relaxed);
    }
}
