//! The appender: the end of the log in memory, called its *head*. Changes and reclaim append
//! records to it; the flusher thread takes the finished units and writes them. The *head lock* is
//! the lock of the appender. It orders all appends.

use std::collections::VecDeque;
use std::sync::Arc;

use zerocopy::IntoBytes;

use super::catalog::KeyBits;
use super::error::Refusal;
use super::space::cycle::Cycle;
use crate::disk::{PAGE_BYTES, Page};
use crate::format::{
    Address, Delay, KeyHash, Record, SEGMENT_BYTES, SEGMENT_PAGES, Seal, SegmentHeader,
    SegmentNumber, SummaryWriter, UNIT_HEADER_BYTES, UnitWriter,
};
use crate::log::Extent;
use crate::tier::Lease;

/// The unit is sealed when it reaches this length, in pages, even if more records follow.
const UNIT_PAGES: usize = 256;

/// A task for the flusher.
#[derive(Debug)]
pub(super) enum Job {
    /// Close the open segment, of which this is the summary, and begin a segment.
    Begin { extent: Extent, header: SegmentHeader, summary: Option<SummaryWriter> },
    /// Write a unit.
    Write(Arc<Vec<Page>>),
    /// Free a segment. All its live records were copied; the copies end at `judged`.
    GiveUp { extent: Extent, number: SegmentNumber, judged: Option<Address> },
}

/// The purpose of a record. Items must leave some extents for removals, so that clients can delete
/// from a full log. Both must leave some for copies: reclaim needs space for all live records of a
/// segment before it can free the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A new item.
    Item,
    /// A removal or a flush.
    Removal,
    /// A copy by reclaim.
    Copy,
}

impl Purpose {
    /// Returns how many ready extents this purpose must leave.
    fn leaves(self) -> usize {
        match self {
            Self::Item => 3,
            Self::Removal => 2,
            Self::Copy => 0,
        }
    }
}

/// The number of extents without items: those that items must leave, the open one, and one that is
/// being freed.
pub(super) const SPARE_EXTENTS: u32 = 5;

/// A unit that is not durable yet.
#[derive(Debug)]
struct PendingUnit {
    address: Address,
    pages: Arc<Vec<Page>>,
}

/// The segment to which records are appended.
#[derive(Debug)]
struct Open {
    extent: Extent,
    number: SegmentNumber,
    next_page: usize,
    /// `None` if the segment will have no summary.
    summary: Option<SummaryWriter>,
}

impl Open {
    /// Returns the page after the last one that a unit may cover if a record is added. The other
    /// pages are left for the summary and for the void unit before it.
    fn units_end_max(&self) -> usize {
        let left = self.summary.as_ref().map_or(0, |summary| summary.pages_with(1) + 1);
        SEGMENT_PAGES - left
    }

    /// Adds a record to the summary of the segment.
    fn summarize(&mut self, at: Address, record: &Record<'_>, filed: Option<KeyBits>) {
        let Some(summary) = &mut self.summary else { return };
        let identity = filed.map_or(0, KeyBits::identity);
        summary.push(at, record, |_| KeyHash { identity, index: 0 });
        // A summary does not have the keys of lost items.
        if summary.count() > SUMMARY_RECORDS_MAX || matches!(record, Record::Lost { .. }) {
            self.summary = None;
        }
    }
}

/// A segment with more records has no summary: it would use more than a thirteenth of the segment,
/// and reading the records of the segment takes little longer.
const SUMMARY_RECORDS_MAX: usize = 8192;

