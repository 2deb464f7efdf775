//! Reads and checks segments ahead of their processing, in several threads. Most disks read several
//! segments in parallel faster than one after the other.

use std::ops::{ControlFlow, Range};
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use zerocopy::IntoBytes;

use crate::disk::{DiskError, File, PAGE_BYTES, Page, zeroed_pages};
use crate::format::{SEGMENT_PAGES, SegmentHeader, SegmentNumber, Summary, SummaryFault, Unit};
use crate::log::{Extent, Log};

/// The maximum number of segments that are read or processed at the same time. Each needs 4 MiB of
/// memory.
const SEGMENTS_AT_ONCE: usize = 4;

/// The number of pages that are read first in search of a summary: the summary of a segment whose
/// records have a kilobyte.
const SUMMARY_PAGES: usize = 40;

/// The end of the units of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// The segment is full or was closed.
    Closed,
    /// The segment was closed by a void unit at this page, which has a flipped bit.
    FlippedVoid(usize),
    /// This page has no valid unit.
    Cut(usize),
}

/// A segment in memory, or only its summary.
pub(super) struct LoadedSegment {
    pages: Vec<Page>,
    /// The pages of the segment that contain its summary, if only these were read.
    summary: Option<Range<usize>>,
    /// The pages at which its valid units begin. The last one may be a void unit.
    units: Vec<usize>,
    end: End,
}

impl LoadedSegment {
    fn new() -> Self {
        let pages = zeroed_pages(SEGMENT_PAGES);
        Self { pages, summary: None, units: Vec::new(), end: End::Closed }
    }

    /// Reads the summary of a segment. If it has none, or `summaries` is false, reads the complete
    /// segment, and checks the checksums of its units.
    fn load<F: File>(
        &mut self,
        log: &Log<F>,
        extent: Extent,
        header: &SegmentHeader,
        summaries: bool,
    ) -> Result<(), DiskError> {
        self.summary = None;
        if summaries {
            let number = header.number;
            self.summary = find_summary(log, extent, number, SUMMARY_PAGES, &mut self.pages)?;
        }
        match self.summary {
            Some(_) => Ok(()),
            None => self.load_units(log, extent, header),
        }
    }

    fn load_units<F: File>(
        &mut self,
        log: &Log<F>,
        extent: Extent,
        header: &SegmentHeader,
    ) -> Result<(), DiskError> {
        log.segment(extent, &mut self.pages)?;
        let (bytes, number) = (self.pages.as_bytes(), header.number);
        self.units.clear();
        self.end = End::Closed;
        let mut page = 1;
        while page < SEGMENT_PAGES {
            let Ok(unit) = Unit::read(log.seal(), number, page, bytes) else {
                let is_flipped_void = Unit::is_flipped_void(log.seal(), number, page, bytes);
                self.end = if is_flipped_void { End::FlippedVoid(page) } else { End::Cut(page) };
                break;
            };
            self.units.push(page);
            // Rule: VoidShuts
            if unit.is_void {
                break;
            }
            page += unit.pages;
        }
        Ok(())
    }

    /// Returns the summary of the segment with this header, if it was read instead of the units.
    pub(super) fn summary(&self, header: &SegmentHeader) -> Option<Summary<'_>> {
        let bytes = self.pages[self.summary.clone()?].as_bytes();
        Summary::of_checked(header.number, bytes)
    }

    /// Iterates over the valid units of the segment with this header.
    pub(super) fn units(&self, header: &SegmentHeader) -> impl Iterator<Item = Unit<'_>> {
        let (bytes, number) = (self.pages.as_bytes(), header.number);
        self.units.iter().filter_map(move |page| Unit::of_checked(number, *page, bytes))
    }

    /// Returns the end of the units. A segment with a summary was closed.
    pub(super) fn end(&self) -> End {
        if self.summary.is_some() { End::Closed } else { self.end }
    }
}

