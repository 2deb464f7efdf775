//! Finds the readable and the unreadable records of a damaged log.
//!
//! Each record has its own checksum, which includes its address. The other records of a damaged
//! unit are therefore still verifiable. A lost record may have replaced, removed or flushed any
//! record before it in the log, so readable records may be out of date ([`Trust`]).

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::Range;

use zerocopy::IntoBytes;

use super::Findings;
use super::damage::{Damage, DamageKind};
use super::segments::Segment;
use crate::disk::{Directory, DiskError, PAGE_BYTES, Page, zeroed_pages};
use crate::format::{
    Address, CompressedItem, Delay, Item, KeyHasher, Mode, RECORD_HEADER_BYTES, Record,
    SEGMENT_BYTES, SEGMENT_PAGES, SegmentNumber, UNIT_HEADER_BYTES, Unit,
};
use crate::log::Extent;
use crate::store::catalog::{DraftCatalog, KeyBits, Location};
use crate::store::rebuild::snapshot::{self, Snapshot};
use crate::tier::Tier;

/// Whether a readable item is the newest one of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is the newest one: nothing after it is lost.
    Current,
    /// A lost record may have replaced or removed it.
    Doubtful,
}

/// The results of a salvage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// The readable content.
    pub findings: Findings,
    /// The number of damaged places.
    pub damages: u64,
    /// The number of unreadable bytes.
    pub lost_bytes: u64,
    /// The number of items that may be out of date.
    pub doubtful: u64,
    /// The number of keys whose newest record or its dictionary is damaged. Their older records
    /// are not shown.
    pub withheld: u64,
}

