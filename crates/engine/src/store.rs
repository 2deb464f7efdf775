//! Storing, changing and removing items.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::{Deadline, Direction, KeyError, Number, Second, StoreMode, check_key};
use larder_stats::Counter;

use crate::alter::Altered;
use crate::find::Found;
use crate::group::slots_of;
use crate::lane::{Lane, Pool};
use crate::publish::{Condition, Publication, Unpublished};
use crate::record::{Draft, Form, Header};
use crate::wait::Wait;
use crate::{Engine, NoMemory, Reason, Seat};

/// How often a large value is written before the store gives up: a thread that loses its processor for long
/// may find its first pieces evicted, but not every time.
const LARGE_ATTEMPTS_MAX: u32 = 8;

/// Everything of a store but the value.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// When to store.
    pub mode: StoreMode,
    /// Store only over the item with this cas token.
    pub cas: Option<u64>,
    /// The client's bits.
    pub flags: u32,
    /// When the item shall die. Appending and prepending keep the deadline, and the flags, of the item.
    pub deadline: Deadline,
}

/// The outcome of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The item is stored under this cas token (0 where the cache keeps none).
    Stored {
        /// The item's version.
        cas: u64,
    },
    /// The condition of the mode did not hold.
    NotStored,
    /// The item there has another cas token.
    Exists,
    /// There is no item with the cas token, or any other.
    NotFound,
}

/// Why a store could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The item is larger than the cache accepts.
    #[error("the item is larger than the cache accepts; store less, or raise the item size limit")]
    TooLarge,
    /// No memory could be had.
    #[error("no memory could be had for the item; allow eviction, or give the cache more memory")]
    NoMemory,
    /// The key cannot be one.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl From<NoMemory> for StoreError {
    fn from(_: NoMemory) -> Self {
        Self::NoMemory
    }
}

/// The outcome of moving a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// The counter's new state.
    Number {
        /// The number it shows.
        number: u64,
        /// The item's version.
        cas: u64,
    },
    /// There is no such item.
    NotFound,
    /// The item's value is no number.
    NonNumeric,
}

