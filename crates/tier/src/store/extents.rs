//! The extents: which segment is in each extent, and how much of it is live. A record is live if
//! the catalog points to it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::catalog::Location;
use crate::format::{Address, SegmentNumber};
use crate::log::Extent;

#[derive(Debug, Default)]
struct State {
    /// The segment's number; 0 if the extent is free.
    number: AtomicU64,
    /// The number of items that the catalog points to.
    live: AtomicU32,
    /// The number of items that were written, or that were live when they were last counted.
    items: AtomicU32,
    /// The length of their records, in bytes.
    bytes: AtomicU32,
    /// The earliest deadline of its items, as a Unix time. 0 if it is unknown, the maximum if no
    /// item expires.
    expires: AtomicU64,
}

/// The counted live items of an extent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LiveItems {
    pub(super) items: u32,
    /// The length of their records, in bytes.
    pub(super) bytes: u32,
}

/// The state of all extents.
#[derive(Debug)]
pub(super) struct Extents {
    states: Box<[State]>,
    /// The locations of records of lost items.
    lost: Mutex<BTreeSet<Location>>,
    /// The number of lost items. It is usually 0, and changes then skip the search.
    lost_count: AtomicU64,
}

impl Extents {
    pub(super) fn new(count: u32) -> Self {
        let states = (0..count).map(|_| State::default()).collect();
        Self { states, lost: Mutex::default(), lost_count: AtomicU64::new(0) }
    }

    /// Returns the number of records of lost items.
    pub(super) fn lost_count(&self) -> u64 {
        self.lost_count.load(Relaxed)
    }

    /// Returns the locations of lost items.
    pub(super) fn lost(&self) -> Vec<Location> {
        self.lost_set().iter().copied().collect()
    }

    /// Adds the record of a lost item.
    pub(super) fn note_lost(&self, location: Location) {
        let mut lost = self.lost_set();
        lost.insert(location);
        self.lost_count.store(lost.len() as u64, Relaxed);
    }

    fn lost_set(&self) -> MutexGuard<'_, BTreeSet<Location>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of extents.
    pub(super) fn count(&self) -> u32 {
        self.states.len() as u32
    }

    /// Returns the address of a location, or `None` if its extent is free.
    pub(super) fn address(&self, location: Location) -> Option<Address> {
        let number = self.states[location.extent() as usize].number.load(Acquire);
        Some(Address::new(SegmentNumber::from_stored(number)?, location.offset()))
    }

    /// True if the extent contains this segment.
    pub(super) fn holds(&self, extent: Extent, number: SegmentNumber) -> bool {
        self.states[extent as usize].number.load(Acquire) == number.stored()
    }

    /// Records that a segment begins in an extent.
    pub(super) fn begin(&self, extent: Extent, number: SegmentNumber) {
        let state = &self.states[extent as usize];
        state.live.store(0, Relaxed);
        state.items.store(0, Relaxed);
        state.bytes.store(0, Relaxed);
        state.expires.store(u64::MAX, Relaxed);
        state.number.store(number.stored(), Release);
    }

    /// Restores the segment of an extent, with its number of items, their bytes, and the number of
    /// live items.
    pub(super) fn restore(&self, extent: Extent, number: SegmentNumber, counts: [u32; 3]) {
        let state = &self.states[extent as usize];
        state.items.store(counts[0], Relaxed);
        state.bytes.store(counts[1], Relaxed);
        state.live.store(counts[2], Relaxed);
        state.expires.store(0, Relaxed);
        state.number.store(number.stored(), Release);
    }

    /// Returns the number of items of an extent, their bytes, and the number of live items.
    pub(super) fn counts(&self, extent: Extent) -> [u32; 3] {
        let state = &self.states[extent as usize];
        [&state.items, &state.bytes, &state.live].map(|count| count.load(Relaxed))
    }

    /// True if the extent contains a segment.
    pub(super) fn is_used(&self, extent: Extent) -> bool {
        self.states.get(extent as usize).is_some_and(|state| state.number.load(Acquire) != 0)
    }

