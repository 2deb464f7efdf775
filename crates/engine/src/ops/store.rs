//! Storing items, and making new ones from those that are there.

use larder_item::{Deadline, KeyError, Second, StoreMode, check_key};
use larder_stats::Counter;

use crate::index::find::Found;
use crate::ops::publish::{Condition, Publication, Replace, Unpublished};
use crate::ops::update_value::UpdatedValue;
use crate::process::wait::Wait;
use crate::segment::record::{Draft, Form, Header};
use crate::segment::stream::{Pool, Stream};
use crate::{Engine, Stuck, ThreadSlot};

/// How often a large value is written before the store gives up: a thread that loses its processor for long
/// may find its first pieces evicted, but not every time.
pub(crate) const LARGE_ATTEMPTS_MAX: u32 = 8;

/// What makes a store leave a stale item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stale {
    /// Nothing: what is stored is up to date.
    #[default]
    Never,
    /// That the request's cas token is **lower** than the item's: the value is stored all the same, for it is newer
    /// than none, but the item is stale, keeps its deadline, and its won mark. Only for [`StoreMode::Set`] and
    /// [`StoreMode::Replace`]; a token that is higher is refused as any other.
    IfOlder,
    /// It is stored stale.
    Always,
}

/// Everything of a store but the value.
///
/// ```
/// # use larder_engine::StoreRequest;
/// # use larder_item::StoreMode;
/// let add = StoreRequest { flags: 7, ..StoreRequest::new(b"key", StoreMode::Add) };
/// assert_eq!((add.cas, add.version), (None, None));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StoreRequest<'a> {
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
    /// The cas token that the item shall get, in place of the next one. 0 is as none, and a cache without tokens
    /// keeps none. Tokens given later are other ones, and higher unless this is beyond 2⁵³.
    pub version: Option<u64>,
    /// Is the item stored with the right to bring its value given away? Appending and prepending take the right,
    /// and the mark of a stale item, from it.
    pub token_sent: bool,
    /// Is it stored as a stale one?
    pub stale: Stale,
}

impl<'a> StoreRequest<'a> {
    /// A store without flags, for ever, with nothing special about it.
    pub const fn new(key: &'a [u8], mode: StoreMode) -> Self {
        Self {
            key,
            mode,
            cas: None,
            flags: 0,
            deadline: Deadline::NEVER,
            version: None,
            token_sent: false,
            stale: Stale::Never,
        }
    }
}

