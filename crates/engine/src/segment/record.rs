//! A record: an item, or a piece of a large value, as bytes in a segment.
//!
//! ```text
//! ┌──────────────────────────────────────────────────────┬─────────┬──────────┬───────┬─────┬───────┬─────┐
//! │ header 8                                             │ version │ deadline │ flags │ key │ value │ pad │
//! │ value len 20│key len 8│fields 8│mark 5│initial freq 3│used 20 │   8?    │    4?    │  4?   │     │       │ → 8 │
//! └──────────────────────────────────────────────────────┴─────────┴──────────┴───────┴─────┴───────┴─────┘
//! ```
//!
//! A field with a question mark is present if its bit in `fields` is set. The widest fields come
//! first, so that each is aligned. `used` is the time of the item's last use (module
//! [`used`](crate::segment::used)). The record of a large value contains a table in place of the
//! value (module [`large`](crate::ops::large)). A piece contains the hash of its item's key in
//! place of all fields, and its `used` is 0.
//!
//! Two kinds of records change in place (module `update_value`). A **number** record contains a u64
//! in place of its text; `mark` is the length of the text. A **growing** record has a length
//! rounded up to 2^`mark` bytes. Bytes are appended in the part that is not used yet.
//!
//! Four fields of every record's header change in place, under the lock of its group:
//!
//! - `used`
//! - **stale**: the value is out of date
//! - **token sent**: a client has received the item's recache token, and is expected to store a new
//!   value
//! - **initial freq**: the value that *freq*, the counter of reads in the item's slot, had when the
//!   item was stored. If freq is higher now, the item was read. An initial freq of 4, which freq
//!   never reaches, also means that the item was read: eviction stores it when it lowers the freq
//!   of such an item, and a touch that counts as a read stores it.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use larder_item::{Deadline, Second};
use larder_region::Memory;
use larder_region::layout::SEGMENT_BYTES_MAX;

use crate::segment::slot::FREQ_MAX;
use crate::segment::used::{self, LastUse};

const VERSION: u8 = 1;
const DEADLINE: u8 = 2;
const FLAGS: u8 = 4;
const LARGE: u8 = 8;
const PIECE: u8 = 16;
const NUMBER: u8 = 32;
const STALE: u8 = 64;
const TOKEN_SENT: u8 = 128;

const VALUE_MASK: u64 = (1 << KEY_SHIFT) - 1;
const KEY_SHIFT: u32 = 20;
const KEY_MASK: u64 = 0xFF << KEY_SHIFT;
const FIELDS_SHIFT: u32 = 28;
const MARK_SHIFT: u32 = 36;
const MARK_MAX: u64 = 31;
const INITIAL_FREQ_SHIFT: u32 = 41;
const INITIAL_FREQ_MASK: u64 = 7 << INITIAL_FREQ_SHIFT;
const USED_SHIFT: u32 = 44;
const USED_MASK: u64 = !0 << USED_SHIFT;

/// The header fields that a copy of the record takes over, because they describe the item's past.
const LIFE_MASK: u64 =
    USED_MASK | INITIAL_FREQ_MASK | ((STALE | TOKEN_SENT) as u64) << FIELDS_SHIFT;

/// The highest freq that an item starts with. A read still raises it.
pub(crate) const INITIAL_FREQ_MAX: u64 = FREQ_MAX - 1;
/// The initial freq of an item that counts as read, whatever its freq is now.
pub(crate) const READ_BEFORE: u64 = FREQ_MAX + 1;

/// Record lengths are multiples of 2 to this power, or of a larger power of two.
const UNIT_BITS_MIN: u32 = 3;
/// The length of a number's value in bytes.
pub(crate) const NUMBER_BYTES: usize = 8;

/// The length of every record's header in bytes.
pub(crate) const HEADER_BYTES: usize = 8;
/// The number of bytes of a piece before its part of the value.
pub(crate) const PIECE_HEAD_BYTES: usize = HEADER_BYTES + 8;

/// The first word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(u64);

/// The optional fields of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub(crate) version: bool,
    pub(crate) deadline: bool,
    pub(crate) flags: bool,
}

/// The marks that were set on an item since it was stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// True if the value is out of date.
    pub(crate) stale: bool,
    /// True if a client received the recache token.
    pub(crate) token_sent: bool,
}

