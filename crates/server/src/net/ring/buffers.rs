//! The buffers that the kernel receives into, of which some are lent.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering::Release};

use io_uring::types::BufRingEntry;

/// A buffer with what was received in it. Must be given back.
#[derive(Debug)]
pub(crate) struct Lent {
    pub(super) number: u16,
    pub(super) bytes: usize,
}

/// The buffers that the kernel receives into, in the order in which they were provided.
pub(super) struct Buffers {
    /// The list of those that the kernel may take, which it reads; the tail is in the first entry.
    pub(super) entries: NonNull<BufRingEntry>,
    bytes: NonNull<u8>,
    tail: u16,
    pub(super) is_leaked: bool,
}

// SAFETY: it owns its memory, which nothing else points to but the kernel.
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

    /// Where a buffer begins.
    fn at(&self, number: u16) -> NonNull<u8> {
        let offset = usize::from(number % BUFFERS) * BUFFER_STRIDE;
        // SAFETY: the memory is `BUFFERS` strides long.
        unsafe { self.bytes.add(offset) }
    }

    pub(super) fn bytes(&self, lent: &Lent) -> &[u8] {
        // SAFETY: the buffer has `BUFFER_BYTES` bytes, initialised from the start. Until the `Lent`, of which there is
        // one for each time that the kernel has handed the buffer out, is given back the kernel does not write to it.
        unsafe { std::slice::from_raw_parts(self.at(lent.number).as_ptr(), lent.bytes) }
    }

    /// Puts a buffer at the end of the list.
    pub(super) fn provide(&mut self, number: u16) {
        let at = usize::from(self.tail % BUFFERS);
        // SAFETY: the list has `BUFFERS` entries. The kernel reads this one after the tail has passed it, below; the
        // entry's last two bytes, which are the tail in the first one, are not touched.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(at);
            entry.set_addr(self.at(number).as_ptr() as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(number);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is a half word of the list, aligned, that the kernel only reads.
        let tail = unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail)
        };
        // The kernel, which sees the tail, sees the entry.
        tail.store(self.tail, Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if !self.is_leaked {
            // SAFETY: they were allocated with these layouts. The ring is dropped before them, or is done with all of
            // its receives: nobody uses them any more.
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

const PAGE_BYTES: usize = 4096;
const ENTRIES_LAYOUT: Layout = layout(BUFFERS as usize * size_of::<BufRingEntry>());
const BYTES_LAYOUT: Layout = layout(BUFFERS as usize * BUFFER_STRIDE);

const fn layout(bytes: usize) -> Layout {
    match Layout::from_size_align(bytes, PAGE_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a few pages"),
    }
}

/// How many there are: a power of two. Touched in turn, so that few stay in the processor's caches.
pub(crate) const BUFFERS: u16 = 128;

/// So much is received at once.
pub(crate) const BUFFER_BYTES: usize = 16 * 1024;

/// A line more than a buffer: that the beginnings of all of them, which is what small requests use, do not compete
/// for the same places in the caches.
const BUFFER_STRIDE: usize = BUFFER_BYTES + 64;
