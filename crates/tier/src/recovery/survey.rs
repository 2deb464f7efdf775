//! Which segments a log has.

use crate::disk::File;
use crate::format::SegmentHeader;
use crate::log::{Extent, Log};
use crate::recovery::RecoveryError;

/// The segments of a log, in the order of their numbers, none missing between them.
pub(crate) struct Survey {
    segments: Vec<(Extent, SegmentHeader)>,
}

impl Survey {
    /// Reads the headers of all extents.
    pub(crate) fn read<F: File>(log: &Log<F>) -> Result<Self, RecoveryError> {
        let mut segments = Vec::new();
        for extent in 0..log.extents() {
            segments.extend(log.header(extent)?.map(|header| (extent, header)));
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
        Ok(Self { segments })
    }

    pub(crate) fn segments(&self) -> &[(Extent, SegmentHeader)] {
        &self.segments
    }
}
