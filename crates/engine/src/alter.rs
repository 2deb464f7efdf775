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

use larder_item::{Direction, Number, Second, StoreMode};
use larder_stats::Counter;

use crate::find::Found;
use crate::record::{Header, NUMBER_BYTES};
use crate::{Arithmetic, Engine, Request, Seat, Stored};

/// What a change in place came to.
pub(crate) enum Altered<T> {
    /// It is done, or cannot be done at all.
    Done(T),
    /// The item must be written anew.
    NotHere,
}

impl Engine {
    /// Moves the counter of a key, if its item is a number whose text stays as long as it is.
    pub(crate) fn count_in_place(
        &self,
        seat: &Seat,
        key: &[u8],
        direction: Direction,
        delta: u64,
        now: Second,
    ) -> Altered<Arithmetic> {
        let hash = self.hash(key);
        let locked = self.lock(seat, hash);
        let found = self.find_locked(&locked, hash, key);
        let Some(found) = found.filter(|found| self.death(found, now).is_none()) else {
            return Altered::Done(Arithmetic::NotFound);
        };
        if !found.header.is_number() {
            return Altered::NotHere;
        }
        let shown_bytes = found.header.shown_bytes();
        let moved = self.number(&found).moved(direction, delta);
        if moved.text_over(shown_bytes).len() != shown_bytes {
            return Altered::NotHere;
        }
        let value_at = found.record_at + found.header.value_at();
        let cas = self.alter(seat, &found, || {
            // Pairs with the acquire in `number`.
            self.memory.word(value_at).store(moved.0, Release);
        });
        Altered::Done(Arithmetic::Number { number: moved.0, cas })
    }

    /// Appends to the value of a key, if its record has room for that.
    pub(crate) fn append_in_place(
        &self,
        seat: &Seat,
        request: &Request<'_>,
        part: &[u8],
        now: Second,
    ) -> Altered<Stored> {
        let hash = self.hash(request.key);
        let locked = self.lock(seat, hash);
        let found = self.find_locked(&locked, hash, request.key);
        let Some(found) = found.filter(|found| self.death(found, now).is_none()) else {
            return Altered::Done(Stored::NotStored);
        };
        if request.cas.is_some_and(|cas| cas != self.version(&found)) {
            return Altered::Done(Stored::Exists);
        }
        let Found { header, record_at, .. } = found;
        let value_bytes = header.value_bytes() + part.len();
        // Not told from the longer header: that has no room for just any length.
        let fits = request.mode == StoreMode::Append
            && header.is_growing()
            && self.accepts(request.key.len(), value_bytes)
            && value_bytes <= header.record_bytes() - header.value_at();
        if !fits {
            return Altered::NotHere;
        }
        self.memory.write(record_at + header.value_at() + header.value_bytes(), part);
        let cas = self.alter(seat, &found, || {
            // Pairs with the acquire in `Header::load`: the bytes are there.
            let longer = header.with_value_bytes(value_bytes).word();
            self.memory.word(record_at).store(longer, Release);
        });
        self.count(seat, Counter::ItemsTotal, 1);
        Altered::Done(Stored::Stored { cas })
    }

    /// Makes a change of a found item's value under a new version. Under the lock of its group.
    fn alter(&self, seat: &Seat, found: &Found, change: impl FnOnce()) -> u64 {
        self.note_read(found);
        self.count(seat, Counter::AlteredInPlace, 1);
        let Some(at) = found.header.version_at() else {
            change();
            return 0;
        };
        let version = self.memory.word(found.record_at + at);
        let new = self.next_version(seat, version.load(Relaxed));
        version.store(0, Relaxed);
        // Who sees the change sees the version gone. Pairs with the fence in `is_unaltered`.
        fence(Release);
        change();
        // Pairs with the acquire in `Header::version`: who sees the version sees the change.
        version.store(new, Release);
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
    pub(crate) fn is_unaltered(&self, found: &Found, version: u64) -> bool {
        if !found.header.changes_in_place() {
            return true;
        }
        // Pairs with the fence in `alter`.
        fence(Acquire);
        let header = Header::load(&self.memory, found.record_at);
        let in_change = version == 0 && header.version_at().is_some();
        header == found.header && !in_change && self.version(found) == version
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
            && found.header == from.header
            && match found.header.version_at().is_none() && found.header.is_number() {
                true => self.number(found).0 == origin,
                false => self.version(found) == origin,
            }
    }

    /// Appends the value of a record, as users see it, to `out`; not for large ones.
    #[inline]
    pub(crate) fn read_value(&self, found: &Found, out: &mut Vec<u8>) {
        let value_at = found.record_at + found.header.value_at();
        if found.header.is_number() {
            out.extend(self.number(found).text_over(found.header.shown_bytes()));
        } else {
            self.memory.read(value_at, found.header.value_bytes(), out);
        }
    }
}

const _: () = assert!(NUMBER_BYTES == size_of::<u64>());