/// The outcome of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The item is stored under this cas token (0 where the cache keeps none).
    Stored {
        /// The item's version.
        cas: u64,
        /// Bytes of its value, the part that was there included.
        value_bytes: usize,
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
    /// Another process holds what the operation needs, and does not run: see [`Stuck`].
    #[error(transparent)]
    Stuck(#[from] Stuck),
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
        thread: &ThreadSlot,
        request: &StoreRequest<'_>,
        value: &[u8],
        now: Second,
    ) -> Result<Stored, StoreError> {
        check_key(request.key)?;
        self.flush_if_due(now);
        let stored = match request.mode {
            StoreMode::Append | StoreMode::Prepend => self.extend(thread, request, value, now),
            _ => self
                .place(thread, request, value, &Condition::Requested(request), now)
                .map_err(StoreError::from),
        };
        self.grow_if_due(thread, now);
        // Who has been waiting for a stopped process would wait for it again.
        if stored.as_ref().is_err_and(|error| !matches!(error, StoreError::Stuck(_))) {
            self.give_up(thread, request, now);
        }
        stored
    }

    /// Removes the item that a failed [`StoreMode::Set`] was to replace.
    pub fn give_up(&self, thread: &ThreadSlot, request: &StoreRequest<'_>, now: Second) {
        if request.mode == StoreMode::Set && request.cas.is_none() {
            // Where somebody who has been stopped holds it, it stays: the error says so.
            let _ = self.delete(thread, request.key, None, now);
        }
    }

    /// Writes a record, or the pieces of a large one, and publishes it.
    pub(crate) fn place(
        &self,
        thread: &ThreadSlot,
        request: &StoreRequest<'_>,
        value: &[u8],
        condition: &Condition<'_>,
        now: Second,
    ) -> Result<Stored, Unpublished> {
        self.place_as(thread, request, value, Form::Plain, condition, now)
    }

    /// As [`Self::place`], where the value is kept in another form if it is small.
    fn place_as(
        &self,
        thread: &ThreadSlot,
        request: &StoreRequest<'_>,
        value: &[u8],
        form: Form,
        condition: &Condition<'_>,
        now: Second,
    ) -> Result<Stored, Unpublished> {
        if !self.accepts(request.key.len(), value.len()) {
            return Err(StoreError::TooLarge.into());
        }
        if value.len() > self.inline_bytes_max() {
            return self.place_large(thread, request, value, condition, now);
        }
        let hash = self.hash(request.key);
        let stream = self.stream_for(hash, request.deadline, now);
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
        self.write_and_publish(thread, &publication, stream, condition, now)
    }

    /// Writes a record to a stream and publishes it.
    pub(crate) fn write_and_publish(
        &self,
        thread: &ThreadSlot,
        publication: &Publication<'_>,
        stream: Stream,
        condition: &Condition<'_>,
        now: Second,
    ) -> Result<Stored, Unpublished> {
        let draft = publication.draft;
        let bytes = draft.header().record_bytes();
        loop {
            let room = self.reserve(thread, stream, bytes, bytes, now)?;
            draft.write(&self.memory, room.at());
            let published = self.publish(thread, publication, &room, condition, now);
            drop(room);
            if published != Err(Unpublished::NoSlot) {
                return published;
            }
            self.add_overflow_segment(thread, now)?;
        }
    }

    /// The stream for a store: of what it replaces, or of the main pool where the ghost remembers the key. It may
    /// be mistaken, which costs a little of the hit ratio: what counts is looked at under the lock.
    pub(crate) fn stream_for(&self, hash: u64, deadline: Deadline, now: Second) -> Stream {
        let (group, tag) = (self.group_of(hash), self.tag_of(hash));
        let mut slots = self.slots(self.group_at(group), hash).map(|at| self.slot(at));
        let pool = match slots.find(|slot| slot.has_tag(tag)) {
            Some(slot) => {
                self.prefetch_slot(slot);
                if self.evicts { self.stream(slot.segment()).pool } else { Pool::Small }
            }
            None if self.evicts && self.ghost_holds(group, hash) => Pool::Main,
            None => Pool::Small,
        };
        self.stream_of(pool, deadline, now)
    }

    /// Writes the pieces of a large value and the record that names them, again where other writers were so
    /// much faster that a piece was evicted meanwhile.
    fn place_large(
        &self,
        thread: &ThreadSlot,
        request: &StoreRequest<'_>,
        value: &[u8],
        condition: &Condition<'_>,
        now: Second,
    ) -> Result<Stored, Unpublished> {
        let mut attempts = 0;
        loop {
            let mut upload = self.upload(request.key, value.len())?;
            let stored = self
                .take_in(thread, &mut upload, value, now)
                .and_then(|()| self.finish(thread, &upload, request, condition, now));
            if !matches!(stored, Ok(Stored::Stored { .. })) {
                self.abort_upload(thread, upload);
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
        thread: &ThreadSlot,
        request: &StoreRequest<'_>,
        part: &[u8],
        now: Second,
    ) -> Result<Stored, StoreError> {
        if self.is_long_part(part.len()) {
            return self.extend_by(thread, request, part, now);
        }
        if let UpdatedValue::Done(stored) = self.append_in_place(thread, request, part, now)? {
            return Ok(stored);
        }
        self.rework(thread, request.key, now, |engine, found| {
            let Some(found) = found else {
                return Some(Ok(Stored::NotStored));
            };
            let version = engine.version(found);
            if request.cas.is_some_and(|cas| version != cas) {
                return engine.is_settled(found, version).then_some(Ok(Stored::Exists));
            }
            if found.header.is_large() {
                return engine.extend_large(thread, request, found, part, now);
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
            let over = Replace {
                found,
                origin,
                version: request.version,
                deadline: None,
                keeps_identity: false,
            };
            engine.replace(thread, request.key, &over, &value, form, now)
        })
    }

    /// Is a record, and its version, what was read of it?
    pub(crate) fn is_settled(&self, found: &Found, version: u64) -> bool {
        self.is_still_there(found) && self.is_value_unchanged(found, version)
    }

    /// Makes something from the live item of a key, again and again until nobody interferes: `attempt` says
    /// none where somebody did.
    pub(crate) fn rework<T>(
        &self,
        thread: &ThreadSlot,
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
                self.grow_if_due(thread, now);
                return done;
            }
            self.bump(thread, Counter::ReadsRetried, 1);
            self.wait_for_peers(&mut wait)?;
        }
    }

    /// Stores a new value over the item it was made from, keeping its flags and, if no other is given, its deadline;
    /// none where that has changed.
    pub(crate) fn replace(
        &self,
        thread: &ThreadSlot,
        key: &[u8],
        over: &Replace<'_>,
        value: &[u8],
        form: Form,
        now: Second,
    ) -> Option<Result<Stored, StoreError>> {
        let kept = self.request_over(key, over.found)?;
        let request = StoreRequest { deadline: over.deadline.unwrap_or(kept.deadline), ..kept };
        match self.place_as(thread, &request, value, form, &Condition::Replace(*over), now) {
            Err(Unpublished::Changed) => None,
            done => Some(done.map_err(StoreError::from)),
        }
    }

    /// The request that keeps flags and deadline of a found item; none where the item changed.
    pub(crate) fn request_over<'k>(
        &self,
        key: &'k [u8],
        found: &Found,
    ) -> Option<StoreRequest<'k>> {
        let request = StoreRequest {
            flags: found.header.flags(&self.memory, found.record_at),
            deadline: self.deadline(found),
            ..StoreRequest::new(key, StoreMode::Set)
        };
        self.is_still_there(found).then_some(request)
    }
}

