//! Records: changes of one key, or of all keys.
//!
//! ```text
//! ┌────────────┬────────┬─────────────┬─────────┬──────────────┬───────────────┬─────────┬───────────┬────────────┬─────┬───────┬───────┐
//! │ checksum 4 │ kind 1 │ key bytes 1 │ marks 1 │ dictionary 1 │ value bytes 4 │ flags 4 │ version 8 │ deadline 8 │ key │ value │ pad 8 │
//! └────────────┴────────┴─────────────┴─────────┴──────────────┴───────────────┴─────────┴───────────┴────────────┴─────┴───────┴───────┘
//! ```

use larder_item::KEY_BYTES_MAX;
use thiserror::Error;

use crate::disk::PAGE_BYTES;
use crate::format::bytes::{put_u32, put_u64, u32_at, u64_at};
use crate::format::unit::UNIT_HEADER_BYTES;
use crate::format::{Address, SEGMENT_BYTES, Seal};

/// Length of a record without its key and value, in bytes.
pub const RECORD_HEADER_BYTES: usize = 32;
/// The longest value in a record, in bytes. A record with this value and the longest key fills a
/// segment.
pub const VALUE_BYTES_MAX: usize =
    SEGMENT_BYTES - PAGE_BYTES - UNIT_HEADER_BYTES - RECORD_HEADER_BYTES - KEY_BYTES_MAX - 7;

pub(crate) const ITEM: u8 = 1;
pub(crate) const TOMBSTONE: u8 = 2;
pub(crate) const FLUSH: u8 = 3;
pub(crate) const DELAY: u8 = 4;
const VOID: u8 = 5;
pub(crate) const LOST: u8 = 6;
pub(crate) const COMPRESSED: u8 = 7;

const STALE: u8 = 1;
const TOKEN_SENT: u8 = 2;
const NUMBER: u8 = 4;

/// An item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item<'a> {
    /// 1 to 250 arbitrary bytes.
    pub key: &'a [u8],
    /// At most [`VALUE_BYTES_MAX`] bytes. A number is stored as decimal text.
    pub value: &'a [u8],
    /// The client flags.
    pub flags: u32,
    /// The version of the item: memcached's CAS token.
    pub version: u64,
    /// The second at which the item expires, as a Unix time; `None`: never.
    pub deadline_unix_secs: Option<u64>,
    /// True if the value is out of date.
    pub stale: bool,
    /// True if a client holds the recache token, which permits it to store a new value for an item
    /// that is out of date or about to expire.
    pub token_sent: bool,
    /// True if the value is a number that memory can change in place.
    pub number: bool,
}

/// An item with a compressed value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompressedItem<'a> {
    /// The item, with the compressed value: a frame of zstd without its first four bytes, which are
    /// always the same.
    pub item: Item<'a>,
    /// The number of the dictionary of the frame; 0: the frame has no dictionary.
    pub dictionary: u8,
}

/// One entry of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// The newest item of its key at this point of the log.
    Item(Item<'a>),
    /// Same as [`Record::Item`], but with a compressed value.
    Compressed(CompressedItem<'a>),
    /// The key was removed.
    Tombstone {
        /// 1 to 250 arbitrary bytes.
        key: &'a [u8],
    },
    /// All earlier items are removed.
    Flush,
    /// A flush that is due later.
    Delay {
        /// When the flush is due, as a Unix time.
        due_unix_secs: u64,
    },
    /// The newest item of a key was damaged, so reclaim could not copy it. Reclaim appends this
    /// record in its place. Reads of the key fail until a later change replaces or removes the key.
    Lost {
        /// The position of the key in the catalog: 33 bits of its hash.
        place: u64,
        /// The key; empty if the key was damaged as well.
        key: &'a [u8],
    },
    /// Space that was reserved but not used.
    Void {
        /// Length of the record, in bytes: at least [`RECORD_HEADER_BYTES`], a multiple of 8.
        bytes: usize,
    },
}

/// The reason why bytes are not a valid record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RecordFault {
    /// The bytes end before the record does.
    #[error("the record is truncated")]
    CutOff,
    /// The checksum is wrong: the bytes were changed, or were written at another address.
    #[error("the checksum of the record is wrong")]
    Checksum,
    /// This version of the format has no such kind.
    #[error("unknown record kind {0}")]
    Kind(u8),
    /// The lengths are not valid for the kind.
    #[error("the lengths of the record are wrong")]
    Lengths,
    /// The dictionary of the value is lost.
    #[error("dictionary {0} of its compressed value is lost")]
    Dictionary(u8),
    /// The compressed value is not a frame that this crate writes.
    #[error("its compressed value is invalid")]
    Value,
}

