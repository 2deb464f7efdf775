//! Changing an item where it is: numbers that are counted, values that are appended to.
//!
//! Both are done under the lock of the item's group. A number is one word; appended bytes are written behind the
//! value before the header tells its new length. Where items carry versions, version and value must be seen to
//! belong together: the version is 0 while the value changes, and a reader looks at header and version again
//! when it has read.
//!
//! ```text
//! writer   version ← 0 │ value │ version ← new
//! reader   header, version │ value │ header, version still the same, not 0?
//! ```

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use larder_item::{Deadline, Number, Second, StoreMode};
use larder_region::Sink;
use larder_stats::Counter;

use crate::index::find::Found;
use crate::segment::record::{Header, INITIAL_FREQ_MAX, Marks, NUMBER_BYTES};
use crate::{Arithmetic, ArithmeticRequest, Engine, StoreRequest, Stored, Stuck, ThreadSlot};

/// What a change in place came to.
pub(crate) enum UpdatedValue<T> {
    /// It is done, or cannot be done at all.
    Done(T),
    /// The item must be written anew.
    NotHere,
}

impl Engine {
    /// Moves a counter, if its item is a number whose text stays as long as it is, and has room for a deadline where
    /// one is to be given.
    pub(crate) fn count_in_place(
        &self,
        thread: &ThreadSlot,
        counting: &ArithmeticRequest<'_>,
        now: Second,
    ) -> Result<UpdatedValue<Arithmetic>, Stuck> {
        let hash = self.hash(counting.key);
        let locked = self.lock(thread, hash)?;
        let found = self.find_locked(&locked, hash, counting.key);
        let Some(found) = found.filter(|found| self.death(found, now).is_none()) else {
            return Ok(UpdatedValue::Done(Arithmetic::NotFound));
        };
        if counting.cas.is_some_and(|cas| cas != self.version(&found)) {
            return Ok(UpdatedValue::Done(Arithmetic::Exists));
        }
        let shown_bytes = found.header.shown_bytes();
        let has_room = found.header.deadline_at().is_some()
            || counting.deadline.is_none_or(|deadline| deadline == Deadline::NEVER);
        if !found.header.is_number() || !has_room {
            return Ok(UpdatedValue::NotHere);
        }
        let moved = self.number(&found).moved(counting.direction, counting.delta);
        if moved.text_over(shown_bytes).len() != shown_bytes {
            return Ok(UpdatedValue::NotHere);
        }
        let value_at = found.record_at + found.header.value_at();
        let header = self.note_change(&found).with_used(now);
        self.update_value(thread, &found, counting.version, || {
            // Pairs with the acquire in `number`.
            self.memory.word(value_at).store(moved.0, Release);
            self.set_deadline(&found, counting.deadline);
            self.set_header(&found, header);
        });
        let meta = self.meta(&found, shown_bytes, now);
        Ok(UpdatedValue::Done(Arithmetic::Number { number: moved.0, meta }))
    }

    /// Appends to the value of a key, if its record has room for that.
    pub(crate) fn append_in_place(
        &self,
        thread: &ThreadSlot,
        request: &StoreRequest<'_>,
        part: &[u8],
        now: Second,
    ) -> Result<UpdatedValue<Stored>, Stuck> {
        let hash = self.hash(request.key);
        let locked = self.lock(thread, hash)?;
        let found = self.find_locked(&locked, hash, request.key);
        let Some(found) = found.filter(|found| self.death(found, now).is_none()) else {
            return Ok(UpdatedValue::Done(Stored::NotStored));
        };
        if request.cas.is_some_and(|cas| cas != self.version(&found)) {
            return Ok(UpdatedValue::Done(Stored::Exists));
        }
        let Found { header, record_at, .. } = found;
        let value_bytes = header.value_bytes() + part.len();
        // Not told from the longer header: that has no room for just any length.
        let fits = request.mode == StoreMode::Append
            && header.is_growing()
            && self.accepts(request.key.len(), value_bytes)
            && value_bytes <= header.record_bytes() - header.value_at();
        if !fits {
            return Ok(UpdatedValue::NotHere);
        }
        self.memory.write(record_at + header.value_at() + header.value_bytes(), part);
        // A longer value is a new one that is wanted as the old one was, and once more.
        let freq = (found.slot.freq() + 1).min(INITIAL_FREQ_MAX);
        self.set_slot(found.slot_at, found.slot.with_freq(freq));
        let longer =
            header.with_value_bytes(value_bytes).with_marks(Marks::default()).with_used(now);
        let cas = self.update_value(thread, &found, request.version, || {
            // The bytes are there.
            self.set_header(&found, longer.with_initial_freq(freq));
        });
        self.bump(thread, Counter::ItemsTotal, 1);
        Ok(UpdatedValue::Done(Stored::Stored { cas, value_bytes }))
    }