/// The form of a record's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The value itself.
    Plain,
    /// The value itself, followed by spare bytes: the record's length is a multiple of
    /// 2^`unit_bits`.
    Growing { unit_bits: u8 },
    /// A number. Clients read its text, padded with spaces.
    Number { shown_bytes: u8 },
    /// A table of pieces.
    Table,
}

impl Form {
    /// Returns the form of a value that has grown to a record of `record_bytes`, with about as many
    /// spare bytes.
    pub(crate) fn growing(record_bytes: usize) -> Self {
        Self::Growing { unit_bits: record_bytes.ilog2() as u8 }
    }

    /// Returns the form of a value in a record that a later store can overwrite. The record is not
    /// longer than that of a plain value, except for its version field, which it must have.
    pub(crate) const OVERWRITABLE: Self = Self::Growing { unit_bits: UNIT_BITS_MIN as u8 };

    /// Returns the form of a number whose text has `text_bytes`, or `None` if the text is longer
    /// than that of any number.
    pub(crate) fn number(text_bytes: usize) -> Option<Self> {
        let shown_bytes = u8::try_from(text_bytes).ok()?;
        (u64::from(shown_bytes) <= MARK_MAX).then_some(Self::Number { shown_bytes })
    }

    fn bits(self) -> u8 {
        match self {
            Self::Plain | Self::Growing { .. } => 0,
            Self::Number { .. } => NUMBER,
            Self::Table => LARGE,
        }
    }

    fn mark(self) -> u8 {
        match self {
            Self::Plain | Self::Table => 0,
            Self::Growing { unit_bits } => unit_bits,
            Self::Number { shown_bytes } => shown_bytes,
        }
    }
}

impl Header {
    pub(crate) fn new(fields: Fields, form: Form, key_bytes: usize, value_bytes: usize) -> Self {
        debug_assert!(key_bytes <= 0xFF && value_bytes as u64 <= VALUE_MASK);
        let bit = |present: bool, bit: u8| if present { bit } else { 0 };
        let bits = bit(fields.version, VERSION)
            | bit(fields.deadline, DEADLINE)
            | bit(fields.flags, FLAGS)
            | form.bits();
        debug_assert!(u64::from(form.mark()) <= MARK_MAX);
        let mark = u64::from(form.mark()) << MARK_SHIFT;
        Self(Self::of_parts(bits, key_bytes, value_bytes).0 | mark)
    }

    pub(crate) fn piece(value_bytes: usize) -> Self {
        Self::of_parts(PIECE, 0, value_bytes)
    }

    fn of_parts(bits: u8, key_bytes: usize, value_bytes: usize) -> Self {
        Self(value_bytes as u64 | (key_bytes as u64) << KEY_SHIFT | u64::from(bits) << FIELDS_SHIFT)
    }