/// Reads the summary of a segment into the last pages of `pages`. Returns these, or `None` if the
/// segment has no valid summary. Reads at first `count` pages.
pub(crate) fn find_summary<F: File>(
    log: &Log<F>,
    extent: Extent,
    number: SegmentNumber,
    mut count: usize,
    pages: &mut [Page],
) -> Result<Option<Range<usize>>, DiskError> {
    loop {
        let first = SEGMENT_PAGES - count;
        log.read(extent, first, &mut pages[first..])?;
        match Summary::read(log.seal(), number, pages[first..].as_bytes()) {
            Ok(_) => return Ok(Some(first..SEGMENT_PAGES)),
            Err(SummaryFault::Longer { bytes }) if bytes / PAGE_BYTES > count => {
                count = bytes / PAGE_BYTES;
            }
            Err(_) => return Ok(None),
        }
    }
}

/// Loads the segments, or their summaries if `summaries` is true. Calls `process` with each of
/// them, in order, until it returns [`ControlFlow::Break`].
pub(super) fn in_order<F: File, E: From<DiskError>>(
    log: &Log<F>,
    segments: &[(Extent, SegmentHeader)],
    summaries: bool,
    mut process: impl FnMut(usize, &LoadedSegment) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let threads = log.file().parallel_reads().min(SEGMENTS_AT_ONCE).min(segments.len());
    if threads <= 1 {
        let mut loaded = LoadedSegment::new();
        for (index, (extent, header)) in segments.iter().enumerate() {
            loaded.load(log, *extent, header, summaries)?;
            if process(index, &loaded)?.is_break() {
                break;
            }
        }
        return Ok(());
    }
    thread::scope(|scope| {
        let loader = |first| {
            let (to_caller, loaded) = sync_channel(1);
            let (processed, from_caller) = sync_channel(1);
            let mine = segments.iter().skip(first).step_by(threads);
            scope.spawn(move || load_all(log, mine, summaries, &to_caller, &from_caller));
            (loaded, processed)
        };
        let loaders: Vec<_> = (0..threads).map(loader).collect();
        for index in 0..segments.len() {
            let (loaded, processed) = &loaders[index % threads];
            // After a panic of the thread, the end of the scope continues the panic.
            let Ok((segment, read)) = loaded.recv() else { break };
            read?;
            if process(index, &segment)?.is_break() {
                break;
            }
            // The thread has ended if this was its last segment.
            let _ = processed.send(segment);
        }
        Ok(())
    })
}

/// Loads segments into a buffer that the receiver returns after processing, until the receiver
/// ends.
fn load_all<'s, F: File>(
    log: &Log<F>,
    segments: impl Iterator<Item = &'s (Extent, SegmentHeader)>,
    summaries: bool,
    to_caller: &SyncSender<(LoadedSegment, Result<(), DiskError>)>,
    from_caller: &Receiver<LoadedSegment>,
) {
    let mut loaded = LoadedSegment::new();
    for (extent, header) in segments {
        let read = loaded.load(log, *extent, header, summaries);
        if to_caller.send((loaded, read)).is_err() {
            return;
        }
        let Ok(processed) = from_caller.recv() else { return };
        loaded = processed;
    }
}

/// Calls `read` for each extent, in several threads. Returns the results in the order of the
/// extents, or the first error.
pub(super) fn for_extents<F: File, T: Send, E: Send>(
    log: &Log<F>,
    read: impl Fn(Extent) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let extents = log.extents();
    let threads = u32::try_from(log.file().parallel_reads()).unwrap_or(1).clamp(1, extents.max(1));
    let part = |nth: u32| {
        let at = |nth: u32| (u64::from(extents) * u64::from(nth) / u64::from(threads)) as u32;
        (at(nth)..at(nth + 1)).map(&read).collect::<Result<Vec<T>, E>>()
    };
    if threads == 1 {
        return part(0);
    }
    thread::scope(|scope| {
        let part = &part;
        let parts: Vec<_> = (0..threads).map(|nth| scope.spawn(move || part(nth))).collect();
        let mut all = Vec::with_capacity(extents as usize);
        for part in parts {
            all.extend(part.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(all)
    })
}