    /// Counts a change as a read, for eviction to know what is wanted. Gives the header that says that it was none.
    /// Under the lock of the item's group.
    fn note_change(&self, found: &Found) -> Header {
        let freq = found.slot.freq();
        let is_fetched = found.is_fetched();
        let may_note = is_fetched || freq < INITIAL_FREQ_MAX;
        match may_note && self.note_read(found) && !is_fetched {
            true => found.header.with_initial_freq(freq + 1),
            false => found.header,
        }
    }

    /// Changes the header of a found record. Under the lock of its group.
    pub(crate) fn set_header(&self, found: &Found, header: Header) {
        if header != found.header {
            // Pairs with the acquire in `Header::load`.
            self.memory.word(found.record_at).store(header.word(), Release);
        }
    }

    /// Changes the deadline of a found record that has room for one. Under the lock of its group.
    pub(crate) fn set_deadline(&self, found: &Found, deadline: Option<Deadline>) {
        if let (Some(deadline), Some(at)) = (deadline, found.header.deadline_at()) {
            self.note_deadline(found.slot.segment(), deadline);
            self.memory.half(found.record_at + at).store(deadline.0, Relaxed);
        }
    }

    /// Makes a change of a found item's value under a new version, or the one asked for. Under the lock of its group.
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
        let version = self.memory.word(found.record_at + at);
        let old = version.load(Relaxed);
        let new = self.give_version(thread, asked, old);
        self.intend_to_change(thread, found.record_at, old);
        version.store(0, Release);
        // Who sees the change sees the version gone. Pairs with the fence in `is_value_unchanged`.
        fence(Release);
        change();
        // Pairs with the acquire in `Header::version`: who sees the version sees the change.
        version.store(new, Release);
        self.end_change(thread);
        new
    }

    /// The number of a record that is one.
    pub(crate) fn number(&self, found: &Found) -> Number {
        // Pairs with the release in `count_in_place`.
        Number(self.memory.word(found.record_at + found.header.value_at()).load(Acquire))
    }

    /// Is what was read of a record, under the version read before, its value still? To be asked after
    /// [`Self::is_still_there`].
    #[inline]
    pub(crate) fn is_value_unchanged(&self, found: &Found, version: u64) -> bool {
        if !found.header.changes_in_place() {
            return true;
        }
        // Pairs with the fence in `update_value`.
        fence(Acquire);
        let header = Header::load(&self.memory, found.record_at);
        let in_change = version == 0 && header.version_at().is_some();
        header.is_same_form(found.header) && !in_change && self.version(found) == version
    }

    /// What tells a record that changed in place from one that did not, besides its header: the version, or, of a
    /// number without one, the number that was read as `value`.
    pub(crate) fn origin(&self, found: &Found, version: u64, value: &[u8]) -> u64 {
        if found.header.version_at().is_some() || !found.header.is_number() {
            return version;
        }
        Number::parse(value).map_or(0, |number| number.0)
    }

    /// Is a record, under the lock of its group, still the one from which something was made?
    pub(crate) fn is_origin(&self, found: &Found, from: &Found, origin: u64) -> bool {
        found.slot.location() == from.slot.location()
            && found.sequence == from.sequence
            && found.header.is_same_form(from.header)
            && match found.header.version_at().is_none() && found.header.is_number() {
                true => self.number(found).0 == origin,
                false => self.version(found) == origin,
            }
    }

    /// Appends the value of a record, as users see it, to `out`; not for large ones.
    #[inline(always)]
    pub(crate) fn read_value(&self, found: &Found, out: &mut impl Sink) {
        let value_at = found.record_at + found.header.value_at();
        if found.header.is_number() {
            out.extend(&self.number(found).text_over(found.header.shown_bytes()));
        } else {
            self.memory.read(value_at, found.header.value_bytes(), out);
        }
    }
}

const _: () = assert!(NUMBER_BYTES == size_of::<u64>());
