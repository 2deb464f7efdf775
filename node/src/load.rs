//! Leases and loads, with which the package computes a value in one process at a time.

use larder::{Basis, Cache, StoreMode, StoreRequest, Stored};
use napi::JsValue;
use napi::bindgen_prelude::{Env, Result, Unknown};
use napi_derive::napi;

use crate::cache::deadline;
use crate::errors::{Code, Failure};
use crate::value::{Form, Unencoded, with_bytes};

/// The exclusive right to do something for a key, until `release`, its time, the end of the
/// process or worker, or the end of this object.
#[napi]
pub struct Lease {
    cache: Cache,
    key: Box<[u8]>,
    /// `None` after the release.
    lease: Option<larder::Lease>,
}

impl Lease {
    pub(crate) fn new(cache: &Cache, key: &[u8], lease: larder::Lease) -> Self {
        Self { cache: cache.clone(), key: key.into(), lease: Some(lease) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            // If a stopped process holds a lock, the lease ends when its time is over.
            let _ = self.cache.release(&*self.key, lease);
        }
    }
}

#[napi]
impl Lease {
    /// Ends the lease. Returns false if it had already ended.
    #[napi]
    pub fn release(&mut self, env: Env) -> Result<bool> {
        let Some(lease) = self.lease.take() else { return Ok(false) };
        let released = self.cache.release(&*self.key, lease);
        released.map_err(|error| Failure::from(error).thrown(env.raw()))
    }
}

/// A load in progress: its result is stored only if the key has not changed since the load began.
#[napi]
pub struct Load {
    cache: Cache,
    key: Box<[u8]>,
    /// `None` after the end of the load.
    basis: Option<Basis>,
}

impl Load {
    pub(crate) fn new(cache: &Cache, key: &[u8], basis: Basis) -> Self {
        Self { cache: cache.clone(), key: key.into(), basis: Some(basis) }
    }
}

#[napi]
impl Load {
    /// Stores the result with a time to live in seconds, 0 for no limit. `flags` are those of bytes
    /// or a string that a codec has made. Returns false if the result was not stored, because the
    /// key has changed or the load has already ended.
    #[napi]
    pub fn finish(
        &mut self,
        env: Env,
        value: Unknown<'_>,
        secs: u32,
        flags: Option<u32>,
    ) -> Result<bool> {
        let Some(basis) = self.basis.take() else { return Ok(false) };
        let form = flags.map_or(Form::OfType, Form::Encoded);
        let deadline = deadline(&self.cache, secs);
        let end = |bytes: &[u8], flags: u32| {
            let request =
                StoreRequest { deadline, flags, ..StoreRequest::new(&self.key, StoreMode::Set) };
            self.cache.end_load(&request, basis, bytes)
        };
        // SAFETY: napi-rs has passed the environment and one of its values.
        let failure = match unsafe { with_bytes(env.raw(), value.raw(), form, end) } {
            Ok(Ok(stored)) => return Ok(matches!(stored, Stored::Stored { .. })),
            Ok(Err(error)) => error.into(),
            Err(Unencoded::Failed(failure)) => failure,
            Err(Unencoded::LoneSurrogate) => {
                Failure::new(Code::Codec, "the value contains a lone surrogate")
            }
        };
        Err(failure.thrown(env.raw()))
    }

    /// Ends the load without a result.
    #[napi]
    pub fn cancel(&mut self, env: Env) -> Result<()> {
        let Some(basis) = self.basis.take() else { return Ok(()) };
        let cancelled = self.cache.cancel_load(&self.key, basis);
        cancelled.map_err(|error| Failure::from(error).thrown(env.raw()))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(basis) = self.basis.take() {
            // A reservation that cannot be removed expires by itself.
            let _ = self.cache.cancel_load(&self.key, basis);
        }
    }
}
