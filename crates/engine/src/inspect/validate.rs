//! Checks every invariant of a region, while no operation is in progress.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::engine::Engine;
use crate::index::find::Found;
use crate::index::group::Control;
use crate::segment::header::{Account, State};
use crate::segment::record::Header;
use crate::segment::slot::Slot;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

impl Broken {
    pub(crate) fn new(words: String) -> Self {
        Self(words)
    }
}

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(Broken(format!($($message)+)));
        }
    };
}

/// The items and bytes that the index reaches, for each segment.
#[derive(Default)]
pub(crate) struct Reached {
    accounts: HashMap<u32, Account>,
    locations: HashSet<u64>,
}

impl Reached {
    pub(crate) fn items(&self) -> u64 {
        self.accounts.values().map(|account| account.items).sum()
    }
}

impl Engine {
    /// Checks everything that must hold while no operation is in progress. Every slot names a
    /// complete record of its key in a live segment; it is in the right group, and only one slot
    /// names each item. Accounts equal the reachable content. Every segment and every overflow
    /// group is accounted for. The account of a segment in which a process died may be too high
    /// until a recount. This is for tests, fuzzers and inspection: it walks over the complete
    /// index.
    ///
    /// # Errors
    /// Describes the first broken invariant.
    pub fn validate(&self) -> Result<(), Broken> {
        let mut reached = Reached::default();
        let groups = self.index().groups();
        let mut overflow_groups = 0;
        for group in 0..groups {
            self.validate_group(group, groups)?;
            overflow_groups += self.index().chain(self.index().group_at(group)).count() as u64 - 1;
            let level =
                Control(self.region().word(self.index().group_at(group)).load(Acquire)).level();
            self.validate_items(group, level, &mut reached)?;
        }
        self.validate_segments(&reached)?;
        let all = u64::from(self.index().overflow_groups());
        let free = self.validate_overflow()?;
        ensure!(
            overflow_groups + free == all,
            "{overflow_groups} overflow groups are in chains and {free} are free, out of {all}"
        );
        Ok(())
    }

    /// Checks the counts of free overflow groups, and returns how many are free. A count that is
    /// too low hides a free group; a count that is too high costs a search.
    fn validate_overflow(&self) -> Result<u64, Broken> {
        let mut all = 0;
        for ordinal in 0..self.index().overflow_segments() {
            let (free, counted) =
                (self.index().walked_free(ordinal), self.index().counted_free(ordinal));
            ensure!(
                counted >= free,
                "{free} groups of overflow segment {ordinal} are free, {counted} count as free"
            );
            all += u64::from(free);
        }
        Ok(all)
    }

    fn validate_group(&self, group: u64, groups: u64) -> Result<(), Broken> {
        let control = Control(self.region().word(self.index().group_at(group)).load(Acquire));
        let (level, half) = (groups.ilog2(), 1 << groups.ilog2());
        let is_split = group >= half || group < groups - half;
        let expected = if is_split { level + 1 } else { level };
        ensure!(
            control.level() == expected,
            "group {group} of {groups} has level {}, expected {expected}",
            control.level()
        );
        ensure!(control.owner() == 0, "group {group} is locked by {}", control.owner());
        Ok(())
    }

    /// Checks the records that the slots of a group name. `level` hash bits lead to the group.
    pub(crate) fn validate_items(
        &self,
        group: u64,
        level: u32,
        reached: &mut Reached,
    ) -> Result<(), Broken> {
        let mut keys = HashSet::new();
        for found in self.index().linked(group) {
            self.validate_item(group, level, &found, reached)?;
            let key = self.index().key(&found);
            ensure!(
                keys.insert(key.clone()),
                "group {group} names the key {} twice",
                key.escape_ascii()
            );
        }
        Ok(())
    }

    fn validate_item(
        &self,
        group: u64,
        level: u32,
        found: &Found,
        reached: &mut Reached,
    ) -> Result<(), Broken> {
        let slot = found.slot;
        self.validate_record(slot, found.header, found.sequence, reached)?;
        let hash = self.index().hash(&self.index().key(found));
        ensure!(
            slot.tag() == self.index().tag_of(hash),
            "the entry of {slot} has another tag than its key"
        );
        ensure!(
            hash & ((1 << level) - 1) == group,
            "{slot} is in group {group}, but its hash leads to another group"
        );
        if found.header.is_large() {
            let mut value_bytes = 0;
            for at in self.index().table(found) {
                let piece = self.index().named_by(at, self.index().slot(at));
                ensure!(piece.header.is_piece(), "{} of {slot} is not a piece", piece.slot);
                let named = self.region().word(piece.record_at + 8).load(Relaxed);
                ensure!(named == hash, "{} belongs to another item than {slot}", piece.slot);
                self.validate_record(piece.slot, piece.header, piece.sequence, reached)?;
                value_bytes += piece.header.value_bytes() as u64;
            }
            let told = self.region().word(found.record_at + found.header.value_at()).load(Relaxed);
            ensure!(
                told == value_bytes,
                "the table of {slot} claims {told} bytes, but the pieces have {value_bytes}"
            );
        }
        Ok(())
    }

    fn validate_record(
        &self,
        slot: Slot,
        header: Header,
        sequence: u64,
        reached: &mut Reached,
    ) -> Result<(), Broken> {
        let segment = slot.segment();
        ensure!(
            self.segments().segment_numbers().contains(&segment),
            "{slot} is in a segment that does not exist"
        );
        let state = self.segments().state(segment);
        ensure!(
            matches!(state, State::Active | State::Sealed | State::Emptying),
            "{slot} is in a segment that is {state}"
        );
        ensure!(
            sequence != 0 && slot.is_of(sequence),
            "{slot} does not belong to the current use of its segment, with sequence {sequence}"
        );
        let end = slot.offset() + header.record_bytes();
        ensure!(
            end <= self.segments().filled(segment),
            "{slot} ends at {end}, beyond the filled part of its segment"
        );
        ensure!(reached.locations.insert(slot.location()), "{slot} is named twice");
        reached.accounts.entry(segment).or_default().add(Account::of(header));
        Ok(())
    }

    fn validate_segments(&self, reached: &Reached) -> Result<(), Broken> {
        let mut free = 0;
        for segment in self.segments().segment_numbers() {
            let state = self.segments().state(segment);
            free += u64::from(state == State::Free);
            ensure!(
                !matches!(state, State::Reserved | State::Emptying),
                "segment {segment} is still {state}"
            );
            let owner = self.segments().segment_owner(segment);
            ensure!(owner == 0, "segment {segment} is taken by thread slot {owner}");
            if matches!(state, State::Active | State::Sealed) {
                let counted = self.segments().account(segment);
                let account = reached.accounts.get(&segment).copied().unwrap_or_default();
                let is_right = match self.segments().is_suspect(segment) {
                    true => counted.items >= account.items && counted.bytes >= account.bytes,
                    false => counted == account,
                };
                ensure!(
                    is_right,
                    "segment {segment} counts {counted}, but the index reaches {account}"
                );
                self.reclaimer().records(segment).for_each(drop);
            }
        }
        let (all, in_use) =
            (self.region().layout().segments as u64, self.segments().segments_in_use());
        ensure!(free + in_use == all, "{free} segments of {all} are free, {in_use} count as used");
        Ok(())
    }
}
