//! Changes of a value in place: arithmetic on numbers, and appends.
//!
//! Both happen under the lock of the item's group. A number is one word. Appended bytes are written
//! behind the value before the header shows the new length. With versions, value and version must
//! match: the version is 0 while the value changes, and a reader checks header and version again
//! after its copy.
//!
//! ```text
//! writer   version ← 0 │ value │ version ← new
//! reader   header, version │ value │ header, version still the same, not 0?
//! ```

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use larder_item::{Deadline, Number, StoreMode};
use larder_stats::Counter;

use crate::engine::Engine;
use crate::error::Stuck;
use crate::index::find::Found;
use crate::ops::arithmetic::{Arithmetic, ArithmeticRequest};
use crate::ops::request::{StoreRequest, Stored};
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::record::{Header, INITIAL_FREQ_MAX, Marks, NUMBER_BYTES};

/// The outcome of a change in place.
pub(crate) enum UpdatedValue<T> {
    /// The change is done, or is impossible.
    Done(T),
    /// The item must be rewritten.
    NotHere,
}

impl Engine {
    /// Changes a number in place if its text keeps its length and the record has room for a new
    /// deadline, if one is given.
    pub(crate) fn count_in_place(
        &self,
        op: &Op<'_>,
        counting: &ArithmeticRequest<'_>,
    ) -> Result<UpdatedValue<Arithmetic>, Stuck> {
        let hash = self.index().hash(counting.key);
        let locked = self.index().lock(op, hash)?;
        let found = self.index().find_locked(&locked, hash, counting.key);
        let Some(found) = found.filter(|found| self.index().death(found, op.now).is_none()) else {
            return Ok(UpdatedValue::Done(Arithmetic::NotFound));
        };
        if counting.cas.is_some_and(|cas| cas != self.index().version(&found)) {
            return Ok(UpdatedValue::Done(Arithmetic::Exists));
        }
        let shown_bytes = found.header.shown_bytes();
        let has_room = found.header.deadline_at().is_some()
            || counting.deadline.is_none_or(|deadline| deadline == Deadline::NEVER);
        // A journal records changes in the order of records, not of words.
        let is_fixed = self.journal().is_some() || self.index().is_condemned(&found);
        if !found.header.is_number() || !has_room || is_fixed {
            return Ok(UpdatedValue::NotHere);
        }
        let moved = self.index().number(&found).moved(counting.direction, counting.delta);
        if moved.text_over(shown_bytes).len() != shown_bytes {
            return Ok(UpdatedValue::NotHere);
        }
        let value_at = found.record_at + found.header.value_at();
        let header = self.note_change(&found).with_used(op.now);
        self.update_value(op.thread, &found, counting.version, || {
            // Pairs with the acquire in `number`.
            self.region().word(value_at).store(moved.0, Release);
            self.index().set_deadline(&found, counting.deadline);
            self.index().set_header(&found, header);
        });
        let meta = self.index().meta(&found, shown_bytes, op.now);
        Ok(UpdatedValue::Done(Arithmetic::Number { number: moved.0, meta }))
    }

    /// Stores another number in a number record, which keeps its length. The caller holds the lock
    /// of the item's group.
    pub(crate) fn set_number(&self, op: &Op<'_>, found: &Found, number: u64) {
        let value_at = found.record_at + found.header.value_at();
        let header = self.note_change(found).with_used(op.now);
        self.update_value(op.thread, found, None, || {
            // Pairs with the acquire in `number`.
            self.region().word(value_at).store(number, Release);
            self.index().set_header(found, header);
        });
    }

