//! Actors: the threads of a scene, and their operations.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use larder_item::{Deadline, Direction, Meta, Second, StoreMode};

use crate::engine::Engine;
use crate::error::StoreError;
use crate::index::grow::Split;
use crate::interleavings::stage::scene::{Crowd, NOW};
use crate::ops::arithmetic::{Arithmetic, ArithmeticRequest};
use crate::ops::large::upload::Upload;
use crate::ops::large::value::Evicted;
use crate::ops::read::Read;
use crate::ops::request::{StoreRequest, Stored};
use crate::ops::update_meta::{Deletion, MetaOutcome, MetaUpdate};
use crate::process::operation::Operation;
use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::let_others_run;
use crate::reclaim::empty::EmptyOutcome;
use crate::reclaim::evict::Keep;

/// The number of bytes of a value after its key: enough for a copy in several steps.
const FILL_BYTES: usize = 48;

/// A thread with its thread slot.
pub(crate) struct Actor {
    pub(crate) engine: Arc<Engine>,
    pub(crate) thread: ThreadSlot,
}

/// A value that was read. A value of a test is its key, followed by copies of one byte, the fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadValue {
    pub(crate) fill: u8,
    pub(crate) cas: u64,
    pub(crate) deadline: Deadline,
}

/// Returns the value of `key` that is filled with `fill`. It differs from the values of all other
/// keys, and from any mix of two values.
pub(crate) fn value(key: &[u8], fill: u8) -> Vec<u8> {
    [key, &[fill; FILL_BYTES]].concat()
}

fn request(key: &[u8], mode: StoreMode, cas: Option<u64>, deadline: Deadline) -> StoreRequest<'_> {
    StoreRequest { cas, deadline, ..StoreRequest::new(key, mode) }
}

/// Checks that two successive reads returned states of a key's history in the order of that
/// history.
pub(crate) fn assert_in_order(seen: [Option<u8>; 2], history: [Option<u8>; 3]) {
    let times = seen.map(|seen| history.iter().position(|there| *there == seen));
    assert!(times[0].is_some() && times.is_sorted(), "{seen:?} in {history:?}");
}

impl Actor {
    pub(crate) fn on(engine: &Arc<Engine>) -> Self {
        Self { engine: engine.clone(), thread: engine.register().unwrap() }
    }

    pub(crate) fn set(&self, key: &[u8], fill: u8) {
        let stored = self.store(key, StoreMode::Set, None, Deadline::NEVER, fill);
        assert!(matches!(stored, Ok(Stored::Stored { .. })), "{stored:?}");
    }

    pub(crate) fn set_until(&self, key: &[u8], fill: u8, deadline: Second) {
        let stored = self.store(key, StoreMode::Set, None, Deadline(deadline), fill);
        assert!(matches!(stored, Ok(Stored::Stored { .. })), "{stored:?}");
    }

    pub(crate) fn store(
        &self,
        key: &[u8],
        mode: StoreMode,
        cas: Option<u64>,
        deadline: Deadline,
        fill: u8,
    ) -> Result<Stored, StoreError> {
        self.engine.store(
            &Operation::new(&self.thread, NOW),
            &request(key, mode, cas, deadline),
            &value(key, fill),
        )
    }

    /// Reclaims a segment if nothing in it is alive, otherwise compacts it. Returns false under the
    /// same condition as [`Self::compact`].
    pub(crate) fn reclaim(&self, segment: u32) -> bool {
        let emptied = self.engine.reclaimer().reclaim(
            &self.engine.op(&self.thread, NOW),
            self.engine.segments().present_use(segment),
        );
        matches!(emptied.unwrap(), EmptyOutcome::Yes(_))
    }

    /// Evicts a segment. Returns false if another thread is emptying or pinning it.
    pub(crate) fn evict(&self, segment: u32) -> bool {
        let old = self.engine.segments().present_use(segment);
        matches!(
            self.engine.reclaimer().evict(&self.engine.op(&self.thread, NOW), old, Keep::Needed),
            Ok(EmptyOutcome::Yes(_))
        )
    }

    /// Compacts a segment. Returns false if another thread is emptying or pinning it.
    pub(crate) fn compact(&self, segment: u32) -> bool {
        let emptied = self.engine.reclaimer().compact(
            &self.engine.op(&self.thread, NOW),
            self.engine.segments().present_use(segment),
        );
        matches!(emptied.unwrap(), EmptyOutcome::Yes(_))
    }