/// A part of a segment, as found by [`Reader::visit`].
pub(in crate::store) enum Seen<'a> {
    Record(Address, Record<'a>),
    /// A damaged record that probably belongs to this key.
    Broken(&'a [u8]),
    /// The records that follow, up to the next `Damage`, are valid records on these pages, which
    /// have no valid unit.
    Begin(Range<usize>),
    /// The void unit on this page has a flipped bit.
    FlippedVoid(usize),
    Damage {
        damage: Damage,
        /// The end of the last lost bytes, as stored.
        through: u64,
    },
}

/// Reads the complete log, skipping damage. Calls `report` with each damaged place. Calls `show`
/// with items that are not expired at `now_unix_secs` and not flushed by then, and that are the
/// newest readable ones of their key. Calls `progress` with the number of segments read so far and
/// their total. A store is read three times.
///
/// # Errors
///
/// [`DiskError`] if the disk fails to return the index of a cache.
pub fn salvage<D: Directory>(
    tier: &Tier<D>,
    now_unix_secs: u64,
    progress: &mut dyn FnMut(usize, usize),
    report: &mut dyn FnMut(&Damage),
    show: &mut dyn FnMut(&Item<'_>, Trust),
) -> Result<SalvageReport, DiskError> {
    let reader = Reader::new(tier);
    let mut found = SalvageReport::default();
    if tier.cut_bytes() > 0 {
        let (bytes, wrong) = (tier.cut_bytes(), DamageKind::CutOff);
        let damage = Damage { extent: Some(tier.log().extents()), at: None, bytes, wrong };
        found.damages += 1;
        found.lost_bytes += bytes;
        report(&damage);
    }
    if tier.is_manifest_flipped() {
        found.damages += 1;
        report(&Damage { extent: None, at: None, bytes: 0, wrong: DamageKind::Manifest });
    }
    for damaged in tier.damaged_dictionaries() {
        found.damages += 1;
        let wrong = DamageKind::Dictionary(damaged.clone());
        report(&Damage { extent: None, at: None, bytes: 0, wrong });
    }
    match tier.manifest().mode {
        Mode::Store => reader.store(now_unix_secs, progress, report, show, &mut found),
        Mode::Cache => reader.cache(now_unix_secs, progress, report, show, &mut found)?,
    }
    Ok(found)
}

/// Reads a damaged log.
pub(in crate::store) struct Reader<'a, D: Directory> {
    pub(super) tier: &'a Tier<D>,
    hasher: KeyHasher,
}

/// The newest readable record of each key.
struct Newest {
    draft: DraftCatalog,
    /// Keys whose newest record is damaged.
    withheld: HashSet<u128>,
    delay: Option<Delay>,
}

/// Records below this address, as stored, may be out of date.
#[derive(Clone, Copy, Default)]
pub(in crate::store) struct Doubt(pub(in crate::store) u64);

impl Doubt {
    /// Adds damage that is not inside a segment.
    pub(in crate::store) fn note(&mut self, damage: &Damage) {
        if damage.bytes > 0 {
            self.note_lost(damage.at.map_or(u64::MAX, Address::stored));
        }
    }

    /// Adds the segments that reclaim may have freed.
    pub(in crate::store) fn note_doubtful(&mut self, segments: &[Segment]) {
        for segment in segments.iter().filter(|segment| segment.is_doubtful) {
            self.note_lost(end_of(segment.number));
        }
    }

    /// Adds a loss that ends at this address, as stored.
    pub(in crate::store) fn note_lost(&mut self, through: u64) {
        self.0 = self.0.max(through);
    }

    fn of(self, at: Address) -> Trust {
        if at.stored() < self.0 { Trust::Doubtful } else { Trust::Current }
    }
}

/// The address after a segment, as stored.
pub(in crate::store) fn end_of(number: SegmentNumber) -> u64 {
    Address::new(number, 0).stored() + (SEGMENT_BYTES / 8) as u64
}

impl<'a, D: Directory> Reader<'a, D> {
    pub(in crate::store) fn new(tier: &'a Tier<D>) -> Self {
        Self { tier, hasher: KeyHasher::new(&tier.manifest().hash_key) }
    }

    fn store(
        &self,
        now_unix_secs: u64,
        progress: &mut dyn FnMut(usize, usize),
        report: &mut dyn FnMut(&Damage),
        show: &mut dyn FnMut(&Item<'_>, Trust),
        found: &mut SalvageReport,
    ) {
        let (mut pages, mut doubt) = (zeroed_pages(SEGMENT_PAGES), Doubt::default());
        if self.tier.cut_bytes() > 0 {
            // The missing part may have contained the newest segments.
            doubt.note_lost(u64::MAX);
        }
        let mut note = |damage: &Damage, found: &mut SalvageReport| {
            found.damages += 1;
            found.lost_bytes += damage.bytes;
            report(damage);
        };
        let segments = self.segments(&mut pages, &mut |damage| {
            doubt.note(&damage);
            note(&damage, found);
        });
        doubt.note_doubtful(&segments);
        let total = segments.len() * 3;
        let durable = self.durable(&segments, &mut pages, &mut |done| progress(done, total));
        let mut newest =
            Newest { draft: DraftCatalog::new(), withheld: HashSet::new(), delay: None };
        for (done, segment) in segments.iter().enumerate() {
            progress(segments.len() + done, total);
            newest.delay = segment.header.and_then(|header| header.delay).or(newest.delay);
            let end = self.visit(segment, durable, &mut pages, &mut |seen| match seen {
                Seen::Damage { damage, through, .. } => {
                    doubt.note_lost(through);
                    note(&damage, found);
                }
                seen => newest.note(&self.hasher, segment, &seen),
            });
            if let Some(cut) = end {
                found.findings.cut = Some(cut);
                for segment in &segments[done + 1..] {
                    // A start frees these segments, and must be able to read them first.
                    if let Some(error) = self.read(segment.extent, &mut pages) {
                        let (extent, at) = (Some(segment.extent), Address::new(segment.number, 0));
                        let wrong = DamageKind::Disk(error);
                        note(&Damage { extent, at: Some(at), bytes: 0, wrong }, found);
                    }
                }
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
                let trust = doubt.of(at);
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
        found: &mut SalvageReport,
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
            let segment = Segment::of(extent, number);
            self.visit(&segment, u64::MAX, &mut pages, &mut |seen| match seen {
                Seen::Damage { damage, .. } => {
                    found.damages += 1;
                    found.lost_bytes += damage.bytes;
                    report(&damage);
                }
                Seen::Record(at, record) => {
                    let location = Location::new(extent, at.offset());
                    let is_current = |filed| catalog.has(filed, location);
                    // The index has the newest record of each key.
                    let mut show =
                        |item: &Item<'_>, _: &mut SalvageReport| show(item, Trust::Current);
                    self.show(&record, is_current, now_unix_secs, found, &mut show);
                }
                Seen::Broken(_) | Seen::Begin(_) | Seen::FlippedVoid(_) => {}
            });
        }
        progress(total, total);
        Ok(())
    }

    fn show(
        &self,
        record: &Record<'_>,
        is_current: impl Fn(KeyBits) -> bool,
        now_unix_secs: u64,
        found: &mut SalvageReport,
        show: &mut dyn FnMut(&Item<'_>, &mut SalvageReport),
    ) {
        let is_current = KeyBits::of_record(&self.hasher, record).is_some_and(is_current);
        match record {
            Record::Item(item) if is_current => {
                found.findings.items += 1;
                found.findings.bytes += record.bytes() as u64;
                if item.deadline_unix_secs.is_none_or(|deadline| deadline > now_unix_secs) {
                    show(item, found);
                }
            }
            Record::Compressed(compressed) if is_current => {
                // Readers ignore a record that is valid except for its value.
                let Ok(value) = self.tier.dictionaries().value_of(compressed) else {
                    found.withheld += 1;
                    return;
                };
                let item = Item { value: &value, ..compressed.item };
                found.findings.items += 1;
                found.findings.bytes += record.bytes() as u64;
                if item.deadline_unix_secs.is_none_or(|deadline| deadline > now_unix_secs) {
                    show(&item, found);
                }
            }
            Record::Lost { .. } if is_current => found.findings.lost += 1,
            _ => found.findings.dead += 1,
        }
    }

    /// Reads a segment. Fills unreadable pages with zeros, and returns the error of the first one.
    pub(super) fn read(&self, extent: Extent, pages: &mut [Page]) -> Option<String> {
        let log = self.tier.log();
        log.segment(extent, pages).err()?;
        let mut first = None;
        for page in 0..SEGMENT_PAGES {
            if let Err(error) = log.read(extent, page, &mut pages[page..=page]) {
                pages[page].bytes_mut().fill(0);
                first.get_or_insert_with(|| error.to_string());
            }
        }
        first
    }

    /// Returns the address below which everything was durable, as stored.
    pub(in crate::store) fn durable(
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

    /// Calls `show` with the parts of a segment. Returns the end of the log if it is in this
    /// segment: the first page without a valid unit that was not known to be durable.
    pub(in crate::store) fn visit(
        &self,
        segment: &Segment,
        durable: u64,
        pages: &mut [Page],
        show: &mut dyn FnMut(Seen<'_>),
    ) -> Option<Address> {
        let failed = self.read(segment.extent, pages);
        let start = Address::new(segment.number, 0);
        let is_damaged = Cell::new(false);
        let mut note = |at, gaps: Gaps| {
            is_damaged.set(true);
            let wrong = failed.clone().map_or(DamageKind::Bytes, DamageKind::Disk);
            let (extent, bytes) = (Some(segment.extent), gaps.bytes);
            let through = if bytes == 0 { 0 } else { start.stored() + (gaps.end / 8) as u64 };
            let damage = Damage { extent, at: Some(at), bytes, wrong };
            Seen::Damage { damage, through }
        };
        let end = self.visit_units(segment.number, durable, pages, show, &mut note);
        if failed.is_some() && !is_damaged.get() {
            // The unreadable pages are not in use.
            show(note(start, Gaps { bytes: 0, end: 0 }));
        }
        end
    }

    fn visit_units(
        &self,
        number: SegmentNumber,
        durable: u64,
        pages: &[Page],
        show: &mut dyn FnMut(Seen<'_>),
        damage: &mut dyn FnMut(Address, Gaps) -> Seen<'static>,
    ) -> Option<Address> {
        let (seal, bytes) = (self.tier.log().seal(), pages.as_bytes());
        let unit = |page| Unit::read(seal, number, page, bytes).ok();
        let address = |page: usize| Address::new(number, page * PAGE_BYTES);
        let mut page = 1;
        while page < SEGMENT_PAGES {
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
            if address(page).stored() >= durable {
                return Some(address(page));
            }
            if Unit::is_flipped_void(seal, number, page, bytes) {
                show(Seen::FlippedVoid(page));
                show(damage(address(page), Gaps { bytes: 0, end: 0 }));
                break;
            }
            let end = (page + 1..SEGMENT_PAGES)
                .find(|page| unit(*page).is_some() || address(*page).stored() >= durable)
                .unwrap_or(SEGMENT_PAGES);
            show(Seen::Begin(page..end));
            let gaps = self.pick(number, &bytes[..end * PAGE_BYTES], page, show);
            show(damage(address(page), gaps));
            page = end;
        }
        None
    }

    /// Calls `show` with the valid records between a page without a valid unit and the end of
    /// `bytes`.
    fn pick(
        &self,
        number: SegmentNumber,
        bytes: &[u8],
        page: usize,
        show: &mut dyn FnMut(Seen<'_>),
    ) -> Gaps {
        let start = page * PAGE_BYTES;
        let (mut offset, mut behind) = (start + UNIT_HEADER_BYTES, start);
        let mut gaps = Gaps { bytes: 0, end: start };
        let mut effort = (bytes.len() - start) * EFFORT;
        // True directly after a valid record, where another record is expected.
        let mut is_expected = true;
        while offset + RECORD_HEADER_BYTES <= bytes.len() && effort > 0 {
            let rest = &bytes[offset..];
            let at = Address::new(number, offset);
            let decoded = Record::decode(rest).ok();
            effort = effort.saturating_sub(decoded.map_or(1, |record| record.bytes()));
            match decoded.map(|_| Record::read(self.tier.log().seal(), at, rest)) {
                Some(Ok(record)) => {
                    gaps.note(gap(bytes, number, start, behind..offset), offset);
                    show(Seen::Record(at, record));
                    offset += record.bytes();
                    (behind, is_expected) = (offset, true);
                    continue;
                }
                Some(Err(_)) if is_expected => {
                    if let Some(
                        Record::Item(Item { key, .. })
                        | Record::Compressed(CompressedItem { item: Item { key, .. }, .. })
                        | Record::Tombstone { key },
                    ) = decoded
                    {
                        show(Seen::Broken(key));
                    }
                }
                _ => {}
            }
            is_expected = false;
            offset += 8;
        }
        gaps.note(gap(bytes, number, start, behind..bytes.len()), bytes.len());
        gaps
    }
}

/// The gaps between valid records.
struct Gaps {
    bytes: u64,
    /// The offset in the segment at which the last gap ends.
    end: usize,
}

impl Gaps {
    fn note(&mut self, bytes: u64, end: usize) {
        if bytes > 0 {
            self.bytes += bytes;
            self.end = end;
        }
    }
}

/// Returns the number of bytes in use between two valid records. `start` is the start of their
/// pages in the segment. The zeros between a record and the end of its page do not count. Neither
/// does the header of a unit that begins with the second record.
fn gap(bytes: &[u8], number: SegmentNumber, start: usize, between: Range<usize>) -> u64 {
    let Range { start: from, end: to } = between;
    let page_end = from.next_multiple_of(PAGE_BYTES).min(to);
    let is_padded = from > start && bytes[from..page_end].iter().all(|byte| *byte == 0);
    let from = if is_padded { page_end } else { from };
    // A unit begins at `start`. At any other page there may be a unit header, or a part of a longer
    // record.
    let is_header = |at: usize| {
        let page = at / PAGE_BYTES;
        at == start || Unit::claimed(page, bytes) == Some(number)
    };
    let has_header = to % PAGE_BYTES == UNIT_HEADER_BYTES
        && to - from >= UNIT_HEADER_BYTES
        && is_header(to - UNIT_HEADER_BYTES);
    let to = if has_header { to - UNIT_HEADER_BYTES } else { to };
    (to - from) as u64
}

impl Newest {
    fn note(&mut self, hasher: &KeyHasher, segment: &Segment, seen: &Seen<'_>) {
        match seen {
            Seen::Record(
                at,
                record @ (Record::Item(_) | Record::Compressed(_) | Record::Lost { .. }),
            ) => {
                if let Record::Item(Item { key, .. })
                | Record::Compressed(CompressedItem { item: Item { key, .. }, .. })
                | Record::Lost { key, .. } = record
                {
                    self.withheld.remove(&hasher.identity(key));
                }
                let location = Location::new(segment.extent, at.offset());
                KeyBits::of_record(hasher, record).map(|filed| self.draft.put(filed, location));
            }
            Seen::Record(_, Record::Tombstone { key }) => {
                let identity = hasher.identity(key);
                self.withheld.remove(&identity);
                self.draft.take(KeyBits::of(identity));
            }
            Seen::Record(_, Record::Flush) => {
                (self.draft, self.delay) = (DraftCatalog::new(), None);
                self.withheld.clear();
            }
            Seen::Record(at, Record::Delay { due_unix_secs }) => {
                self.delay = Some(Delay { at: *at, due_unix_secs: *due_unix_secs });
            }
            Seen::Broken(key) => {
                let identity = hasher.identity(key);
                if self.draft.take(KeyBits::of(identity)).is_some() {
                    self.withheld.insert(identity);
                }
            }
            Seen::Record(_, Record::Void { .. })
            | Seen::Begin(_)
            | Seen::FlippedVoid(_)
            | Seen::Damage { .. } => {}
        }
    }
}

/// The maximum number of bytes that are decoded per byte of a damaged place. A value may contain
/// bytes that look like many overlapping records, and checking each of them would take too long.
const EFFORT: usize = 64;
