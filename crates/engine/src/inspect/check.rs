//! Checks a region before a process works on it.
//!
//! A process that follows a damaged link may walk in a cycle, wait for an owner that does not
//! exist, or write past the end of a segment. The words that link one part of the region to another
//! are therefore checked once, when a process opens a region that no other process uses. They are
//! in the index, the segment headers and the appenders. Records are not checked. Unfinished work of
//! a killed process is not damage: `repair` finishes it afterwards.
//!
//! Cost: a load from each segment's header, and from one word of each group, for a bounded number
//! of groups. An operation that meets a damaged group beyond that bound fails or loses items of
//! that group, but it ends. `Inspection` checks all groups.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use larder_region::layout::{GROUP_BYTES, global};

use crate::engine::Engine;
use crate::index::chain::CHAIN_GROUPS_MAX;
use crate::index::group::Control;
use crate::segment::allocator::in_use;
use crate::segment::header::State;
use crate::segment::slot::TAG_BITS;
use crate::superblock::AttachError;

/// The number of groups that are checked when a region is opened: those of about 600,000 items. It
/// takes two milliseconds if the region's pages have to be mapped first.
const GROUPS_AT_OPENING_MAX: u64 = 1 << 16;

/// Returns an error that names a field and its value, if a condition is false.
macro_rules! ensure {
    ($condition:expr, $($field:tt)+) => {
        if !$condition {
            return Err(AttachError::Damaged(format!($($field)+)));
        }
    };
}

impl Engine {
    /// Checks all words that link one part of the region to another. The size of the region bounds
    /// the work, whatever the region contains. Concurrent changes by other processes may look
    /// inconsistent.
    ///
    /// # Errors
    /// [`AttachError::Damaged`] names the first impossible field.
    pub fn check_words(&self) -> Result<(), AttachError> {
        self.check_words_of(u64::MAX)
    }

    /// Same as [`Self::check_words`], but limited to the time that a start may take: in a large
    /// index it checks only the first groups.
    pub(crate) fn check_words_at_opening(&self) -> Result<(), AttachError> {
        self.check_words_of(GROUPS_AT_OPENING_MAX)
    }

    fn check_words_of(&self, groups_max: u64) -> Result<(), AttachError> {
        self.check_global_words()?;
        self.check_segments()?;
        self.check_appenders()?;
        self.check_directories()?;
        self.check_groups(groups_max)
    }

    fn global(&self, at: usize) -> u64 {
        self.region().word(at).load(Acquire)
    }

    fn check_global_words(&self) -> Result<(), AttachError> {
        let segments = self.region().layout().segments as u64;
        let groups = self.global(global::GROUPS);
        let groups_min = 1 << self.index().first_level();
        let is_tag_enough = || groups.ilog2() - self.index().first_level() <= TAG_BITS;
        ensure!(
            groups >= groups_min && groups <= self.index().groups_max() && is_tag_enough(),
            "its number of groups is {groups}"
        );
        let overflow_groups = self.global(global::OVERFLOW_GROUPS);
        ensure!(
            overflow_groups == u64::from(self.index().overflow_groups())
                && overflow_groups.is_multiple_of(1 << self.index().group_shift()),
            "its number of overflow groups is {overflow_groups}"
        );
        let used = in_use(self.global(global::SEGMENTS_USED));
        // Each thread that died may have counted one segment without taking it.
        ensure!(
            used <= segments + self.region().layout().thread_slots as u64,
            "its number of segments in use is {used}"
        );
        let fresh = self.global(global::FRESH_SEGMENT);
        ensure!(fresh <= segments, "its first segment that has never been used is {fresh}");
        let limit = self.global(global::SEGMENTS_MAX);
        ensure!((1..=segments).contains(&limit), "its limit of segments is {limit}");
        let limit_bytes = self.global(global::MEMORY_LIMIT);
        ensure!(
            limit_bytes <= self.region().layout().capacity_bytes as u64,
            "its memory limit is {limit_bytes} bytes"
        );
        let next = self.global(global::NEXT_SEQUENCE);
        ensure!((1..1 << 63).contains(&next), "its next sequence is {next}");
        let flushed = self.global(global::FLUSH_SEQUENCE);
        ensure!(flushed <= next, "its flush sequence is {flushed}, and the next sequence {next}");
        for place in 0..global::EVICTORS_MAX {
            let owner = self.global(global::EVICTORS + 8 * place);
            ensure!(
                self.peers().may_own(owner),
                "an evictor place is held by thread slot {owner}, which no process owns"
            );
        }
        Ok(())
    }

    fn check_segments(&self) -> Result<(), AttachError> {
        let (next, fresh) = (self.global(global::NEXT_SEQUENCE), self.segments().used_segments());
        for segment in self.segments().segment_numbers() {
            let state = self.segments().state(segment);
            ensure!(
                self.segments().has_state(segment),
                "the state of segment {segment} is unknown"
            );
            let owner = self.segments().segment_owner(segment);
            ensure!(
                self.peers().may_own(owner),
                "segment {segment} is taken by thread slot {owner}, which no process owns"
            );
            ensure!(
                u64::from(segment) < fresh || state == State::Free || owner != 0,
                "segment {segment} is {}, but no segment from {fresh} on has been used",
                state.name()
            );
            if !matches!(state, State::Active | State::Sealed | State::Emptying) {
                continue;
            }
            let filled = self.segments().filled(segment);
            ensure!(
                filled <= self.region().segment_bytes() && filled.is_multiple_of(8),
                "segment {segment} is filled to {filled} bytes"
            );
            let sequence = self.segments().sequence(segment).load(Acquire);
            ensure!(sequence < next, "the sequence of segment {segment} is {sequence}");
            let ttl_class = self.segments().stream(segment).ttl_class;
            ensure!(
                (ttl_class as usize) < self.region().layout().ttl_classes,
                "the TTL class of segment {segment} is {ttl_class}"
            );
        }
        Ok(())
    }

