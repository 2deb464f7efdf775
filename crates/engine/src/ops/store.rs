//! Stores, and new items that are made from existing ones.

use larder_item::{Deadline, Second, StoreMode, check_key};
use larder_stats::Counter;

use crate::engine::Engine;
use crate::error::StoreError;
use crate::index::find::Found;
use crate::journal::{Change, Journal};
use crate::ops::condition::{Condition, Replace};
use crate::ops::publish::{Publication, PublishFailure};
use crate::ops::request::{StoreRequest, Stored};
use crate::ops::update_value::UpdatedValue;
use crate::ops::update_value::overwrite::OldSlot;
use crate::process::op::Op;
use crate::process::operation::Operation;
use crate::process::thread_slot::InPlace;
use crate::process::wait::Wait;
use crate::segment::record::{Draft, Form, Header, INITIAL_FREQ_MAX, Marks};
use crate::segment::slot::Slot;
use crate::segment::stream::{Pool, Stream};

/// How often a large value is written before the store fails. If the thread loses the processor
/// during the write, other threads may evict the first pieces. That does not happen every time.
pub(crate) const LARGE_ATTEMPTS_MAX: u32 = 8;

/// How much of a record that may be overwritten is prefetched. The processor detects the sequential
/// writes to a longer record.
const PREFETCHED_BYTES: usize = 512;

