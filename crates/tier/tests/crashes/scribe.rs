//! A small writer of the log: what the engine does with many threads, in one.

use std::collections::BTreeMap;

use larder_tier::disk::{Directory, DiskError};
use larder_tier::format::{
    Address, Delay, Item, Record, SEGMENT_PAGES, SegmentHeader, SegmentNumber, UnitWriter,
};
use larder_tier::log::Extent;
use larder_tier::recovery::{Place, Recovered};
use larder_tier::{Lease, OpenError, Tier};

/// The time that all records are written at.
pub(crate) const NOW: u64 = 1_790_000_000;

/// Longest unit that the scribe writes, in pages.
const UNIT_PAGES: usize = 8;

/// An item of the scribe: where it lies, and which write it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) place: Place,
    pub(crate) write: u32,
}

struct Open {
    extent: Extent,
    number: SegmentNumber,
    next_page: usize,
    is_header_durable: bool,
}

pub(crate) struct Scribe<D: Directory> {
    pub(crate) tier: Tier<D>,
    pub(crate) live: BTreeMap<u8, Live>,
    /// The segments in the order of their numbers.
    segments: Vec<(Extent, SegmentNumber)>,
    lease: Option<Lease>,
    open: Option<Open>,
    unit: Option<UnitWriter>,
    synced_through: Option<Address>,
    delay: Option<Delay>,
}

/// The value that a write stores: its number and a length that follows from it.
pub(crate) fn value_of(write: u32) -> Vec<u8> {
    let len = if write.is_multiple_of(13) { 9000 } else { write as usize % 300 };
    write.to_le_bytes().iter().copied().cycle().take(4 + len).collect()
}

impl<D: Directory> Scribe<D> {
    pub(crate) fn new(tier: Tier<D>, found: &Recovered, live: BTreeMap<u8, Live>) -> Self {
        Self {
            tier,
            live,
            segments: found.segments.clone(),
            lease: None,
            open: None,
            unit: None,
            synced_through: None,
            delay: found.delay,
        }
    }

    fn free_extent(&self) -> Option<Extent> {
        let used = |extent: &Extent| self.segments.iter().any(|(used, _)| used == extent);
        (0..self.tier.manifest().extents).find(|extent| !used(extent))
    }

    /// Free extents beside the one that reclaim needs.
    pub(crate) fn free(&self) -> usize {
        self.tier.manifest().extents as usize - self.segments.len()
    }

    /// Segments that could be reclaimed.
    pub(crate) fn reclaimable(&self) -> usize {
        self.segments.len() - usize::from(self.open.is_some())
    }

    pub(crate) fn set(&mut self, key: u8, write: u32) -> Result<(), DiskError> {
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

    pub(crate) fn delete(&mut self, key: u8) -> Result<(), DiskError> {
        self.append(&Record::Tombstone { key: &[key] })?;
        self.live.remove(&key);
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), DiskError> {
        self.append(&Record::Flush)?;
        self.live.clear();
        self.delay = None;
        Ok(())
    }

    pub(crate) fn delay(&mut self, due_unix_secs: u64) -> Result<(), DiskError> {
        let place = self.append(&Record::Delay { due_unix_secs })?;
        self.delay = Some(Delay { at: place.at, due_unix_secs });
        Ok(())
    }

    fn append(&mut self, record: &Record<'_>) -> Result<Place, DiskError> {
        for _ in 0..3 {
            if let (Some(unit), Some(open)) = (&mut self.unit, &self.open)
                && let Some(at) = unit.push(record)
            {
                return Ok(Place { extent: open.extent, at });
            }
            self.write()?;
            self.begin_unit()?;
        }
        unreachable!("a fresh unit of a fresh segment has room for {record:?}")
    }

    fn begin_unit(&mut self) -> Result<(), DiskError> {
        if self.open.as_ref().is_some_and(|open| SEGMENT_PAGES - open.next_page < UNIT_PAGES) {
            self.shut()?;
        }
        if self.open.is_none() {
            self.begin_segment()?;
        }
        let open = self.open.as_ref().unwrap();
        let seal = self.tier.log().seal();
        self.unit = Some(UnitWriter::new(seal, open.number, open.next_page, UNIT_PAGES));
        Ok(())
    }

    fn begin_segment(&mut self) -> Result<(), DiskError> {
        let extent = self.free_extent().expect("the caller asks for room first");
        let number = self.next_number()?;
        let previous = self.segments.last().map(|(_, number)| *number);
        let header = SegmentHeader { number, previous, delay: self.delay };
        self.tier.log().begin(extent, &header)?;
        self.segments.push((extent, number));
        self.open = Some(Open { extent, number, next_page: 1, is_header_durable: false });
        Ok(())
    }

    fn next_number(&mut self) -> Result<SegmentNumber, DiskError> {
        if let Some(number) = self.lease.as_mut().and_then(Lease::next) {
            return Ok(number);
        }
        match self.tier.lease(2) {
            Ok(mut lease) => {
                let number = lease.next().unwrap();
                self.lease = Some(lease);
                Ok(number)
            }
            Err(OpenError::Disk(error)) => Err(error),
            Err(other) => panic!("a lease of two numbers: {other}"),
        }
    }

    /// Writes the open unit.
    pub(crate) fn write(&mut self) -> Result<(), DiskError> {
        let Some(unit) = self.unit.take().filter(|unit| !unit.is_empty()) else { return Ok(()) };
        let open = self.open.as_mut().unwrap();
        let pages = unit.seal(self.synced_through, NOW);
        self.tier.log().write(open.extent, open.next_page, &pages)?;
        open.next_page += pages.len();
        Ok(())
    }

    /// Ends the segment early. The next one is begun when this one's header is durable.
    pub(crate) fn shut(&mut self) -> Result<(), DiskError> {
        self.write()?;
        let Some(open) = self.open.take() else { return Ok(()) };
        if open.next_page < SEGMENT_PAGES {
            self.tier.log().shut(open.extent, open.number, open.next_page, NOW)?;
        }
        if !open.is_header_durable {
            self.tier.log().sync()?;
        }
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> Result<(), DiskError> {
        self.write()?;
        self.tier.log().sync()?;
        if let Some(open) = &mut self.open {
            open.is_header_durable = true;
            let offset = open.next_page * 4096;
            self.synced_through =
                (offset < SEGMENT_PAGES * 4096).then(|| Address::new(open.number, offset));
        }
        Ok(())
    }

    /// Moves what lives in the oldest segment to the head, and gives it up.
    pub(crate) fn reclaim(&mut self) -> Result<(), DiskError> {
        let (extent, number) = self.segments[0];
        let inside = self.live.iter().filter(|(_, live)| live.place.at.number() == number);
        for (key, live) in inside.map(|(key, live)| (*key, *live)).collect::<Vec<_>>() {
            self.set(key, live.write)?;
        }
        self.sync()?;
        self.tier.log().erase(extent, number)?;
        self.tier.log().sync()?;
        self.segments.remove(0);
        Ok(())
    }
}