    /// Appends to a value in place if its record has room.
    pub(crate) fn append_in_place(
        &self,
        op: &Op<'_>,
        request: &StoreRequest<'_>,
        part: &[u8],
    ) -> Result<UpdatedValue<Stored>, Stuck> {
        let hash = self.index().hash(request.key);
        let locked = self.index().lock(op, hash)?;
        let found = self.index().find_locked(&locked, hash, request.key);
        let Some(found) = found.filter(|found| self.index().death(found, op.now).is_none()) else {
            return Ok(UpdatedValue::Done(Stored::NotStored));
        };
        if request.cas.is_some_and(|cas| cas != self.index().version(&found)) {
            return Ok(UpdatedValue::Done(Stored::Exists));
        }
        let Found { header, record_at, .. } = found;
        let value_bytes = header.value_bytes() + part.len();
        // Checked with the parts: the longer header has no room for an arbitrary length.
        let fits = request.mode == StoreMode::Append
            && header.is_growing()
            && self.accepts(request.key.len(), value_bytes)
            && value_bytes <= header.record_bytes() - header.value_at()
            && self.journal().is_none()
            && !self.index().is_condemned(&found);
        if !fits {
            return Ok(UpdatedValue::NotHere);
        }
        self.region().memory().write(record_at + header.value_at() + header.value_bytes(), part);
        // The longer value is as popular as the old one, and was used once more.
        let freq = (found.slot.freq() + 1).min(INITIAL_FREQ_MAX);
        self.index().set_slot(found.slot_at, found.slot.with_freq(freq));
        let longer =
            header.with_value_bytes(value_bytes).with_marks(Marks::default()).with_used(op.now);
        let cas = self.update_value(op.thread, &found, request.version, || {
            // The bytes are written.
            self.index().set_header(&found, longer.with_initial_freq(freq));
        });
        self.bump(op.thread, Counter::ItemsTotal, 1);
        Ok(UpdatedValue::Done(Stored::Stored { cas, value_bytes }))
    }

    /// Counts a change as a read, for eviction. Returns the header that does not count it as one.
    /// The caller holds the lock of the item's group.
    fn note_change(&self, found: &Found) -> Header {
        let freq = found.slot.freq();
        let is_fetched = found.is_fetched();
        let may_note = is_fetched || freq < INITIAL_FREQ_MAX;
        match may_note && self.index().note_read(found) && !is_fetched {
            true => found.header.with_initial_freq(freq + 1),
            false => found.header,
        }
    }

    /// Changes a found item's value under a new version, or under the requested one. The caller
    /// holds the lock of its group.
    fn update_value(
        &self,
        thread: &ThreadSlot,
        found: &Found,
        asked: Option<u64>,
        change: impl FnOnce(),
    ) -> u64 {
        self.bump(thread, Counter::AlteredInPlace, 1);
        let Some(at) = found.header.version_at() else {
            change();
            return 0;
        };
        let version = self.region().word(found.record_at + at);
        let old = version.load(Relaxed);
        let new = self.peers().give_version(thread, asked, old);
        self.peers().intend_to_change(thread, found.record_at, old);
        version.store(0, Release);
        // A reader that sees the change sees the cleared version. Pairs with the fence in
        // `is_value_unchanged`.
        fence(Release);
        change();
        // Pairs with the acquire in `Header::version`: a reader that sees the version sees the
        // change.
        version.store(new, Release);
        self.peers().end_change(thread);
        new
    }

    /// True if the value that was copied under `version` was unchanged during the copy. Call it
    /// after `Index::is_still_there`.
    #[inline]
    pub(crate) fn is_value_unchanged(&self, found: &Found, version: u64) -> bool {
        if !found.header.changes_in_place() {
            return true;
        }
        // Pairs with the fence in `update_value`.
        fence(Acquire);
        let header = Header::load(self.region().memory(), found.record_at);
        let in_change = version == 0 && header.version_at().is_some();
        header.is_same_form(found.header) && !in_change && self.index().version(found) == version
    }

    /// Returns what distinguishes a record that changed in place, besides its header: the version,
    /// or the number itself if it has none.
    pub(crate) fn origin(&self, found: &Found, version: u64, value: &[u8]) -> u64 {
        if found.header.version_at().is_some() || !found.header.is_number() {
            return version;
        }
        Number::parse(value).map_or(0, |number| number.0)
    }

    /// True if a record of a locked group is still the one that something was made from.
    pub(crate) fn is_origin(&self, found: &Found, from: &Found, origin: u64) -> bool {
        found.slot.location() == from.slot.location()
            && found.sequence == from.sequence
            && found.header.is_same_form(from.header)
            && match found.header.version_at().is_none() && found.header.is_number() {
                true => self.index().number(found).0 == origin,
                false => self.index().version(found) == origin,
            }
    }
}

const _: () = assert!(NUMBER_BYTES == size_of::<u64>());
