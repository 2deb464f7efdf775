//! Makes a damaged log readable, and drops the records that may be out of date. A start does this
//! only if the user has accepted the loss
//! ([`Settings::accept_loss`](super::Settings::accept_loss)).
//!
//! A lost record may have replaced, removed or flushed any record before it in the log. Therefore
//! all records before the last lost one are dropped, and the others are kept:
//!
//! ```text
//! before  │ segment │ segment │ unit │ unit │ damage, with good records │ unit │ segment │
//! after   │    –    │    –    │ void record, records after the damage   │ unit │ segment │
//! ```
//!
//! The process may be killed at any instruction, and a power loss may happen at any write. The log
//! is then damaged as before, and the next attempt drops the same records. To guarantee this, kept
//! records keep their addresses, and the damage is repaired only after the dropped records are
//! gone.

use std::ops::Range;
use std::slice;

use crate::disk::{
    Directory, DiskError, File, PAGE_BYTES, Page, resize_pages, zeroed_page, zeroed_pages,
};
use crate::format::{
    Address, Delay, RECORD_HEADER_BYTES, Record, SEGMENT_PAGES, Seal, SegmentHeader, SegmentNumber,
    UnitWriter,
};
use crate::log::{Extent, HeaderError, Log};
use crate::recovery::{RecoveryError, find_summary};
use crate::store::inspect::damage::Damage;
use crate::store::inspect::newest_stamp;
use crate::store::inspect::salvage::{Doubt, Reader, SalvageReport, Seen, end_of, salvage};
use crate::store::inspect::segments::Segment;
use crate::tier::Tier;

/// Repairs the log of a store. Reports each damaged place. Returns the accepted loss, or `None` if
/// the log is not damaged.
///
/// Cost: reads the log six times.
///
/// # Errors
///
/// [`RecoveryError::Disk`], and [`RecoveryError::Header`] if the log belongs to another directory.
pub(super) fn accept<D: Directory>(
    tier: &mut Tier<D>,
    now_unix_secs: u64,
    progress: &mut dyn FnMut(usize, usize),
    report: &dyn Fn(&Damage),
) -> Result<Option<AcceptedLoss>, RecoveryError> {
    // After a failed sync the kernel's page cache may contain pages that the disk lacks.
    tier.log().drop_cached()?;
    for extent in 0..tier.log().extents() {
        let header = match tier.log().header(extent) {
            Err(foreign @ HeaderError::Foreign { .. }) => return Err(foreign.into()),
            Err(_) => tier.log().flipped_header(extent).flatten(),
            Ok(header) => header,
        };
        let newer = header.filter(|header| Some(header.number) > tier.manifest().lease);
        if let Some(SegmentHeader { number, .. }) = newer {
            return Err(RecoveryError::OlderManifest { number });
        }
    }
    let mut report = |damage: &Damage| report(damage);
    let found = salvage(tier, now_unix_secs, progress, &mut report, &mut |_, _| ())?;
    if found.damages == 0 {
        return Ok(None);
    }
    let delay = mend(tier)?;
    Ok(Some(AcceptedLoss { found, delay }))
}

/// An accepted loss.
pub(super) struct AcceptedLoss {
    pub(super) found: SalvageReport,
    /// The pending delayed flush, if no segment is left to store it.
    pub(super) delay: Option<Delay>,
}

fn mend<D: Directory>(tier: &mut Tier<D>) -> Result<Option<Delay>, DiskError> {
    let stamp_unix_secs = newest_stamp(tier);
    let mut pages = zeroed_pages(SEGMENT_PAGES);
    let survey = Survey::of(tier, &mut pages);
    drop_doubtful(tier.log(), &survey)?;
    let keeps_none = survey.kept().next().is_none();
    if keeps_none {
        tier.forget_durable()?;
    }
    drop_summaries(tier.log(), &survey, &mut pages)?;
    let reader = Reader::new(tier);
    for place in survey.kept() {
        let PlacedSegment { segment, header } = place;
        if segment.is_header_damaged || segment.header.as_ref() != Some(header) {
            tier.log().begin(segment.extent, header)?;
        }
        overwrite_bad(tier.log(), segment.extent, &mut pages)?;
        let mut patches = Patches::new(tier.log().seal(), segment.number, survey.doubt);
        let mut shut = None;
        reader.visit(segment, survey.durable, &mut pages, &mut |seen| match seen {
            Seen::FlippedVoid(page) => shut = Some(page),
            seen => patches.note(&seen),
        });
        patches.write(tier.log(), segment.extent, stamp_unix_secs)?;
        if let Some(page) = shut {
            tier.log().shut(segment.extent, segment.number, page, stamp_unix_secs)?;
        }
    }
    tier.log().sync()?;
    // The units above the end prove what was durable, so they are erased after the damage is
    // repaired, in the same order as in recovery.
    for segment in survey.above.iter().rev() {
        tier.log().erase(segment.extent, segment.number)?;
        tier.log().sync()?;
    }
    erase_others(tier.log(), &survey)?;
    tier.log().sync()?;
    Ok(survey.delay.filter(|_| keeps_none))
}