/// The fixed fields of a record.
#[derive(Default)]
struct RawHeader {
    kind: u8,
    key_bytes: usize,
    marks: u8,
    dictionary: u8,
    value_bytes: usize,
    flags: u32,
    version: u64,
    deadline: u64,
}

impl RawHeader {
    fn of_item(item: &Item<'_>) -> Self {
        Self {
            kind: ITEM,
            key_bytes: item.key.len(),
            marks: item.marks(),
            dictionary: 0,
            value_bytes: item.value.len(),
            flags: item.flags,
            version: item.version,
            deadline: item.deadline_unix_secs.unwrap_or(0),
        }
    }

    fn of(record: &Record<'_>) -> Self {
        match *record {
            Record::Item(item) => Self::of_item(&item),
            Record::Compressed(CompressedItem { item, dictionary }) => {
                Self { kind: COMPRESSED, dictionary, ..Self::of_item(&item) }
            }
            Record::Tombstone { key } => {
                Self { kind: TOMBSTONE, key_bytes: key.len(), ..Self::default() }
            }
            Record::Flush => Self { kind: FLUSH, ..Self::default() },
            Record::Delay { due_unix_secs } => {
                Self { kind: DELAY, deadline: due_unix_secs, ..Self::default() }
            }
            Record::Lost { place, key } => {
                Self { kind: LOST, key_bytes: key.len(), version: place, ..Self::default() }
            }
            Record::Void { bytes } => {
                let value_bytes = bytes - RECORD_HEADER_BYTES;
                Self { kind: VOID, value_bytes, ..Self::default() }
            }
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, RecordFault> {
        let fixed = bytes.get(..RECORD_HEADER_BYTES).ok_or(RecordFault::CutOff)?;
        let head = Self {
            kind: fixed[4],
            key_bytes: usize::from(fixed[5]),
            marks: fixed[6],
            dictionary: fixed[7],
            value_bytes: u32_at(fixed, 8) as usize,
            flags: u32_at(fixed, 12),
            version: u64_at(fixed, 16),
            deadline: u64_at(fixed, 24),
        };
        let valued = matches!(head.kind, ITEM | VOID | COMPRESSED);
        let key_fits = match head.kind {
            ITEM | TOMBSTONE | COMPRESSED => (1..=KEY_BYTES_MAX).contains(&head.key_bytes),
            LOST => head.key_bytes <= KEY_BYTES_MAX,
            _ => head.key_bytes == 0,
        };
        match head.kind {
            ITEM..=COMPRESSED if key_fits && (valued || head.value_bytes == 0) => Ok(head),
            ITEM..=COMPRESSED => Err(RecordFault::Lengths),
            kind => Err(RecordFault::Kind(kind)),
        }
    }

    fn write(&self, bytes: &mut [u8]) {
        bytes[4] = self.kind;
        bytes[5] = self.key_bytes as u8;
        bytes[6] = self.marks;
        bytes[7] = self.dictionary;
        put_u32(bytes, 8, self.value_bytes as u32);
        put_u32(bytes, 12, self.flags);
        put_u64(bytes, 16, self.version);
        put_u64(bytes, 24, self.deadline);
    }

    fn content_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.key_bytes + self.value_bytes
    }
}

impl Item<'_> {
    fn marks(&self) -> u8 {
        let mark = |set: bool, bit: u8| if set { bit } else { 0 };
        mark(self.stale, STALE) | mark(self.token_sent, TOKEN_SENT) | mark(self.number, NUMBER)
    }
}

impl<'a> Record<'a> {
    /// Returns the length of an item's record with its padding, in bytes.
    pub const fn item_bytes(key_bytes: usize, value_bytes: usize) -> usize {
        (RECORD_HEADER_BYTES + key_bytes + value_bytes).next_multiple_of(8)
    }

