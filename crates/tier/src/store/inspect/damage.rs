//! Places of a log that cannot be read.

use std::fmt;

use crate::format::{Address, RECORD_HEADER_BYTES, SegmentNumber};
use crate::log::Extent;

/// A damaged place of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The extent of the log's file that it is in; `None` if a segment is missing.
    pub extent: Option<Extent>,
    /// Where it begins in the log; `None` if that is not known.
    pub at: Option<Address>,
    /// How many bytes cannot be read, of those that held something.
    pub bytes: u64,
    /// The reason.
    pub wrong: Wrong,
}

/// Why a place of a log is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A bit of the manifest was flipped.
    Manifest,
    /// A bit of a header was flipped.
    HeaderBit,
    /// The header of an extent that holds nothing.
    HeaderOfNothing,
    /// The header of a segment, and none of its units tells which segment it is.
    Header,
    /// The header of a segment. Its units tell which one it is.
    HeaderAlone,
    /// The header of a segment that may have been freed: its records may be out of date.
    HeaderInDoubt,
    /// A segment is not there, although later ones are.
    Missing {
        /// The segment before it, of those that are there.
        earlier: Option<SegmentNumber>,
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

impl Damage {
    /// The most records that can have been in it.
    pub fn records_max(&self) -> u64 {
        self.bytes.div_ceil(RECORD_HEADER_BYTES as u64)
    }
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
            Wrong::Manifest => write!(f, "MANIFEST: one bit is flipped")?,
            Wrong::HeaderBit => write!(f, "one bit of the header is flipped")?,
            Wrong::HeaderOfNothing => {
                write!(f, "the header is damaged; the extent holds nothing")?;
            }
            Wrong::Header => write!(f, "the header and all units are damaged")?,
            Wrong::HeaderAlone => write!(f, "the header is damaged, or in the wrong place")?,
            Wrong::HeaderInDoubt => write!(
                f,
                "the header is damaged, or in the wrong place, and the segment may have been freed \
                 before: its items, and all earlier ones, may be out of date"
            )?,
            Wrong::Missing { earlier: Some(earlier) } => {
                write!(f, "what followed segment {earlier} is missing")?;
            }
            Wrong::Missing { earlier: None } => write!(f, "all segments are missing")?,
            Wrong::Twice => write!(f, "another extent holds this segment, too")?,
            Wrong::CutOff => write!(f, "the log ends before it")?,
            Wrong::Bytes => write!(f, "the checksum is wrong")?,
            Wrong::Disk(error) => write!(f, "{error}")?,
        }
        match self.bytes {
            0 => write!(f, "; nothing in it is lost"),
            bytes => {
                let records = self.records_max();
                write!(f, "; {bytes} bytes cannot be read, {records} records at most")
            }
        }
    }
}
