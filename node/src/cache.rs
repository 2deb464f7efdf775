//! The class `NativeCache`: a cache in this process or in shared memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use larder::{Builder, Cache, Deadline, Deletion};
use napi::bindgen_prelude::{BigInt, Either, Env, Result};
use napi_derive::napi;

use crate::errors::{Code, Failure};
use crate::key::{Key, Prefix};
use crate::load::{Lease, Load};
use crate::operations::{self, Raw};
use crate::place::Place;
use crate::scratch::Scratch;
use crate::walk::Walk;

/// The largest integer that a number of JavaScript represents exactly.
const SAFE_INTEGER_MAX: i128 = (1 << 53) - 1;

/// The options of a cache. `lib/cache.ts` checks them and explains them.
#[napi(object)]
pub struct NativeOptions {
    pub memory: f64,
    pub path: Option<String>,
    pub item_max: Option<f64>,
    pub cas: bool,
    pub evict: bool,
    pub processes: u32,
    pub permissions: u32,
}

/// The memory of a cache, in bytes.
#[napi(object)]
pub struct NativeMemory {
    pub limit: f64,
    pub used: f64,
    pub items: f64,
    pub index: f64,
}

/// A statistic of a cache.
#[napi(object)]
pub struct NativeStat {
    pub name: String,
    pub value: f64,
}

/// A cache.
#[napi]
pub struct NativeCache {
    place: Arc<Place>,
}

/// Returns the deadline for a time to live in seconds; 0 stands for no limit.
pub(crate) fn deadline(cache: &Cache, secs: u32) -> Deadline {
    match secs {
        0 => Deadline::NEVER,
        _ => cache.deadline_after(Duration::from_secs(secs.into())),
    }
}

/// Returns an integer as a number if that is exact.
fn exact(number: i128) -> Either<f64, BigInt> {
    if number.abs() <= SAFE_INTEGER_MAX {
        Either::A(number as f64)
    } else {
        Either::B(number.into())
    }
}

impl NativeCache {
    /// Runs `f` with the cache, and throws its error.
    fn with<T>(
        &self,
        env: Env,
        f: impl FnOnce(&Cache) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let run = || f(&*self.place.cache(env.raw())?);
        run().map_err(|failure| failure.thrown(env.raw()))
    }
}

#[napi]
impl NativeCache {
    #[napi(constructor)]
    pub fn new(env: Env, options: NativeOptions) -> Result<Self> {
        let mut builder = Builder::default()
            .memory_bytes(options.memory as u64)
            .cas(options.cas)
            .evict(options.evict)
            .processes_max(options.processes)
            .permissions(options.permissions)
            .substitute(false);
        if let Some(bytes) = options.item_max {
            builder = builder.item_bytes_max(bytes as u64);
        }
        let path = options.path.map(PathBuf::from);
        if let Some(path) = &path {
            builder = builder.shared(path).replaces_unusable(true);
        }
        let place = Place::open(env.raw(), builder, path, options.permissions);
        let place = place.map_err(|failure| failure.thrown(env.raw()))?;
        Ok(Self { place: Arc::new(place) })
    }

    /// Returns the functions of `operations.rs` for this cache.
    #[napi(ts_return_type = "Operations")]
    pub fn operations(&self, env: Env, scratch: &Scratch) -> Result<Raw> {
        // SAFETY: napi-rs passes the environment of the running function.
        unsafe { operations::object(env.raw(), &self.place, &scratch.memory()) }
    }

    /// Returns the remaining time of the item that the last `get` has found, in seconds; -1 for no
    /// limit.
    #[napi]
    pub fn seconds_left(&self, env: Env, scratch: &Scratch) -> Result<f64> {
        let deadline = scratch.memory().deadline();
        self.with(env, |cache| Ok(seconds_left(cache, deadline)))
    }

    /// Same for the item of a key; null if it is absent.
    #[napi]
    pub fn seconds_left_of(&self, env: Env, key: Key) -> Result<Option<f64>> {
        self.with(env, |cache| {
            let found = cache.try_peek(&key.0)?;
            Ok(found.map(|meta| seconds_left(cache, meta.deadline)))
        })
    }

    /// Returns the flags of an item; null if it is absent.
    #[napi]
    pub fn flags_of(&self, env: Env, key: Key) -> Result<Option<u32>> {
        self.with(env, |cache| Ok(cache.try_peek(&key.0)?.map(|meta| meta.flags)))
    }

