//! Damaged places of a log.

use std::fmt;

use crate::compression::DictionaryDamage;
use crate::format::{Address, RECORD_HEADER_BYTES, SegmentNumber};
use crate::log::Extent;

/// A damaged place of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The extent of the damaged place; `None` if a segment is missing.
    pub extent: Option<Extent>,
    /// Its address; `None` if that is unknown.
    pub at: Option<Address>,
    /// The number of unreadable bytes, without unused space.
    pub bytes: u64,
    /// The reason.
    pub wrong: DamageKind,
}

/// The kind of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// A bit of the manifest was flipped.
    Manifest,
    /// A copy of a dictionary is damaged.
    Dictionary(DictionaryDamage),
    /// A bit of a header was flipped.
    HeaderBit,
    /// The header of an extent without records is damaged.
    HeaderOfNothing,
    /// The header of a segment is damaged, and so are all of its units. The segment number is
    /// unknown.
    Header,
    /// The header of a segment is damaged. Its units contain the segment number.
    HeaderAlone,
    /// The header of a segment is damaged, and the segment may have been freed. Its records may be
    /// out of date.
    HeaderInDoubt,
    /// A segment is missing, although later ones exist.
    Missing {
        /// The last segment before the gap.
        earlier: Option<SegmentNumber>,
    },
    /// Another extent contains the same segment.
    Twice,
    /// The log file ends before this place.
    CutOff,
    /// The checksum is wrong.
    Bytes,
    /// The disk failed to return the bytes.
    Disk(String),
}

impl Damage {
    /// Returns the maximum number of records in the damaged bytes.
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
            DamageKind::Manifest => write!(f, "MANIFEST: one bit is flipped")?,
            DamageKind::Dictionary(damage) if damage.is_lost => {
                return write!(
                    f,
                    "{damage}; values that dictionary {} compresses are lost",
                    damage.number
                );
            }
            DamageKind::Dictionary(damage) => write!(f, "{damage}")?,
            DamageKind::HeaderBit => write!(f, "one bit of the header is flipped")?,
            DamageKind::HeaderOfNothing => {
                write!(f, "the header is damaged; the extent is empty")?;
            }
            DamageKind::Header => write!(f, "the header and all units are damaged")?,
            DamageKind::HeaderAlone => write!(f, "the header is damaged, or in the wrong place")?,
            DamageKind::HeaderInDoubt => write!(
                f,
                "the header is damaged, or in the wrong place, and the segment may have been freed \
                 before: its items, and all earlier ones, may be out of date"
            )?,
            DamageKind::Missing { earlier: Some(earlier) } => {
                write!(f, "the segments after segment {earlier} are missing")?;
            }
            DamageKind::Missing { earlier: None } => write!(f, "all segments are missing")?,
            DamageKind::Twice => write!(f, "another extent also contains this segment")?,
            DamageKind::CutOff => write!(f, "the log file ends before this extent")?,
            DamageKind::Bytes => write!(f, "the checksum is wrong")?,
            DamageKind::Disk(error) => write!(f, "{error}")?,
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
