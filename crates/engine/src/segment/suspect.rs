//! Suspects: segments whose accounts (the counts of their live items and bytes) may be too high
//! because a process died, and other counts that must then be recounted.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use larder_region::layout::global;

use crate::segment::Segments;
use crate::segment::header::SUSPECT;

/// The accounts of suspect segments must be recounted.
pub(crate) const ACCOUNTS: u64 = 1;
/// The number of segments in use must be recounted.
pub(crate) const SEGMENTS_IN_USE: u64 = 2;
/// The number of filled slots must be recounted.
pub(crate) const SLOTS: u64 = 4;

impl Segments {
    /// Notes that these recounts are due.
    pub(crate) fn call_for_recount(&self, which: u64) {
        self.region().word(global::SUSPECTS).fetch_or(which, Release);
    }

    /// Returns the recounts that are due, and clears the note.
    pub(crate) fn take_due_recounts(&self) -> u64 {
        self.region().word(global::SUSPECTS).swap(0, AcqRel)
    }

    /// Marks a segment for a recount because its account may be too high.
    pub(crate) fn suspect(&self, segment: u32) {
        if self.segment_numbers().contains(&segment) {
            self.set_suspect(segment, true);
            self.call_for_recount(ACCOUNTS);
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