/// A segment, and the header that it will have.
struct PlacedSegment {
    segment: Segment,
    header: SegmentHeader,
}

/// The content of a damaged log, and which part of it may be out of date.
struct Survey {
    /// The segments up to the end of the log.
    of_log: Vec<PlacedSegment>,
    /// The segments above the end of the log.
    above: Vec<Segment>,
    /// The delayed flush that is pending at the end.
    delay: Option<Delay>,
    /// Everything below this address, as stored, was durable.
    durable: u64,
    /// The records that may be out of date, which are dropped.
    doubt: Doubt,
}

impl Survey {
    fn of<D: Directory>(tier: &Tier<D>, pages: &mut [Page]) -> Self {
        let reader = Reader::new(tier);
        let mut doubt = Doubt::default();
        let mut segments = reader.segments(pages, &mut |damage| doubt.note(&damage));
        doubt.note_doubtful(&segments);
        let durable = reader.durable(&segments, pages, &mut |_| ());
        let (mut of_log, mut delay, mut previous) = (Vec::new(), None, None);
        for segment in &segments {
            delay = segment.header.map_or(delay, |header| header.delay);
            let header = SegmentHeader { number: segment.number, previous, delay };
            of_log.push(PlacedSegment {
                segment: *segment,
                header: segment.header.unwrap_or(header),
            });
            previous = Some(segment.number);
            let end = reader.visit(segment, durable, pages, &mut |seen| match seen {
                Seen::Damage { through, .. } => doubt.note_lost(through),
                seen => note_delay(&mut delay, &seen, u64::MAX),
            });
            if let Some(end) = end {
                if end.page() == 1 {
                    // Recovery frees this segment.
                    of_log.pop();
                }
                break;
            }
        }
        let above = segments.split_off(of_log.len());
        let mut survey = Self { of_log, above, delay, durable, doubt };
        survey.keep_delay(&reader, pages);
        survey
    }

    /// Stores the delayed flush that is pending where the doubtful records end, in the header of
    /// the segment that contains this point. Its own record may be one of the doubtful records,
    /// which are dropped.
    fn keep_delay<D: Directory>(&mut self, reader: &Reader<'_, D>, pages: &mut [Page]) {
        let doubt = self.doubt.0;
        let is_in_doubt = |place: &&mut PlacedSegment| {
            let number = place.segment.number;
            Address::new(number, 0).stored() < doubt && doubt < end_of(number)
        };
        let Some(place) = self.of_log.iter_mut().find(is_in_doubt) else { return };
        let mut delay = place.header.delay;
        reader.visit(&place.segment, self.durable, pages, &mut |seen| {
            note_delay(&mut delay, &seen, doubt);
        });
        place.header.delay = delay;
    }

    fn is_kept(&self, segment: &Segment) -> bool {
        end_of(segment.number) > self.doubt.0
    }

    fn kept(&self) -> impl Iterator<Item = &PlacedSegment> {
        self.of_log.iter().filter(|place| self.is_kept(&place.segment))
    }
}

/// Updates the pending delayed flush by the records below an address.
fn note_delay(delay: &mut Option<Delay>, seen: &Seen<'_>, below: u64) {
    match seen {
        Seen::Record(at, Record::Flush) if at.stored() < below => *delay = None,
        Seen::Record(at, Record::Delay { due_unix_secs }) if at.stored() < below => {
            *delay = Some(Delay { at: *at, due_unix_secs: *due_unix_secs });
        }
        _ => {}
    }
}

/// Frees the segments that may be out of date, durably. The last one is freed after the others: its
/// damage, or the gap after it, proves that they must be dropped.
fn drop_doubtful<F: File>(log: &Log<F>, survey: &Survey) -> Result<(), DiskError> {
    let dropped = survey.of_log.iter().map(|place| &place.segment);
    let mut dropped: Vec<_> = dropped.filter(|segment| !survey.is_kept(segment)).collect();
    let last = dropped.pop();
    for segments in [&dropped[..], last.as_slice()] {
        for segment in segments {
            log.erase(segment.extent, segment.number)?;
        }
        log.sync()?;
    }
    Ok(())
}

