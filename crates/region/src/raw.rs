//! Copies and comparisons of bytes that another thread may be overwriting.
//!
//! A reader copies first and validates afterwards, so it may read bytes that are changing under it.
//! Through `&[u8]` or `ptr::copy` that is undefined behaviour, whatever is done with the result. Here the
//! bytes are read by instructions the compiler does not look into (x86-64) or by relaxed atomics
//! (elsewhere, and under Miri and ThreadSanitizer, which check them). Either way the result is some mix
//! of old and new bytes and nothing worse.

#[cfg(all(target_arch = "x86_64", not(miri), not(feature = "atomic-copies")))]
pub(crate) use opaque::{copy, load_u8, load_u32, load_u64, put};
#[cfg(not(all(target_arch = "x86_64", not(miri), not(feature = "atomic-copies"))))]
pub(crate) use relaxed::{copy, load_u8, load_u32, load_u64, put};

/// Are the `key.len()` bytes at `source` those of `key`?
///
/// # Safety
/// `source` must be valid for reads of `key.len()` bytes. They may be changing.
#[inline]
pub(crate) unsafe fn equals(source: *const u8, key: &[u8]) -> bool {
    let len = key.len();
    if len >= 8 {
        // SAFETY: `at + 8 <= len` for each whole word and for the last, overlapping one; the caller
        // vouches for `len` bytes.
        let word = |at: usize| unsafe { load_u64(source.add(at)) };
        let tail = len - 8;
        let mut at = 0;
        while at < tail {
            if word(at) != u64_of(key, at) {
                return false;
            }
            at += 8;
        }
        word(tail) == u64_of(key, tail)
    } else if len >= 4 {
        // SAFETY: `4 <= len`, and the second word ends at `len`; the caller vouches for `len` bytes.
        let (first, last) = unsafe { (load_u32(source), load_u32(source.add(len - 4))) };
        first == u32_of(key, 0) && last == u32_of(key, len - 4)
    } else {
        // SAFETY: `at < len`; the caller vouches for `len` bytes.
        key.iter().enumerate().all(|(at, byte)| unsafe { load_u8(source.add(at)) } == *byte)
    }
}

#[inline]
fn u64_of(bytes: &[u8], at: usize) -> u64 {
    let word: [u8; 8] = bytes[at..at + 8].try_into().expect("the range is eight bytes");
    u64::from_ne_bytes(word)
}

#[inline]
fn u32_of(bytes: &[u8], at: usize) -> u32 {
    let word: [u8; 4] = bytes[at..at + 4].try_into().expect("the range is four bytes");
    u32::from_ne_bytes(word)
}

#[cfg(all(target_arch = "x86_64", not(miri), not(feature = "atomic-copies")))]
mod opaque {
    use std::arch::asm;

    /// From here on the processor's own string copy is faster than sixteen bytes at a time.
    const STRING_COPY_BYTES_MIN: usize = 1024;

    macro_rules! load {
        ($name:ident, $int:ty, $instruction:literal) => {
            /// Reads an unaligned integer that may be changing.
            ///
            /// # Safety
            /// `source` must be valid for reads of the integer's bytes.
            #[inline]
            pub(crate) unsafe fn $name(source: *const u8) -> $int {
                let value: u64;
                // SAFETY: one load from an address the caller vouches for; it writes only its output.
                unsafe {
                    asm!(
                        $instruction,
                        value = out(reg) value,
                        source = in(reg) source,
                        options(nostack, preserves_flags, readonly)
                    );
                }
                value as $int
            }
        };
    }
    load!(load_u64, u64, "mov {value}, qword ptr [{source}]");
    load!(load_u32, u32, "mov {value:e}, dword ptr [{source}]");
    load!(load_u8, u8, "movzx {value:e}, byte ptr [{source}]");

    /// Copies `len` bytes, either side of which may be changing.
    ///
    /// # Safety
    /// `source` must be valid for reads and `target` for writes of `len` bytes, and they must not
    /// overlap.
    #[inline]
    pub(crate) unsafe fn copy(source: *const u8, target: *mut u8, len: usize) {
        if len >= STRING_COPY_BYTES_MIN {
            // SAFETY: the caller vouches for both ranges; the direction flag is clear by the ABI.
            unsafe {
                asm!(
                    "rep movsb",
                    inout("rcx") len => _,
                    inout("rsi") source => _,
                    inout("rdi") target => _,
                    options(nostack, preserves_flags)
                );
            }
            return;
        }
        // SAFETY: each branch copies ranges within `len`, the last ones overlapping: the caller vouches
        // for `len` bytes.
        unsafe {
            if len >= 16 {
                let tail = len - 16;
                let mut at = 0;
                while at < tail {
                    copy_16(source.add(at), target.add(at));
                    at += 16;
                }
                copy_16(source.add(tail), target.add(tail));
            } else if len >= 8 {
                copy_8(source, target);
                copy_8(source.add(len - 8), target.add(len - 8));
            } else {
                for at in 0..len {
                    copy_1(source.add(at), target.add(at));
                }
            }
        }
    }