    /// Returns the length of the record with its padding, in bytes: a multiple of 8.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Item(item) | Self::Compressed(CompressedItem { item, .. }) => {
                Self::item_bytes(item.key.len(), item.value.len())
            }
            Self::Tombstone { key } | Self::Lost { key, .. } => Self::item_bytes(key.len(), 0),
            Self::Flush | Self::Delay { .. } => RECORD_HEADER_BYTES,
            Self::Void { bytes } => *bytes,
        }
    }

    /// Returns the second at which an item expires, as a Unix time. Returns `None` for all other
    /// records.
    pub(crate) fn deadline_unix_secs(&self) -> Option<u64> {
        match self {
            Self::Item(item) | Self::Compressed(CompressedItem { item, .. }) => {
                item.deadline_unix_secs
            }
            _ => None,
        }
    }

    /// Writes the record into exactly [`Record::bytes`] bytes.
    ///
    /// # Panics
    ///
    /// If the length of `into` differs, or if the key or the value exceeds its maximum length.
    pub(crate) fn write(&self, seal: &Seal, at: Address, into: &mut [u8]) {
        assert_eq!(into.len(), self.bytes(), "the buffer has the length of the record");
        let head = RawHeader::of(self);
        head.write(into);
        let (key, value): (&[u8], &[u8]) = match self {
            Self::Item(item) | Self::Compressed(CompressedItem { item, .. }) => {
                (item.key, item.value)
            }
            Self::Tombstone { key } | Self::Lost { key, .. } => (key, &[]),
            Self::Flush | Self::Delay { .. } | Self::Void { .. } => (&[], &[]),
        };
        assert!(
            key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX,
            "{self:?} is too long"
        );
        let key_end = RECORD_HEADER_BYTES + key.len();
        into[RECORD_HEADER_BYTES..key_end].copy_from_slice(key);
        into[key_end..key_end + value.len()].copy_from_slice(value);
        into[key_end + value.len()..].fill(0);
        let checksum = seal.at(at, &[&into[4..]]);
        put_u32(into, 0, checksum);
    }

    /// Reads the record at the start of `bytes` and checks its checksum.
    ///
    /// Cost: one pass over the record.
    ///
    /// # Errors
    ///
    /// [`RecordFault`] if the bytes are not a record that was written at this address.
    pub fn read(seal: &Seal, at: Address, bytes: &'a [u8]) -> Result<Self, RecordFault> {
        let record = Self::decode(bytes)?;
        let whole = bytes.get(4..record.bytes()).ok_or(RecordFault::CutOff)?;
        match seal.at(at, &[whole]) == u32_at(bytes, 0) {
            true => Ok(record),
            false => Err(RecordFault::Checksum),
        }
    }

    /// Returns the record length according to the header at the start of `bytes`, without checking
    /// the checksum. Returns `None` if the header is invalid.
    pub(crate) fn claimed_bytes(bytes: &[u8]) -> Option<usize> {
        RawHeader::read(bytes).ok().map(|head| head.content_bytes().next_multiple_of(8))
    }

    /// Returns the key of the record at the start of `bytes`, without checking the checksum.
    /// Returns `None` if the header is invalid.
    pub(crate) fn claimed_key(bytes: &[u8]) -> Option<&[u8]> {
        let head = RawHeader::read(bytes).ok()?;
        bytes.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + head.key_bytes)
    }

    /// Reads a record without checking its own checksum. The unit's checksum covers the bytes.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, RecordFault> {
        let head = RawHeader::read(bytes)?;
        let content =
            bytes.get(RECORD_HEADER_BYTES..head.content_bytes()).ok_or(RecordFault::CutOff)?;
        let (key, value) = content.split_at(head.key_bytes);
        let item = || Item {
            key,
            value,
            flags: head.flags,
            version: head.version,
            deadline_unix_secs: Some(head.deadline).filter(|deadline| *deadline != 0),
            stale: head.marks & STALE != 0,
            token_sent: head.marks & TOKEN_SENT != 0,
            number: head.marks & NUMBER != 0,
        };
        let record = match head.kind {
            ITEM => Self::Item(item()),
            COMPRESSED => {
                let dictionary = head.dictionary;
                Self::Compressed(CompressedItem { item: item(), dictionary })
            }
            TOMBSTONE => Self::Tombstone { key },
            FLUSH => Self::Flush,
            DELAY => Self::Delay { due_unix_secs: head.deadline },
            LOST => Self::Lost { place: head.version, key },
            _ => Self::Void { bytes: head.content_bytes() },
        };
        let padded = record.bytes().is_multiple_of(8) && record.bytes() <= bytes.len();
        if padded { Ok(record) } else { Err(RecordFault::Lengths) }
    }
}
