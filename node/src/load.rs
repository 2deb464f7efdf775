//! Leases and loads, with which the package computes a value in one process at a time.

use larder::{Basis, Cache, StoreMode, StoreRequest};
use larder_binding::{OwnedLease, OwnedLoad};
use napi::JsValue;
use napi::bindgen_prelude::{Env, Result, Unknown};
use napi_derive::napi;

use crate::cache::deadline;
use crate::errors::{Code, Failure};
use crate::value::{Form, Unencoded, with_bytes};

/// The exclusive right to do something for a key, until `release`, its time, the end of the
/// process or worker, or the end of this object.
#[napi]
pub struct Lease(OwnedLease);

impl Lease {
    pub(crate) fn new(cache: &Cache, key: &[u8], lease: larder::Lease) -> Self {
        Self(OwnedLease::new(cache, key, lease))
    }
}

#[napi]
impl Lease {
    /// Ends the lease. Returns false if it had already ended.
    #[napi]
    pub fn release(&mut self, env: Env) -> Result<bool> {
        self.0.release().map_err(|error| Failure::from(error).thrown(env.raw()))
    }
}

/// A load in progress: its result is stored only if the key has not changed since the load began.
#[napi]
pub struct Load(OwnedLoad);

impl Load {
    pub(crate) fn new(cache: &Cache, key: &[u8], basis: Basis) -> Self {
        Self(OwnedLoad::new(cache, key, basis))
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
        let form = flags.map_or(Form::OfType, Form::Encoded);
        let deadline = deadline(self.0.cache(), secs);
        let key: Box<[u8]> = self.0.key().into();
        let finish = |bytes: &[u8], flags: u32| {
            let request =
                StoreRequest { deadline, flags, ..StoreRequest::new(&key, StoreMode::Set) };
            self.0.finish(&request, bytes)
        };
        // SAFETY: napi-rs has passed the environment and one of its values.
        let failure = match unsafe { with_bytes(env.raw(), value.raw(), form, finish) } {
            Ok(Ok(is_stored)) => return Ok(is_stored),
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
        self.0.cancel().map_err(|error| Failure::from(error).thrown(env.raw()))
    }
}