impl Engine {
    /// Stores an item. A [`StoreMode::Set`] that fails removes the item that is there, as in memcached:
    /// nobody reads what the client wanted to replace.
    ///
    /// Cost: the value is copied once; one group is locked for the publication; where no free segment is
    /// left an old one is emptied first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn store(
        &self,
        seat: &Seat,
        request: &Request<'_>,
        value: &[u8],
        now: Second,
    ) -> Result<Stored, StoreError> {
        check_key(request.key)?;
        self.flush_if_due(now);
        let stored = match request.mode {
            StoreMode::Append | StoreMode::Prepend => self.extend(seat, request, value, now),
            _ => self
                .place(seat, request, value, &Condition::of(request), now)
                .map_err(StoreError::from),
        };
        self.grow_if_due(seat, now);
        if stored.is_err() {
            self.give_up(seat, request, now);
        }
        stored
    }

    /// Removes the item that a failed [`StoreMode::Set`] was to replace.
    pub fn give_up(&self, seat: &Seat, request: &Request<'_>, now: Second) {
        if request.mode == StoreMode::Set && request.cas.is_none() {
            self.delete(seat, request.key, now);
        }
    }

    /// Writes a record, or the pieces of a large one, and publishes it.
    fn place(
        &self,
        seat: &Seat,
        request: &Request<'_>,
        value: &[u8],
        condition: &Condition<'_>,
        now: Second,
    ) -> Result<Stored, Unpublished> {
        self.place_as(seat, request, value, Form::Plain, condition, now)
    }

    /// As [`Self::place`], where the value is kept in another form if it is small.
    fn place_as(
        &self,
        seat: &Seat,
        request: &Request<'_>,
        value: &[u8],
        form: Form,
        condition: &Condition<'_>,
        now: Second,
    ) -> Result<Stored, Unpublished> {
        if !self.accepts(request.key.len(), value.len()) {
            return Err(StoreError::TooLarge.into());
        }
        if value.len() > self.inline_bytes_max() {
            return self.place_large(seat, request, value, condition, now);
        }
        let hash = self.hash(request.key);
        let lane = self.lane_for(hash, request.deadline, now);
        let draft = Draft {
            key: request.key,
            hash,
            flags: request.flags,
            deadline: condition.deadline_field(request),
            versioned: self.keeps_versions,
            value,
            form,
        };
        let publication = Publication { draft: &draft, pieces: &[], carried: None };
        self.write_and_publish(seat, &publication, lane, condition, now)
    }

    /// Writes a record to a lane and publishes it.
    pub(crate) fn write_and_publish(
        &self,
        seat: &Seat,
        publication: &Publication<'_>,
        lane: Lane,
        condition: &Condition<'_>,
        now: Second,
    ) -> Result<Stored, Unpublished> {
        let draft = publication.draft;
        let bytes = draft.header().record_bytes();
        loop {
            let room = self.reserve(seat, lane, bytes, bytes, now)?;
            draft.write(&self.memory, room.at());
            let published = self.publish(seat, publication, &room, condition, now);
            drop(room);
            if published != Err(Unpublished::NoSlot) {
                return published;
            }
            self.add_overflow_segment(seat, now)?;
        }
    }

    /// The lane for a store: of what it replaces, or of the main pool where the ghost remembers the key. It may
    /// be mistaken, which costs a little of the hit ratio: what counts is looked at under the lock.
    pub(crate) fn lane_for(&self, hash: u64, deadline: Deadline, now: Second) -> Lane {
        let (group, tag) = (self.group_of(hash), self.tag_of(hash));
        let mut slots = self
            .chain(self.group_at(group))
            .flat_map(|group_at| slots_of(group_at, hash))
            .map(|at| self.slot(at));
        let pool = match slots.find(|slot| slot.has_tag(tag)) {
            Some(slot) => {
                self.prefetch_slot(slot);
                if self.evicts { self.lane(slot.segment()).pool } else { Pool::Small }
            }
            None if self.evicts && self.ghost_holds(group, hash) => Pool::Main,
            None => Pool::Small,
        };
        self.lane_of(pool, deadline, now)
    }

    /// Writes the pieces of a large value and the record that names them, again where other writers were so
    /// much faster that a piece was evicted meanwhile.
    fn place_large(
        &self,
        seat: &Seat,
        request: &Request<'_>,
        value: &[u8],
        condition: &Condition<'_>,
        now: Second,
    ) -> Result<Stored, Unpublished> {
        let mut attempts = 0;
        loop {
            let mut upload = self.upload(request.key, value.len())?;
            let stored = self
                .push(seat, &mut upload, value, now)
                .map_err(Unpublished::from)
                .and_then(|()| self.finish(seat, &mut upload, request, condition, now));
            if !matches!(stored, Ok(Stored::Stored { .. })) {
                self.abort_upload(seat, upload);
            }
            attempts += 1;
            if stored != Err(Unpublished::PieceLost) || attempts == LARGE_ATTEMPTS_MAX {
                return stored;
            }
        }
    }

    /// Appends to, or prepends to, an item.
    fn extend(
        &self,
        seat: &Seat,
        request: &Request<'_>,
        part: &[u8],
        now: Second,
    ) -> Result<Stored, StoreError> {
        if let Altered::Done(stored) = self.append_in_place(seat, request, part, now) {
            return Ok(stored);
        }
        self.rework(seat, request.key, now, |engine, found| {
            let Some(found) = found else {
                return Some(Ok(Stored::NotStored));
            };
            let version = engine.version(found);
            if request.cas.is_some_and(|cas| version != cas) {
                return engine.is_settled(found, version).then_some(Ok(Stored::Exists));
            }
            if found.header.is_large() {
                return engine.extend_large(seat, request, found, part, now);
            }
            let mut value = engine.value_of(found)?;
            let origin = engine.origin(found, version, &value);
            match request.mode {
                StoreMode::Prepend => value.splice(..0, part.iter().copied()).for_each(drop),
                _ => value.extend_from_slice(part),
            }
            // What is appended to once is often appended to again.
            let record_bytes = Header::bytes_for(request.key.len(), value.len());
            let form = match request.mode {
                StoreMode::Append => Form::growing(record_bytes),
                _ => Form::Plain,
            };
            let over = Condition::Over(found, origin);
            engine.replace(seat, request.key, &over, &value, form, now)
        })
    }

    /// Moves a counter up or down (memcached's protocol, section "Increment/Decrement"). A number that has been
    /// moved once is kept as a number: from then on it is one word, changed where it is.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] where the new number cannot be stored.
    pub fn arithmetic(
        &self,
        seat: &Seat,
        key: &[u8],
        direction: Direction,
        delta: u64,
        now: Second,
    ) -> Result<Arithmetic, StoreError> {
        self.flush_if_due(now);
        if let Altered::Done(done) = self.count_in_place(seat, key, direction, delta, now) {
            return Ok(done);
        }
        self.rework(seat, key, now, |engine, found| {
            let Some(found) = found else {
                return Some(Ok(Arithmetic::NotFound));
            };
            if found.header.is_large() {
                return engine.is_still_there(found).then_some(Ok(Arithmetic::NonNumeric));
            }
            let version = engine.version(found);
            let old = engine.value_of(found)?;
            let over = Condition::Over(found, engine.origin(found, version, &old));
            let Ok(number) = Number::parse(&old) else {
                return Some(Ok(Arithmetic::NonNumeric));
            };
            let moved = number.moved(direction, delta);
            let text = moved.text_over(old.len());
            let stored = match u8::try_from(text.len()) {
                Ok(shown_bytes) => {
                    let form = Form::Number { shown_bytes };
                    engine.replace(seat, key, &over, &moved.0.to_le_bytes(), form, now)?
                }
                // Digits and so many spaces: such a value stays a text.
                Err(_) => engine.replace(seat, key, &over, &text, Form::Plain, now)?,
            };
            Some(stored.map(|stored| match stored {
                Stored::Stored { cas } => Arithmetic::Number { number: moved.0, cas },
                _ => Arithmetic::NotFound,
            }))
        })
    }

    /// Is a record, and its version, what was read of it?
    fn is_settled(&self, found: &Found, version: u64) -> bool {
        self.is_still_there(found) && self.is_unaltered(found, version)
    }

    /// Makes something from the live item of a key, again and again until nobody interferes: `attempt` says
    /// none where somebody did.
    fn rework<T>(
        &self,
        seat: &Seat,
        key: &[u8],
        now: Second,
        attempt: impl Fn(&Self, Option<&Found>) -> Option<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let hash = self.hash(key);
        let mut wait = Wait::default();
        loop {
            let found = self.find(hash, key);
            let live = found.filter(|found| self.death(found, now).is_none());
            if let Some(done) = attempt(self, live.as_ref()) {
                self.grow_if_due(seat, now);
                return done;
            }
            self.count(seat, Counter::ReadsRetried, 1);
            wait.pause();
        }
    }

    /// Stores a new value over the item it was made from, keeping its flags and deadline; none where that has
    /// changed.
    fn replace(
        &self,
        seat: &Seat,
        key: &[u8],
        over: &Condition<'_>,
        value: &[u8],
        form: Form,
        now: Second,
    ) -> Option<Result<Stored, StoreError>> {
        let Condition::Over(found, _) = over else {
            return None;
        };
        let request = self.request_over(key, found)?;
        match self.place_as(seat, &request, value, form, over, now) {
            Err(Unpublished::Changed) => None,
            done => Some(done.map_err(StoreError::from)),
        }
    }

    /// The request that keeps flags and deadline of a found item; none where the item changed.
    pub(crate) fn request_over<'k>(&self, key: &'k [u8], found: &Found) -> Option<Request<'k>> {
        let request = Request {
            key,
            mode: StoreMode::Set,
            cas: None,
            flags: found.header.flags(&self.memory, found.record_at),
            deadline: self.deadline(found),
        };
        self.is_still_there(found).then_some(request)
    }

    /// Removes an item; false where there is none.
    pub fn delete(&self, seat: &Seat, key: &[u8], now: Second) -> bool {
        self.flush_if_due(now);
        let hash = self.hash(key);
        let locked = self.lock(seat, hash);
        let Some(found) = self.find_locked(&locked, hash, key) else {
            return false;
        };
        if let Some(death) = self.death(&found, now) {
            self.reclaim(seat, &found, death);
            return false;
        }
        self.tell_removal(&found, Reason::Deleted);
        self.unlink(seat, &found);
        true
    }

    /// Gives an item a new deadline; false where there is none. The cas token stays.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] where an item stored without a deadline must be moved to get one, and
    /// cannot.
    pub fn touch(
        &self,
        seat: &Seat,
        key: &[u8],
        deadline: Deadline,
        now: Second,
    ) -> Result<bool, StoreError> {
        self.flush_if_due(now);
        let hash = self.hash(key);
        {
            let locked = self.lock(seat, hash);
            let found = self.find_locked(&locked, hash, key);
            let Some(found) = found.filter(|found| self.death(found, now).is_none()) else {
                return Ok(false);
            };
            if let Some(at) = found.header.deadline_at() {
                self.note_deadline(found.slot.segment(), deadline);
                self.memory.half(found.record_at + at).store(deadline.0, Relaxed);
                return Ok(true);
            }
        }
        if deadline == Deadline::NEVER {
            return Ok(true);
        }
        self.give_deadline_field(seat, hash, key, deadline, now)
    }
}

