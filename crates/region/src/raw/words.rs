//! Copies of aligned words, without processor-specific instructions.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

const WORD: usize = size_of::<u64>();

/// Shorter ranges are copied byte by byte: they have no space for a word before the first aligned
/// word.
const WORDS_BYTES_MIN: usize = 3 * WORD;

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

/// Reads an unaligned integer that may be changing.
///
/// # Safety
/// `source` must be valid for reads of the integer's bytes.
#[inline]
pub(crate) unsafe fn load_u32(source: *const u8) -> u32 {
    if is_aligned(source, 4) {
        // SAFETY: the pointer is aligned, and the caller guarantees its bytes. The pointer is used
        // only for a load.
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
        // SAFETY: the pointer is aligned, and the caller guarantees its bytes.
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
    // SAFETY: the caller guarantees both ranges. `copied <= len`, and the words are within the
    // ranges.
    unsafe {
        let mut copied = 0;
        if len >= WORDS_BYTES_MIN {
            // The first word of the source may begin up to seven bytes before the requested bytes.
            let head = WORD + (target.addr() + WORD).wrapping_neg() % WORD;
            copy_bytes(source, target, head);
            copied = head + copy_words(source.add(head), target.add(head), len - head);
        }
        copy_bytes(source.add(copied), target.add(copied), len - copied);
    }
}

/// Writes unchanging bytes to memory that other threads may be reading and writing. The source is
/// read without atomics: memory of a plain reference must not be accessed with atomics.
///
/// # Safety
/// `target` must be valid for writes of as many bytes, and they must not overlap.
pub(crate) unsafe fn put(bytes: &[u8], target: *mut u8) {
    let head = (target.addr().wrapping_neg() % WORD).min(bytes.len());
    let (head_bytes, rest) = bytes.split_at(head);
    let words = rest.chunks_exact(WORD);
    let tail = words.remainder();
    // SAFETY: the parts are consecutive, and their total length is the length of the slice. After
    // the head the target is aligned for words.
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
/// Same as [`copy`]. In addition, the target is aligned for words, and the seven bytes before
/// `source` are also valid for reads.
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

/// Returns the word that begins `bytes` bytes (1 to 7) after the start of the first of two
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
/// Same as [`copy`].
unsafe fn copy_bytes(source: *const u8, target: *mut u8, len: usize) {
    for at in 0..len {
        // SAFETY: `at < len`; the caller guarantees both ranges.
        unsafe { AtomicU8::from_ptr(target.add(at)).store(load_u8(source.add(at)), Relaxed) };
    }
}

/// # Safety
/// Same as [`put`].
unsafe fn put_bytes(bytes: &[u8], target: *mut u8) {
    for (at, byte) in bytes.iter().enumerate() {
        // SAFETY: `at` is within the slice's length; the caller guarantees as many bytes.
        unsafe { AtomicU8::from_ptr(target.add(at)) }.store(*byte, Relaxed);
    }
}
