//! Finds the segments of a log.

use crate::disk::{DiskError, File};
use crate::format::{SegmentHeader, SegmentNumber};
use crate::log::{Extent, HeaderError, Log};
use crate::recovery::{RecoveryError, ahead};

/// The segments of a log, in the order of their numbers and without gaps.
pub(crate) struct Survey {
    segments: Vec<(Extent, SegmentHeader)>,
    /// The extents with a flipped bit in their header, and the repaired headers.
    flipped: Vec<(Extent, Option<SegmentHeader>)>,
}

impl Survey {
    /// Reads the headers of all extents.
    pub(crate) fn read<F: File>(log: &Log<F>) -> Result<Self, RecoveryError> {
        let headers = ahead::for_extents(log, |extent| match log.header(extent) {
            Err(broken @ HeaderError::Broken { .. }) => {
                Ok((log.flipped_header(extent).ok_or(broken)?, true))
            }
            header => Ok::<_, HeaderError>((header?, false)),
        })?;
        let (mut segments, mut flipped) = (Vec::new(), Vec::new());
        for (extent, (header, is_flipped)) in (0..).zip(headers) {
            segments.extend(header.map(|header| (extent, header)));
            flipped.extend(is_flipped.then_some((extent, header)));
        }
        segments.sort_unstable_by_key(|(_, header)| header.number);
        for pair in segments.windows(2) {
            let ((first, earlier), (second, later)) = (pair[0], pair[1]);
            let number = later.number;
            if earlier.number == number {
                return Err(RecoveryError::Twice { number, first, second });
            }
            if later.previous != Some(earlier.number) {
                return Err(RecoveryError::Missing { number, earlier: earlier.number });
            }
        }
        Ok(Self { segments, flipped })
    }

    /// Rewrites the headers with a flipped bit.
    pub(crate) fn mend<F: File>(&self, log: &Log<F>) -> Result<(), DiskError> {
        for (extent, header) in &self.flipped {
            match header {
                Some(header) => log.begin(*extent, header)?,
                None => log.erase(*extent, SegmentNumber::FIRST)?,
            }
        }
        Ok(())
    }

    /// Returns the number of headers with a flipped bit.
    pub(crate) fn flipped(&self) -> u64 {
        self.flipped.len() as u64
    }

    pub(crate) fn segments(&self) -> &[(Extent, SegmentHeader)] {
        &self.segments
    }
}