    /// Stores these bytes as the value.
    pub(crate) fn set_raw(&self, key: &[u8], bytes: &[u8]) {
        let request = request(key, StoreMode::Set, None, Deadline::NEVER);
        self.engine.store(&Operation::new(&self.thread, NOW), &request, bytes).unwrap();
    }

    /// Same as [`Self::set_raw`], but returns the new cas token.
    pub(crate) fn overwrite(&self, key: &[u8], bytes: &[u8]) -> u64 {
        let request = request(key, StoreMode::Set, None, Deadline::NEVER);
        match self.engine.store(&Operation::new(&self.thread, NOW), &request, bytes).unwrap() {
            Stored::Stored { cas, .. } => cas,
            other => panic!("{other:?}"),
        }
    }

    /// Stores these bytes so often that the item's record becomes overwritable: later stores of as
    /// many bytes overwrite them in place. Returns the cas token.
    pub(crate) fn set_overwritable(&self, key: &[u8], bytes: &[u8]) -> u64 {
        let tokens = [(); 4].map(|()| self.overwrite(key, bytes));
        let found = self.engine.index().find(self.engine.index().hash(key), key).unwrap();
        assert!(found.header.is_overwritable());
        tokens[3]
    }

    /// Stores an item that does not fit in the current segment.
    pub(crate) fn need_a_segment(&self) {
        self.set_raw(Crowd::LAST, &[0; Crowd::BYTES]);
    }

    /// Stores a value that is long enough to be stored in pieces.
    pub(crate) fn set_large(&self, key: &[u8], bytes: usize, fill: u8) {
        assert!(bytes > self.engine.inline_bytes_max());
        self.set_raw(key, &vec![fill; bytes]);
    }

    /// Uploads the pieces of a large value without storing it.
    pub(crate) fn upload(&self, key: &[u8], bytes: usize, fill: u8) -> Upload {
        let mut upload = self.engine.upload(key, bytes).unwrap();
        assert!(self.push(&mut upload, bytes, fill));
        upload
    }

