//! Moments: which records were written before one.
//!
//! A segment is written from its front to its end, and its uses are numbered. So two things tell
//! the records before a moment from those after it: the next number, and how far the segments were
//! filled that were still written to.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Acquire;

use larder_region::layout::global;

use crate::error::Stuck;
use crate::process::op::Op;
use crate::segment::Segments;
use crate::segment::slot::Slot;

/// A moment in the history of all segments.
#[derive(Debug)]
pub(crate) struct Moment {
    /// Uses of segments with this sequence or a higher one began later.
    next_sequence: u64,
    /// How far the segments were filled that went on to be written to, by their sequence.
    filled: HashMap<u64, usize>,
}

impl Moment {
    /// True if a record was written before the moment, or while it was determined.
    pub(crate) fn is_after(&self, slot: Slot, sequence: u64) -> bool {
        sequence < self.next_sequence
            && self.filled.get(&sequence).is_none_or(|filled| slot.offset() < *filled)
    }
}

impl Segments {
    /// Determines the present moment. Every store that has ended is before it, and every store that
    /// begins later is after it. The caller holds neither group nor appender.
    ///
    /// Cost: claims each appender for a moment, and waits for the stores that write there.
    pub(crate) fn moment(&self, op: &Op<'_>) -> Result<Moment, Stuck> {
        // A segment gets its sequence, an appender and its records under the claim of the appender.
        // So a segment with a smaller sequence that no claimed appender shows from here on is full.
        let next_sequence = self.region().word(global::NEXT_SEQUENCE).load(Acquire);
        let mut filled = HashMap::new();
        self.claim_each_appender(op, |segment| {
            filled.insert(self.present_use(segment).sequence, self.filled(segment));
        })?;
        Ok(Moment { next_sequence, filled })
    }
}