/// The head of the log.
#[derive(Debug)]
pub(super) struct Appender {
    seal: Seal,
    open: Option<Open>,
    /// The unit that is being filled.
    unit: Option<UnitWriter>,
    /// Units that are sealed but not durable, in the order of their addresses.
    pending: VecDeque<PendingUnit>,
    /// The tasks that the flusher has not taken yet, in the order in which it must execute them.
    jobs: VecDeque<Job>,
    /// The number of the last segment that was begun.
    last: Option<SegmentNumber>,
    /// The address of the last record.
    end: Option<Address>,
    /// The segment numbers that the manifest has reserved for this process.
    lease: Option<Lease>,
    /// The number of leased segment numbers that are left.
    leased: u64,
    /// Free extents whose space is allocated.
    ready: VecDeque<Extent>,
    /// Other free extents.
    free: VecDeque<Extent>,
    /// Segments with records, the oldest first. The open segment is the last.
    segments: VecDeque<(Extent, SegmentNumber)>,
    /// The delayed flush that is pending. The header of each new segment repeats it.
    delay: Option<Delay>,
    /// True if full segments end with a summary of their records.
    summarizes: bool,
    /// The file system is full: the other free extents cannot be allocated.
    is_disk_full: bool,
    /// The number of segments that reclaim has begun for its copies.
    begun_by_copies: u64,
    cycle: Cycle,
    /// The number of freed segments whose extents cannot be reused yet.
    given_up: usize,
    failure: Option<Arc<str>>,
}

impl Appender {
    /// Resumes the log after these segments.
    pub(super) fn new(
        seal: Seal,
        segments: VecDeque<(Extent, SegmentNumber)>,
        free: VecDeque<Extent>,
        delay: Option<Delay>,
        summarizes: bool,
    ) -> Self {
        Self {
            seal,
            open: None,
            unit: None,
            pending: VecDeque::new(),
            jobs: VecDeque::new(),
            last: segments.back().map(|(_, number)| *number),
            end: None,
            lease: None,
            leased: 0,
            ready: VecDeque::new(),
            free,
            segments,
            delay,
            summarizes,
            is_disk_full: false,
            begun_by_copies: 0,
            cycle: Cycle::default(),
            given_up: 0,
            failure: None,
        }
    }

    /// Appends a record. `filed` is the hash of its key, if it has one. Returns its position, and
    /// true if a new segment began for it.
    pub(super) fn append(
        &mut self,
        record: &Record<'_>,
        filed: Option<KeyBits>,
        share: Purpose,
        synced: Option<Address>,
        now_unix_secs: u64,
    ) -> Result<(Extent, Address, bool), Refusal> {
        if self.failure.is_some() {
            return Err(Refusal::Failed);
        }
        let pages = (UNIT_HEADER_BYTES + record.bytes()).div_ceil(PAGE_BYTES);
        if pages >= SEGMENT_PAGES {
            return Err(Refusal::TooLarge);
        }
        if self.ready.len() < share.leaves() {
            return Err(Refusal::Busy);
        }
        let mut begins = false;
        loop {
            if let Some((extent, at)) = self.push(record, filed, pages) {
                return Ok((extent, at, begins));
            }
            if self.unit.as_ref().is_some_and(|unit| !unit.is_empty()) {
                self.seal_unit(synced, now_unix_secs);
                continue;
            }
            self.unit = None;
            self.begin_segment(share)?;
            begins = true;
        }
    }

    /// Adds a record of this many pages to the unit. Returns `None` if the unit, or without a unit
    /// the segment, is full.
    fn push(
        &mut self,
        record: &Record<'_>,
        filed: Option<KeyBits>,
        pages: usize,
    ) -> Option<(Extent, Address)> {
        let open = self.open.as_mut().filter(|open| open.next_page < SEGMENT_PAGES)?;
        let begin =
            || UnitWriter::new(&self.seal, open.number, open.next_page, UNIT_PAGES.max(pages));
        let unit = self.unit.get_or_insert_with(begin);
        if open.next_page + unit.pages_with(record) > open.units_end_max() {
            if open.next_page > 1 || !unit.is_empty() {
                return None;
            }
            // A segment without space for both contains this record only.
            open.summary = None;
        }
        let at = unit.push(record)?;
        open.summarize(at, record, filed);
        self.end = Some(at);
        Some((open.extent, at))
    }

    /// Seals the unit. The next record begins on a new page.
    pub(super) fn seal_unit(&mut self, synced: Option<Address>, now_unix_secs: u64) {
        let Some(unit) = self.unit.take().filter(|unit| !unit.is_empty()) else { return };
        let Some(open) = &mut self.open else { return };
        let address = unit.address();
        // Rule: SealBeforeWrite
        let pages = Arc::new(unit.seal(synced, now_unix_secs));
        open.next_page += pages.len();
        self.jobs.push_back(Job::Write(Arc::clone(&pages)));
        self.pending.push_back(PendingUnit { address, pages });
    }