    /// Pushes `bytes` more bytes. Returns false if earlier ones were evicted.
    pub(crate) fn push(&self, upload: &mut Upload, bytes: usize, fill: u8) -> bool {
        match self.engine.push(&self.thread, upload, &vec![fill; bytes], NOW) {
            Ok(()) => true,
            Err(StoreError::NoMemory) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Same as [`Self::push`], but pushes the rest of a piece with a direct receive. Writes the
    /// bytes in two steps to the space that the engine provides, as the kernel would do. Returns
    /// false if the engine provides no space for a direct receive.
    pub(crate) fn complete_direct(&self, upload: &mut Upload, fill: u8) -> bool {
        let Some(direct_buffer) = self.engine.direct_buffer(&self.thread, upload, NOW) else {
            return false;
        };
        let middle = direct_buffer.room.start + direct_buffer.room.len() / 2;
        for part in [direct_buffer.room.start..middle, middle..direct_buffer.room.end] {
            self.engine.region().memory().write(part.start, &vec![fill; part.len()]);
            self.engine.now(); // A point where other threads may run.
        }
        let bytes = direct_buffer.room.len();
        self.engine.complete_direct(upload, direct_buffer, bytes);
        true
    }

    /// Stores an upload. Returns false if a piece was evicted before.
    pub(crate) fn publish(&self, key: &[u8], upload: Upload) -> bool {
        let request = request(key, StoreMode::Set, None, Deadline::NEVER);
        match self.engine.publish_upload(&Operation::new(&self.thread, NOW), upload, &request) {
            Ok(stored) => {
                assert!(matches!(stored, Stored::Stored { .. }), "{stored:?}");
                true
            }
            Err(StoreError::NoMemory) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads a value of [`Self::set_large`] and returns its fill.
    pub(crate) fn large_fill_of(&self, key: &[u8]) -> Option<u8> {
        self.large(key).map(|(fill, _)| fill)
    }

    /// Reads a value of [`Self::set_large`] and returns its fill and length. Reads again if the
    /// value is evicted during the read.
    pub(crate) fn large(&self, key: &[u8]) -> Option<(u8, usize)> {
        loop {
            let mut bytes = Vec::new();
            let (meta, mut large) =
                match self.engine.read(&self.thread, key, NOW, &mut bytes, |_, _| {}) {
                    Read::Miss(_) => return None,
                    Read::Hit(_) => panic!("the value of {key:?} is kept in one piece"),
                    Read::Large(meta, large) => (meta, large),
                };
            let whole = loop {
                match self.engine.read_piece(&mut large, &mut bytes) {
                    Ok(true) => {}
                    Ok(false) => break true,
                    Err(Evicted) => break false,
                }
            };
            self.engine.close_large(&mut large);
            if whole {
                assert_eq!(bytes, vec![bytes[0]; meta.value_bytes], "the pieces of several values");
                return Some((bytes[0], bytes.len()));
            }
        }
    }

    /// Same as [`Self::large`], but reads pinned bytes in place, which must not change while other
    /// threads run.
    pub(crate) fn large_in_place(&self, key: &[u8]) -> Option<(u8, usize)> {
        let mut head = Vec::new();
        let (meta, mut large) = match self.engine.read(&self.thread, key, NOW, &mut head, |_, _| {})
        {
            Read::Miss(_) => return None,
            Read::Hit(_) => panic!("the value of {key:?} is kept in one piece"),
            Read::Large(meta, large) => (meta, large),
        };
        assert!(large.is_pinned, "no other thread reads large values");
        let (mut fill, mut seen_bytes) = (None, 0);
        let mut look = |bytes: &[u8]| {
            let fill = *fill.get_or_insert(bytes[0]);
            for _ in 0..2 {
                assert!(bytes.iter().all(|byte| *byte == fill), "others wrote there");
                self.engine.now(); // A point where other threads may run.
            }
            seen_bytes += bytes.len();
        };
        while let Some(piece) = self.engine.take_piece(&mut large) {
            look(self.engine.bytes_of(&piece));
            self.engine.release(piece);
        }
        self.engine.close_large(&mut large);
        assert_eq!(seen_bytes, meta.value_bytes);
        fill.map(|fill| (fill, seen_bytes))
    }

    /// Opens and closes a large value. Returns how many readers held pinned values at the same
    /// time, including this one, or 0 if the value could not be pinned. `holders` counts the
    /// readers.
    pub(crate) fn hold_large(&self, key: &[u8], holders: &AtomicU64) -> u64 {
        let read = self.engine.read(&self.thread, key, NOW, &mut Vec::new(), |_, _| {});
        let Read::Large(_, mut large) = read else { panic!("{key:?} has a large value") };
        let mut held = 0;
        if large.is_pinned {
            holders.fetch_add(1, SeqCst);
            self.engine.now(); // A point where other threads may run.
            held = holders.load(SeqCst);
            holders.fetch_sub(1, SeqCst);
        }
        self.engine.close_large(&mut large);
        held
    }

    /// Reads the value of a key and checks that [`Self::set`] can have written it.
    pub(crate) fn get(&self, key: &[u8]) -> Option<ReadValue> {
        let mut bytes = Vec::new();
        match self.engine.read(&self.thread, key, NOW, &mut bytes, |_, _| {}) {
            Read::Miss(_) => None,
            Read::Large(..) => panic!("the value of {key:?} is kept in pieces"),
            Read::Hit(meta) => {
                let fill = *bytes.last().unwrap();
                assert_eq!(bytes, value(key, fill), "the bytes of another value, or of several");
                Some(ReadValue { fill, cas: meta.cas, deadline: meta.deadline })
            }
        }
    }

    /// Same as [`Self::get`], but returns the fill of the value.
    pub(crate) fn fill_of(&self, key: &[u8]) -> Option<u8> {
        self.get(key).map(|seen| seen.fill)
    }

    /// Reads a key in the second `now` and returns its value.
    pub(crate) fn read_at(&self, key: &[u8], now: Second) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.engine.read(&self.thread, key, now, &mut bytes, |_, _| {}) {
            Read::Miss(_) => None,
            Read::Large(..) => panic!("the value of {key:?} is kept in pieces"),
            Read::Hit(_) => Some(bytes),
        }
    }

    /// Same as [`Self::read_at`] for a value of [`Self::set`], but returns its fill.
    pub(crate) fn fill_at(&self, key: &[u8], now: Second) -> Option<u8> {
        self.read_at(key, now).map(|bytes| {
            let fill = *bytes.last().unwrap();
            assert_eq!(bytes, value(key, fill), "the bytes of another value, or of several");
            fill
        })
    }

    pub(crate) fn delete(&self, key: &[u8]) -> bool {
        matches!(
            self.engine.delete(&Operation::new(&self.thread, NOW), key, None),
            Ok(Deletion::Deleted(_))
        )
    }

    pub(crate) fn touch(&self, key: &[u8], deadline: Second) -> bool {
        let update =
            MetaUpdate { deadline: Some(Deadline(deadline)), noted: true, ..MetaUpdate::default() };
        matches!(
            self.engine.update_meta(&Operation::new(&self.thread, NOW), key, &update),
            Ok(MetaOutcome::Done(_))
        )
    }

    /// Marks an item stale, and sets its deadline if one is given. Returns its new cas token.
    pub(crate) fn mark_stale(&self, key: &[u8], deadline: Option<Deadline>) -> Option<u64> {
        let update = MetaUpdate { stale: true, deadline, ..MetaUpdate::default() };
        match self.engine.update_meta(&Operation::new(&self.thread, NOW), key, &update).unwrap() {
            MetaOutcome::Done(meta) => Some(meta.cas),
            MetaOutcome::NotFound => None,
            MetaOutcome::Exists => unreachable!("any token will do"),
        }
    }

    /// Claims the recache token of the item with this cas token.
    pub(crate) fn claim(&self, key: &[u8], token: u64) -> bool {
        self.engine.claim(&Operation::new(&self.thread, NOW), key, token)
    }

    /// Returns the metadata of an item.
    pub(crate) fn peek(&self, key: &[u8]) -> Option<Meta> {
        self.engine.peek(key, NOW)
    }

    pub(crate) fn deadline(&self, key: &[u8]) -> Deadline {
        self.engine
            .index()
            .deadline(&self.engine.index().find(self.engine.index().hash(key), key).unwrap())
    }

    /// Splits the next group. Waits while another thread holds it.
    pub(crate) fn split_a_group(&self) {
        while self.try_to_split() == Split::Busy {
            let_others_run();
        }
    }

    /// Splits the next group unless another thread holds it.
    pub(crate) fn try_to_split(&self) -> Split {
        self.engine.index().split(&self.engine.op(&self.thread, NOW)).unwrap()
    }

    /// Takes a free overflow group that is in no chain.
    pub(crate) fn take_overflow(&self) -> Option<u32> {
        self.engine.index().take_overflow(&self.thread)
    }

    /// Increments a number. Returns the new number, or `None` if the key has no item.
    pub(crate) fn increment(&self, key: &[u8]) -> Option<u64> {
        self.count(key, Direction::Increment).map(|(number, _)| number)
    }

    /// Changes a number by one. Returns the new number and its cas token, or `None` if the key has
    /// no item.
    pub(crate) fn count(&self, key: &[u8], direction: Direction) -> Option<(u64, u64)> {
        match self
            .engine
            .arithmetic(
                &Operation::new(&self.thread, NOW),
                &ArithmeticRequest::new(key, direction, 1),
            )
            .unwrap()
        {
            Arithmetic::Number { number, meta } => Some((number, meta.cas)),
            Arithmetic::NotFound => None,
            Arithmetic::Exists => unreachable!("any token will do"),
            Arithmetic::NonNumeric => panic!("{key:?} is no number"),
        }
    }

    /// Appends or prepends to a value. Returns its new cas token, or `None` if the key has no item.
    pub(crate) fn extend(&self, key: &[u8], mode: StoreMode, part: &[u8]) -> Option<u64> {
        let request = request(key, mode, None, Deadline::NEVER);
        match self.engine.store(&Operation::new(&self.thread, NOW), &request, part).unwrap() {
            Stored::Stored { cas, .. } => Some(cas),
            Stored::NotStored => None,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn append(&self, key: &[u8], part: &[u8]) -> Option<u64> {
        self.extend(key, StoreMode::Append, part)
    }

    /// Returns the value of a key unchecked, and its cas token.
    pub(crate) fn raw(&self, key: &[u8]) -> Option<(Vec<u8>, u64)> {
        let mut bytes = Vec::new();
        match self.engine.read(&self.thread, key, NOW, &mut bytes, |_, _| {}) {
            Read::Miss(_) => None,
            Read::Large(..) => panic!("the value of {key:?} is kept in pieces"),
            Read::Hit(meta) => Some((bytes, meta.cas)),
        }
    }
}