    #[inline]
    pub(crate) fn load(memory: &Memory, record_at: usize) -> Self {
        // Pairs with the release in `update_value`: a reader that loads the new length of a growing
        // value also loads its bytes.
        Self(memory.word(record_at).load(Acquire))
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn value_bytes(self) -> usize {
        (self.0 & VALUE_MASK) as usize
    }

    #[inline]
    pub(crate) fn key_bytes(self) -> usize {
        ((self.0 & KEY_MASK) >> KEY_SHIFT) as usize
    }

    #[inline]
    fn has(self, bit: u8) -> bool {
        self.0 >> FIELDS_SHIFT & u64::from(bit) != 0
    }

    #[inline]
    pub(crate) fn is_large(self) -> bool {
        self.has(LARGE)
    }

    pub(crate) fn is_piece(self) -> bool {
        self.has(PIECE)
    }

    #[inline]
    pub(crate) fn is_number(self) -> bool {
        self.has(NUMBER)
    }

    #[inline]
    fn mark(self) -> u32 {
        (self.0 >> MARK_SHIFT & MARK_MAX) as u32
    }

    #[inline]
    pub(crate) fn is_stale(self) -> bool {
        self.has(STALE)
    }

    #[inline]
    pub(crate) fn is_token_sent(self) -> bool {
        self.has(TOKEN_SENT)
    }

    /// Returns the header with exactly these marks.
    pub(crate) fn with_marks(self, marks: Marks) -> Self {
        let bit = |present: bool, bit: u8| if present { u64::from(bit) << FIELDS_SHIFT } else { 0 };
        let none = self.0 & !(u64::from(STALE | TOKEN_SENT) << FIELDS_SHIFT);
        Self(none | bit(marks.stale, STALE) | bit(marks.token_sent, TOKEN_SENT))
    }

    /// True if the item was read since it was stored, given the freq of its slot.
    #[inline]
    pub(crate) fn is_fetched(self, freq: u64) -> bool {
        let initial_freq = (self.0 & INITIAL_FREQ_MASK) >> INITIAL_FREQ_SHIFT;
        (initial_freq == READ_BEFORE) | (freq > initial_freq)
    }

    /// Returns the header of an item with this initial freq, or [`READ_BEFORE`].
    pub(crate) fn with_initial_freq(self, initial_freq: u64) -> Self {
        debug_assert!(initial_freq <= READ_BEFORE);
        Self(self.0 & !INITIAL_FREQ_MASK | initial_freq << INITIAL_FREQ_SHIFT)
    }

    /// Returns the time of the item's last use.
    #[inline]
    pub(crate) fn used(self) -> LastUse {
        LastUse((self.0 >> USED_SHIFT) as u32)
    }

    /// Returns the header of an item whose last use is in the second `now`.
    #[inline]
    pub(crate) fn with_used(self, now: Second) -> Self {
        Self(self.0 & !USED_MASK | u64::from(LastUse::at(now).0) << USED_SHIFT)
    }

    /// Returns this header with the marks, `initial_freq` and `used` of the old one, so that the
    /// item keeps its identity.
    pub(crate) fn keeping_identity_of(self, old: Self) -> Self {
        Self(self.0 & !LIFE_MASK | old.0 & LIFE_MASK)
    }

    /// True if both headers describe the same content of a record.
    #[inline]
    pub(crate) fn is_same_form(self, other: Self) -> bool {
        (self.0 ^ other.0) & !LIFE_MASK == 0
    }

    /// Returns the header without the bits that reads and sent recache tokens change.
    pub(crate) fn without_reads(self) -> u64 {
        self.0 & !(USED_MASK | INITIAL_FREQ_MASK | u64::from(TOKEN_SENT) << FIELDS_SHIFT)
    }

    /// Returns the header of an item for a new freq of its slot that was not caused by a read.
    pub(crate) fn with_freq_changed(self, from: u64, to: u64) -> Self {
        match self.is_fetched(from) {
            true if from == to => self,
            true => self.with_initial_freq(READ_BEFORE),
            false => self.with_initial_freq(to),
        }
    }

    pub(crate) fn is_growing(self) -> bool {
        self.mark() != 0 && !self.is_number()
    }

    /// True if a store may overwrite the value in place: readers check the version afterwards.
    #[inline]
    pub(crate) fn is_overwritable(self) -> bool {
        self.is_growing() && self.has(VERSION)
    }

    /// True if the record of this header has exactly the place for a record with the new header.
    #[inline]
    pub(crate) fn has_place_for(self, new: Self) -> bool {
        (self.0 ^ new.0) & !(LIFE_MASK | VALUE_MASK) == 0
            && self.has_place_for_value(new.value_bytes())
    }

    /// True if the record keeps its length with a value of this length.
    #[inline]
    pub(crate) fn has_place_for_value(self, value_bytes: usize) -> bool {
        // Most values keep their length, and the length of a record costs some instructions.
        self.value_bytes() == value_bytes
            || self.with_value_bytes(value_bytes).record_bytes() == self.record_bytes()
    }

    /// Returns the form of a value that overwrites the value of this growing record.
    pub(crate) fn form_of_overwrite(self) -> Form {
        Form::Growing { unit_bits: self.mark() as u8 }
    }

    /// Returns the approximate length of an item's record.
    pub(crate) fn bytes_for(key_bytes: usize, value_bytes: usize) -> usize {
        HEADER_BYTES + key_bytes + value_bytes
    }

    /// Returns the form of a copy of the value. The copy of a growing value cannot grow.
    pub(crate) fn form_of_copy(self) -> Form {
        match self.mark() {
            _ if self.is_large() => Form::Table,
            shown_bytes if self.is_number() => Form::Number { shown_bytes: shown_bytes as u8 },
            _ => Form::Plain,
        }
    }

    /// True if fields other than the deadline may change while the record stays in place.
    #[inline]
    pub(crate) fn changes_in_place(self) -> bool {
        self.mark() != 0
    }

    /// Returns the length of the value that clients read. Not for large values.
    #[inline]
    pub(crate) fn shown_bytes(self) -> usize {
        if self.is_number() { self.mark() as usize } else { self.value_bytes() }
    }

    /// Returns the header with another length of the value.
    pub(crate) fn with_value_bytes(self, value_bytes: usize) -> Self {
        debug_assert!(value_bytes as u64 <= VALUE_MASK);
        Self(self.0 & !VALUE_MASK | value_bytes as u64)
    }

    /// True if the record may belong to a key of this length. A piece has no key and fits none.
    #[inline]
    pub(crate) fn fits(self, key_bytes: usize) -> bool {
        self.0 & KEY_MASK == (key_bytes as u64) << KEY_SHIFT
    }

    #[inline]
    pub(crate) fn version_at(self) -> Option<usize> {
        self.has(VERSION).then_some(HEADER_BYTES)
    }

    #[inline]
    pub(crate) fn deadline_at(self) -> Option<usize> {
        let at = HEADER_BYTES + if self.has(VERSION) { 8 } else { 0 };
        self.has(DEADLINE).then_some(at)
    }

    #[inline]
    pub(crate) fn flags_at(self) -> Option<usize> {
        let before = if self.has(VERSION) { 8 } else { 0 } + if self.has(DEADLINE) { 4 } else { 0 };
        self.has(FLAGS).then_some(HEADER_BYTES + before)
    }

    /// Returns the offset of the key in the record.
    #[inline]
    pub(crate) fn key_at(self) -> usize {
        if self.is_piece() {
            return PIECE_HEAD_BYTES;
        }
        HEADER_BYTES
            + if self.has(VERSION) { 8 } else { 0 }
            + if self.has(DEADLINE) { 4 } else { 0 }
            + if self.has(FLAGS) { 4 } else { 0 }
    }

    /// Returns the offset of the value in the record.
    #[inline]
    pub(crate) fn value_at(self) -> usize {
        let key_end = self.key_at() + self.key_bytes();
        // Tables and numbers are accessed word by word, so they must be aligned.
        if self.has(LARGE | NUMBER) { key_end.next_multiple_of(8) } else { key_end }
    }

    /// Returns the length of the record, padding included.
    #[inline]
    pub(crate) fn record_bytes(self) -> usize {
        let unit_bits = if self.is_growing() { self.mark() } else { 0 };
        (self.value_at() + self.value_bytes()).next_multiple_of(1 << unit_bits.max(UNIT_BITS_MIN))
    }

    #[inline]
    pub(crate) fn deadline(self, memory: &Memory, record_at: usize) -> Deadline {
        self.deadline_at()
            .map_or(Deadline::NEVER, |at| Deadline(memory.half(record_at + at).load(Relaxed)))
    }

    #[inline]
    pub(crate) fn flags(self, memory: &Memory, record_at: usize) -> u32 {
        self.flags_at().map_or(0, |at| memory.half(record_at + at).load(Relaxed))
    }

    #[inline]
    pub(crate) fn version(self, memory: &Memory, record_at: usize) -> u64 {
        // Pairs with the release in `update_value`.
        self.version_at().map_or(0, |at| memory.word(record_at + at).load(Acquire))
    }
}

/// The content of a record that is about to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) hash: u64,
    pub(crate) flags: u32,
    /// The deadline, or `None` if the record has no deadline field. The field may contain "never",
    /// so that a deadline can be set later.
    pub(crate) deadline: Option<Deadline>,
    /// True if the record has a version field, which publication fills in.
    pub(crate) versioned: bool,
    /// The bytes in place of the value: see [`Form`].
    pub(crate) value: &'a [u8],
    pub(crate) form: Form,
}