    /// Removes an item if its cas token is still this one. Returns true if it was removed, false if
    /// it is absent, and null if it was stored again.
    #[napi]
    pub fn delete_if(&self, env: Env, key: Key, token: BigInt) -> Result<Option<bool>> {
        let (_, token, _) = token.get_u64();
        self.with(env, |cache| {
            let token = cache.keeps_cas().then_some(token);
            Ok(match cache.delete_if(&key.0, token)? {
                Deletion::Deleted(_) => Some(true),
                Deletion::NotFound => Some(false),
                Deletion::Exists => None,
            })
        })
    }

    /// Gives an item a new time to live. Returns false if the key is absent.
    #[napi]
    pub fn touch(&self, env: Env, key: Key, secs: u32) -> Result<bool> {
        self.with(env, |cache| Ok(cache.touch_until(&key.0, deadline(cache, secs))?.is_some()))
    }

    /// Adds to a counter. An absent counter starts at `initial`; without it the result is null.
    #[napi]
    pub fn add(
        &self,
        env: Env,
        key: Key,
        delta: i64,
        initial: Option<i64>,
        secs: u32,
    ) -> Result<Option<Either<f64, BigInt>>> {
        self.with(env, |cache| {
            let added = larder_binding::add(cache, &key.0, delta, initial, deadline(cache, secs));
            Ok(added.map_err(|error| Failure::add(&key.0, error))?.map(exact))
        })
    }

    /// Removes all items whose keys begin with `prefix`, and returns their number.
    #[napi]
    pub fn remove_prefix(&self, env: Env, prefix: Prefix) -> Result<f64> {
        self.with(env, |cache| Ok(cache.remove_prefix(&prefix.0)? as f64))
    }

    /// Removes all items.
    #[napi]
    pub fn clear(&self, env: Env) -> Result<()> {
        self.with(env, |cache| Ok(cache.try_clear()?))
    }

    /// The number of items.
    #[napi]
    pub fn size(&self, env: Env) -> Result<f64> {
        self.with(env, |cache| Ok(cache.len() as f64))
    }

    /// Begins a walk over the keys with a prefix.
    #[napi]
    pub fn walk(&self, env: Env, prefix: Prefix) -> Result<Walk> {
        self.with(env, |cache| Ok(Walk::new(cache.keys_with_prefix(&prefix.0))))
    }

    /// Returns all statistics.
    #[napi]
    pub fn stats(&self, env: Env) -> Result<Vec<NativeStat>> {
        self.with(env, |cache| {
            let stat = |stat: larder::Stat| NativeStat {
                name: stat.name.to_owned(),
                value: stat.value as f64,
            };
            Ok(cache.stats().map(stat).collect())
        })
    }

    /// Returns how the memory is used.
    #[napi]
    pub fn memory(&self, env: Env) -> Result<NativeMemory> {
        self.with(env, |cache| {
            let memory = cache.memory();
            Ok(NativeMemory {
                limit: memory.limit as f64,
                used: memory.used as f64,
                items: memory.items as f64,
                index: memory.index as f64,
            })
        })
    }

    /// True if items have cas tokens.
    #[napi]
    pub fn has_cas(&self, env: Env) -> Result<bool> {
        self.with(env, |cache| Ok(cache.keeps_cas()))
    }

    /// Takes the exclusive right to do something for a key; null if another one has it.
    #[napi]
    pub fn lease(&self, env: Env, key: Key, millis: f64) -> Result<Option<Lease>> {
        let Ok(time) = Duration::try_from_secs_f64(millis / 1000.0) else {
            let message = format_args!("a lease takes a number of milliseconds, found {millis}");
            return Err(Failure::argument(message).thrown(env.raw()));
        };
        self.with(env, |cache| {
            let lease = cache.lease(&*key.0, time)?;
            Ok(lease.map(|lease| Lease::new(cache, &key.0, lease)))
        })
    }

    /// Begins a load, whose result is stored unless the key has changed since.
    #[napi]
    pub fn begin_load(&self, env: Env, key: Key, secs: u32) -> Result<Load> {
        self.with(env, |cache| {
            let basis = cache.begin_load(&key.0, Duration::from_secs(secs.into()))?;
            Ok(Load::new(cache, &key.0, basis))
        })
    }

    /// Closes the cache.
    #[napi]
    pub fn close(&self) {
        self.place.close();
    }

    /// True after `close`.
    #[napi(getter)]
    pub fn closed(&self) -> bool {
        self.place.is_closed()
    }
}

fn seconds_left(cache: &Cache, deadline: Deadline) -> f64 {
    match deadline {
        Deadline::NEVER => -1.0,
        _ => deadline.0.saturating_sub(cache.now()).into(),
    }
}

/// Throws the error of an operation that needs cas tokens.
#[napi]
pub(crate) fn throw_no_cas(env: Env) {
    Failure::new(
        Code::NoCas,
        "the cache has no cas tokens: it was created with cas: false, or by another program",
    )
    .throw(env.raw());
}
