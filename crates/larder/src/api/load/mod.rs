//! Getting a value, or loading it on a miss. A *load* calls the function that computes or fetches
//! the value. For each key one caller loads at a time; the others wait for the result or use the
//! old value.
//!
//! ```text
//!  stored            early refresh begins      ttl over             ttl + stale over
//!    │ fresh: all callers get it │ one refreshes, the others get the value │ gone: one loads,
//!    ├───────────────────────────┼─────────────────────┬───────────────────┤ the others wait
//!    │                           │    still fresh      │      stale        │
//! ```
//!
//! **Precedence.** The result of a load is stored only if the key has not changed since the load
//! began. A set, a delete or any other change of the key's item, a [`Cache::clear`] and a
//! [`Cache::remove_prefix`] that begin during a load take precedence over the load. A newer load
//! also takes precedence; a caller starts one if the older load takes too long. When a load loses,
//! its caller and the callers that already wait for it still receive its result, but it is not
//! stored, and later callers do not wait for it. A change that is already in progress when the load
//! begins may be ordered before or after the load. Touches and evictions are not changes.
//!
//! The same holds for changes that other processes make to a shared cache. The result is stored
//! only if the item that was present at the beginning of the load is still there. If the key was
//! absent, the result is stored only if the key has been neither stored nor deleted since. In a
//! shared cache an eviction, or a touch or a compaction that relocates an item without a cas token,
//! may also prevent a result from being stored; the next caller loads again. [`Cache::begin_load`]
//! offers the same for loads that run outside the library.
//!
//! **Negative results.** An empty value is stored and returned like any other value. A loader that
//! finds nothing can return a marker value of the caller's choice with its own time to live
//! ([`Loaded::ttl`]), so that it is not called for every miss. Errors are never stored.
//!
//! **Tasks.** With the feature `tokio`, `Cache::get_or_load_async` loads in a task. Threads and
//! tasks share the loads of a process.

mod format;
mod lease;
mod loaded;
mod options;
#[cfg(feature = "tokio")]
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use larder_engine::{Basis, Engine, Operation, StoreError, StoreRequest, Stored};
use larder_item::{Deadline, Meta, StoreMode, check_key};

use crate::api::cache::Cache;
use crate::api::set::count_refusal;
use crate::backend::waited;
use crate::events::{Event, report};
use crate::process::flight::{FlightRole, Leader, LoadOutcome};
use crate::tier::Dependency;
use options::whole_secs;

pub use format::Format;
#[cfg(feature = "serde")]
pub(crate) use format::{HASH_START, hash};
pub(crate) use loaded::LoaderError;
pub use loaded::{LoadError, Loaded};
pub use options::LoadOptions;