    fn begin_segment(&mut self, share: Purpose) -> Result<(), Refusal> {
        if self.ready.len() <= share.leaves() {
            return Err(Refusal::Busy);
        }
        // Rule: LeaseBeforeNumber
        let number = self.lease.as_mut().and_then(Iterator::next).ok_or(Refusal::Busy)?;
        let Some(extent) = self.ready.pop_front() else { return Err(Refusal::Busy) };
        self.leased -= 1;
        self.begun_by_copies += u64::from(share == Purpose::Copy);
        // Rule: HeadersRepeatDelay
        // Rule: HeaderAsBegun
        let header = SegmentHeader { number, previous: self.last, delay: self.delay };
        // The flusher closes the open segment before it begins the next one.
        let closed = self.open.take().filter(|open| open.next_page < SEGMENT_PAGES);
        let summary = closed.and_then(|open| open.summary);
        self.jobs.push_back(Job::Begin { extent, header, summary });
        let summary = self.summarizes.then(|| SummaryWriter::new(number));
        self.open = Some(Open { extent, number, next_page: 1, summary });
        self.last = Some(number);
        self.segments.push_back((extent, number));
        Ok(())
    }

    /// Calls `show` with a record that is not durable yet. Returns `None` if the record is durable
    /// or does not exist.
    pub(super) fn pending<T>(&self, at: Address, show: impl FnOnce(&Record<'_>) -> T) -> Option<T> {
        if let Some(unit) = &self.unit
            && at >= unit.address()
        {
            return unit.record(at).as_ref().map(show);
        }
        let behind = self.pending.partition_point(|pending| pending.address <= at);
        let pending = self.pending.get(behind.checked_sub(1)?)?;
        let within = (at.stored() - pending.address.stored()) as usize * 8;
        Record::decode(pending.pages.as_bytes().get(within..)?).ok().as_ref().map(show)
    }

    /// Takes the tasks of the flusher.
    pub(super) fn take_jobs(&mut self) -> VecDeque<Job> {
        std::mem::take(&mut self.jobs)
    }

    /// True if the flusher has tasks.
    pub(super) fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// True if there are records to write.
    pub(super) fn has_work(&self) -> bool {
        self.has_jobs() || self.unit.as_ref().is_some_and(|unit| !unit.is_empty())
    }

    /// Marks everything below the address as durable.
    pub(super) fn note_synced(&mut self, through: Option<Address>) {
        // Rule: BuffersUntilSynced
        while self.pending.front().is_some_and(|pending| Some(pending.address) < through) {
            self.pending.pop_front();
        }
    }

    /// Returns the memory of records that are not durable, in bytes.
    pub(super) fn dirty_bytes(&self) -> u64 {
        let open = self.unit.as_ref().map_or(0, UnitWriter::pages);
        let sealed: usize = self.pending.iter().map(|pending| pending.pages.len()).sum();
        ((open + sealed) * PAGE_BYTES) as u64
    }

    /// Frees a segment. The flusher does this after everything appended so far is durable.
    pub(super) fn give_up(
        &mut self,
        extent: Extent,
        number: SegmentNumber,
        synced: Option<Address>,
        now_unix_secs: u64,
    ) {
        self.seal_unit(synced, now_unix_secs);
        self.segments.retain(|segment| *segment != (extent, number));
        self.jobs.push_back(Job::GiveUp { extent, number, judged: self.end });
        self.given_up += 1;
    }

    /// Returns the oldest segment, and the number of the next one. Returns `None` if only the open
    /// segment is left.
    pub(super) fn oldest(&self) -> Option<(Extent, SegmentNumber, SegmentNumber)> {
        let (extent, number) = *self.segments.front()?;
        let (_, next) = *self.segments.get(1)?;
        Some((extent, number, next))
    }

    /// Returns the segments with records, the oldest first.
    pub(super) fn segments(&self) -> &VecDeque<(Extent, SegmentNumber)> {
        &self.segments
    }

    /// True if this segment will be reclaimed before `segments` others begin, given that reclaim
    /// keeps `wanted` extents free.
    pub(super) fn is_reclaimed_soon(
        &self,
        number: SegmentNumber,
        wanted: usize,
        segments: usize,
    ) -> bool {
        let before = self.segments.partition_point(|(_, other)| *other < number);
        self.free_soon() + before <= wanted + segments
    }

    /// Returns the address of the last record.
    pub(super) fn end(&self) -> Option<Address> {
        self.end
    }

    pub(super) fn leased(&self) -> u64 {
        self.leased
    }

    pub(super) fn renew_lease(&mut self, lease: Lease, count: u64) {
        (self.lease, self.leased) = (Some(lease), count);
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Returns the number of free extents, ready or not.
    pub(super) fn free(&self) -> usize {
        self.ready.len() + self.free.len()
    }

    /// Returns the number of extents that are available for segments, now or soon.
    pub(super) fn free_soon(&self) -> usize {
        let allocatable = if self.is_disk_full { 0 } else { self.free.len() };
        self.ready.len() + allocatable + self.given_up
    }

    /// Returns the number of allocated extents if the file system is full.
    pub(super) fn all_that_the_disk_gives(&self) -> Option<usize> {
        self.is_disk_full.then(|| self.segments.len() + self.ready.len() + self.given_up)
    }

    /// True if another extent can probably be allocated.
    pub(super) fn can_allocate(&self) -> bool {
        !self.is_disk_full && !self.free.is_empty()
    }

    /// Called before the oldest segment is reclaimed.
    pub(super) fn note_reclaim(&mut self, live_bytes: u64) {
        let waste = self.waste(live_bytes);
        self.cycle.note_begun(self.segments.len(), self.begun_by_copies, waste);
    }

    /// Called after the oldest segment was reclaimed.
    pub(super) fn note_reclaimed(&mut self, live_bytes: u64) {
        let waste = self.waste(live_bytes);
        self.cycle.note_reclaimed(self.begun_by_copies, waste);
    }

    /// True if another round of reclaim would only copy live records and gain no space.
    pub(super) fn is_reclaim_vain(&self, live_bytes: u64) -> bool {
        self.cycle.is_vain(self.waste(live_bytes))
    }

    /// Returns the length of dead records and padding in closed segments, in bytes.
    fn waste(&self, live_bytes: u64) -> u64 {
        let closed = self.segments.len().saturating_sub(1);
        ((closed * SEGMENT_BYTES) as u64).saturating_sub(live_bytes)
    }

    /// Makes the extents of freed segments available.
    pub(super) fn note_freed(&mut self, freed: Vec<Extent>) {
        self.given_up -= freed.len();
        self.ready.extend(freed);
    }

    /// Takes a free extent to allocate its space.
    pub(super) fn take_free(&mut self) -> Option<Extent> {
        self.free.pop_front()
    }

    /// Returns an extent that could not be allocated because the file system is full.
    pub(super) fn put_back(&mut self, extent: Extent) {
        self.free.push_back(extent);
        self.is_disk_full = true;
    }

    /// Adds an allocated extent: a segment can begin in it.
    pub(super) fn put_ready(&mut self, extent: Extent) {
        self.ready.push_back(extent);
        self.is_disk_full = false;
    }

    /// Takes the allocated extents that no segment uses, when the store stops.
    pub(super) fn take_ready(&mut self) -> VecDeque<Extent> {
        std::mem::take(&mut self.ready)
    }

    pub(super) fn delay(&self) -> Option<Delay> {
        self.delay
    }

    pub(super) fn set_delay(&mut self, delay: Option<Delay>) {
        self.delay = delay;
    }

    pub(super) fn failure(&self) -> Option<Arc<str>> {
        self.failure.clone()
    }

    /// Marks the log as failed. The first reason is kept.
    pub(super) fn fail(&mut self, reason: &str) {
        self.failure.get_or_insert_with(|| reason.into());
    }
}
