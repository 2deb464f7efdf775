//! What can still be read of a damaged log, and what cannot.
//!
//! Each record has a checksum of its own, which belongs to its place: inside a damaged unit the
//! other records are good. What is lost may have replaced, removed or flushed what lies before it
//! in the log, so what is good may be out of date ([`Trust`]).

use std::collections::HashSet;
use std::fmt;

use zerocopy::IntoBytes;

use super::Findings;
use crate::disk::{Directory, DiskError, PAGE_BYTES, Page, zeroed_pages};
use crate::format::{
    Address, Delay, Item, KeyHasher, Mode, Record, SEGMENT_BYTES, SEGMENT_PAGES, SegmentHeader,
    SegmentNumber, UNIT_HEADER_BYTES, Unit,
};
use crate::log::{Extent, HeaderError};
use crate::store::catalog::{Draft, Filed, Location};
use crate::store::rebuild::snapshot::{self, Snapshot};
use crate::tier::Tier;

/// A damaged place of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The extent of the log's file that it is in; `None` if a segment is missing.
    pub extent: Option<Extent>,
    /// Where it begins in the log; `None` if that is not known.
    pub at: Option<Address>,
    /// How many bytes cannot be read, of those that held something.
    pub bytes: u64,
    /// What is wrong.
    pub wrong: Wrong,
}

/// What is wrong with a place of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The header of a segment, and none of its units tells which segment it is.
    Header,
    /// The header of a segment. Its units tell which one it is.
    HeaderAlone,
    /// A segment is not there, although later ones are.
    Missing {
        /// The segment before it, of those that are there.
        earlier: SegmentNumber,
    },
    /// Another extent holds the same segment.
    Twice,
    /// The log ends before it.
    CutOff,
    /// The bytes are not those that were written.
    Bytes,
    /// The disk does not return them.
    Disk(String),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.at, &self.extent) {
            (Some(at), Some(extent)) => {
                write!(f, "segment {} (extent {extent}), offset {}: ", at.number(), at.offset())?;
            }
            (Some(at), None) => write!(f, "before segment {}: ", at.number())?,
            (None, Some(extent)) => write!(f, "extent {extent}: ")?,
            (None, None) => {}
        }
        match &self.wrong {
            Wrong::Header => write!(f, "the header and all units are damaged")?,
            Wrong::HeaderAlone => write!(f, "the header is damaged, or in the wrong place")?,
            Wrong::Missing { earlier } => {
                write!(f, "what followed segment {earlier} is missing")?;
            }
            Wrong::Twice => write!(f, "another extent holds this segment, too")?,
            Wrong::CutOff => write!(f, "the log ends before it")?,
            Wrong::Bytes => write!(f, "the checksum is wrong")?,
            Wrong::Disk(error) => write!(f, "{error}")?,
        }
        match self.bytes {
            0 => write!(f, "; nothing in it is lost"),
            bytes => write!(f, "; {bytes} bytes cannot be read"),
        }
    }
}

/// Whether a readable item is the newest of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is: nothing behind it is lost.
    Current,
    /// What is lost may have replaced or removed it.
    Doubtful,
}

/// What a salvage has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// What can be read.
    pub findings: Findings,
    /// Damaged places.
    pub damages: u64,
    /// Bytes that cannot be read.
    pub lost_bytes: u64,
    /// Items that may be out of date.
    pub doubtful: u64,
    /// Keys whose newest record is damaged: an older one is not shown.
    pub withheld: u64,
}

/// A segment that can be read, at least in part.
#[derive(Clone, Copy)]
struct Segment {
    extent: Extent,
    number: SegmentNumber,
    /// `None` if it is damaged.
    header: Option<SegmentHeader>,
}

