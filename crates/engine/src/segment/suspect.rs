//! Suspects: segments whose accounts may be too high, and other counts that are due for a recount.

use std::sync::atomic::Ordering::{Relaxed, Release};

use larder_region::layout::global;

use crate::segment::Segments;
use crate::segment::header::SUSPECT;

/// The recounts that are due, in [`global::SUSPECTS`].
pub(crate) const ACCOUNTS: u64 = 1;

pub(crate) const SEGMENTS_IN_USE: u64 = 2;

pub(crate) const SLOTS: u64 = 4;

impl Segments {
    /// Marks a segment whose account may be too high for a recount.
    pub(crate) fn suspect(&self, segment: u32) {
        if self.segment_numbers().contains(&segment) {
            self.set_suspect(segment, true);
            self.region().word(global::SUSPECTS).fetch_or(ACCOUNTS, Release);
        }
    }

    /// True if the account of a segment may be too high.
    pub(crate) fn is_suspect(&self, segment: u32) -> bool {
        self.segment_field(segment, SUSPECT).load(Relaxed) != 0
    }

    pub(crate) fn set_suspect(&self, segment: u32, on: bool) {
        self.segment_field(segment, SUSPECT).store(u32::from(on), Relaxed);
    }
}
