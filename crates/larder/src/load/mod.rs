//! Getting a value, or loading it: one caller loads, the others wait for it or make do with the old value.
//!
//! ```text
//!  stored            early refresh begins      ttl over                    ttl + stale over
//!    │   fresh: everybody gets it │ one refreshes, the others get the value │  nobody gets it: one
//!    ├────────────────────────────┼─────────────────────┬───────────────────┤  loads, the others wait
//!    │                            │    still fresh      │      stale        │
//! ```
//!
//! **What wins.** A load's result is stored only if nothing else happened to the key since the load began. A
//! set, a delete or any other change of the key's item, a [`Cache::clear`] and a
//! [`Cache::remove_prefix`] that begin while a load is
//! under way win over it; so does a newer load, begun by a caller to whom the older one took too long. The
//! caller of the loader that lost, and those that waited already, get what it brings, but it is not stored;
//! whoever comes later does not wait for it. Of a change that was under way already when the load began,
//! either may come first. A touch is no change, nor is an eviction.
//!
//! The same holds for what other processes do to a cache that they share: there the store is made only if the item that the
//! load began with is still there, or, where there was none, if the key was neither stored nor deleted since. An
//! eviction, or a touch or a compaction that moves an item without a cas token, may keep a load from being stored there; the
//! next caller loads anew. [`Cache::begin_load`] is the same for loads that are made elsewhere.
//!
//! **Nothing is a value too.** An empty value is stored and got as any other. What a loader does not find it
//! can say so with a value of the caller's own choice, and a time of its own ([`Loaded::ttl`]), so that it is
//! not asked for in vain all the time. Errors are never stored.

pub(crate) mod flight;

use std::sync::Arc;
use std::time::Duration;

use larder_engine::{Basis, StoreError, StoreRequest, Stored};
use larder_item::{Deadline, KeyError, Meta, Second, StoreMode, check_key};

use crate::Cache;
use crate::set::count_refusal;
use flight::{Boarded, Leader, Outcome};