    fn check_appenders(&self) -> Result<(), AttachError> {
        let mut named = vec![false; self.region().layout().segments];
        for (owner, segment) in self.segments().appender_words() {
            ensure!(
                self.peers().may_own(owner),
                "an appender is claimed by thread slot {owner}, which no process owns"
            );
            let Some(segment) = segment else {
                continue;
            };
            ensure!(
                self.segments().segment_numbers().contains(&segment),
                "an appender has segment {segment}, which does not exist"
            );
            let is_active = self.segments().state(segment) == State::Active || owner != 0;
            ensure!(
                is_active,
                "an appender has segment {segment}, which is {}",
                self.segments().state(segment).name()
            );
            ensure!(!named[segment as usize], "two appenders have segment {segment}");
            named[segment as usize] = true;
        }
        Ok(())
    }

    /// Checks that each used entry of a directory names a segment of the directory's kind, and that
    /// no other entry names the same segment.
    fn check_directories(&self) -> Result<(), AttachError> {
        let groups = self.global(global::GROUPS).div_ceil(1 << self.index().group_shift());
        let overflow = self.global(global::OVERFLOW_GROUPS) >> self.index().group_shift();
        let ghost = self.global(global::GHOST_ROWS) >> self.index().ghost_shift();
        let mut named = vec![false; self.region().layout().segments];
        for (name, at, places, state) in [
            ("groups", self.region().layout().groups_directory_at, groups, State::Index),
            (
                "overflow groups",
                self.region().layout().overflow_directory_at,
                overflow,
                State::Overflow,
            ),
            ("ghost rows", self.region().layout().ghost_directory_at, ghost, State::Ghost),
        ] {
            ensure!(
                places <= self.region().layout().segments as u64,
                "it has {places} segments of {name}"
            );
            for place in 0..places as usize {
                let segment = self.region().half(at + place * 4).load(Acquire).wrapping_sub(1);
                ensure!(
                    self.segments().segment_numbers().contains(&segment)
                        && self.segments().state(segment) == state,
                    "entry {place} of the directory of {name} names segment {segment}"
                );
                ensure!(!named[segment as usize], "segment {segment} is in the directories twice");
                named[segment as usize] = true;
            }
        }
        Ok(())
    }

    fn check_groups(&self, groups_max: u64) -> Result<(), AttachError> {
        let groups = self.global(global::GROUPS);
        let per_segment = 1 << self.index().group_shift();
        let mut chained = vec![false; self.index().overflow_groups() as usize];
        let end = groups.min(groups_max);
        for first in (0..end).step_by(per_segment) {
            let part = first..end.min(first + per_segment as u64);
            self.check_groups_of_segment(part, groups, &mut chained)?;
        }
        for group in 0..chained.len().min(groups_max as usize) as u32 {
            let owner =
                Control(self.region().word(self.index().overflow_at(group)).load(Relaxed)).owner();
            ensure!(
                self.peers().may_own(owner),
                "overflow group {group} is taken by thread slot {owner}, which no process owns"
            );
        }
        Ok(())
    }

    /// Checks the groups of one segment.
    fn check_groups_of_segment(
        &self,
        part: Range<u64>,
        groups: u64,
        chained: &mut [bool],
    ) -> Result<(), AttachError> {
        let (level, half) = (groups.ilog2(), 1 << groups.ilog2());
        let unsplit = groups - half..half;
        let first_at = self.index().group_at(part.start);
        for (group, at) in part.zip((first_at..).step_by(GROUP_BYTES)) {
            let control = Control(self.global(at));
            let right = level + u32::from(!unsplit.contains(&group));
            // The common case: the group is neither locked nor followed by overflow groups.
            if control.without_version() == Control::new(right) {
                continue;
            }
            // A process may have split the group and died before it raised the number of groups.
            let is_right =
                control.level() == right || group == unsplit.start && control.level() == level + 1;
            ensure!(is_right, "the level of group {group} is {}", control.level());
            let owner = control.owner();
            ensure!(
                self.peers().may_own(owner),
                "group {group} is locked by thread slot {owner}, which no process owns"
            );
            self.check_chain(group, control, chained)?;
        }
        Ok(())
    }

    /// Checks that the overflow groups of a group exist, are in use, and are in no other chain.
    fn check_chain(
        &self,
        group: u64,
        control: Control,
        chained: &mut [bool],
    ) -> Result<(), AttachError> {
        let (mut next, mut groups) = (control.overflow(), 1);
        while let Some(overflow) = next {
            groups += 1;
            ensure!(groups <= CHAIN_GROUPS_MAX, "the chain of group {group} is too long");
            let Some(is_chained) = chained.get_mut(overflow as usize) else {
                return Err(AttachError::Damaged(format!(
                    "group {group} has overflow group {overflow}, which does not exist"
                )));
            };
            ensure!(
                !std::mem::replace(is_chained, true),
                "group {group} leads to overflow group {overflow}, which is already in a chain"
            );
            let control = Control(self.global(self.index().overflow_at(overflow)));
            ensure!(control != Control::FREE, "group {group} leads to a free overflow group");
            next = control.overflow();
        }
        Ok(())
    }
}
