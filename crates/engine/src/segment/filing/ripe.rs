//! Ripe segments: compaction moves the live records of a ripe segment before any item is evicted.
//!
//! A compaction copies the live bytes of a segment and gains the dead ones. Records that clients
//! often replace die soon after they were written. A segment of such records is best left until
//! few of them are live. A segment of records that clients rarely replace loses little by waiting
//! longer, so it must be compacted while most of it is live. So the age of a segment decides how
//! many of its bytes may be live (Rosenblum and Ousterhout, "The design and implementation of a
//! log-structured file system", SOSP 1991):
//!
//! ```text
//! dead bytes · age  ≥  live bytes · number of segments / 5
//! ```
//!
//! The age is the number of uses of segments that began since, the segment's own included. While
//! all records are replaced equally often, each segment is as old as there are segments when it is
//! compacted, and up to five sixths of it may be live.

use std::sync::atomic::Ordering::Relaxed;

use larder_region::layout::global;

use crate::process::op::Op;
use crate::segment::Segments;
use crate::segment::filing::{SIXTEENTHS, Share};
use crate::segment::header::Use;

/// The part of the number of segments that a segment with as many dead bytes as live ones must
/// reach as its age: docs/decisions/0050 contains the measurement.
const AGE_PART: u64 = 5;

/// The share from which on a segment is never ripe. Each compaction gains at least an eighth of a
/// segment, so a store that needs a segment moves the records of at most seven.
const RIPE_SHARES_END: Share = SIXTEENTHS - 1;

/// Returns the age from which on a segment with this share is ripe.
fn ripe_age(share: Share, segments: u64) -> u64 {
    let dead = (SIXTEENTHS - share) as u64;
    // In a damaged region, the number of segments may be anything.
    segments.saturating_mul(share as u64).div_ceil(AGE_PART * dead)
}

/// Returns the number of uses that began from one sequence to another.
fn uses_between(sequence: u64, next: u64) -> u64 {
    // The lower half counts the uses and wraps around.
    u64::from((next as u32).wrapping_sub(sequence as u32))
}

impl Segments {
    /// Returns a ripe segment for which `is_wanted` returns true. Prefers the ones with the fewest
    /// live bytes.
    pub(crate) fn ripe(&self, op: &Op<'_>, is_wanted: impl Fn(Use) -> bool) -> Option<Use> {
        let next = self.region().word(global::NEXT_SEQUENCE).load(Relaxed);
        // Each search of a set looks at a limited number of members, and the first ones may be too
        // young. So the searches begin at different segments.
        let from = self.place_of(op.thread.index.wrapping_add(next as u32));
        (1..RIPE_SHARES_END).find_map(|share| {
            let age_min = ripe_age(share, self.segments_max());
            let is_ripe = |present: Use| uses_between(present.sequence, next) >= age_min;
            self.filed_with(share, from, op.now, is_ripe, &is_wanted)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_ripe_the_earlier_the_emptier_it_is() {
        let ages = [1, 4, 8, 12, 14].map(|share| ripe_age(share, 960 * 5));
        assert_eq!(ages, [64, 320, 960, 2880, 6720]);
        assert!((1..RIPE_SHARES_END).all(|share| ripe_age(share, 1) > 0));
    }

    #[test]
    fn the_age_is_right_after_the_count_of_uses_wraps_and_seconds_pass() {
        assert_eq!(uses_between(5 << 32 | 7, 9 << 32 | 17), 10);
        assert_eq!(uses_between(5 << 32 | 0xFFFF_FFFF, 6 << 32 | 4), 5);
    }
}