/// How [`Cache::get_or_load`] loads, and how long it keeps what it has loaded. All callers of a key should
/// agree: how fresh an item is, is told from its deadline by the caller's own options.
///
/// ```
/// use larder::LoadOptions;
/// use std::time::Duration;
///
/// const PRICES: LoadOptions = LoadOptions::new()
///     .ttl(Duration::from_secs(60)) // fresh for a minute,
///     .early(0.1) // refreshed by one caller in the last 6 seconds of it,
///     .stale(Duration::from_secs(600)) // shown for ten more minutes while somebody refreshes it,
///     .timeout(Duration::from_secs(2)); // and waited for no longer than that.
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadOptions {
    ttl: Option<Duration>,
    stale: Duration,
    early: f64,
    timeout: Duration,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl LoadOptions {
    /// What is loaded is kept for ever; a load is waited for up to 30 seconds.
    pub const fn new() -> Self {
        Self { ttl: None, stale: Duration::ZERO, early: 0.0, timeout: Duration::from_secs(30) }
    }

    /// How long a loaded value is fresh. As everywhere, time is counted in seconds, and a part of one counts
    /// as a whole.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long after its ttl a value may still be shown while one caller refreshes it. The item is stored for
    /// both together.
    #[must_use]
    pub const fn stale(mut self, stale: Duration) -> Self {
        self.stale = stale;
        self
    }

    /// At which part of the ttl left, from 0 to 1, one caller refreshes a value that is still fresh. It is a part
    /// of these options' ttl, also for a value that was stored with [`Loaded::ttl`]. What is less than 0, or no
    /// number, counts as 0, and what is more than 1 as 1.
    #[must_use]
    pub const fn early(mut self, part: f64) -> Self {
        self.early = if part > 0.0 { part.min(1.0) } else { 0.0 };
        self
    }

    /// How long a load may take, from its beginning, for those that wait for it. Then they get
    /// [`LoadError::TimedOut`], and the next caller loads anew.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Needs an item nobody to refresh it yet?
    fn is_fresh(&self, meta: &Meta, now: Second) -> bool {
        let early = self.early * self.ttl.unwrap_or_default().as_secs_f64();
        let left = meta.deadline.0.saturating_sub(now);
        meta.deadline == Deadline::NEVER || f64::from(left) > whole_secs(self.stale) as f64 + early
    }
}

/// A part of a second counts as a whole one.
fn whole_secs(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

/// What a loader brings: a value, and how long it is to be kept if not as the options say. Bytes and text
/// become one by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    value: Vec<u8>,
    ttl: Option<Duration>,
}

impl Loaded {
    /// A value, kept as long as the options say.
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self { value: value.into(), ttl: None }
    }

    /// Keeps this value for a time of its own, in place of the options' ttl; the options' stale comes on top.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

impl<V: Into<Vec<u8>>> From<V> for Loaded {
    fn from(value: V) -> Self {
        Self::new(value)
    }
}

/// Why there is no value, neither stored nor loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError<E> {
    /// The loader, this caller's or the one it waited for, gave this error: the same one to all.
    #[error("the loader failed: {0}")]
    Failed(#[source] Arc<E>),
    /// The loader that this caller waited for panicked; the panic went on in its own thread.
    #[error("the loader, called by another thread, panicked")]
    Panicked,
    /// The loader that this caller waited for has taken longer than the timeout. The next caller loads anew.
    #[error("the loader, called by another thread, took longer than {0:?}")]
    TimedOut(Duration),
    /// A loader asks for the key that it is to load.
    #[error("the loader waits for itself: it asks for the key it is to load")]
    Recursive,
    /// The key cannot be one; the loader was not called.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl Cache {
    /// The value of a key; where there is none, what `loader` brings, which is stored.
    ///
    /// Of all threads that ask for the key at a time, one calls its loader, without any lock held; the others
    /// wait for it and get copies of what it brings, or its error. Nobody waits where there is a value:
    /// [`LoadOptions::early`] and [`LoadOptions::stale`] let one caller refresh it while the others get the one
    /// that is there. Where such a refresh fails, its caller gets that value too, and the next one tries
    /// again: only the loader itself sees the error.
    ///
    /// A value that the cache does not take, for want of memory or because it is too large, is given to the
    /// callers all the same; `store_too_large` and `store_no_memory` in
    /// [`Cache::stats`] count them.
    ///
    /// The [module](crate::load) says what wins: a load or what happens to the key meanwhile.
    ///
    /// Cost: on a fresh hit that of [`Cache::get`]. Else, besides the loader: two more reads, two short locks
    /// and, while it is under way, a copy of the key, and one of the value for each that waits. No thread is
    /// started.
    ///
    /// # Errors
    /// [`LoadError`]. After any of them, and after a panic of the loader, the next caller loads anew.
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

    /// As [`Cache::get_or_load`], appending the value to `out`. After an error `out` is as it was.
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
            let held = self.look_up(key, out);
            if held.is_some_and(|meta| options.is_fresh(&meta, self.now())) {
                return Ok(());
            }
            match self.shared().flights.board(key, options.timeout) {
                Boarded::Leader(leader) => {
                    out.truncate(start);
                    return self.load(&leader, options, out, || loader().map(Into::into));
                }
                Boarded::Follower(_) if held.is_some() => return Ok(()),
                Boarded::Follower(flight) if flight.is_own() => return Err(LoadError::Recursive),
                Boarded::Follower(flight) => match flight.wait(options.timeout) {
                    None => return Err(LoadError::TimedOut(options.timeout)),
                    Some(Outcome::Panicked) => return Err(LoadError::Panicked),
                    Some(Outcome::Loaded(value)) => {
                        out.extend_from_slice(&value);
                        return Ok(());
                    }
                    // An error of another type than this caller's is of no use to it: it loads itself.
                    Some(Outcome::Failed(error)) => {
                        if let Ok(error) = error.downcast() {
                            return Err(LoadError::Failed(error));
                        }
                    }
                },
            }
        }
    }

    /// Loads as the leader of a flight, and appends the value to `out`.
    fn load<E: Send + Sync + 'static>(
        &self,
        leader: &Leader<'_>,
        options: &LoadOptions,
        out: &mut Vec<u8>,
        loader: impl FnOnce() -> Result<Loaded, E>,
    ) -> Result<(), LoadError<E>> {
        let start = out.len();
        // Before the read: what happens after the look is seen when the result is stored.
        let basis = self.basis(leader.key(), options.timeout);
        // Another flight may have landed since this caller looked.
        let held = self.read_whole(leader.key(), out);
        if held.is_some_and(|meta| options.is_fresh(&meta, self.now())) {
            leader.complete_direct(Outcome::Loaded(Arc::new(out[start..].to_vec())), || ());
            return Ok(());
        }
        let mut reservation = Reservation { cache: self, key: leader.key(), basis };
        match loader() {
            Ok(Loaded { value, ttl }) => {
                let value = Arc::new(value);
                let deadline = self.load_deadline(ttl.or(options.ttl), options.stale);
                leader.complete_direct(Outcome::Loaded(Arc::clone(&value)), || {
                    self.keep(leader.key(), &value, deadline, reservation.basis.take());
                });
                out.truncate(start);
                out.extend_from_slice(&value);
                Ok(())
            }
            Err(error) => {
                // Whoever loads next reserves the key anew.
                drop(reservation);
                let error = Arc::new(error);
                leader.complete_direct(Outcome::Failed(Arc::clone(&error) as _), || ());
                held.map(|_| ()).ok_or(LoadError::Failed(error))
            }
        }
    }

    /// Without a ttl a value is for ever; with one of zero it is not kept at all.
    fn load_deadline(&self, ttl: Option<Duration>, stale: Duration) -> Deadline {
        ttl.map_or(Deadline::NEVER, |ttl| {
            let stale = if ttl.is_zero() { Duration::ZERO } else { stale };
            Deadline::after(self.now(), whole_secs(ttl).saturating_add(whole_secs(stale)))
        })
    }

    /// Returns what a load is based on. Only a cache that others share needs a reservation: in this process every change of
    /// the key detaches the flight. None where no basis can be had; then nothing is stored.
    fn basis(&self, key: &[u8], timeout: Duration) -> Option<Basis> {
        let now = self.now();
        let until = Deadline::after(now, whole_secs(timeout).saturating_add(1));
        self.with_thread_slot(|engine, thread| {
            let reserved_until = engine.has_peers().then_some(until);
            let basis = engine.begin_load(thread, key, reserved_until, now);
            basis.inspect_err(|error| count_refusal(engine, thread, *error)).ok()
        })
    }

    /// Stores what was loaded if its basis holds. By itself, not as [`Cache::set`] does: that would detach the flight it
    /// comes from.
    fn keep(&self, key: &[u8], value: &[u8], deadline: Deadline, basis: Option<Basis>) {
        let Some(basis) = basis else {
            return;
        };
        let request = StoreRequest { deadline, ..StoreRequest::new(key, StoreMode::Set) };
        let now = self.now();
        self.with_thread_slot(|engine, thread| {
            let mut stored = engine.end_load(thread, &request, basis, value, now);
            // Without peers only a death or an eviction can have removed what was there.
            if stored == Ok(Stored::NotFound) && !engine.has_peers() {
                stored = engine.end_load(thread, &request, Basis::ABSENT, value, now);
            }
            if let Err(error) = stored {
                count_refusal(engine, thread, error);
            }
        });
    }

    /// Begins a load whose loader runs elsewhere, and returns what it is based on: for bindings, which have flights of
    /// their own. A key without an item is reserved for `timeout`: readers do not see that, and a delete of the key
    /// ends it. Every load that was begun is ended with [`Cache::end_load`] or [`Cache::cancel_load`].
    ///
    /// Cost: that of a delete and, where there is no item, of a small store.
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
    /// [`StoreError`], also where there is no memory for the reservation.
    pub fn begin_load(&self, key: &[u8], timeout: Duration) -> Result<Basis, StoreError> {
        let now = self.now();
        let until = Deadline::after(now, whole_secs(timeout).saturating_add(1));
        self.with_thread_slot(|engine, thread| engine.begin_load(thread, key, Some(until), now))
    }

    /// Stores what was loaded, unless the key was stored, deleted or otherwise changed since [`Cache::begin_load`]: then
    /// the outcome is [`Stored::Exists`] or [`Stored::NotFound`]. Neither the request's mode nor its cas token count.
    ///
    /// # Errors
    /// [`StoreError`]; the item that is there stays.
    pub fn end_load(
        &self,
        request: &StoreRequest<'_>,
        basis: Basis,
        value: &[u8],
    ) -> Result<Stored, StoreError> {
        let now = self.now();
        self.with_thread_slot(|engine, thread| {
            let stored = engine.end_load(thread, request, basis, value, now);
            stored.inspect_err(|error| count_refusal(engine, thread, *error))
        })
    }

    /// Ends a load that brought nothing.
    ///
    /// # Errors
    /// [`StoreError::Stuck`]; the reservation ends by itself later.
    pub fn cancel_load(&self, key: &[u8], basis: Basis) -> Result<(), StoreError> {
        Ok(self.with_thread_slot(|engine, thread| engine.cancel_load(thread, key, basis))?)
    }
}

/// The reservation of a load, removed where the load brings nothing, also by a panic.
struct Reservation<'a> {
    cache: &'a Cache,
    key: &'a [u8],
    /// None where the load was stored, or had none.
    basis: Option<Basis>,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(basis) = self.basis {
            // Where another process has been stopped the reservation ends by itself.
            let _ = self.cache.cancel_load(self.key, basis);
        }
    }
}

#[cfg(test)]
mod tests;
