//! Finds the segments of a damaged log.

use zerocopy::IntoBytes;

use super::damage::{Damage, Wrong};
use super::salvage::{Reader, end_of};
use crate::disk::{Directory, Page};
use crate::format::{Address, SEGMENT_BYTES, SEGMENT_PAGES, SegmentHeader, SegmentNumber, Unit};
use crate::log::{Extent, HeaderError};

/// A segment that is readable, at least in part.
#[derive(Clone, Copy)]
pub(in crate::store) struct Segment {
    pub(in crate::store) extent: Extent,
    pub(in crate::store) number: SegmentNumber,
    /// The header; `None` if it is damaged.
    pub(in crate::store) header: Option<SegmentHeader>,
    /// True if the header must be rewritten.
    pub(in crate::store) is_header_damaged: bool,
    /// True if the segment may have been freed. Only its header would show that.
    pub(in crate::store) is_doubtful: bool,
}

impl Segment {
    pub(super) fn of(extent: Extent, number: SegmentNumber) -> Self {
        Self { extent, number, header: None, is_header_damaged: false, is_doubtful: false }
    }
}

impl<D: Directory> Reader<'_, D> {
    /// Returns the segments of the log in the order of their numbers.
    pub(in crate::store) fn segments(
        &self,
        pages: &mut [Page],
        report: &mut dyn FnMut(Damage),
    ) -> Vec<Segment> {
        let mut segments = Vec::new();
        for extent in 0..self.tier.log().extents() {
            let error = match self.tier.log().header(extent) {
                Ok(Some(header)) => {
                    let segment = Segment::of(extent, header.number);
                    segments.push(Segment { header: Some(header), ..segment });
                    continue;
                }
                Ok(None) => continue,
                Err(error) => error,
            };
            let damage = |bytes, wrong| Damage { extent: Some(extent), at: None, bytes, wrong };
            if let Some(header) = self.tier.log().flipped_header(extent) {
                report(damage(0, Wrong::HeaderBit));
                segments.extend(header.map(|header| {
                    let segment = Segment::of(extent, header.number);
                    Segment { header: Some(header), is_header_damaged: true, ..segment }
                }));
            } else if let Some(number) = self.number(extent, pages) {
                segments.push(Segment { is_header_damaged: true, ..Segment::of(extent, number) });
            } else {
                let holds_nothing = self.holds_nothing(extent, pages);
                let bytes = if holds_nothing { 0 } else { SEGMENT_BYTES as u64 };
                report(damage(
                    bytes,
                    match error {
                        HeaderError::Disk(error) => Wrong::Disk(error.to_string()),
                        _ if holds_nothing => Wrong::HeaderOfNothing,
                        _ => Wrong::Header,
                    },
                ));
            }
        }
        segments.sort_unstable_by_key(|segment| (segment.number, segment.header.is_none()));
        self.linked(segments, report)
    }

    /// Removes duplicate and freed segments from the list, and reports missing ones.
    fn linked(&self, all: Vec<Segment>, report: &mut dyn FnMut(Damage)) -> Vec<Segment> {
        let mut linked: Vec<Segment> = Vec::new();
        for (index, segment) in all.iter().enumerate() {
            let Segment { extent, number, header, .. } = *segment;
            let at = Some(Address::new(number, 0));
            let damage = |bytes, wrong| Damage { extent: Some(extent), at, bytes, wrong };
            if linked.last().is_some_and(|earlier| earlier.number == number) {
                report(damage(0, Wrong::Twice));
                continue;
            }
            match (header, linked.last()) {
                (None, earlier) => {
                    let next = all[index + 1..].iter().find_map(|next| next.header);
                    let is_before_next = next.is_some_and(|next| next.previous == Some(number));
                    // If the next header has an earlier segment as its predecessor, this extent was
                    // free.
                    let was_freed = next
                        .is_some_and(|next| next.previous.is_none_or(|previous| previous < number));
                    // Reclaim frees the oldest segments, and a start frees those above the end of
                    // the log. A segment is certainly live only if it is between two live ones.
                    let is_sure = is_before_next && earlier.is_some_and(|it| !it.is_doubtful);
                    let wrong = if is_sure || was_freed {
                        Wrong::HeaderAlone
                    } else {
                        Wrong::HeaderInDoubt
                    };
                    report(damage(0, wrong));
                    if !was_freed {
                        linked.push(Segment { is_doubtful: !is_sure, ..*segment });
                    }
                    continue;
                }
                (Some(header), Some(earlier)) if header.previous != Some(earlier.number) => {
                    let wrong = Wrong::Missing { earlier: Some(earlier.number) };
                    report(Damage { extent: None, at, bytes: SEGMENT_BYTES as u64, wrong });
                }
                _ => {}
            }
            linked.push(*segment);
        }
        let durable = self.tier.manifest().durable;
        let earlier = linked.last().map(|last| last.number);
        if let Some(durable) = durable.filter(|at| at.stored() > earlier.map_or(0, end_of)) {
            let (at, bytes) = (Some(durable), SEGMENT_BYTES as u64);
            report(Damage { extent: None, at, bytes, wrong: Wrong::Missing { earlier } });
        }
        linked
    }

    /// True if no unit was ever written to an extent.
    fn holds_nothing(&self, extent: Extent, pages: &mut [Page]) -> bool {
        let units = &mut pages[1..SEGMENT_PAGES];
        self.tier.log().read(extent, 1, units).is_ok() && units.iter().all(Page::is_zero)
    }

    /// Returns the segment number stored in the units of an extent: the number of the last segment
    /// that used it.
    fn number(&self, extent: Extent, pages: &mut [Page]) -> Option<SegmentNumber> {
        self.read(extent, pages);
        let (seal, bytes) = (self.tier.log().seal(), pages.as_bytes());
        let number = |page| {
            let number = Unit::claimed(page, bytes)?;
            Unit::read(seal, number, page, bytes).ok().map(|_| number)
        };
        (1..SEGMENT_PAGES).filter_map(number).max()
    }
}