    /// Writes bytes that nobody changes to where others may be reading and writing.
    ///
    /// # Safety
    /// `target` must be valid for writes of as many bytes, and they must not overlap.
    #[inline]
    pub(crate) unsafe fn put(bytes: &[u8], target: *mut u8) {
        // SAFETY: a slice is valid for reads; the caller vouches for the rest.
        unsafe { copy(bytes.as_ptr(), target, bytes.len()) };
    }

    macro_rules! copy_step {
        ($name:ident, $class:ident, $load:literal, $store:literal) => {
            /// # Safety
            /// Both addresses must be valid for the bytes of the step.
            #[inline]
            unsafe fn $name(source: *const u8, target: *mut u8) {
                // SAFETY: one load and one store at addresses the caller vouches for.
                unsafe {
                    asm!(
                        $load,
                        $store,
                        step = out($class) _,
                        source = in(reg) source,
                        target = in(reg) target,
                        options(nostack, preserves_flags)
                    );
                }
            }
        };
    }
    copy_step!(copy_16, xmm_reg, "movups {step}, [{source}]", "movups [{target}], {step}");
    copy_step!(copy_8, reg, "mov {step}, qword ptr [{source}]", "mov qword ptr [{target}], {step}");
    copy_step!(
        copy_1,
        reg_byte,
        "mov {step}, byte ptr [{source}]",
        "mov byte ptr [{target}], {step}"
    );
}

#[cfg(not(all(target_arch = "x86_64", not(miri), not(feature = "atomic-copies"))))]
mod relaxed {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    /// Reads a byte that may be changing.
    ///
    /// # Safety
    /// `source` must be valid for reads of one byte.
    #[inline]
    pub(crate) unsafe fn load_u8(source: *const u8) -> u8 {
        // SAFETY: an AtomicU8 has the size and alignment of a byte; the caller vouches for it. Nobody
        // writes through the pointer here.
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
                // SAFETY: `at` stays below the integer's size, for which the caller vouches.
                <$int>::from_ne_bytes(std::array::from_fn(|at| unsafe { load_u8(source.add(at)) }))
            }
        };
    }
    load!(load_u64, u64);
    load!(load_u32, u32);

    /// Copies `len` bytes, either side of which may be changing.
    ///
    /// # Safety
    /// `source` must be valid for reads and `target` for writes of `len` bytes, and they must not
    /// overlap.
    #[inline]
    pub(crate) unsafe fn copy(source: *const u8, target: *mut u8, len: usize) {
        for at in 0..len {
            // SAFETY: `at < len`; the caller vouches for both ranges.
            unsafe { AtomicU8::from_ptr(target.add(at)).store(load_u8(source.add(at)), Relaxed) };
        }
    }

    /// Writes bytes that nobody changes to where others may be reading and writing. They are read as
    /// they are: behind a plain reference there must be no atomics.
    ///
    /// # Safety
    /// `target` must be valid for writes of as many bytes, and they must not overlap.
    #[inline]
    pub(crate) unsafe fn put(bytes: &[u8], target: *mut u8) {
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: `at` is within the slice's length; the caller vouches for as many bytes.
            unsafe { AtomicU8::from_ptr(target.add(at)) }.store(*byte, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_small_length_are_exact() {
        let mut source: Vec<u8> = (0..3000u32).map(|i| (i % 251) as u8).collect();
        // Miri takes its time.
        let lengths = if cfg!(miri) { 0..20 } else { 0..200 };
        for len in lengths.chain([1023, 1024, 1025, 2999]) {
            let mut target = vec![0xEE; len + 2];
            // SAFETY: both vectors hold `len` bytes behind the pointers.
            unsafe { copy(source.as_mut_ptr(), target.as_mut_ptr().add(1), len) };
            assert_eq!(&target[1..=len], &source[..len], "length {len}");
            target[1..=len].fill(0xEE);
            // SAFETY: as above.
            unsafe { put(&source[..len], target.as_mut_ptr().add(1)) };
            assert_eq!(&target[1..=len], &source[..len], "length {len}");
            assert_eq!((target[0], target[len + 1]), (0xEE, 0xEE), "length {len}");
        }
    }

    #[test]
    fn a_key_differs_if_any_one_byte_does() {
        let key: Vec<u8> = (0..250u8).collect();
        for len in 1..=if cfg!(miri) { 18 } else { 250 } {
            // SAFETY: the vector holds `len` bytes.
            let same = |mut bytes: Vec<u8>| unsafe { equals(bytes.as_mut_ptr(), &key[..len]) };
            assert!(same(key.clone()));
            for at in 0..len {
                let mut other = key.clone();
                other[at] ^= 1;
                assert!(!same(other), "length {len}, byte {at}");
            }
        }
    }
}
