//! Commands on single items from the HTTP API, which use no dialect. They have the same effect,
//! counters and observers as the corresponding commands of the text protocol.

use larder::{Evicted, LargeValue, Piece, Read, ReadOptions, StoreError, Upload, Wait};
use larder_item::{Epoch, Meta, Second};
use larder_protocol::{Command, Delete, Frame, Remains, Response, ServerError, Store};
use larder_stats::{ClassCounter, Counter};

use super::fetch::ttl_secs;
use super::passed::Passed;
use super::store::change_error;
use super::{Call, Executor, READ_ATTEMPTS_MAX, ready};
use crate::observe::classes::ItemSize;
use crate::server::NotCleared;
use crate::session::observer::Observer;

/// Executes commands for the admin listener, with the executor of the calling thread.
pub(crate) struct Direct<'a> {
    executor: &'a Executor,
}

/// An item that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) meta: Meta,
    /// Seconds until the item expires; `None` if it does not expire.
    pub(crate) ttl_secs: Option<Second>,
    pub(crate) value: Value,
}

/// An item that was inspected without counting as a read.
#[derive(Debug)]
pub(crate) struct InspectedItem {
    pub(crate) meta: Meta,
    /// Seconds until the item expires; `None` if it does not expire.
    pub(crate) ttl_secs: Option<Second>,
    /// Seconds since the item was stored or read, accurate to about a minute.
    pub(crate) idle_secs: Second,
    /// The beginning of the value.
    pub(crate) value: Vec<u8>,
}

/// The reason why an item could not be inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotLooked {
    #[error("the disk did not return the item; the server's log has the reason")]
    Disk,
    #[error("the origin did not return the item")]
    Origin,
    #[error("the item is replaced or evicted again and again; try again")]
    Evicted,
}

/// The value of an item that was found.
#[derive(Debug)]
pub(crate) enum Value {
    /// The complete value; empty if the caller did not request it.
    Whole(Vec<u8>),
    /// The first piece, and the remaining ones.
    Pieces(Piece, Box<LargeValue>),
}

impl<'a> Direct<'a> {
    pub(crate) fn new(executor: &'a Executor) -> Self {
        Self { executor }
    }

    /// Reads an item, with or without its value. Both count as a get.
    ///
    /// # Errors
    /// Returns the response of a get that failed because the disk did not return the item.
    pub(crate) fn get(&self, key: &[u8], with_value: bool) -> Result<Option<Found>, Response> {
        let command = Command::Get { key, with_cas: false, exptime: None };
        self.observed(&command, || {
            let Executor { counters, .. } = self.executor;
            counters.bump(Counter::CmdGet);
            let found = match self.passed() {
                Some(passed) => passed.get(key, with_value),
                None => self
                    .executor
                    .find(key, with_value)
                    .map_err(|error| change_error(error, ServerError::DiskUnreadable)),
            };
            let found = match found {
                Ok(found) => found,
                Err(response) => return (Err(response), response),
            };
            let is_hit = found.is_some();
            counters.bump(if is_hit { Counter::GetHits } else { Counter::GetMisses });
            (Ok(found), if is_hit { Response::Hit } else { Response::Miss })
        })
    }

    /// Returns an item with at least the first `bytes_max` bytes of its value, or all of it if it
    /// is shorter. This does not count as a get, and no observer receives it. With a disk tier, the
    /// item is promoted to memory.
    ///
    /// # Errors
    /// Fails if the disk failed, or if the item is evicted again and again during the read.
    pub(crate) fn look(
        &self,
        key: &[u8],
        bytes_max: usize,
    ) -> Result<Option<InspectedItem>, NotLooked> {
        if let Some(passed) = self.passed() {
            let found = passed.get(key, true).map_err(|_| NotLooked::Origin)?;
            return Ok(found.map(|Found { meta, ttl_secs, value }| {
                let value = if let Value::Whole(value) = value { value } else { Vec::new() };
                InspectedItem { meta, ttl_secs, idle_secs: 0, value }
            }));
        }
        let cache = &self.executor.cache;
        let unnoted = ReadOptions { noted: false, value: true };
        for _ in 0..READ_ATTEMPTS_MAX {
            let mut value = Vec::new();
            let meta = match cache.read_as(key, unnoted, &mut value, |_, _| ()) {
                Read::Hit(meta) => meta,
                Read::Large(meta, mut large) => match first_bytes(&mut large, bytes_max) {
                    Ok(first) => {
                        value = first;
                        meta
                    }
                    Err(_) => continue,
                },
                Read::Miss(_) => return Ok(None),
                Read::Failed(_) => return Err(NotLooked::Disk),
            };
            let ttl_secs = ttl_secs(meta.deadline, cache.now());
            let idle_secs = cache.now().saturating_sub(meta.seen);
            return Ok(Some(InspectedItem { meta, ttl_secs, idle_secs, value }));
        }
        Err(NotLooked::Evicted)
    }

    /// Removes an item, and ends its lease.
    pub(crate) fn delete(&self, key: &[u8]) -> Response {
        let remains = Remains::Nothing;
        let delete = Delete { key, cas: None, version: None, exptime: None, remains };
        let call = Call { wait: Wait::Block, frame: &Frame::default() };
        self.observed(&Command::Delete(delete), || {
            let response = match self.passed() {
                Some(passed) => passed.delete(key),
                None => ready(self.executor.delete(&delete, call)),
            };
            (response, response)
        })
    }

