//! The buffers of a ring into which the kernel receives. A connection that executes received bytes
//! borrows their buffer and returns it afterwards.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering::Release};

use io_uring::types::BufRingEntry;

/// A lent buffer with received bytes. The holder must return it.
#[derive(Debug)]
pub(crate) struct LentBuffer {
    /// The number of the buffer in the ring.
    pub(super) number: u16,
    /// How many bytes were received into it.
    pub(super) bytes: usize,
}

/// The buffers into which the kernel receives, in the order in which they were provided.
pub(super) struct Buffers {
    /// The list of buffers that the kernel may use. The kernel reads it; the tail is in the first
    /// entry.
    pub(super) entries: NonNull<BufRingEntry>,
    /// The memory of all buffers.
    bytes: NonNull<u8>,
    /// The number of buffers provided so far, modulo 2^16. The kernel reads a copy of it.
    tail: u16,
    /// True if the memory must never be freed, because the kernel may still write to it.
    pub(super) is_leaked: bool,
}

// SAFETY: it owns its memory, and only the kernel has another pointer to it.
unsafe impl Send for Buffers {}

impl Buffers {
    pub(super) fn new() -> Self {
        let mut buffers = Self {
            entries: zeroed(ENTRIES_LAYOUT).cast(),
            bytes: zeroed(BYTES_LAYOUT),
            tail: 0,
            is_leaked: false,
        };
        (0..BUFFERS).for_each(|number| buffers.provide(number));
        buffers
    }

    /// Returns the address of a buffer.
    fn at(&self, number: u16) -> NonNull<u8> {
        let offset = usize::from(number % BUFFERS) * BUFFER_STRIDE;
        // SAFETY: the memory is `BUFFERS` strides long.
        unsafe { self.bytes.add(offset) }
    }

    pub(super) fn bytes(&self, lent: &LentBuffer) -> &[u8] {
        // SAFETY: the buffer has `BUFFER_BYTES` bytes, initialised from the start. There is one
        // `LentBuffer` for each time the kernel hands the buffer out, and the kernel does not write
        // to the buffer until it is returned.
        unsafe { std::slice::from_raw_parts(self.at(lent.number).as_ptr(), lent.bytes) }
    }

    /// Appends a buffer to the list.
    pub(super) fn provide(&mut self, number: u16) {
        let at = usize::from(self.tail % BUFFERS);
        // SAFETY: the list has `BUFFERS` entries. The kernel reads this one only after the tail has
        // passed it, below. This code does not touch the entry's last two bytes, which are the tail
        // in the first entry.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(at);
            entry.set_addr(self.at(number).as_ptr() as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(number);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is an aligned half word of the list, and the kernel only reads it.
        let tail = unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail)
        };
        // Pairs with the kernel's acquire load of the tail: if the kernel reads the new tail, it
        // also reads the new entry.
        tail.store(self.tail, Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if !self.is_leaked {
            // SAFETY: both were allocated with these layouts. The ring is dropped before them, or
            // it has completed all of its receives, so nothing else uses them.
            unsafe {
                dealloc(self.entries.as_ptr().cast(), ENTRIES_LAYOUT);
                dealloc(self.bytes.as_ptr(), BYTES_LAYOUT);
            }
        }
    }
}

fn zeroed(layout: Layout) -> NonNull<u8> {
    // SAFETY: neither layout is empty.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// The largest page size of any kernel, because the kernel rejects a list that begins inside a
/// page. Kernels for arm64 have pages of up to 64 KiB.
const PAGE_BYTES: usize = if cfg!(target_arch = "x86_64") { 4096 } else { 64 << 10 };
const ENTRIES_LAYOUT: Layout = layout(BUFFERS as usize * size_of::<BufRingEntry>());
const BYTES_LAYOUT: Layout = layout(BUFFERS as usize * BUFFER_STRIDE);

const fn layout(bytes: usize) -> Layout {
    match Layout::from_size_align(bytes, PAGE_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a few pages"),
    }
}

/// Number of buffers, a power of two. The kernel uses them in turn, so few of them stay in the
/// processor's caches.
pub(crate) const BUFFERS: u16 = 128;

/// Length of a buffer, which is the maximum of one receive.
pub(crate) const BUFFER_BYTES: usize = 16 * 1024;

/// One cache line more than a buffer. Otherwise the beginnings of all buffers, which small requests
/// use, would compete for the same cache sets.
const BUFFER_STRIDE: usize = BUFFER_BYTES + 64;
