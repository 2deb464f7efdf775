//! Updates of a value: arithmetic on numbers, appends and prepends, and overwrites in place (module
//! [`overwrite`]).
//!
//! A value is changed in place if its record allows it. Otherwise a new record is made from it and
//! replaces it.
//!
//! A change in place happens under the lock of the item's group. A number is one word. An append
//! first writes the new bytes after the end of the value, and then the new length to the header. An
//! overwrite writes all of the value, so its record must have a version.
//! With versions, value and version must match: the version is 0 while the value changes, and a
//! reader checks header and version again after its copy.
//!
//! ```text
//! writer   version ← 0 │ value │ version ← new
//! reader   header, version │ value │ header, version still the same, not 0?
//! ```

pub(crate) mod overwrite;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use larder_item::{Deadline, Number};
use larder_stats::Counter;

use crate::engine::Engine;
use crate::error::StoreError;
use crate::index::find::Found;
use crate::ops::condition::Replace;
use crate::ops::request::Stored;
use crate::process::op::Op;
use crate::process::thread_slot::{InPlace, ThreadSlot};
use crate::segment::record::{Form, Header, INITIAL_FREQ_MAX, NUMBER_BYTES};

/// The outcome of a change in place.
pub(crate) enum UpdatedValue<T> {
    /// No new record is needed: the change is done, or it is impossible. Holds the result.
    Done(T),
    /// The record does not allow the change. A new record must replace it.
    NotHere,
}

impl Engine {
    /// Updates the value of a key's item, or returns `absent` if the key has no item. `in_place`
    /// tries to change it under the lock of the item's group. If the item must be rewritten,
    /// `replace` makes a new record from it. `replace` is called again while it returns `None`,
    /// which means that another thread interfered.
    pub(crate) fn update_or_replace<T: Copy>(
        &self,
        op: &Op<'_>,
        key: &[u8],
        absent: T,
        in_place: impl FnOnce(&Found) -> UpdatedValue<T>,
        replace: impl Fn(&Found) -> Option<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let hash = self.index().hash(key);
        let locked = self.index().lock(op, hash)?;
        let found = self.index().find_locked(&locked, hash, key);
        let Some(found) = found.filter(|found| self.index().death(found, op.now).is_none()) else {
            return Ok(absent);
        };
        let updated = in_place(&found);
        drop(locked);
        match updated {
            UpdatedValue::Done(done) => Ok(done),
            UpdatedValue::NotHere => self.rework(op, key, |_, found| match found {
                Some(found) => replace(found),
                None => Some(Ok(absent)),
            }),
        }
    }

    /// True if a found item must be rewritten even if the new value would fit in its record.
    pub(crate) fn is_fixed(&self, found: &Found) -> bool {
        // A journal orders changes of records, not of single words in a record. So in a cache with
        // a journal, each change of a value writes a new record.
        // Rule: ChangeIsLogged
        self.journal().is_some() || self.index().is_being_removed(found)
    }

    /// Stores another number in a number record, under the requested version. The length of its
    /// text stays the same. Also stores the deadline, if one is given. The caller holds the lock of
    /// the item's group.
    pub(crate) fn set_number(
        &self,
        op: &Op<'_>,
        found: &Found,
        number: u64,
        version: Option<u64>,
        deadline: Option<Deadline>,
    ) {
        let value_at = found.record_at + found.header.value_at();
        let header = self.note_change(found).with_used(op.now);
        self.update_value(op.thread, found, version, InPlace::Update, || {
            // Pairs with the acquire in `number`.
            self.region().word(value_at).store(number, Release);
            self.index().set_deadline(found, deadline);
            self.index().set_header(found, header);
        });
    }

    /// Stores a number in place of the item that `over` names: in a number record if `number` is
    /// given and its text is short enough, otherwise as text. Returns `None` if the item has
    /// changed.
    pub(crate) fn replace_by_number(
        &self,
        op: &Op<'_>,
        key: &[u8],
        over: &Replace<'_>,
        number: Option<u64>,
        text: &[u8],
    ) -> Option<Result<Stored, StoreError>> {
        match number.zip(Form::number(text.len())) {
            Some((number, form)) => self.replace(op, key, over, &number.to_le_bytes(), form),
            None => self.replace(op, key, over, text, Form::Plain),
        }
    }

    /// Counts a change as a read, for eviction. Returns a header with which this read does not
    /// count as a read by a client. The caller holds the lock of the item's group.
    fn note_change(&self, found: &Found) -> Header {
        let freq = found.slot.freq();
        let is_fetched = found.is_fetched();
        let may_note = is_fetched || freq < INITIAL_FREQ_MAX;
        match may_note && self.index().note_read(found) && !is_fetched {
            true => found.header.with_initial_freq(freq + 1),
            false => found.header,
        }
    }

    /// Changes a found item's value, and gives it the requested version or else a new one. Returns
    /// its cas token. The caller holds the lock of its group.
    #[inline]
    pub(crate) fn update_value(
        &self,
        thread: &ThreadSlot,
        found: &Found,
        asked: Option<u64>,
        kind: InPlace,
        change: impl FnOnce(),
    ) -> u64 {
        self.bump(thread, Counter::AlteredInPlace, 1);
        let Some(at) = found.header.version_at() else {
            change();
            return 0;
        };
        let version = self.region().word(found.record_at + at);
        let old = version.load(Relaxed);
        let new = self.give_version(thread, asked, old);
        self.peers().intend_to_change(thread, found.record_at, old, kind);
        version.store(0, Release);
        // A reader that observes the change also observes the cleared version. Pairs with the fence
        // in `is_value_unchanged`.
        fence(Release);
        change();
        // Pairs with the acquire in `Header::version`: a reader that loads the new version also
        // loads the change.
        version.store(new, Release);
        self.peers().end_change(thread);
        self.index().cas_of(new)
    }

    /// Returns the version that the client requested, or otherwise the next one. In a cache without
    /// cas tokens, clients request none.
    pub(crate) fn give_version(
        &self,
        thread: &ThreadSlot,
        asked: Option<u64>,
        replaced: u64,
    ) -> u64 {
        let asked = asked.filter(|_| self.segments().keeps_versions());
        self.peers().give_version(thread, asked, replaced)
    }

    /// True if the value that was copied under `version` did not change during the copy. Call it
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

    /// Returns a number that, together with the header, identifies the state of a record that
    /// changes in place: the version or, in a number record without a version, the number itself.
    pub(crate) fn origin(&self, found: &Found, version: u64, value: &[u8]) -> u64 {
        if found.header.version_at().is_some() || !found.header.is_number() {
            return version;
        }
        Number::parse(value).map_or(0, |number| number.0)
    }

    /// True if a record of a locked group is still the record that the caller made something from.
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