#[cfg(test)]
mod tests {
    use larder_item::Epoch;

    use super::*;
    use crate::{Config, MetaUpdate};

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

    fn request(deadline: Deadline) -> StoreRequest<'static> {
        StoreRequest { deadline, ..StoreRequest::new(b"k", StoreMode::Set) }
    }

    fn over<'a>(engine: &Engine, found: &'a Found) -> Replace<'a> {
        let origin = engine.version(found);
        Replace { found, origin, version: None, deadline: None, keeps_identity: false }
    }

    #[test]
    fn a_touch_between_reading_and_replacing_an_item_is_kept() {
        let (engine, now) = (engine(), 10);
        let thread = engine.register().unwrap();
        engine.store(&thread, &request(Deadline(20)), b"old", now).unwrap();
        let found = engine.find(engine.hash(b"k"), b"k").unwrap();
        let update = MetaUpdate { deadline: Some(Deadline(99)), ..MetaUpdate::default() };
        engine.update_meta(&thread, b"k", &update, now).unwrap();
        // The new item was made when the deadline was still 20.
        let over = Condition::Replace(over(&engine, &found));
        let stored = engine.place(&thread, &request(Deadline(20)), b"new", &over, now);
        assert!(matches!(stored, Ok(Stored::Stored { .. })));
        let found = engine.find(engine.hash(b"k"), b"k").unwrap();
        assert_eq!(engine.deadline(&found), Deadline(99));
        engine.validate().unwrap();
    }

    #[test]
    fn an_item_stored_between_reading_and_replacing_is_not_overwritten() {
        let (engine, now) = (engine(), 10);
        let thread = engine.register().unwrap();
        engine.store(&thread, &request(Deadline::NEVER), b"old", now).unwrap();
        let found = engine.find(engine.hash(b"k"), b"k").unwrap();
        engine.store(&thread, &request(Deadline::NEVER), b"newer", now).unwrap();
        let over = over(&engine, &found);
        assert!(engine.replace(&thread, b"k", &over, b"from old", Form::Plain, now).is_none());
        assert_eq!(
            engine.value_of(&engine.find(engine.hash(b"k"), b"k").unwrap()).unwrap(),
            b"newer"
        );
        engine.validate().unwrap();
    }
}