    /// Removes all items, like `flush_all`.
    ///
    /// # Errors
    /// Same as [`Server::clear_all`](crate::server::Server::clear_all).
    pub(crate) fn clear_all(&self) -> Result<(), NotCleared> {
        self.executor.counters.bump(Counter::CmdFlush);
        match self.passed() {
            Some(passed) if self.executor.server.options.flush_all => {
                passed.flush().map_err(NotCleared::Origins)
            }
            _ => self.executor.server.clear_all(),
        }
    }

    /// Checks a store before its value arrives, like [`Executor::refusal`].
    pub(crate) fn refusal(&self, store: &Store<'_>) -> Option<Response> {
        let response = self.executor.refusal(store, &Frame::default())?;
        if let Some(passed) = self.passed() {
            // As at the origin, the store removes the item that it would have replaced.
            passed.delete(store.key);
        }
        Some(self.stored(store, response))
    }

    /// Begins to store a value in parts.
    pub(crate) fn begin_upload(&self, store: &Store<'_>) -> Result<Upload, Response> {
        self.executor.begin_upload(store)
    }

    /// Abandons a store because no memory is left for its value.
    pub(crate) fn give_up(&self, store: &Store<'_>) -> Response {
        let response = self.executor.give_up_upload(store, &Frame::default());
        self.stored(store, response)
    }

    /// Stores a complete value.
    pub(crate) fn store(&self, store: &Store<'_>, value: &[u8]) -> Response {
        self.observed(&Command::Store(*store), || {
            let response = match self.passed() {
                Some(passed) => passed.store(store, value),
                None => self.executor.store_value(store, value),
            };
            (response, response)
        })
    }

    /// Stores a value that has arrived in parts.
    pub(crate) fn finish_upload(&self, store: &Store<'_>, upload: Upload) -> Response {
        self.observed(&Command::Store(*store), || {
            let response = self.executor.finish_upload(store, upload, Wait::Block);
            (response, response)
        })
    }

    /// Returns the origin; `None` if this server owns its items.
    fn passed(&self) -> Option<Passed<'_>> {
        let near = self.executor.near()?;
        self.executor.counters.bump(Counter::NearPassed);
        Some(Passed(near))
    }

    /// Returns the exptime, as clients send it, of an item that lives this long.
    pub(crate) fn exptime(&self, ttl_secs: u32) -> i64 {
        let (ttl_secs, cache) = (i64::from(ttl_secs), &self.executor.cache);
        if ttl_secs <= Epoch::RELATIVE_SECS_MAX {
            return ttl_secs;
        }
        cache.epoch().unix_of(cache.now()) + ttl_secs
    }

    /// Executes a command, and reports it to the observers of commands.
    fn observed<T>(&self, command: &Command<'_>, execute: impl FnOnce() -> (T, Response)) -> T {
        let Some(observer) = self.observer() else { return execute().0 };
        let frame = Frame::default();
        let meta = observer.before(command, Call { wait: Wait::Block, frame: &frame });
        let (result, response) = execute();
        observer.after(command, &frame, meta, &response);
        result
    }

    /// Reports a store that ended before its value was complete.
    fn stored(&self, store: &Store<'_>, response: Response) -> Response {
        if let Some(observer) = self.observer() {
            observer.stored(store, &response);
        }
        response
    }

    fn observer(&self) -> Option<Observer<'_>> {
        let interest = self.executor.log.interest();
        let observer = Observer { executor: self.executor, interest, connection: NO_SESSION };
        interest.reports().then_some(observer)
    }
}

impl Executor {
    /// Reads an item and counts a hit for its class.
    fn find(&self, key: &[u8], with_value: bool) -> Result<Option<Found>, StoreError> {
        let reading = ReadOptions { noted: true, value: with_value };
        for _ in 0..READ_ATTEMPTS_MAX {
            let mut whole = Vec::new();
            let (meta, value) = match self.cache.read_as(key, reading, &mut whole, |_, _| ()) {
                Read::Hit(meta) => (meta, Value::Whole(whole)),
                Read::Large(meta, _) if !with_value => (meta, Value::Whole(whole)),
                Read::Large(meta, mut large) => match large.take_piece() {
                    Ok(Some(first)) => (meta, Value::Pieces(first, large)),
                    Ok(None) => (meta, Value::Whole(whole)),
                    // The item can be looked up again, because no part of it has been sent.
                    Err(_) => continue,
                },
                Read::Failed(error) => return Err(error),
                Read::Miss(miss) => {
                    self.count_miss(miss);
                    return Ok(None);
                }
            };
            self.count_class(ItemSize::new(key.len(), &meta), ClassCounter::GetHits);
            let ttl_secs = ttl_secs(meta.deadline, self.cache.now());
            return Ok(Some(Found { meta, ttl_secs, value }));
        }
        Ok(None)
    }
}

/// Returns the beginning of a large value, in pieces of at least `bytes_max` bytes in total.
fn first_bytes(large: &mut LargeValue, bytes_max: usize) -> Result<Vec<u8>, Evicted> {
    let mut first = Vec::new();
    while first.len() < bytes_max
        && let Some(piece) = large.take_piece()?
    {
        let wanted = piece.len().min(bytes_max - first.len());
        first.extend_from_slice(&piece[..wanted]);
    }
    Ok(first)
}

/// The connection number that watchers see for requests of the API, which have no session.
const NO_SESSION: u64 = 0;