#[cfg(test)]
mod tests {
    use larder_item::Epoch;

    use super::*;
    use crate::Config;

    fn engine() -> Engine {
        Engine::create(&Config {
            memory_bytes: 1 << 20,
            memory_bytes_max: 1 << 20,
            huge_pages: false,
            item_bytes_max: 1 << 18,
            keeps_versions: true,
            evicts: true,
            hash_seed: 1,
            epoch: Epoch { unix_secs: 0 },
        })
        .unwrap()
    }

    fn request(deadline: Deadline) -> Request<'static> {
        Request { key: b"k", mode: StoreMode::Set, cas: None, flags: 0, deadline }
    }

    #[test]
    fn a_touch_between_reading_and_replacing_an_item_is_kept() {
        let (engine, now) = (engine(), 10);
        let seat = engine.sit().unwrap();
        engine.store(&seat, &request(Deadline(20)), b"old", now).unwrap();
        let found = engine.find(engine.hash(b"k"), b"k").unwrap();
        engine.touch(&seat, b"k", Deadline(99), now).unwrap();
        // The new item was made when the deadline was still 20.
        let over = Condition::Over(&found, engine.version(&found));
        let stored = engine.place(&seat, &request(Deadline(20)), b"new", &over, now);
        assert!(matches!(stored, Ok(Stored::Stored { .. })));
        let found = engine.find(engine.hash(b"k"), b"k").unwrap();
        assert_eq!(engine.deadline(&found), Deadline(99));
        engine.validate().unwrap();
    }

    #[test]
    fn an_item_stored_between_reading_and_replacing_is_not_overwritten() {
        let (engine, now) = (engine(), 10);
        let seat = engine.sit().unwrap();
        engine.store(&seat, &request(Deadline::NEVER), b"old", now).unwrap();
        let found = engine.find(engine.hash(b"k"), b"k").unwrap();
        engine.store(&seat, &request(Deadline::NEVER), b"newer", now).unwrap();
        let over = Condition::Over(&found, engine.version(&found));
        assert!(engine.replace(&seat, b"k", &over, b"from old", Form::Plain, now).is_none());
        assert_eq!(
            engine.value_of(&engine.find(engine.hash(b"k"), b"k").unwrap()).unwrap(),
            b"newer"
        );
        engine.validate().unwrap();
    }
}