    /// Records that the catalog no longer points to items of an extent.
    pub(super) fn note_extent_dead(&self, extent: Extent) {
        self.states[extent as usize].live.store(0, Relaxed);
    }

    /// Marks an extent as free.
    pub(super) fn free(&self, extent: Extent) {
        self.states[extent as usize].number.store(0, Release);
    }

    /// Returns the segment in the extent, or `None` if the extent is free.
    pub(super) fn number(&self, extent: Extent) -> Option<SegmentNumber> {
        SegmentNumber::from_stored(self.states[extent as usize].number.load(Acquire))
    }

    /// Returns a lower bound of the deadlines of an extent's items, as a Unix time, or `None` if no
    /// item expires.
    pub(super) fn earliest_deadline(&self, extent: Extent) -> Option<u64> {
        Some(self.states[extent as usize].expires.load(Relaxed)).filter(|secs| *secs != u64::MAX)
    }

    /// Sets the earliest deadline of a closed extent after its items were read.
    pub(super) fn set_earliest_deadline(&self, extent: Extent, unix_secs: Option<u64>) {
        self.states[extent as usize].expires.store(unix_secs.unwrap_or(u64::MAX), Relaxed);
    }

    /// True if some of the counted items have died. The mean length of the others may then be
    /// different.
    pub(super) fn is_miscounted(&self, extent: Extent) -> bool {
        let state = &self.states[extent as usize];
        state.live.load(Relaxed) < state.items.load(Relaxed)
    }

    /// Sets the counts of a closed extent after its live items were counted.
    pub(super) fn set_counted(&self, extent: Extent, counted: LiveItems) {
        let state = &self.states[extent as usize];
        state.items.store(counted.items, Relaxed);
        state.bytes.store(counted.bytes, Relaxed);
    }

    /// Records that the catalog points to a new item or a new lost item in the extent: to a record
    /// with this length and this deadline.
    pub(super) fn note_named(&self, extent: Extent, bytes: usize, deadline_unix_secs: Option<u64>) {
        let state = &self.states[extent as usize];
        state.live.fetch_add(1, Relaxed);
        state.items.fetch_add(1, Relaxed);
        state.bytes.fetch_add(bytes as u32, Relaxed);
        if let Some(deadline) = deadline_unix_secs {
            state.expires.fetch_min(deadline, Relaxed);
        }
    }

    /// Records that the catalog no longer points to an item.
    pub(super) fn note_dead(&self, location: Location) {
        self.states[location.extent() as usize].live.fetch_sub(1, Relaxed);
        if self.lost_count() > 0 {
            let mut lost = self.lost_set();
            lost.remove(&location);
            self.lost_count.store(lost.len() as u64, Relaxed);
        }
    }

    /// Records that the catalog no longer points to any item.
    pub(super) fn note_all_dead(&self) {
        self.states.iter().for_each(|state| state.live.store(0, Relaxed));
        self.lost_set().clear();
        self.lost_count.store(0, Relaxed);
    }

    /// True if the catalog points to an item of the extent.
    pub(super) fn is_live(&self, extent: Extent) -> bool {
        self.states[extent as usize].live.load(Relaxed) > 0
    }

    /// Returns the mean length of an extent's records, in bytes.
    pub(super) fn mean_bytes(&self, extent: Extent) -> usize {
        let state = &self.states[extent as usize];
        (state.bytes.load(Relaxed) / state.items.load(Relaxed).max(1)) as usize
    }

    /// Returns the length of all live records, in bytes. It is estimated from the mean lengths.
    pub(super) fn live_bytes(&self) -> u64 {
        let live = |state: &State| {
            let items = u64::from(state.items.load(Relaxed).max(1));
            u64::from(state.live.load(Relaxed)) * u64::from(state.bytes.load(Relaxed)) / items
        };
        self.states.iter().map(live).sum()
    }
}
