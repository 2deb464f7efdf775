//! The region as mapped by this process: its memory and its layout.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use larder_item::Second;
use larder_region::layout::global;
use larder_region::{Layout, Memory};

/// The memory of a cache, and the positions of its parts. All modules access memory through it.
#[derive(Debug)]
pub(crate) struct Region {
    memory: Memory,
    layout: Layout,
}

impl Region {
    pub(crate) fn new(memory: Memory, layout: Layout) -> Self {
        Self { memory, layout }
    }

    #[inline]
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    #[inline]
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the 64-bit word at an offset.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        self.memory.word(at)
    }

    /// Returns the 32-bit word at an offset.
    #[inline]
    pub(crate) fn half(&self, at: usize) -> &AtomicU32 {
        self.memory.half(at)
    }

    /// Returns the length of a segment in bytes.
    #[inline]
    pub(crate) fn segment_bytes(&self) -> usize {
        self.layout.segment_bytes
    }

    /// Returns the offset of a segment.
    #[inline]
    pub(crate) fn segment_at(&self, segment: u32) -> usize {
        self.layout.segment_at(segment)
    }

    /// Returns the current second of the region's clock.
    pub(crate) fn now(&self) -> Second {
        self.half(global::CLOCK).load(Relaxed)
    }

    /// Advances the region's clock; it never goes back.
    pub(crate) fn tick(&self, now: Second) {
        self.half(global::CLOCK).fetch_max(now, Relaxed);
    }
}