/// What lies in a segment.
enum Seen<'a> {
    Record(Address, Record<'a>),
    /// A record of this key, it seems, is damaged.
    Broken(&'a [u8]),
    Damage(Damage),
}

/// Reads a log from its begin to its end, past damage. `report` gets the damaged places, `show` the
/// items that are not expired at `now_unix_secs`, nor flushed by then, and the newest of their key
/// as far as can be known. Reports the segments that are read, and their number, to `progress`: a
/// store is read three times.
///
/// # Errors
///
/// [`DiskError`] if the index of a cache is not returned.
pub fn salvage<D: Directory>(
    tier: &Tier<D>,
    now_unix_secs: u64,
    progress: &mut dyn FnMut(usize, usize),
    report: &mut dyn FnMut(&Damage),
    show: &mut dyn FnMut(&Item<'_>, Trust),
) -> Result<Salvaged, DiskError> {
    let reader = Reader { tier, hasher: KeyHasher::new(&tier.manifest().hash_key) };
    let mut found = Salvaged::default();
    if tier.cut_bytes() > 0 {
        let (bytes, wrong) = (tier.cut_bytes(), Wrong::CutOff);
        let damage = Damage { extent: Some(tier.log().extents()), at: None, bytes, wrong };
        found.damages += 1;
        found.lost_bytes += bytes;
        report(&damage);
    }
    match tier.manifest().mode {
        Mode::Store => reader.store(now_unix_secs, progress, report, show, &mut found),
        Mode::Cache => reader.cache(now_unix_secs, progress, report, show, &mut found)?,
    }
    Ok(found)
}

struct Reader<'a, D: Directory> {
    tier: &'a Tier<D>,
    hasher: KeyHasher,
}

/// The newest readable record of each key.
struct Newest {
    draft: Draft,
    /// Keys whose newest record is damaged.
    withheld: HashSet<u128>,
    delay: Option<Delay>,
}

/// What may be out of date: what lies below an address.
#[derive(Clone, Copy, Default)]
struct Doubt(u64);

impl Doubt {
    fn note(&mut self, damage: &Damage) {
        let loses = damage.bytes > 0 || damage.wrong == Wrong::HeaderAlone;
        let below = damage.at.map_or(u64::MAX, Address::stored);
        self.0 = self.0.max(if loses { below } else { 0 });
    }

    fn of(self, segment: &Segment, at: Address) -> Trust {
        match at.stored() < self.0 || segment.header.is_none() {
            true => Trust::Doubtful,
            false => Trust::Current,
        }
    }
}

impl<D: Directory> Reader<'_, D> {
    fn store(
        &self,
        now_unix_secs: u64,
        progress: &mut dyn FnMut(usize, usize),
        report: &mut dyn FnMut(&Damage),
        show: &mut dyn FnMut(&Item<'_>, Trust),
        found: &mut Salvaged,
    ) {
        let (mut pages, mut doubt) = (zeroed_pages(SEGMENT_PAGES), Doubt::default());
        let mut note = |damage: &Damage, found: &mut Salvaged| {
            found.damages += 1;
            found.lost_bytes += damage.bytes;
            doubt.note(damage);
            report(damage);
        };
        let segments = self.segments(&mut pages, &mut |damage| note(&damage, found));
        let total = segments.len() * 3;
        let durable = self.durable(&segments, &mut pages, &mut |done| progress(done, total));
        let mut newest = Newest { draft: Draft::new(), withheld: HashSet::new(), delay: None };
        for (done, segment) in segments.iter().enumerate() {
            progress(segments.len() + done, total);
            newest.delay = segment.header.and_then(|header| header.delay).or(newest.delay);
            let end = self.visit(segment, durable, &mut pages, &mut |seen| match seen {
                Seen::Damage(damage) => note(&damage, found),
                seen => newest.note(&self.hasher, segment, &seen),
            });
            if let Some(cut) = end {
                found.findings.cut = Some(cut);
                break;
            }
        }
        let due_unix_secs = newest.delay.map(|delay| delay.due_unix_secs);
        if due_unix_secs.is_some_and(|due| due <= now_unix_secs) {
            newest.draft.clear();
            newest.withheld.clear();
        }
        found.findings.due_unix_secs = due_unix_secs;
        found.findings.segments = segments.len();
        found.withheld = newest.withheld.len() as u64;
        for (done, segment) in segments.iter().enumerate() {
            progress(segments.len() * 2 + done, total);
            let mut take = |seen: Seen<'_>| {
                let Seen::Record(at, record) = seen else { return };
                let location = Location::new(segment.extent, at.offset());
                let is_current = |filed| newest.draft.has(filed, location);
                let trust = doubt.of(segment, at);
                self.show(&record, is_current, now_unix_secs, found, &mut |item, found| {
                    found.doubtful += u64::from(trust == Trust::Doubtful);
                    show(item, trust);
                });
            };
            if self.visit(segment, durable, &mut pages, &mut take).is_some() {
                break;
            }
        }
        progress(total, total);
    }

    fn cache(
        &self,
        now_unix_secs: u64,
        progress: &mut dyn FnMut(usize, usize),
        report: &mut dyn FnMut(&Damage),
        show: &mut dyn FnMut(&Item<'_>, Trust),
        found: &mut Salvaged,
    ) -> Result<(), DiskError> {
        let snapshot = snapshot::read(self.tier, u64::MAX, &mut |_, _| ())?;
        let Some(Snapshot { header, catalog, segments, .. }) = snapshot else { return Ok(()) };
        found.findings.due_unix_secs = Some(header.due_unix_secs).filter(|due| *due != 0);
        if found.findings.due_unix_secs.is_some_and(|due| due <= now_unix_secs) {
            return Ok(());
        }
        let (mut pages, total) = (zeroed_pages(SEGMENT_PAGES), segments.len());
        found.findings.segments = total;
        for (done, (extent, number)) in segments.into_iter().enumerate() {
            progress(done, total);
            let segment = Segment { extent, number, header: None };
            self.visit(&segment, u64::MAX, &mut pages, &mut |seen| match seen {
                Seen::Damage(damage) => {
                    found.damages += 1;
                    found.lost_bytes += damage.bytes;
                    report(&damage);
                }
                Seen::Record(at, record) => {
                    let location = Location::new(extent, at.offset());
                    let is_current = |filed| catalog.has(filed, location);
                    // The index names the newest record of each key.
                    let mut show = |item: &Item<'_>, _: &mut Salvaged| show(item, Trust::Current);
                    self.show(&record, is_current, now_unix_secs, found, &mut show);
                }
                Seen::Broken(_) => {}
            });
        }
        progress(total, total);
        Ok(())
    }

    fn show(
        &self,
        record: &Record<'_>,
        is_current: impl Fn(Filed) -> bool,
        now_unix_secs: u64,
        found: &mut Salvaged,
        show: &mut dyn FnMut(&Item<'_>, &mut Salvaged),
    ) {
        match record {
            Record::Item(item) if is_current(Filed::of(self.hasher.identity(item.key))) => {
                found.findings.items += 1;
                found.findings.bytes += record.bytes() as u64;
                if item.deadline_unix_secs.is_none_or(|deadline| deadline > now_unix_secs) {
                    show(item, found);
                }
            }
            _ => found.findings.dead += 1,
        }
    }

    /// Reads a segment. Returns the first error of a page that the disk does not return: such pages
    /// are zero.
    fn read(&self, extent: Extent, pages: &mut [Page]) -> Option<String> {
        let log = self.tier.log();
        log.segment(extent, pages).err()?;
        let mut first = None;
        for page in 0..SEGMENT_PAGES {
            if let Err(error) = log.read(extent, page, &mut pages[page..=page]) {
                pages[page] = Page::ZERO;
                first.get_or_insert_with(|| error.to_string());
            }
        }
        first
    }

    /// The segments of the log in the order of their numbers.
    fn segments(&self, pages: &mut [Page], report: &mut dyn FnMut(Damage)) -> Vec<Segment> {
        let mut segments = Vec::new();
        for extent in 0..self.tier.log().extents() {
            let damage = |at, bytes, wrong| Damage { extent: Some(extent), at, bytes, wrong };
            match self.tier.log().header(extent) {
                Ok(Some(header)) => {
                    let (number, header) = (header.number, Some(header));
                    segments.push(Segment { extent, number, header });
                }
                Ok(None) if !self.is_blank(extent) => {}
                Err(HeaderError::Disk(error)) => {
                    report(damage(None, SEGMENT_BYTES as u64, Wrong::Disk(error.to_string())));
                }
                // A header of zeros is that of an extent that was never used.
                header => match self.number(extent, pages) {
                    Some(number) => segments.push(Segment { extent, number, header: None }),
                    None if header.is_ok() => {}
                    None => report(damage(None, SEGMENT_BYTES as u64, Wrong::Header)),
                },
            }
        }
        segments.sort_unstable_by_key(|segment| (segment.number, segment.header.is_none()));
        self.linked(segments, report)
    }

    /// Leaves out segments that are there twice, or were given up, and reports missing ones.
    fn linked(&self, all: Vec<Segment>, report: &mut dyn FnMut(Damage)) -> Vec<Segment> {
        let mut linked: Vec<Segment> = Vec::new();
        for (index, segment) in all.iter().enumerate() {
            let Segment { extent, number, header } = *segment;
            let at = Some(Address::new(number, 0));
            let damage = |bytes, wrong| Damage { extent: Some(extent), at, bytes, wrong };
            if linked.last().is_some_and(|earlier| earlier.number == number) {
                report(damage(0, Wrong::Twice));
                continue;
            }
            match (header, linked.last()) {
                (None, _) => {
                    report(damage(0, Wrong::HeaderAlone));
                    // If the next one says that another came before it, the extent was free: its
                    // units are of a segment that was given up.
                    let next = all[index + 1..].iter().find(|next| next.number != number);
                    let next = next.and_then(|next| next.header);
                    if next.is_none_or(|next| next.previous == Some(number)) {
                        linked.push(*segment);
                    }
                    continue;
                }
                (Some(header), Some(earlier)) if header.previous != Some(earlier.number) => {
                    let wrong = Wrong::Missing { earlier: earlier.number };
                    report(Damage { extent: None, at, bytes: SEGMENT_BYTES as u64, wrong });
                }
                _ => {}
            }
            linked.push(*segment);
        }
        let durable = self.tier.manifest().durable;
        if let (Some(durable), Some(last)) = (durable, linked.last())
            && durable.number() > last.number
        {
            let wrong = Wrong::Missing { earlier: last.number };
            let (at, bytes) = (Some(durable), SEGMENT_BYTES as u64);
            report(Damage { extent: None, at, bytes, wrong });
        }
        linked
    }

    fn is_blank(&self, extent: Extent) -> bool {
        let mut page = [Page::ZERO];
        self.tier.log().read(extent, 0, &mut page).is_ok() && page[0] == Page::ZERO
    }

    /// The segment that the units of an extent say they are of: the last one that used it.
    fn number(&self, extent: Extent, pages: &mut [Page]) -> Option<SegmentNumber> {
        self.read(extent, pages);
        let (seal, bytes) = (self.tier.log().seal(), pages.as_bytes());
        let number = |page| {
            let number = Unit::claimed(page, bytes)?;
            Unit::read(seal, number, page, bytes).ok().map(|_| number)
        };
        (1..SEGMENT_PAGES).filter_map(number).max()
    }

    /// The address below which everything was durable, as stored.
    fn durable(
        &self,
        segments: &[Segment],
        pages: &mut [Page],
        progress: &mut dyn FnMut(usize),
    ) -> u64 {
        let mut durable = self.tier.manifest().durable.map_or(0, Address::stored);
        for (done, segment) in segments.iter().enumerate() {
            progress(done);
            self.read(segment.extent, pages);
            for page in 1..SEGMENT_PAGES {
                let seal = self.tier.log().seal();
                let unit = Unit::read(seal, segment.number, page, pages.as_bytes());
                let through = unit.ok().and_then(|unit| unit.synced_through);
                durable = durable.max(through.map_or(0, Address::stored));
            }
        }
        durable
    }

    /// Shows what lies in a segment. Returns where the log ends, if it ends here: at the first
    /// place that no unit and no stop says was durable.
    fn visit(
        &self,
        segment: &Segment,
        durable: u64,
        pages: &mut [Page],
        show: &mut dyn FnMut(Seen<'_>),
    ) -> Option<Address> {
        let failed = self.read(segment.extent, pages);
        let (seal, bytes) = (self.tier.log().seal(), pages.as_bytes());
        let unit = |page| Unit::read(seal, segment.number, page, bytes).ok();
        let mut page = 1;
        while page < SEGMENT_PAGES {
            let at = Address::new(segment.number, page * PAGE_BYTES);
            if let Some(unit) = unit(page) {
                if unit.is_void {
                    break;
                }
                for record in unit.records().flatten() {
                    show(Seen::Record(record.0, record.1));
                }
                page += unit.pages;
                continue;
            }
            if at.stored() >= durable {
                return Some(at);
            }
            let end = (page + 1..SEGMENT_PAGES).find(|page| unit(*page).is_some());
            let end = end.unwrap_or(SEGMENT_PAGES);
            let lost = self.pick(segment.number, &bytes[..end * PAGE_BYTES], page, show);
            let wrong = failed.clone().map_or(Wrong::Bytes, Wrong::Disk);
            let (extent, at) = (Some(segment.extent), Some(at));
            show(Seen::Damage(Damage { extent, at, bytes: lost, wrong }));
            page = end;
        }
        None
    }

    /// Shows the good records from a page without a good unit on, to the end of `bytes`. Returns
    /// how many bytes are lost.
    fn pick(
        &self,
        number: SegmentNumber,
        bytes: &[u8],
        page: usize,
        show: &mut dyn FnMut(Seen<'_>),
    ) -> u64 {
        let start = page * PAGE_BYTES;
        let (mut offset, mut behind, mut lost) = (start + UNIT_HEADER_BYTES, start, 0);
        let mut effort = (bytes.len() - start) * EFFORT;
        // Where a record is expected: behind a good one.
        let mut is_expected = true;
        while offset + UNIT_HEADER_BYTES <= bytes.len() && effort > 0 {
            let rest = &bytes[offset..];
            let at = Address::new(number, offset);
            let decoded = Record::decode(rest).ok();
            effort = effort.saturating_sub(decoded.map_or(1, |record| record.bytes()));
            match decoded.map(|_| Record::read(self.tier.log().seal(), at, rest)) {
                Some(Ok(record)) => {
                    lost += gap(bytes, behind, offset, behind > start);
                    show(Seen::Record(at, record));
                    offset += record.bytes();
                    (behind, is_expected) = (offset, true);
                    continue;
                }
                Some(Err(_)) if is_expected => {
                    if let Some(Record::Item(Item { key, .. }) | Record::Tombstone { key }) =
                        decoded
                    {
                        show(Seen::Broken(key));
                    }
                }
                _ => {}
            }
            is_expected = false;
            offset += 8;
        }
        lost + gap(bytes, behind, bytes.len(), behind > start)
    }
}

/// How many bytes from `from` to `to` held something: not the zeros between a record and the end of
/// its page, nor the header of a unit before a record.
fn gap(bytes: &[u8], from: usize, to: usize, is_behind_record: bool) -> u64 {
    let page_end = from.next_multiple_of(PAGE_BYTES).min(to);
    let is_padded = is_behind_record && bytes[from..page_end].iter().all(|byte| *byte == 0);
    let from = if is_padded { page_end } else { from };
    let has_header = to % PAGE_BYTES == UNIT_HEADER_BYTES && to - from >= UNIT_HEADER_BYTES;
    let to = if has_header { to - UNIT_HEADER_BYTES } else { to };
    (to - from) as u64
}

impl Newest {
    fn note(&mut self, hasher: &KeyHasher, segment: &Segment, seen: &Seen<'_>) {
        match seen {
            Seen::Record(at, Record::Item(item)) => {
                let identity = hasher.identity(item.key);
                self.withheld.remove(&identity);
                let location = Location::new(segment.extent, at.offset());
                self.draft.put(Filed::of(identity), location);
            }
            Seen::Record(_, Record::Tombstone { key }) => {
                let identity = hasher.identity(key);
                self.withheld.remove(&identity);
                self.draft.take(Filed::of(identity));
            }
            Seen::Record(_, Record::Flush) => {
                (self.draft, self.delay) = (Draft::new(), None);
                self.withheld.clear();
            }
            Seen::Record(at, Record::Delay { due_unix_secs }) => {
                self.delay = Some(Delay { at: *at, due_unix_secs: *due_unix_secs });
            }
            Seen::Broken(key) => {
                let identity = hasher.identity(key);
                if self.draft.take(Filed::of(identity)).is_some() {
                    self.withheld.insert(identity);
                }
            }
            Seen::Record(_, Record::Void { .. }) | Seen::Damage(_) => {}
        }
    }
}

/// Bytes that are looked at for each byte of a damaged place: values may look like records.
const EFFORT: usize = 64;
