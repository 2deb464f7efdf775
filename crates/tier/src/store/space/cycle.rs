//! A cycle of reclaim: one pass over all segments that the log has when the cycle begins. The pass
//! has gained space if its copies fill fewer segments than it has freed. After a cycle without
//! gain, reclaim can free nothing until more records die.

use crate::format::SEGMENT_BYTES;

/// The state of the current cycle, and the result of the last one. *Waste* is the length of dead
/// records and padding, in bytes.
#[derive(Debug, Default)]
pub(in crate::store) struct Cycle {
    /// The number of segments left in this cycle.
    left: usize,
    /// The number of segments reclaimed in this cycle.
    reclaimed: u64,
    /// The number of segments that copies had begun before this cycle.
    begun_before: u64,
    /// The waste when this cycle began.
    waste_before: u64,
    /// The waste at the end of a cycle that gained nothing.
    vain_at: Option<u64>,
}

impl Cycle {
    /// Called before one of `segments` segments is reclaimed. Copies have begun `begun` segments so
    /// far. `waste` is the length of dead records and padding, in bytes.
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

    /// Called after the segment was reclaimed.
    pub(in crate::store) fn note_reclaimed(&mut self, begun: u64, waste: u64) {
        self.left = self.left.saturating_sub(1);
        self.reclaimed += 1;
        let has_gained = begun - self.begun_before < self.reclaimed;
        if self.left == 0 && !has_gained && !is_more(waste, self.waste_before) {
            self.vain_at = Some(waste);
        }
    }

    /// True if another cycle would copy everything again: the last cycle gained nothing, and
    /// nothing has died since.
    pub(in crate::store) fn is_vain(&self, waste: u64) -> bool {
        self.vain_at.is_some_and(|vain_at| !is_more(waste, vain_at))
    }
}

/// True if the waste has grown so much that reclaim may free a segment: by half a segment, because
/// an item longer than half a segment may be the only live one in its segment.
fn is_more(waste: u64, before: u64) -> bool {
    waste >= before + SEGMENT_BYTES as u64 / 2
}