impl Engine {
    /// Stores an item. If a [`StoreMode::Set`] without a cas token fails, this removes the current
    /// item, as memcached does, because clients must not read a value that should have been
    /// replaced. With a journal that records stores the item stays.
    ///
    /// Cost: copies the value once; locks one group for the publication; if no segment is free,
    /// first empties one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn store(
        &self,
        operation: &Operation<'_>,
        request: &StoreRequest<'_>,
        value: &[u8],
    ) -> Result<Stored, StoreError> {
        let op = &self.op_of(operation);
        check_key(request.key)?;
        self.segments().flush_if_due(op.now);
        let stored = match request.mode {
            StoreMode::Append | StoreMode::Prepend => self.extend(op, request, value),
            _ => self
                .place(op, request, value, &Condition::Requested(request))
                .map_err(StoreError::from),
        };
        self.index().grow_if_due(op);
        // The store has already waited for a stopped process. The delete would wait for it again.
        if stored.as_ref().is_err_and(|error| !matches!(error, StoreError::Stuck(_))) {
            self.give_up(operation, request);
        }
        stored
    }

    /// Removes the item that a failed [`StoreMode::Set`] without a cas token should have replaced.
    /// With a journal that records stores the item stays.
    pub fn give_up(&self, operation: &Operation<'_>, request: &StoreRequest<'_>) {
        let is_plain = request.mode == StoreMode::Set && request.cas.is_none();
        if is_plain && !self.journal().is_some_and(Journal::records_stores) {
            // If a stopped process holds the item, the item stays. The error of the store reports
            // that.
            let _ = self.delete(operation, request.key, None);
            self.forget_evicted(&self.op_of(operation), request.key);
        }
    }

    /// Removes the item of a key from a journal of evictions, if memory has no item of the key.
    fn forget_evicted(&self, op: &Op<'_>, key: &[u8]) {
        let Some(journal) = self.journal_of(op) else { return };
        let hash = self.index().hash(key);
        if let Ok(locked) = self.index().lock(op, hash)
            && self.index().find_locked(&locked, hash, key).is_none()
        {
            // `is_resident` is true so that the journal does not look for the item.
            let change = Change { now: op.now, is_resident: true, is_gone: &|| false };
            // The journal refuses this only while the cache stops. The error of the set is more
            // important.
            let _ = journal.removal(key, &change);
        }
    }

    /// Writes a record, or the pieces of a large value, and publishes it.
    pub(crate) fn place(
        &self,
        op: &Op<'_>,
        request: &StoreRequest<'_>,
        value: &[u8],
        condition: &Condition<'_>,
    ) -> Result<Stored, PublishFailure> {
        self.place_as(op, request, value, Form::Plain, condition)
    }

    /// Same as [`Self::place`], but with another form of a small value.
    fn place_as(
        &self,
        op: &Op<'_>,
        request: &StoreRequest<'_>,
        value: &[u8],
        form: Form,
        condition: &Condition<'_>,
    ) -> Result<Stored, PublishFailure> {
        if !self.accepts(request.key.len(), value.len()) {
            return Err(StoreError::TooLarge.into());
        }
        if value.len() > self.inline_bytes_max() {
            return self.place_large(op, request, value, condition);
        }
        let hash = self.index().hash(request.key);
        let old = self.probable_slot(hash, Header::bytes_for(request.key.len(), value.len()));
        if let Condition::Requested(_) = condition
            && let Some(old) = old
            && self.may_overwrite(old.slot, request.key, value)
            && let Some(stored) = self.overwrite(op, request, &old, value, condition)?
        {
            return Ok(stored);
        }
        let old = old.map(|old| old.slot);
        let is_hot = self.is_worth_overwriting(old, condition, form);
        let draft = Draft {
            key: request.key,
            hash,
            flags: request.flags,
            deadline: condition.deadline_field(request),
            versioned: is_hot || self.segments().keeps_versions(),
            value,
            form: if is_hot { Form::OVERWRITABLE } else { form },
        };
        let stream = self.stream_over(old, hash, request.deadline, op.now);
        let publication =
            Publication { draft: &draft, pieces: &[], carried: None, condition: *condition };
        self.write_and_publish(op, &publication, stream)
    }

    /// Writes a record to a stream and publishes it.
    pub(crate) fn write_and_publish(
        &self,
        op: &Op<'_>,
        publication: &Publication<'_>,
        stream: Stream,
    ) -> Result<Stored, PublishFailure> {
        let draft = publication.draft;
        let bytes = draft.header().record_bytes();
        loop {
            let room = self.segments().reserve(op, stream, bytes, bytes)?;
            draft.write(self.region().memory(), room.at());
            let published = match self.index().lock_soon(op.thread, draft.hash) {
                Some(locked) => self.publish(op, publication, &room, &locked),
                None => {
                    // Release the appender for others while this thread waits.
                    drop(room);
                    match self.write_under_lock(op, publication, stream)? {
                        Some(published) => published,
                        None => continue,
                    }
                }
            };
            if published != Err(PublishFailure::NoSlot) {
                return published;
            }
            self.index().add_overflow_segment(op)?;
        }
    }

    /// Locks the group, then writes a record and publishes it. Returns `None` if this would have to
    /// wait for space for the record.
    #[cold]
    fn write_under_lock(
        &self,
        op: &Op<'_>,
        publication: &Publication<'_>,
        stream: Stream,
    ) -> Result<Option<Result<Stored, PublishFailure>>, StoreError> {
        let draft = publication.draft;
        let locked = self.index().lock(op, draft.hash)?;
        let bytes = draft.header().record_bytes();
        let Some(room) = self.segments().try_reserve(op, stream, bytes)? else {
            return Ok(None);
        };
        draft.write(self.region().memory(), room.at());
        Ok(Some(self.publish(op, publication, &room, &locked)))
    }

    /// Returns the stream for a store: the stream of the replaced record, or the main pool if the
    /// ghost remembers the key. The guess may be wrong, which slightly lowers the hit ratio. The
    /// decisive check happens under the lock.
    pub(crate) fn stream_for(&self, hash: u64, deadline: Deadline, now: Second) -> Stream {
        let old = self.probable_slot(hash, 0).map(|old| old.slot);
        self.stream_over(old, hash, deadline, now)
    }

    /// Same as [`Self::stream_for`], with the result of [`Self::probable_slot`].
    fn stream_over(&self, old: Option<Slot>, hash: u64, deadline: Deadline, now: Second) -> Stream {
        let evicts = self.segments().evicts();
        let is_remembered = || self.index().ghost_holds(self.index().group_of(hash), hash);
        let pool = match old {
            Some(old) if evicts => self.segments().stream(old.segment()).pool,
            None if evicts && is_remembered() => Pool::Main,
            _ => Pool::Small,
        };
        self.segments().stream_of(pool, deadline, now)
    }

    /// Returns the slot that probably names the item of a hash. Prefetches its record, of about
    /// `record_bytes`, and the row of the ghost.
    #[inline]
    fn probable_slot(&self, hash: u64, record_bytes: usize) -> Option<OldSlot> {
        let group = self.index().group_of(hash);
        let group_at = self.index().group_at(group);
        // The lock is in the first line of the group, and the slot usually in the preferred one.
        self.region().memory().prefetch(group_at);
        if self.segments().evicts() {
            self.index().prefetch_ghost_row_of(group);
        }
        let tag = self.index().tag_of(hash);
        let mut slots = self.index().slots(group_at, hash).map(|at| (at, self.index().slot(at)));
        let (at, slot) = slots.find(|(_, slot)| slot.has_tag(tag))?;
        let bytes = record_bytes.clamp(1, PREFETCHED_BYTES);
        self.region().memory().prefetch_lines(self.segments().record_at(slot), bytes);
        Some(OldSlot { hash, at, slot })
    }

    /// Writes the pieces of a large value and the record that names them. Retries if other writers
    /// evict a piece before the publication.
    fn place_large(
        &self,
        op: &Op<'_>,
        request: &StoreRequest<'_>,
        value: &[u8],
        condition: &Condition<'_>,
    ) -> Result<Stored, PublishFailure> {
        let mut attempts = 0;
        loop {
            let mut upload = self.upload(request.key, value.len())?;
            let stored = self
                .take_in(op, &mut upload, value)
                .and_then(|()| self.finish(op, &upload, request, condition));
            if !matches!(stored, Ok(Stored::Stored { .. })) {
                self.abort_upload(op.thread, upload);
            }
            attempts += 1;
            if stored != Err(PublishFailure::PieceLost) || attempts == LARGE_ATTEMPTS_MAX {
                return stored;
            }
        }
    }

    /// Appends or prepends to an item.
    fn extend(
        &self,
        op: &Op<'_>,
        request: &StoreRequest<'_>,
        part: &[u8],
    ) -> Result<Stored, StoreError> {
        if self.is_long_part(part.len()) {
            return self.extend_by(op, request, part);
        }
        self.update_or_replace(
            op,
            request.key,
            Stored::NotStored,
            |found| self.append_in_place(op, request, part, found),
            |found| self.extend_anew(op, request, part, found),
        )
    }

    /// Appends to a value if its record has spare bytes. The caller holds the lock of the item's
    /// group.
    fn append_in_place(
        &self,
        op: &Op<'_>,
        request: &StoreRequest<'_>,
        part: &[u8],
        found: &Found,
    ) -> UpdatedValue<Stored> {
        if request.cas.is_some_and(|cas| cas != self.index().cas(found)) {
            return UpdatedValue::Done(Stored::Exists);
        }
        let Found { header, record_at, .. } = *found;
        let value_bytes = header.value_bytes() + part.len();
        // Checks the lengths before it makes the header of the longer value, because a header
        // cannot hold an arbitrary length.
        let fits = request.mode == StoreMode::Append
            && header.is_growing()
            && self.accepts(request.key.len(), value_bytes)
            // A longer value is stored in pieces.
            && value_bytes <= self.inline_bytes_max()
            && value_bytes <= header.record_bytes() - header.value_at();
        if !fits || self.is_fixed(found) {
            return UpdatedValue::NotHere;
        }
        self.region().memory().write(record_at + header.value_at() + header.value_bytes(), part);
        // The longer value keeps the popularity of the old one, and was used once more.
        let freq = (found.slot.freq() + 1).min(INITIAL_FREQ_MAX);
        self.index().set_slot(found.slot_at, found.slot.with_freq(freq));
        let longer =
            header.with_value_bytes(value_bytes).with_marks(Marks::default()).with_used(op.now);
        let cas = self.update_value(op.thread, found, request.version, InPlace::Update, || {
            // The header is stored after the bytes were written.
            self.index().set_header(found, longer.with_initial_freq(freq));
        });
        self.bump(op.thread, Counter::ItemsTotal, 1);
        UpdatedValue::Done(Stored::Stored { cas, value_bytes })
    }

    /// Writes a record with the extended value. Returns `None` if the item changed during the call.
    fn extend_anew(
        &self,
        op: &Op<'_>,
        request: &StoreRequest<'_>,
        part: &[u8],
        found: &Found,
    ) -> Option<Result<Stored, StoreError>> {
        let version = self.index().version(found);
        if request.cas.is_some_and(|cas| self.index().cas_of(version) != cas) {
            return self.is_settled(found, version).then_some(Ok(Stored::Exists));
        }
        if found.header.is_large() {
            return self.extend_large(op, request, found, part);
        }
        let mut value = self.value_of(found)?;
        let origin = self.origin(found, version, &value);
        match request.mode {
            StoreMode::Prepend => value.splice(..0, part.iter().copied()).for_each(drop),
            _ => value.extend_from_slice(part),
        }
        // A value that was appended to once is often appended to again.
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
        self.replace(op, request.key, &over, &value, form)
    }

    /// True if a record and its version have not changed since they were read.
    pub(crate) fn is_settled(&self, found: &Found, version: u64) -> bool {
        self.index().is_still_there(found) && self.is_value_unchanged(found, version)
    }

    /// Makes a result from the live item of a key. Retries while `attempt` returns `None`, which
    /// means that another thread interfered.
    pub(crate) fn rework<T>(
        &self,
        op: &Op<'_>,
        key: &[u8],
        attempt: impl Fn(&Self, Option<&Found>) -> Option<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let hash = self.index().hash(key);
        let mut wait = Wait::default();
        loop {
            let found = self.index().find(hash, key);
            let live = found.filter(|found| self.index().death(found, op.now).is_none());
            if let Some(done) = attempt(self, live.as_ref()) {
                self.index().grow_if_due(op);
                return done;
            }
            self.bump(op.thread, Counter::ReadsRetried, 1);
            self.wait_for_peers(&mut wait)?;
        }
    }

    /// Stores a new value in place of the item that it was made from. Keeps the item's flags and,
    /// unless a new deadline is given, its deadline. Returns `None` if the item has changed.
    pub(crate) fn replace(
        &self,
        op: &Op<'_>,
        key: &[u8],
        over: &Replace<'_>,
        value: &[u8],
        form: Form,
    ) -> Option<Result<Stored, StoreError>> {
        let kept = self.request_over(key, over.found)?;
        let request = StoreRequest { deadline: over.deadline.unwrap_or(kept.deadline), ..kept };
        match self.place_as(op, &request, value, form, &Condition::Replace(*over)) {
            Err(PublishFailure::Changed) => None,
            done => Some(done.map_err(StoreError::from)),
        }
    }

    /// Returns a request with the flags and the deadline of a found item, or `None` if the item has
    /// changed.
    pub(crate) fn request_over<'k>(
        &self,
        key: &'k [u8],
        found: &Found,
    ) -> Option<StoreRequest<'k>> {
        let request = StoreRequest {
            flags: found.header.flags(self.region().memory(), found.record_at),
            deadline: self.index().deadline(found),
            ..StoreRequest::new(key, StoreMode::Set)
        };
        self.index().is_still_there(found).then_some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::SMALL;
    use crate::ops::update_meta::MetaUpdate;

    fn engine() -> Engine {
        Engine::create(&SMALL).unwrap()
    }

    fn request(deadline: Deadline) -> StoreRequest<'static> {
        StoreRequest { deadline, ..StoreRequest::new(b"k", StoreMode::Set) }
    }

    fn over<'a>(engine: &Engine, found: &'a Found) -> Replace<'a> {
        let origin = engine.index().version(found);
        Replace { found, origin, version: None, deadline: None, keeps_identity: false }
    }

    #[test]
    fn a_touch_between_reading_and_replacing_an_item_is_kept() {
        let (engine, now) = (engine(), 10);
        let thread = engine.register().unwrap();
        engine.store(&Operation::new(&thread, now), &request(Deadline(20)), b"old").unwrap();
        let found = engine.index().find(engine.index().hash(b"k"), b"k").unwrap();
        let update = MetaUpdate { deadline: Some(Deadline(99)), ..MetaUpdate::default() };
        engine.update_meta(&Operation::new(&thread, now), b"k", &update).unwrap();
        // The new item was made while the deadline was still 20.
        let over = Condition::Replace(over(&engine, &found));
        let stored = engine.place(&engine.op(&thread, now), &request(Deadline(20)), b"new", &over);
        assert!(matches!(stored, Ok(Stored::Stored { .. })));
        let found = engine.index().find(engine.index().hash(b"k"), b"k").unwrap();
        assert_eq!(engine.index().deadline(&found), Deadline(99));
        engine.validate().unwrap();
    }

    #[test]
    fn an_item_stored_between_reading_and_replacing_is_not_overwritten() {
        let (engine, now) = (engine(), 10);
        let thread = engine.register().unwrap();
        engine.store(&Operation::new(&thread, now), &request(Deadline::NEVER), b"old").unwrap();
        let found = engine.index().find(engine.index().hash(b"k"), b"k").unwrap();
        engine.store(&Operation::new(&thread, now), &request(Deadline::NEVER), b"newer").unwrap();
        let over = over(&engine, &found);
        assert!(
            engine
                .replace(&engine.op(&thread, now), b"k", &over, b"from old", Form::Plain)
                .is_none()
        );
        assert_eq!(
            engine
                .value_of(&engine.index().find(engine.index().hash(b"k"), b"k").unwrap())
                .unwrap(),
            b"newer"
        );
        engine.validate().unwrap();
    }
}
