//! Moments: which records were written before a point in time.
//!
//! A segment is written from its front to its end, and its uses are numbered. A moment therefore
//! consists of two things: the sequence that the next use of a segment will have, and how far each
//! segment is filled that an appender is still writing to. A record was written before the moment
//! if its segment has a lower sequence and, in a segment that was still written to, if the record
//! is in the part that was filled.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Acquire;

use larder_region::layout::global;

use crate::error::Stuck;
use crate::process::op::Op;
use crate::segment::Segments;
use crate::segment::slot::Slot;

/// A point in the history of all segments.
#[derive(Debug)]
pub(crate) struct Moment {
    /// Uses with this sequence or a higher one began after the moment.
    next_sequence: u64,
    /// For each segment that an appender was still writing to at the moment: how far it was filled.
    /// The key is the segment's sequence.
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
    /// Determines the current moment. Every store that has ended is before it, and every store that
    /// begins later is after it. The caller holds neither group nor appender.
    ///
    /// Cost: claims each appender for a moment, which waits for the stores in progress.
    pub(crate) fn moment(&self, op: &Op<'_>) -> Result<Moment, Stuck> {
        // A thread gives a segment its sequence, attaches it to an appender and writes records to
        // it only while the thread holds the claim of that appender. So a segment with a smaller
        // sequence that is not found at any appender from here on is full.
        let next_sequence = self.region().word(global::NEXT_SEQUENCE).load(Acquire);
        let mut filled = HashMap::new();
        self.claim_each_appender(op, |segment| {
            filled.insert(self.present_use(segment).sequence, self.filled(segment));
        })?;
        Ok(Moment { next_sequence, filled })
    }
}
