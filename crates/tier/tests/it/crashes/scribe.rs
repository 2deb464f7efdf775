//! A simple user of the flusher. It does in one thread what the engine does with many.

use std::collections::BTreeMap;

use larder_tier::disk::Directory;
use larder_tier::flusher::{FlushError, Flusher};
use larder_tier::format::{
    Address, Delay, Item, KeyHash, KeyHasher, Record, SEGMENT_PAGES, SegmentHeader, SegmentNumber,
    SummaryWriter,
};
use larder_tier::log::Extent;
use larder_tier::recovery::{Place, RecoveredLog};
use larder_tier::{Lease, Tier};

/// The time of all records.
pub(crate) const NOW: u64 = 1_790_000_000;

/// The maximum length of a unit, in pages.
const UNIT_PAGES: usize = 8;
/// The pages that are left for the summary of a segment, and for the void unit before it.
const SUMMARY_PAGES: usize = 4;

/// An item of the scribe: its position, and the number of its write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) place: Place,
    pub(crate) write: u32,
}

pub(crate) struct Scribe<D: Directory> {
    flusher: Flusher<D>,
    pub(crate) live: BTreeMap<u8, Live>,
    /// The segments in the order of their numbers.
    segments: Vec<(Extent, SegmentNumber)>,
    /// Extents that were freed but cannot be reused yet.
    erasing: Vec<Extent>,
    lease: Option<Lease>,
    last: Option<Place>,
    delay: Option<Delay>,
    hasher: KeyHasher,
    /// The summary of the open segment.
    summary: Option<SummaryWriter>,
    /// True if the next record begins a segment.
    begins: bool,
}

/// Returns the value of a write: its number, and a length that depends on it.
pub(crate) fn value_of(write: u32) -> Vec<u8> {
    let len = if write.is_multiple_of(13) { 9000 } else { write as usize % 300 };
    write.to_le_bytes().iter().copied().cycle().take(4 + len).collect()
}

impl<D: Directory> Scribe<D> {
    pub(crate) fn new(tier: Tier<D>, found: &RecoveredLog, live: BTreeMap<u8, Live>) -> Self {
        let hasher = KeyHasher::new(&tier.manifest().hash_key);
        Self {
            flusher: Flusher::new(tier),
            hasher,
            summary: None,
            live,
            segments: found.segments.clone(),
            erasing: Vec::new(),
            lease: None,
            last: None,
            delay: found.delay,
            begins: true,
        }
    }

    pub(crate) fn tier(&self) -> &Tier<D> {
        self.flusher.tier()
    }

    fn free_extents(&self) -> impl Iterator<Item = Extent> {
        let used = self.segments.iter().map(|(extent, _)| extent).chain(&self.erasing);
        let used: Vec<Extent> = used.copied().collect();
        (0..self.tier().manifest().extents).filter(move |extent| !used.contains(extent))
    }

    pub(crate) fn free(&self) -> usize {
        self.free_extents().count()
    }

    /// Returns the number of segments that could be reclaimed: all except the open one.
    pub(crate) fn reclaimable(&self) -> usize {
        self.segments.len().saturating_sub(1)
    }

    pub(crate) fn set(&mut self, key: u8, write: u32) -> Result<(), FlushError> {
        let value = value_of(write);
        let place = self.append(&Record::Item(Item {
            key: &[key],
            value: &value,
            flags: 0,
            version: u64::from(write),
            deadline_unix_secs: None,
            stale: false,
            token_sent: false,
            number: false,
        }))?;
        self.live.insert(key, Live { place, write });
        Ok(())
    }

    pub(crate) fn delete(&mut self, key: u8) -> Result<(), FlushError> {
        self.append(&Record::Tombstone { key: &[key] })?;
        self.live.remove(&key);
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), FlushError> {
        self.append(&Record::Flush)?;
        self.live.clear();
        self.delay = None;
        Ok(())
    }

    pub(crate) fn delay(&mut self, due_unix_secs: u64) -> Result<(), FlushError> {
        let place = self.append(&Record::Delay { due_unix_secs })?;
        self.delay = Some(Delay { at: place.at, due_unix_secs });
        Ok(())
    }

    fn append(&mut self, record: &Record<'_>) -> Result<Place, FlushError> {
        for _ in 0..3 {
            if self.begins || self.flusher.pages_left() < UNIT_PAGES + SUMMARY_PAGES {
                self.begin_segment()?;
            }
            if let Some(at) = self.flusher.push(record, UNIT_PAGES) {
                let place = Place { extent: self.segments.last().unwrap().0, at };
                self.last = Some(place);
                self.summarize(at, record);
                return Ok(place);
            }
            self.write()?;
        }
        unreachable!("a fresh unit has room for {record:?}")
    }

    fn summarize(&mut self, at: Address, record: &Record<'_>) {
        // After an error the flusher writes nothing, and gives the same addresses again.
        if !self.flusher.has_failed() {
            let hash = |key: &[u8]| KeyHash { identity: self.hasher.identity(key), index: 0 };
            self.summary.as_mut().unwrap().push(at, record, hash);
        }
    }

    fn begin_segment(&mut self) -> Result<(), FlushError> {
        let extent = self.free_extents().next().expect("the caller asks for room first");
        let number = self.next_number()?;
        let previous = self.segments.last().map(|(_, number)| *number);
        let header = SegmentHeader { number, previous, delay: self.delay };
        if let Some(summary) = self.summary.replace(SummaryWriter::new(number)) {
            self.flusher.summarize(summary);
        }
        self.flusher.begin_segment(extent, &header, NOW)?;
        self.segments.push((extent, number));
        self.begins = false;
        Ok(())
    }

    fn next_number(&mut self) -> Result<SegmentNumber, FlushError> {
        if let Some(number) = self.lease.as_mut().and_then(Lease::next) {
            return Ok(number);
        }
        let lease = self.lease.insert(self.flusher.lease(2)?);
        Ok(lease.next().unwrap())
    }

    /// Writes the open unit, and the summaries of closed segments.
    pub(crate) fn write(&mut self) -> Result<(), FlushError> {
        self.flusher.write(NOW)?;
        self.flusher.write_summaries(NOW).map(drop)
    }

    /// Closes the segment before it is full.
    pub(crate) fn shut(&mut self) {
        self.begins |= self.flusher.pages_left() < SEGMENT_PAGES - 1;
    }

    pub(crate) fn sync(&mut self) -> Result<(), FlushError> {
        self.write()?;
        let synced = self.flusher.sync()?;
        assert!(self.last.is_none_or(|last| synced.through > Some(last.at)), "{synced:?}");
        self.erasing.retain(|extent| !synced.freed.contains(extent));
        Ok(())
    }

    /// Copies the live records of the oldest segment to the head, and frees it.
    pub(crate) fn reclaim(&mut self) -> Result<(), FlushError> {
        let (extent, number) = self.segments[0];
        let inside = self.live.iter().filter(|(_, live)| live.place.at.number() == number);
        for (key, live) in inside.map(|(key, live)| (*key, *live)).collect::<Vec<_>>() {
            self.set(key, live.write)?;
        }
        self.write()?;
        let judged: Option<Address> = self.last.map(|last| last.at);
        let synced = self.flusher.give_up(extent, number, judged)?;
        self.erasing.retain(|extent| !synced.freed.contains(extent));
        self.erasing.push(extent);
        self.segments.remove(0);
        Ok(())
    }
}
