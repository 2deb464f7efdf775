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

mod lease;
mod loaded;
mod options;

use std::sync::Arc;
use std::time::Duration;

use larder_engine::{Basis, Engine, Operation, StoreError, StoreRequest, Stored};
use larder_item::{Deadline, StoreMode, check_key};

use crate::api::cache::Cache;
use crate::api::set::count_refusal;
use crate::backend::waited;
use crate::process::flight::{FlightRole, Leader, LoadOutcome};
use crate::tier::Dependency;
use options::whole_secs;

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
        let key = key.as_ref();
        check_key(key)?;
        let start = out.len();
        loop {
            let held = self.look_up_or_miss(key, out);
            if held.is_some_and(|meta| options.is_fresh(&meta, self.now())) {
                return Ok(());
            }
            match self.shared().flights.board(key, options.timeout) {
                FlightRole::Leader(leader) => {
                    out.truncate(start);
                    return self.load(&leader, options, out, || loader().map(Into::into));
                }
                FlightRole::Follower(_) if held.is_some() => return Ok(()),
                FlightRole::Follower(flight) if flight.is_own() => {
                    return Err(LoadError::Recursive);
                }
                FlightRole::Follower(flight) => match flight.wait(options.timeout) {
                    None => return Err(LoadError::TimedOut(options.timeout)),
                    Some(LoadOutcome::Panicked) => return Err(LoadError::Panicked),
                    Some(LoadOutcome::Loaded(value)) => {
                        out.extend_from_slice(&value);
                        return Ok(());
                    }
                    // The error type of that loader differs from this caller's, so this caller
                    // loads itself.
                    Some(LoadOutcome::Failed(error)) => {
                        if let Ok(error) = error.downcast() {
                            return Err(LoadError::Failed(error));
                        }
                    }
                },
            }
        }
    }

    /// Loads the value for this caller and for all callers that wait for it, and appends it to
    /// `out`. The load and its callers are a *flight*, and this caller is its leader
    /// (`process/flight.rs`).
    fn load<E: Send + Sync + 'static>(
        &self,
        leader: &Leader<'_>,
        options: &LoadOptions,
        out: &mut Vec<u8>,
        loader: impl FnOnce() -> Result<Loaded, E>,
    ) -> Result<(), LoadError<E>> {
        let start = out.len();
        // The basis is the state of the key when the load begins. It is taken before the read, so
        // that the store at the end detects all later changes.
        let basis = self.basis(leader.key(), options.timeout);
        // Another load of this key may have ended after this caller found no fresh value.
        let held = self.read_whole(leader.key(), out);
        if held.is_some_and(|meta| options.is_fresh(&meta, self.now())) {
            leader.finish(LoadOutcome::Loaded(Arc::new(out[start..].to_vec())), || ());
            return Ok(());
        }
        let mut reservation = Reservation { cache: self, key: leader.key(), basis };
        match loader() {
            Ok(Loaded { value, ttl }) => {
                let value = Arc::new(value);
                let deadline = self.load_deadline(ttl.or(options.ttl), options.stale);
                leader.finish(LoadOutcome::Loaded(Arc::clone(&value)), || {
                    self.keep(leader.key(), &value, deadline, reservation.basis.take());
                });
                out.truncate(start);
                out.extend_from_slice(&value);
                Ok(())
            }
            Err(error) => {
                // The next caller that loads reserves the key again.
                drop(reservation);
                let error = Arc::new(error);
                leader.finish(LoadOutcome::Failed(Arc::clone(&error) as _), || ());
                held.map(|_| ()).ok_or(LoadError::Failed(error))
            }
        }
    }

    /// Returns the deadline of a loaded value: never without a ttl, immediately with a ttl of zero.
    fn load_deadline(&self, ttl: Option<Duration>, stale: Duration) -> Deadline {
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
    fn keep(&self, key: &[u8], value: &[u8], deadline: Deadline, basis: Option<Basis>) {
        let Some(basis) = basis else {
            return;
        };
        let request = StoreRequest { deadline, ..StoreRequest::new(key, StoreMode::Set) };
        // The callers receive the value even if it cannot be stored.
        let _ = self.finish_load(key, basis, |engine, operation| {
            let stored = engine.end_load(operation, &request, basis, value);
            // Without other processes, only expiry or eviction can have removed the item.
            if stored == Ok(Stored::NotFound) && !engine.has_peers() {
                return engine.end_load(operation, &request, Basis::ABSENT, value);
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
