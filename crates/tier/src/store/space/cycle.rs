//! A walk of reclaim over all segments: what it gains shows whether the log is full.

use crate::format::SEGMENT_BYTES;

/// What reclaim has gained on its way from the segment that was the oldest to the newest.
#[derive(Debug, Default)]
pub(in crate::store) struct Cycle {
    /// Segments that are left of it.
    left: usize,
    reclaimed: u64,
    /// Segments that copies had begun before it.
    begun_before: u64,
    waste_before: u64,
    /// The waste at the end of a walk that gained nothing.
    vain_at: Option<u64>,
}

impl Cycle {
    /// A segment is about to be reclaimed, of this many. Copies have begun `begun` so far; `waste`
    /// is what segments hold beside live records, in bytes.
    pub(in crate::store) fn note_begun(&mut self, segments: usize, begun: u64, waste: u64) {
        if self.left == 0 {
            *self = Self {
                left: segments,
                reclaimed: 0,
                begun_before: begun,
                waste_before: waste,
                vain_at: None,
            };
        }
    }

    /// The segment was reclaimed.
    pub(in crate::store) fn note_reclaimed(&mut self, begun: u64, waste: u64) {
        self.left = self.left.saturating_sub(1);
        self.reclaimed += 1;
        let has_gained = begun - self.begun_before < self.reclaimed;
        if self.left == 0 && !has_gained && !is_more(waste, self.waste_before) {
            self.vain_at = Some(waste);
        }
    }

    /// True if another walk would copy everything again: nothing has died since one gained nothing.
    pub(in crate::store) fn is_vain(&self, waste: u64) -> bool {
        self.vain_at.is_some_and(|vain_at| !is_more(waste, vain_at))
    }
}

/// True if so much has died that reclaim may free a segment: one item of a segment can be all of it
/// that lives, if it is longer than half of it.
fn is_more(waste: u64, before: u64) -> bool {
    waste >= before + SEGMENT_BYTES as u64 / 2
}