impl Cache {
    /// Returns the value of a key; on a miss, calls `loader` and stores its result.
    ///
    /// Of all threads that request the key at the same time, one calls its loader, without holding
    /// a lock. The others wait for it and receive copies of the value, or its error. No thread
    /// waits if a value is present: with [`LoadOptions::early`] and [`LoadOptions::stale`] one
    /// caller refreshes the value while the others receive the existing value. If such a refresh
    /// fails, its caller also receives the existing value, and the next caller tries again. The
    /// error of a failed refresh is not reported to any caller.
    ///
    /// If the cache cannot store the value, because memory is full or the value is too large, the
    /// callers still receive it. `store_too_large` and `store_no_memory` in [`Cache::stats`] count
    /// these loads.
    ///
    /// The [module](crate::load) documents the precedence between a load and concurrent changes of
    /// the key.
    ///
    /// Cost: on a fresh hit, the same as [`Cache::get`]. Otherwise, in addition to the loader: two
    /// more reads, two short locks, a copy of the key while the load is in progress, and a copy of
    /// the value for each waiting caller. Starts no thread.
    ///
    /// # Errors
    /// [`LoadError`]. After any of these errors, and after a panic of the loader, the next caller
    /// loads again.
    ///
    /// ```
    /// use larder::{Cache, LoadOptions, Loaded};
    /// use std::time::Duration;
    ///
    /// let cache = Cache::builder().open()?;
    /// let options = LoadOptions::new().ttl(Duration::from_secs(60));
    /// let load = || std::fs::read("/proc/version");
    /// let version = cache.get_or_load("version", &options, load)?;
    /// assert_eq!(cache.get("version"), Some(version));
    ///
    /// // A loader that finds nothing says so, for five seconds.
    /// let find = || Ok::<_, std::io::Error>(Loaded::new("").ttl(Duration::from_secs(5)));
    /// assert!(cache.get_or_load("user 7", &options, find)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_or_load<V: Into<Loaded>, E: Send + Sync + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        options: &LoadOptions,
        loader: impl FnOnce() -> Result<V, E>,
    ) -> Result<Vec<u8>, LoadError<E>> {
        let mut value = Vec::new();
        self.get_or_load_into(key, options, &mut value, loader)?;
        Ok(value)
    }

    /// Same as [`Cache::get_or_load`], but appends the value to `out`. On an error `out` is
    /// unchanged.
    ///
    /// # Errors
    /// [`LoadError`].
    ///
    /// ```
    /// # use larder::{Cache, LoadOptions};
    /// # let cache = larder::Cache::builder().open()?;
    /// let mut page = b"<p>".to_vec();
    /// cache.get_or_load_into("greeting", &LoadOptions::new(), &mut page, || {
    ///     Ok::<_, std::convert::Infallible>("hello")
    /// })?;
    /// assert_eq!(page, b"<p>hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_or_load_into<V: Into<Loaded>, E: Send + Sync + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        options: &LoadOptions,
        out: &mut Vec<u8>,
        loader: impl FnOnce() -> Result<V, E>,
    ) -> Result<(), LoadError<E>> {
        let wanted = Wanted { key: key.as_ref(), options, format: None };
        self.load_into(wanted, out, || loader().map(Into::into).map_err(LoaderError::Failed))
    }

    /// Appends the value of a key to `out`, as [`Cache::get_or_load_into`] does.
    pub(crate) fn load_into<E: Send + Sync + 'static>(
        &self,
        wanted: Wanted<'_>,
        out: &mut Vec<u8>,
        loader: impl FnOnce() -> Result<Loaded, LoaderError<E>>,
    ) -> Result<(), LoadError<E>> {
        let Wanted { key, options, .. } = wanted;
        check_key(key)?;
        let start = out.len();
        loop {
            let held = wanted.accepted(self.look_up_or_miss(key, out), start, out);
            if held.is_some_and(|meta| options.is_fresh(&meta, self.now())) {
                return Ok(());
            }
            match self.shared().flights.board(key, options.timeout) {
                FlightRole::Leader(leader) => {
                    out.truncate(start);
                    let Some(attempt) = self.begin(leader, wanted, out) else {
                        return Ok(());
                    };
                    return self.end(attempt, wanted, loader(), start, out);
                }
                FlightRole::Follower(_) if held.is_some() => return Ok(()),
                FlightRole::Follower(flight) if flight.is_own() => {
                    return Err(LoadError::Recursive);
                }
                FlightRole::Follower(flight) => {
                    if let Some(result) = wanted.landed(flight.wait(options.timeout), out) {
                        return result;
                    }
                }
            }
        }
    }

    /// Begins a load for this caller and for all callers that wait for it. The load and its callers
    /// are a *flight*, and this caller is its leader (`process/flight.rs`). Appends the value that
    /// the cache holds to `out`. Returns `None` if it is fresh, so that no load is needed.
    fn begin<'a>(
        &'a self,
        leader: Leader<'a>,
        wanted: Wanted<'a>,
        out: &mut Vec<u8>,
    ) -> Option<Attempt<'a>> {
        let start = out.len();
        // The basis is the state of the key when the load begins. It is taken before the read, so
        // that the store at the end detects all later changes.
        let basis = self.basis(wanted.key, wanted.options.timeout);
        // Another load of this key may have ended after this caller found no fresh value.
        let held = wanted.accepted(self.read_whole(wanted.key, out), start, out);
        if let Some(meta) = held
            && wanted.options.is_fresh(&meta, self.now())
        {
            let value = Arc::new(out[start..].to_vec());
            leader.finish(LoadOutcome::Loaded(value, meta.flags), || ());
            return None;
        }
        let reservation = Reservation { cache: self, key: wanted.key, basis };
        Some(Attempt { reservation, leader, holds_old: held.is_some() })
    }

    /// Ends a load with the result of its loader, which it appends to `out[..start]`. If the loader
    /// failed and the cache holds an old value, `out` keeps that value.
    fn end<E: Send + Sync + 'static>(
        &self,
        mut attempt: Attempt<'_>,
        wanted: Wanted<'_>,
        loaded: Result<Loaded, LoaderError<E>>,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), LoadError<E>> {
        let Wanted { key, options, .. } = wanted;
        let error = match loaded {
            Ok(Loaded { value, ttl, flags }) => {
                let value = Arc::new(value);
                let deadline = self.load_deadline(ttl.or(options.ttl), options.stale);
                let request =
                    StoreRequest { deadline, flags, ..StoreRequest::new(key, StoreMode::Set) };
                attempt.leader.finish(LoadOutcome::Loaded(Arc::clone(&value), flags), || {
                    self.keep(&request, &value, attempt.reservation.basis.take());
                });
                out.truncate(start);
                out.extend_from_slice(&value);
                return Ok(());
            }
            Err(error) => error,
        };
        let Attempt { reservation, leader, holds_old } = attempt;
        // The next caller that loads reserves the key again.
        drop(reservation);
        report(Event::LoadFailed { key, is_refresh: holds_old });
        let error = match error {
            LoaderError::Failed(error) => {
                let error = Arc::new(error);
                leader.finish(LoadOutcome::Failed(Arc::clone(&error) as _), || ());
                LoadError::Failed(error)
            }
            LoaderError::Codec(error) => {
                let flags = wanted.format.map_or(0, Format::flags);
                leader.finish(LoadOutcome::Unencodable(error.clone(), flags), || ());
                LoadError::Codec(error)
            }
        };
        if holds_old { Ok(()) } else { Err(error) }
    }

    /// Returns the deadline of a loaded value: never without a ttl, immediately with a ttl of zero.
    pub(crate) fn load_deadline(&self, ttl: Option<Duration>, stale: Duration) -> Deadline {
        ttl.map_or(Deadline::NEVER, |ttl| {
            let stale = if ttl.is_zero() { Duration::ZERO } else { stale };
            Deadline::after(self.now(), whole_secs(ttl).saturating_add(whole_secs(stale)))
        })
    }

    /// Returns the basis of a load: the state of the key, with which the store at the end compares.
    /// If the key is absent and other processes share the cache, a *reservation* marks it. Within
    /// this process a reservation is not needed, because every change of the key detaches the
    /// flight. Returns `None` if no basis can be taken; then the result is not stored.
    fn basis(&self, key: &[u8], timeout: Duration) -> Option<Basis> {
        let until = Deadline::after(self.now(), whole_secs(timeout).saturating_add(1));
        let basis = self.blocking().backend.change(
            key,
            Dependency::Needs,
            |_| false,
            |engine, operation| {
                let reserved_until = engine.has_peers().then_some(until);
                let basis = engine.begin_load(operation, key, reserved_until);
                basis.inspect_err(|error| count_refusal(engine, operation.thread, *error))
            },
        );
        waited(basis).ok()
    }

    /// Stores a loaded value if its basis holds. It does not use [`Cache::set`], which would detach
    /// the flight of this load.
    fn keep(&self, request: &StoreRequest<'_>, value: &[u8], basis: Option<Basis>) {
        let Some(basis) = basis else {
            return;
        };
        // The callers receive the value even if it cannot be stored.
        let _ = self.finish_load(request.key, basis, |engine, operation| {
            let stored = engine.end_load(operation, request, basis, value);
            // Without other processes, only expiry or eviction can have removed the item.
            if stored == Ok(Stored::NotFound) && !engine.has_peers() {
                return engine.end_load(operation, request, Basis::ABSENT, value);
            }
            stored
        });
    }

    /// Runs the store at the end of a load. If it fails, ends the load and counts the refusal.
    fn finish_load(
        &self,
        key: &[u8],
        basis: Basis,
        store: impl FnMut(&Engine, &Operation<'_>) -> Result<Stored, StoreError>,
    ) -> Result<Stored, StoreError> {
        let stored =
            waited(self.blocking().backend.change(key, Dependency::Needs, |_| false, store));
        if let Err(error) = stored {
            self.with_thread_slot(|engine, thread| count_refusal(engine, thread, error));
            // A reservation that is not removed expires later.
            let _ = self.cancel_load(key, basis);
        }
        stored
    }

    /// Begins a load whose loader runs outside the library, and returns its basis. For bindings,
    /// which track loads in progress themselves. If the key is absent, it is reserved for
    /// `timeout`: readers do not see the reservation, and a delete of the key ends it. End every
    /// load with [`Cache::end_load`] or [`Cache::cancel_load`].
    ///
    /// Cost: a delete and, if the key is absent, a small store.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{StoreRequest, StoreMode, Stored};
    /// use std::time::Duration;
    /// let basis = cache.begin_load(b"k", Duration::from_secs(30))?;
    /// cache.delete("k")?;
    /// let late = cache.end_load(&StoreRequest::new(b"k", StoreMode::Set), basis, b"late")?;
    /// assert_eq!((late, cache.get("k")), (Stored::NotFound, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError`], for example if no memory is free for the reservation.
    pub fn begin_load(&self, key: &[u8], timeout: Duration) -> Result<Basis, StoreError> {
        let until = Deadline::after(self.now(), whole_secs(timeout).saturating_add(1));
        let begin = |engine: &Engine, operation: &Operation<'_>| {
            engine.begin_load(operation, key, Some(until))
        };
        waited(self.blocking().backend.change(key, Dependency::Needs, |_| false, begin))
    }

    /// Stores a loaded value, unless the key was stored, deleted or otherwise changed since
    /// [`Cache::begin_load`]: then the outcome is [`Stored::Exists`] or [`Stored::NotFound`]. The
    /// mode and the cas token of the request are ignored.
    ///
    /// # Errors
    /// [`StoreError`]; the existing item is kept.
    pub fn end_load(
        &self,
        request: &StoreRequest<'_>,
        basis: Basis,
        value: &[u8],
    ) -> Result<Stored, StoreError> {
        self.finish_load(request.key, basis, |engine, operation| {
            engine.end_load(operation, request, basis, value)
        })
    }

    /// Ends a load without a result.
    ///
    /// # Errors
    /// [`StoreError::Stuck`]; then the reservation expires later.
    pub fn cancel_load(&self, key: &[u8], basis: Basis) -> Result<(), StoreError> {
        Ok(self.with_thread_slot(|engine, thread| engine.cancel_load(thread, key, basis))?)
    }
}

