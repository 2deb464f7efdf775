//! Loads in tasks of a tokio runtime. No thread is started, and no thread waits.

use std::time::{Duration, Instant};

use larder_engine::Lease;
use larder_item::check_key;

use super::{LoadError, LoadOptions, Loaded, LoaderError, Wanted};
use crate::api::cache::Cache;
use crate::process::flight::{FlightRole, Leader, LoadOutcome};

/// The pauses between two looks for the value that another process loads: 1, 2, 4 … milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl Cache {
    /// Returns the value of a key; on a miss, calls `loader`, waits for its result and stores it.
    ///
    /// Of all tasks and threads of this process that request the key at the same time, one calls
    /// its loader. The other tasks wait for it without a thread, and receive copies of the value or
    /// its error. In a cache that processes share, one task of all processes loads at a time: it
    /// takes the lease of the key ([`Cache::lease`]). The tasks of other processes wait for the
    /// value, and look for it and for the lease after 1, 2, 4 … up to 50 milliseconds. If a load
    /// fails, only callers of its process receive the error; the next process loads again. Threads
    /// that load with [`Cache::get_or_load`] take no lease.
    ///
    /// In all other respects it is like [`Cache::get_or_load`]: see there for refreshes, for values
    /// that cannot be stored, and for concurrent changes.
    ///
    /// **Cancellation.** The loader runs in the task of its caller. If that task is dropped, one of
    /// the waiting callers calls its own loader. Waiting callers may be dropped at any moment.
    ///
    /// **Blocking.** The future never waits for a thread or another process, but with a disk tier
    /// ([`Builder::tier`](crate::Builder::tier)) it reads from the disk like [`Cache::get`]. A
    /// thread of the runtime must not call [`Cache::get_or_load`]: it would wait for the timeout if
    /// a task of the same thread loads the key.
    ///
    /// Cost: same as [`Cache::get_or_load`]; in a cache that processes share, also a store and a
    /// delete for the lease of each load. While a task waits, it has a timer of the runtime.
    ///
    /// # Panics
    /// If the caller has to wait outside of a tokio runtime, or in one without timers
    /// (`enable_time`).
    ///
    /// # Errors
    /// [`LoadError`]. A loader that requests its own key receives [`LoadError::TimedOut`] after the
    /// timeout, because the task waits for itself.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # runtime.block_on(async {
    /// use larder::{Cache, LoadOptions};
    /// use std::time::Duration;
    ///
    /// async fn fetch(page: u32) -> Result<String, std::io::Error> {
    ///     tokio::time::sleep(Duration::from_millis(1)).await;
    ///     Ok(format!("page {page}"))
    /// }
    ///
    /// let cache = Cache::builder().open()?;
    /// let options = LoadOptions::new().ttl(Duration::from_secs(60));
    /// let page = cache.get_or_load_async("page:7", &options, || fetch(7)).await?;
    /// assert_eq!(page, b"page 7");
    /// assert!(cache.contains("page:7"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn get_or_load_async<V, E, F>(
        &self,
        key: impl AsRef<[u8]>,
        options: &LoadOptions,
        loader: impl FnOnce() -> F,
    ) -> Result<Vec<u8>, LoadError<E>>
    where
        V: Into<Loaded>,
        E: Send + Sync + 'static,
        F: Future<Output = Result<V, E>>,
    {
        let mut value = Vec::new();
        let wanted = Wanted { key: key.as_ref(), options, format: None };
        let load = || async move { loader().await.map(Into::into).map_err(LoaderError::Failed) };
        self.load_in_task(wanted, &mut value, load).await?;
        Ok(value)
    }

    /// Same as [`Cache::load_into`], in a task.
    pub(crate) async fn load_in_task<E, F>(
        &self,
        wanted: Wanted<'_>,
        out: &mut Vec<u8>,
        loader: impl FnOnce() -> F,
    ) -> Result<(), LoadError<E>>
    where
        E: Send + Sync + 'static,
        F: Future<Output = Result<Loaded, LoaderError<E>>>,
    {
        let Wanted { key, options, .. } = wanted;
        check_key(key)?;
        let start = out.len();
        loop {
            let held = wanted.accepted(self.look_up_or_miss(key, out), start, out);
            if held.is_some_and(|meta| options.is_fresh(&meta, self.now())) {
                return Ok(());
            }
            let flight = match self.shared().flights.board_in_task(key, options.timeout) {
                FlightRole::Leader(leader) => {
                    out.truncate(start);
                    return self.lead_in_task(leader, wanted, out, loader).await;
                }
                FlightRole::Follower(_) if held.is_some() => return Ok(()),
                FlightRole::Follower(flight) if flight.is_own() => {
                    return Err(LoadError::Recursive);
                }
                FlightRole::Follower(flight) => flight,
            };
            if let Some(result) = wanted.landed(flight.wait_in_task(options.timeout).await, out) {
                return result;
            }
        }
    }

    /// Loads a value. If the task is dropped, the lease ends first, then the reservation of the
    /// key, and then the flight, whose followers continue.
    async fn lead_in_task<E, F>(
        &self,
        leader: Leader<'_>,
        wanted: Wanted<'_>,
        out: &mut Vec<u8>,
        loader: impl FnOnce() -> F,
    ) -> Result<(), LoadError<E>>
    where
        E: Send + Sync + 'static,
        F: Future<Output = Result<Loaded, LoaderError<E>>>,
    {
        let start = out.len();
        let lease = match self.take_lease(wanted, out).await {
            Turn::Load(lease) => lease,
            Turn::Found(flags) => {
                let value = out[start..].to_vec().into();
                leader.finish(LoadOutcome::Loaded(value, flags), || ());
                return Ok(());
            }
            Turn::TimedOut => {
                leader.finish(LoadOutcome::TimedOut, || ());
                return Err(LoadError::TimedOut(wanted.options.timeout));
            }
        };
        let Some(attempt) = self.begin(leader, wanted, out) else {
            return Ok(());
        };
        // Locals are dropped in the opposite order of their declarations.
        let _lease = lease;
        let loaded = loader().await;
        self.end(attempt, wanted, loaded, start, out)
    }

    /// Takes the lease of a key that other processes may load. While one of them has it, looks for
    /// the value, and appends it to `out`.
    async fn take_lease<'a>(&'a self, wanted: Wanted<'a>, out: &mut Vec<u8>) -> Turn<'a> {
        let Wanted { key, options, .. } = wanted;
        if !self.shared().engine.has_peers() {
            return Turn::Load(None);
        }
        let (began, start) = (Instant::now(), out.len());
        let mut pause = FIRST_PAUSE;
        loop {
            match self.lease(key, options.timeout) {
                Ok(Some(lease)) => {
                    return Turn::Load(Some(HeldLease { cache: self, key, lease }));
                }
                // Without memory for a lease, each process loads.
                Err(_) => return Turn::Load(None),
                Ok(None) => {}
            }
            // An old value is the result as well: the other process refreshes it.
            if let Some(meta) = wanted.accepted(self.read_whole(key, out), start, out) {
                return Turn::Found(meta.flags);
            }
            let Some(left) = options.timeout.checked_sub(began.elapsed()) else {
                return Turn::TimedOut;
            };
            tokio::time::sleep(pause.min(left)).await;
            pause = LONGEST_PAUSE.min(2 * pause);
        }
    }
}

/// The outcome of a wait for the lease of a key.
enum Turn<'a> {
    /// This task loads, with the lease if the cache is shared.
    Load(Option<HeldLease<'a>>),
    /// Another process has loaded the value, whose item has these client flags.
    Found(u32),
    /// Another process still loads.
    TimedOut,
}

/// A lease, which is released on drop.
struct HeldLease<'a> {
    cache: &'a Cache,
    key: &'a [u8],
    lease: Lease,
}

impl Drop for HeldLease<'_> {
    fn drop(&mut self) {
        // If another process was stopped while holding the lock, the lease ends with its time.
        let _ = self.cache.release(self.key, self.lease);
    }
}

#[cfg(test)]
mod tests;