impl Draft<'_> {
    pub(crate) fn header(&self) -> Header {
        let fields = Fields {
            version: self.versioned,
            deadline: self.deadline.is_some(),
            flags: self.flags != 0,
        };
        Header::new(fields, self.form, self.key.len(), self.value.len())
    }

    /// Returns the length of the value that clients read.
    pub(crate) fn shown_bytes(&self) -> usize {
        match self.form {
            // The table starts with this length.
            Form::Table => {
                self.value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes) as usize)
            }
            _ => self.header().shown_bytes(),
        }
    }

    /// Writes the record to space that the caller owns.
    pub(crate) fn write(&self, memory: &Memory, record_at: usize) {
        let header = self.header();
        if let (Some(at), Some(deadline)) = (header.deadline_at(), self.deadline) {
            memory.half(record_at + at).store(deadline.0, Relaxed);
        }
        if let Some(at) = header.flags_at() {
            memory.half(record_at + at).store(self.flags, Relaxed);
        }
        memory.write(record_at + header.key_at(), self.key);
        memory.write(record_at + header.value_at(), self.value);
        memory.word(record_at).store(header.word(), Relaxed);
    }
}

const _: () = assert!(PIECE_HEAD_BYTES == 16 && HEADER_BYTES == size_of::<Header>());
// A record fits in a segment, so every length of a value fits in its field.
const _: () = assert!(SEGMENT_BYTES_MAX as u64 - 1 <= VALUE_MASK);
const _: () = assert!(USED_SHIFT + used::BITS == u64::BITS);

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: bool, deadline: bool, flags: bool) -> Header {
        let fields = Fields { version, deadline, flags };
        Header::new(fields, Form::Plain, 20, 100)
    }

    #[test]
    fn absent_fields_take_no_bytes() {
        assert_eq!(header(false, false, false).record_bytes(), 128);
        assert_eq!(header(true, true, true).record_bytes(), 144);
    }

    #[test]
    fn present_fields_are_aligned_and_do_not_overlap() {
        let all = header(true, true, true);
        assert_eq!(
            (all.version_at(), all.deadline_at(), all.flags_at(), all.key_at()),
            (Some(8), Some(16), Some(20), 24)
        );
        let some = header(false, false, true);
        assert_eq!((some.flags_at(), some.key_at(), some.value_at()), (Some(8), 12, 32));
    }

    #[test]
    fn a_growing_record_keeps_its_length_until_its_spare_bytes_are_used() {
        let fields = Fields { version: false, deadline: false, flags: false };
        let form = Form::growing(128);
        let header = Header::new(fields, form, 20, 101);
        assert_eq!(header.record_bytes(), 256);
        assert_eq!(header.with_value_bytes(228).record_bytes(), 256);
        assert_eq!(header.with_value_bytes(229).record_bytes(), 384);
        assert!(header.changes_in_place() && header.is_growing() && !header.is_number());
    }

    #[test]
    fn a_number_takes_eight_bytes_and_records_the_length_of_its_text() {
        let fields = Fields { version: true, deadline: false, flags: false };
        let form = Form::Number { shown_bytes: 3 };
        let header = Header::new(fields, form, 5, NUMBER_BYTES);
        assert_eq!((header.value_at(), header.record_bytes(), header.shown_bytes()), (24, 32, 3));
        assert!(header.changes_in_place() && header.is_number() && !header.is_growing());
    }

    #[test]
    fn a_record_fits_only_its_own_key_length() {
        let header = header(true, false, false);
        assert!(header.fits(20) && !header.fits(21));
        assert!(!header.fits(256 + 20), "a length that the field cannot hold");
        assert!(!Header::piece(100).fits(20));
    }

    #[test]
    fn a_header_without_reads_keeps_all_that_a_change_of_the_item_changes() {
        let header = header(true, true, true);
        let marks = |stale, token_sent| header.with_marks(Marks { stale, token_sent });
        let read = marks(false, true).with_used(Second::MAX).with_initial_freq(2);
        assert_eq!(read.without_reads(), header.without_reads());
        assert_ne!(marks(true, false).without_reads(), header.without_reads());
        for bit in (0..MARK_SHIFT + 5).filter(|bit| *bit != FIELDS_SHIFT + 7) {
            let changed = Header(header.0 ^ 1 << bit);
            assert_ne!(changed.without_reads(), header.without_reads(), "bit {bit} is lost");
        }
    }

    #[test]
    fn the_time_of_the_last_use_changes_nothing_else() {
        let header = header(true, true, true)
            .with_initial_freq(2)
            .with_marks(Marks { stale: true, token_sent: true });
        let used = header.with_used(Second::MAX);
        assert_eq!(used.used(), LastUse::at(Second::MAX));
        assert!(used.is_same_form(header) && used.is_stale() && used.is_token_sent());
        assert_eq!((used.record_bytes(), used.key_bytes()), (header.record_bytes(), 20));
        assert_eq!((used.with_used(0), used.is_fetched(2)), (header.with_used(0), false));
        assert_eq!(Header::piece(100).used(), LastUse(0));
    }
}
