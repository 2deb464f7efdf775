//! Copies and comparisons of bytes that another thread may be overwriting.
//!
//! A reader copies first and validates afterwards, so it may read bytes that are changing. Through
//! `&[u8]` or `ptr::copy` that is undefined behaviour, regardless of how the result is used. On
//! x86-64 this module reads the bytes with inline assembly, which is opaque to the compiler. On
//! other processors it uses relaxed atomic words. Under Miri and ThreadSanitizer, which check
//! atomics and reject accesses of different sizes to the same bytes, it uses relaxed atomic bytes.
//! In all cases the result is a mix of old and new bytes, and nothing worse.

#[cfg(all(target_arch = "x86_64", not(miri), not(feature = "atomic-copies")))]
mod opaque;
#[cfg(any(test, miri, feature = "atomic-copies"))]
#[cfg_attr(test, allow(dead_code, reason = "tests take what the platform does not"))]
mod relaxed;
#[cfg(any(test, not(any(target_arch = "x86_64", miri, feature = "atomic-copies"))))]
#[cfg_attr(test, allow(dead_code, reason = "tests take what the platform does not"))]
mod words;

#[cfg(all(target_arch = "x86_64", not(miri), not(feature = "atomic-copies")))]
pub(crate) use opaque::{copy, copy_past, load_u8, load_u32, load_u64, put};
#[cfg(any(miri, feature = "atomic-copies"))]
pub(crate) use relaxed::{copy, copy as copy_past, load_u8, load_u32, load_u64, put};
#[cfg(not(any(target_arch = "x86_64", miri, feature = "atomic-copies")))]
pub(crate) use words::{copy, copy as copy_past, load_u8, load_u32, load_u64, put};

/// True if the `key.len()` bytes at `source` are equal to `key`.
///
/// # Safety
/// `source` must be valid for reads of `key.len()` bytes. They may be changing.
#[inline]
pub(crate) unsafe fn equals(source: *const u8, key: &[u8]) -> bool {
    let len = key.len();
    if len >= 8 {
        // SAFETY: `at + 8 <= len` for each whole word and for the last, overlapping word; the
        // caller guarantees `len` bytes.
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
        // SAFETY: `4 <= len`, and the second word ends at `len`; the caller guarantees `len` bytes.
        let (first, last) = unsafe { (load_u32(source), load_u32(source.add(len - 4))) };
        first == u32_of(key, 0) && last == u32_of(key, len - 4)
    } else {
        // SAFETY: `at < len`; the caller guarantees `len` bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = unsafe fn(*const u8, *mut u8, usize);
    type Put = unsafe fn(&[u8], *mut u8);

    fn copy_every_small_length(copy: Copy, put: Put) {
        let mut source: Vec<u8> = (0..9100u32).map(|i| (i % 251) as u8).collect();
        // Miri is slow.
        let lengths = if cfg!(miri) { 0..34 } else { 0..200 };
        let apart = if cfg!(miri) { 3 } else { 1 };
        for len in lengths.chain(
            [1023, 1024, 1025, 2999, 4095, 4096, 4097, 8999].into_iter().filter(|_| !cfg!(miri)),
        ) {
            for (from, to) in
                (0..8).flat_map(|from| (0..8).step_by(apart).map(move |to| (from, to)))
            {
                let expected = source[from..from + len].to_vec();
                let mut target = vec![0xEE; len + to + 2];
                let at = target.as_mut_ptr().wrapping_add(1 + to);
                // SAFETY: both vectors have `len` bytes at the pointers.
                unsafe { copy(source.as_mut_ptr().add(from), at, len) };
                assert_eq!(target[1 + to..=len + to], expected, "length {len}, {from} to {to}");
                assert!(target[..=to].iter().all(|byte| *byte == 0xEE), "before length {len}");
                assert_eq!(target[len + to + 1], 0xEE, "after length {len}");
                target.fill(0xEE);
                let at = target.as_mut_ptr().wrapping_add(1 + to);
                // SAFETY: as above.
                unsafe { put(&expected, at) };
                assert_eq!(target[1 + to..=len + to], expected, "length {len}, {from} to {to}");
                assert!(target[..=to].iter().all(|byte| *byte == 0xEE), "before length {len}");
                assert_eq!(target[len + to + 1], 0xEE, "after length {len}");
            }
        }
    }

    #[test]
    fn copies_of_every_small_length_are_exact() {
        copy_every_small_length(copy, put);
        copy_every_small_length(copy_past, put);
    }

    #[test]
    fn copies_by_words_are_exact() {
        copy_every_small_length(words::copy, words::put);
    }

    #[test]
    fn copies_by_bytes_are_exact() {
        copy_every_small_length(relaxed::copy, relaxed::put);
    }

    #[test]
    fn unaligned_integers_are_read_in_byte_order() {
        let mut bytes: Vec<u8> = (1..=32).collect();
        for at in 0..16 {
            let eight: [u8; 8] = bytes[at..at + 8].try_into().unwrap();
            let four: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
            let source = bytes.as_mut_ptr().wrapping_add(at);
            // SAFETY: the vector has eight bytes at the pointer.
            let (by_words, own) = unsafe {
                (
                    (words::load_u64(source), words::load_u32(source)),
                    (load_u64(source), load_u32(source)),
                )
            };
            assert_eq!(by_words, (u64::from_ne_bytes(eight), u32::from_ne_bytes(four)));
            assert_eq!(own, by_words);
        }
    }

    #[test]
    fn a_key_differs_if_any_one_byte_does() {
        let key: Vec<u8> = (0..250u8).collect();
        for len in 1..=if cfg!(miri) { 18 } else { 250 } {
            // SAFETY: the vector has `len` bytes.
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