/// A request for a value.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) options: &'a LoadOptions,
    /// The format of the value. A value in another format counts as a miss. `None` for any format.
    pub(crate) format: Option<Format>,
}

impl Wanted<'_> {
    fn accepts(&self, flags: u32) -> bool {
        self.format.is_none_or(|format| format.accepts(flags))
    }

    /// Returns the metadata of a value in the wanted format. Removes another value from
    /// `out[start..]`.
    fn accepted(&self, found: Option<Meta>, start: usize, out: &mut Vec<u8>) -> Option<Meta> {
        let accepted = found.filter(|meta| self.accepts(meta.flags));
        if accepted.is_none() {
            out.truncate(start);
        }
        accepted
    }

    /// Returns the result for a caller that has waited for a load, or `None` if the caller has to
    /// request the value again. Appends a value to `out`.
    fn landed<E: Send + Sync + 'static>(
        &self,
        outcome: Option<LoadOutcome>,
        out: &mut Vec<u8>,
    ) -> Option<Result<(), LoadError<E>>> {
        let timeout = self.options.timeout;
        match outcome {
            None => Some(Err(LoadError::TimedOut(timeout))),
            #[cfg(feature = "tokio")]
            Some(LoadOutcome::TimedOut) => Some(Err(LoadError::TimedOut(timeout))),
            Some(LoadOutcome::Panicked) => Some(Err(LoadError::Panicked)),
            Some(LoadOutcome::Loaded(value, flags)) => self.accepts(flags).then(|| {
                out.extend_from_slice(&value);
                Ok(())
            }),
            Some(LoadOutcome::Unencodable(error, flags)) => {
                let is_same = self.format.is_some_and(|format| format.flags() == flags);
                is_same.then_some(Err(LoadError::Codec(error)))
            }
            // The error type of that loader may differ from this caller's.
            Some(LoadOutcome::Failed(error)) => {
                error.downcast().ok().map(|error| Err(LoadError::Failed(error)))
            }
            Some(LoadOutcome::Abandoned) => None,
        }
    }
}

/// A load in progress. The reservation is dropped before the leader, so that the next leader finds
/// the key without it.
struct Attempt<'a> {
    reservation: Reservation<'a>,
    leader: Leader<'a>,
    /// True if the cache holds a value that callers use during the load.
    holds_old: bool,
}

/// The reservation of a key that is being loaded. It is removed on drop, even after a panic, unless
/// the load has a result.
struct Reservation<'a> {
    cache: &'a Cache,
    key: &'a [u8],
    /// `None` once the load is stored, or if it has no basis.
    basis: Option<Basis>,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(basis) = self.basis {
            // If another process was stopped while holding the lock, the reservation expires by
            // itself.
            let _ = self.cache.cancel_load(self.key, basis);
        }
    }
}

#[cfg(test)]
mod tests;
