//! Copies and comparisons of bytes that another thread may be overwriting.
//!
//! A reader copies first and validates afterwards, so it may read bytes that are changing. Through
//! `&[u8]` or `ptr::copy` that is undefined behaviour, however the result is used. Here the bytes
//! are read by instructions that the compiler does not look into (x86-64), or by relaxed atomics:
//! of words on other processors, of bytes under Miri and ThreadSanitizer, which check atomics and
//! reject accesses of different sizes to the same bytes. Either way the result is a mix of old and
//! new bytes, and nothing worse.

#[cfg(all(target_arch = "x86_64", not(miri), not(feature = "atomic-copies")))]
pub(crate) use opaque::{copy, load_u8, load_u32, load_u64, put};
#[cfg(any(miri, feature = "atomic-copies"))]
pub(crate) use relaxed::{copy, load_u8, load_u32, load_u64, put};
#[cfg(not(any(target_arch = "x86_64", miri, feature = "atomic-copies")))]
pub(crate) use words::{copy, load_u8, load_u32, load_u64, put};

/// True if the `key.len()` bytes at `source` are those of `key`.
///
/// # Safety
/// `source` must be valid for reads of `key.len()` bytes. They may be changing.
#[inline]
pub(crate) unsafe fn equals(source: *const u8, key: &[u8]) -> bool {
    let len = key.len();
    if len >= 8 {
        // SAFETY: `at + 8 <= len` for each whole word and for the last, overlapping one; the caller
        // guarantees `len` bytes.
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

#[cfg(all(target_arch = "x86_64", not(miri), not(feature = "atomic-copies")))]
mod opaque {
    use std::arch::asm;

    /// From this length on, the processor's string copy is faster than copying sixteen bytes at a
    /// time.
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
                // SAFETY: one load from an address that the caller guarantees; it writes only its
                // output.
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

    /// Copies `len` bytes; either side may be changing.
    ///
    /// # Safety
    /// `source` must be valid for reads and `target` for writes of `len` bytes, and they must not
    /// overlap.
    #[inline]
    pub(crate) unsafe fn copy(source: *const u8, target: *mut u8, len: usize) {
        if len >= STRING_COPY_BYTES_MIN {
            // SAFETY: the caller guarantees both ranges; the direction flag is clear by the ABI.
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
        // SAFETY: each branch copies ranges within `len`, the last ones overlapping; the caller
        // guarantees `len` bytes.
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

    /// Writes unchanging bytes to a place that other threads may be reading and writing.
    ///
    /// # Safety
    /// `target` must be valid for writes of as many bytes, and they must not overlap.
    #[inline]
    pub(crate) unsafe fn put(bytes: &[u8], target: *mut u8) {
        // SAFETY: a slice is valid for reads; the caller guarantees the rest.
        unsafe { copy(bytes.as_ptr(), target, bytes.len()) };
    }

    macro_rules! copy_step {
        ($name:ident, $class:ident, $load:literal, $store:literal) => {
            /// # Safety
            /// Both addresses must be valid for the bytes of the step.
            #[inline]
            unsafe fn $name(source: *const u8, target: *mut u8) {
                // SAFETY: one load and one store at addresses that the caller guarantees.
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

/// Copies byte by byte.
#[cfg(any(test, miri, feature = "atomic-copies"))]
#[cfg_attr(test, allow(dead_code, reason = "tests take what the platform does not"))]
mod relaxed {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    /// Reads a byte that may be changing.
    ///
    /// # Safety
    /// `source` must be valid for reads of one byte.
    #[inline]
    pub(crate) unsafe fn load_u8(source: *const u8) -> u8 {
        // SAFETY: an AtomicU8 has the size and alignment of a byte; the caller guarantees it. Only
        // a load is made through the pointer.
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

    /// Writes unchanging bytes to a place that other threads may be reading and writing. The source
    /// is read plainly: memory behind a plain reference must not be accessed by atomics.
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
}

/// Copies aligned words. Uses no processor-specific instruction.
#[cfg(any(test, not(any(target_arch = "x86_64", miri, feature = "atomic-copies"))))]
#[cfg_attr(test, allow(dead_code, reason = "tests take what the platform does not"))]
mod words {
    use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

    const WORD: usize = size_of::<u64>();

    /// Shorter ranges are copied byte by byte: they have no space for a word before the first
    /// aligned one.
    const WORDS_BYTES_MIN: usize = 3 * WORD;

    /// Reads a byte that may be changing.
    ///
    /// # Safety
    /// `source` must be valid for reads of one byte.
    #[inline]
    pub(crate) unsafe fn load_u8(source: *const u8) -> u8 {
        // SAFETY: an AtomicU8 has the size and alignment of a byte; the caller guarantees it. Only
        // a load is made through the pointer.
        unsafe { AtomicU8::from_ptr(source.cast_mut()) }.load(Relaxed)
    }

    /// Reads an unaligned integer that may be changing.
    ///
    /// # Safety
    /// `source` must be valid for reads of the integer's bytes.
    #[inline]
    pub(crate) unsafe fn load_u32(source: *const u8) -> u32 {
        if is_aligned(source, 4) {
            // SAFETY: it is aligned, and the caller guarantees its bytes. Only a load is made
            // through the pointer.
            return unsafe { AtomicU32::from_ptr(source.cast_mut().cast()) }.load(Relaxed);
        }
        // SAFETY: `at` stays below the integer's size, which the caller guarantees.
        u32::from_ne_bytes(std::array::from_fn(|at| unsafe { load_u8(source.add(at)) }))
    }

    /// Reads an unaligned integer that may be changing.
    ///
    /// # Safety
    /// `source` must be valid for reads of the integer's bytes.
    #[inline]
    pub(crate) unsafe fn load_u64(source: *const u8) -> u64 {
        if is_aligned(source, WORD) {
            // SAFETY: it is aligned, and the caller guarantees its bytes.
            return unsafe { load_word(source) };
        }
        // SAFETY: the caller guarantees eight bytes, of which each load takes half.
        let (first, second) = unsafe { (load_u32(source), load_u32(source.add(4))) };
        let (first, second) = (u64::from(first), u64::from(second));
        if cfg!(target_endian = "big") { first << 32 | second } else { second << 32 | first }
    }

    /// Copies `len` bytes; either side may be changing.
    ///
    /// # Safety
    /// `source` must be valid for reads and `target` for writes of `len` bytes, and they must not
    /// overlap.
    pub(crate) unsafe fn copy(source: *const u8, target: *mut u8, len: usize) {
        // SAFETY: the caller guarantees both ranges: `copied <= len`, and the words lie within.
        unsafe {
            let mut copied = 0;
            if len >= WORDS_BYTES_MIN {
                // A word of the source may begin up to seven bytes before the requested bytes.
                let head = WORD + (target.addr() + WORD).wrapping_neg() % WORD;
                copy_bytes(source, target, head);
                copied = head + copy_words(source.add(head), target.add(head), len - head);
            }
            copy_bytes(source.add(copied), target.add(copied), len - copied);
        }
    }

    /// Writes unchanging bytes to a place that other threads may be reading and writing. The source
    /// is read plainly: memory behind a plain reference must not be accessed by atomics.
    ///
    /// # Safety
    /// `target` must be valid for writes of as many bytes, and they must not overlap.
    pub(crate) unsafe fn put(bytes: &[u8], target: *mut u8) {
        let head = (target.addr().wrapping_neg() % WORD).min(bytes.len());
        let (head_bytes, rest) = bytes.split_at(head);
        let words = rest.chunks_exact(WORD);
        let tail = words.remainder();
        // SAFETY: the parts are consecutive and together as long as the slice; after the head the
        // target is aligned for words.
        unsafe {
            put_bytes(head_bytes, target);
            let mut at = head;
            for word in words {
                let word: [u8; WORD] = word.try_into().expect("chunks are as long as a word");
                store_word(target.add(at), u64::from_ne_bytes(word));
                at += WORD;
            }
            put_bytes(tail, target.add(at));
        }
    }

    /// Copies as many whole words as fit, and returns their length in bytes.
    ///
    /// # Safety
    /// As [`copy`]; the target is aligned for words, and `source` is valid for seven more bytes
    /// before its beginning.
    unsafe fn copy_words(source: *const u8, target: *mut u8, len: usize) -> usize {
        let misaligned = source.addr() % WORD;
        let mut copied = 0;
        // SAFETY: `source - misaligned` is aligned and begins at most seven bytes before `source`.
        // Each load ends within `len` bytes of `source`, each store within `len` of `target`; both
        // sides are aligned.
        unsafe {
            if misaligned == 0 {
                while copied + WORD <= len {
                    store_word(target.add(copied), load_word(source.add(copied)));
                    copied += WORD;
                }
                return copied;
            }
            let aligned = source.sub(misaligned);
            let mut low = load_word(aligned);
            while copied + 2 * WORD - misaligned <= len {
                let high = load_word(aligned.add(copied + WORD));
                store_word(target.add(copied), joined(low, high, misaligned));
                low = high;
                copied += WORD;
            }
        }
        copied
    }

    /// Returns the word that begins `bytes` bytes, 1 to 7, after the beginning of the first of two
    /// consecutive words.
    fn joined(first: u64, second: u64, bytes: usize) -> u64 {
        let bits = 8 * bytes as u32;
        match cfg!(target_endian = "big") {
            true => first << bits | second >> (64 - bits),
            false => first >> bits | second << (64 - bits),
        }
    }

    fn is_aligned(source: *const u8, bytes: usize) -> bool {
        source.addr().is_multiple_of(bytes)
    }

    /// # Safety
    /// `source` must be aligned for a word and valid for reads of one.
    #[inline]
    unsafe fn load_word(source: *const u8) -> u64 {
        // SAFETY: the caller guarantees it. Only a load is made through the pointer.
        unsafe { AtomicU64::from_ptr(source.cast_mut().cast()) }.load(Relaxed)
    }

    /// # Safety
    /// `target` must be aligned for a word and valid for writes of one.
    #[inline]
    unsafe fn store_word(target: *mut u8, word: u64) {
        // SAFETY: the caller guarantees it.
        unsafe { AtomicU64::from_ptr(target.cast()) }.store(word, Relaxed);
    }

    /// # Safety
    /// As [`copy`].
    unsafe fn copy_bytes(source: *const u8, target: *mut u8, len: usize) {
        for at in 0..len {
            // SAFETY: `at < len`; the caller guarantees both ranges.
            unsafe { AtomicU8::from_ptr(target.add(at)).store(load_u8(source.add(at)), Relaxed) };
        }
    }

    /// # Safety
    /// As [`put`].
    unsafe fn put_bytes(bytes: &[u8], target: *mut u8) {
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: `at` is within the slice's length; the caller guarantees as many bytes.
            unsafe { AtomicU8::from_ptr(target.add(at)) }.store(*byte, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = unsafe fn(*const u8, *mut u8, usize);
    type Put = unsafe fn(&[u8], *mut u8);

    fn copy_every_small_length(copy: Copy, put: Put) {
        let mut source: Vec<u8> = (0..3100u32).map(|i| (i % 251) as u8).collect();
        // Miri is slow.
        let lengths = if cfg!(miri) { 0..34 } else { 0..200 };
        let apart = if cfg!(miri) { 3 } else { 1 };
        for len in lengths.chain([1023, 1024, 1025, 2999].into_iter().filter(|_| !cfg!(miri))) {
            for (from, to) in
                (0..8).flat_map(|from| (0..8).step_by(apart).map(move |to| (from, to)))
            {
                let expected = source[from..from + len].to_vec();
                let mut target = vec![0xEE; len + to + 2];
                let at = target.as_mut_ptr().wrapping_add(1 + to);
                // SAFETY: both vectors hold `len` bytes from the pointers on.
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
            // SAFETY: the vector holds eight bytes from the pointer on.
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
