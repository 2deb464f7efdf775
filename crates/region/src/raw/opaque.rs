//! Copies with inline assembly, which is opaque to the compiler.

use std::arch::asm;
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch, _mm_sfence};

/// Minimum length from which the processor's string copy is faster than copying sixteen bytes at a
/// time.
const STRING_COPY_BYTES_MIN: usize = 1024;

/// Minimum length of a copy into the region whose cache lines are prefetched, and the number of
/// bytes prefetched at a time. The string copy without prefetching waits for fewer cache lines in
/// parallel. Copies of 4 to 60 KiB to memory that is not in the caches take a fifth less time.
/// Shorter copies gain nothing, nor do copies out of the region, whose target is in the caches.
const PREFETCHED_BYTES: usize = 4096;

const CACHE_LINE_BYTES: usize = 64;

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
        // SAFETY: the caller guarantees both ranges.
        return unsafe { copy_string(source, target, len) };
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

/// Copies with the processor's string copy.
///
/// # Safety
/// Same as [`copy`].
#[inline]
unsafe fn copy_string(source: *const u8, target: *mut u8, len: usize) {
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
}

/// Same as [`copy`], but for a target, and possibly a source, that is not in the caches.
///
/// # Safety
/// Same as [`copy`].
#[inline]
unsafe fn copy_in(source: *const u8, target: *mut u8, len: usize) {
    // SAFETY: the caller guarantees both ranges.
    unsafe {
        if len < PREFETCHED_BYTES {
            copy(source, target, len);
        } else {
            copy_prefetched(source, target, len);
        }
    }
}

/// # Safety
/// Same as [`copy`].
#[inline(never)]
unsafe fn copy_prefetched(source: *const u8, target: *mut u8, len: usize) {
    for at in (0..len).step_by(PREFETCHED_BYTES) {
        let part = PREFETCHED_BYTES.min(len - at);
        // SAFETY: `at + part <= len`; the caller guarantees both ranges. A prefetch only affects
        // caches.
        unsafe {
            let (source, target) = (source.add(at), target.add(at));
            for line in (0..part).step_by(CACHE_LINE_BYTES) {
                _mm_prefetch::<_MM_HINT_T0>(source.add(line).cast());
                _mm_prefetch::<_MM_HINT_T0>(target.add(line).cast());
            }
            copy_string(source, target, part);
        }
    }
}

/// Same as [`copy`], but a long target does not enter the caches. This is for records that move: no
/// thread is about to read them, and the caches need not load the target before it is overwritten.
///
/// # Safety
/// Same as [`copy`].
#[inline]
pub(crate) unsafe fn copy_past(source: *const u8, target: *mut u8, len: usize) {
    // SAFETY: the caller guarantees both ranges.
    unsafe {
        if len < PREFETCHED_BYTES {
            copy(source, target, len);
        } else {
            copy_streamed(source, target, len);
        }
    }
}

/// How far ahead of a streamed copy the source is prefetched.
const BYTES_AHEAD: usize = 1024;

/// # Safety
/// Same as [`copy`], and `len` is at least [`PREFETCHED_BYTES`].
#[inline(never)]
unsafe fn copy_streamed(source: *const u8, target: *mut u8, len: usize) {
    // The first line is written to the caches, because the owner of a record changes its header.
    let head = CACHE_LINE_BYTES + target.addr().wrapping_neg() % CACHE_LINE_BYTES;
    let streamed_end = len - (len - head) % CACHE_LINE_BYTES;
    // SAFETY: `head <= streamed_end <= len`, and whole lines are between them; the caller
    // guarantees `len` bytes. The target is aligned after the head. A prefetch only affects caches.
    // The fence orders the streamed bytes before later stores, which may publish them.
    unsafe {
        for line in (0..BYTES_AHEAD).step_by(CACHE_LINE_BYTES) {
            _mm_prefetch::<_MM_HINT_T0>(source.add(line).cast());
        }
        copy(source, target, head);
        for at in (head..streamed_end).step_by(CACHE_LINE_BYTES) {
            _mm_prefetch::<_MM_HINT_T0>(source.wrapping_add(at + BYTES_AHEAD).cast());
            stream_line(source.add(at), target.add(at));
        }
        copy(source.add(streamed_end), target.add(streamed_end), len - streamed_end);
        _mm_sfence();
    }
}

/// Copies a cache line past the caches.
///
/// # Safety
/// `source` must be valid for reads and `target` for writes of a cache line, and `target` must be
/// aligned to one.
#[inline]
unsafe fn stream_line(source: *const u8, target: *mut u8) {
    // SAFETY: loads and stores of one line, which the caller guarantees.
    unsafe {
        asm!(
            "movups {a}, [{source}]",
            "movups {b}, [{source} + 16]",
            "movups {c}, [{source} + 32]",
            "movups {d}, [{source} + 48]",
            "movntps [{target}], {a}",
            "movntps [{target} + 16], {b}",
            "movntps [{target} + 32], {c}",
            "movntps [{target} + 48], {d}",
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            source = in(reg) source,
            target = in(reg) target,
            options(nostack, preserves_flags)
        );
    }
}

/// Writes unchanging bytes to memory that other threads may be reading and writing.
///
/// # Safety
/// `target` must be valid for writes of as many bytes, and they must not overlap.
#[inline]
pub(crate) unsafe fn put(bytes: &[u8], target: *mut u8) {
    // SAFETY: a slice is valid for reads; the caller guarantees the other requirements.
    unsafe { copy_in(bytes.as_ptr(), target, bytes.len()) };
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
copy_step!(copy_1, reg_byte, "mov {step}, byte ptr [{source}]", "mov byte ptr [{target}], {step}");
