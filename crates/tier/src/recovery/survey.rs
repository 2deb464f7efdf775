//! Finds the segments of a log.

use crate::disk::{DiskError, File};
use crate::format::{SegmentHeader, SegmentNumber};
use crate::log::{Extent, HeaderError, Log};
use crate::recovery::RecoveryError;

/// The segments of a log, in the order of their numbers and without gaps.
pub(crate) struct Survey {
    segments: Vec<(Extent, SegmentHeader)>,
    /// The extents with a flipped bit in their header, and the repaired headers.
    flipped: Vec<(Extent, Option<SegmentHeader>)>,
}

impl Survey {
    /// Reads the headers of all extents.
    pub(crate) fn read<F: File>(log: &Log<F>) -> Result<Self, RecoveryError> {
        let (mut segments, mut flipped) = (Vec::new(), Vec::new());
        for extent in 0..log.extents() {
            let header = match log.header(extent) {
                Ok(header) => header,
                Err(error) => {
                    let HeaderError::Broken { .. } = error else { return Err(error.into()) };
                    let header = log.flipped_header(extent).ok_or(error)?;
                    flipped.push((extent, header));
                    header
                }
            };
            segments.extend(header.map(|header| (extent, header)));
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