/// Overwrites the summaries of the kept segments, durably. Recovery would restore the records that
/// the repair drops from them.
fn drop_summaries<F: File>(
    log: &Log<F>,
    survey: &Survey,
    pages: &mut [Page],
) -> Result<(), DiskError> {
    for PlacedSegment { segment, .. } in survey.kept() {
        // Pages that cannot be read now may be readable at the next start.
        let found = find_summary(log, segment.extent, segment.number, 1, pages);
        if !matches!(found, Ok(None)) {
            log.write(segment.extent, SEGMENT_PAGES - 1, slice::from_ref(&*zeroed_page()))?;
        }
    }
    log.sync()
}

/// Overwrites unreadable pages with zeros. The device may then replace their sectors.
fn overwrite_bad<F: File>(
    log: &Log<F>,
    extent: Extent,
    pages: &mut [Page],
) -> Result<(), DiskError> {
    if log.segment(extent, pages).is_ok() {
        return Ok(());
    }
    for page in 1..SEGMENT_PAGES {
        if log.read(extent, page, &mut pages[..1]).is_err() {
            log.write(extent, page, slice::from_ref(&*zeroed_page()))?;
        }
    }
    Ok(())
}

/// Frees all extents that are not free and do not contain a kept segment.
fn erase_others<F: File>(log: &Log<F>, survey: &Survey) -> Result<(), DiskError> {
    let kept: Vec<Extent> = survey.kept().map(|place| place.segment.extent).collect();
    for extent in (0..log.extents()).filter(|extent| !kept.contains(extent)) {
        let number = match log.header(extent) {
            Ok(None) => continue,
            Ok(Some(header)) => header.number,
            Err(_) => SegmentNumber::FIRST,
        };
        log.erase(extent, number)?;
    }
    Ok(())
}

/// The units that replace the damage in a segment.
struct Patches<'s> {
    seal: &'s Seal,
    number: SegmentNumber,
    doubt: Doubt,
    units: Vec<Patch>,
    /// True if records are added to the last unit.
    is_open: bool,
}

struct Patch {
    pages: Range<usize>,
    unit: UnitWriter,
}

impl<'s> Patches<'s> {
    fn new(seal: &'s Seal, number: SegmentNumber, doubt: Doubt) -> Self {
        Self { seal, number, doubt, units: Vec::new(), is_open: false }
    }

    fn note(&mut self, seen: &Seen<'_>) {
        match seen {
            Seen::Begin(pages) => self.begin(pages.clone()),
            Seen::Record(at, record) if self.is_open && at.stored() >= self.doubt.0 => {
                self.push(*at, record);
            }
            Seen::Record(..) | Seen::Broken(_) | Seen::FlippedVoid(_) => {}
            Seen::Damage { .. } => self.is_open = false,
        }
    }

    fn begin(&mut self, mut pages: Range<usize>) {
        let stored = |page: usize| Address::new(self.number, 0).stored() + page_words(page);
        if stored(pages.end) < self.doubt.0 {
            // The unit that replaces the last lost record covers these pages.
            return;
        }
        if stored(pages.start) < self.doubt.0 {
            pages.start = 1;
        }
        let unit = UnitWriter::new(self.seal, self.number, pages.start, pages.len());
        self.units.push(Patch { pages, unit });
        self.is_open = true;
    }

    /// Adds a record at its address. A void record before it replaces lost and old ones.
    fn push(&mut self, at: Address, record: &Record<'_>) {
        let Some(Patch { unit, .. }) = self.units.last_mut() else { return };
        let Some(next) = unit.next_address() else { return };
        let bytes = at.offset() - next.offset();
        match bytes {
            0 => {}
            RECORD_HEADER_BYTES.. => drop(unit.push(&Record::Void { bytes })),
            // At least one lost record, or the header of a unit, is between two records.
            _ => return debug_assert!(false, "{bytes} bytes before {at} are not a record"),
        }
        let pushed = unit.push(record);
        debug_assert_eq!(pushed, Some(at), "a record keeps its address");
    }

    fn write<F: File>(
        self,
        log: &Log<F>,
        extent: Extent,
        stamp_unix_secs: u64,
    ) -> Result<(), DiskError> {
        for Patch { pages, unit } in self.units {
            let mut unit = unit.seal_over(pages.len(), None, stamp_unix_secs);
            resize_pages(&mut unit, pages.len());
            log.write(extent, pages.start, &unit)?;
        }
        Ok(())
    }
}

/// Converts pages to the units of an address.
fn page_words(page: usize) -> u64 {
    (page * PAGE_BYTES / 8) as u64
}
