//! The cache of an object: opening, closing, and following a replaced file.

use std::path::PathBuf;

use larder::Builder;
use larder_binding::{InUse, Notice, PlaceError, Writers};
use napi::bindgen_prelude::{Env, FnArgs, Function, JsObjectValue, Object};
use napi::sys;

use crate::errors::{Code, Failure};

/// The location and the settings of a cache.
pub(crate) struct Place(larder_binding::Place);

impl Place {
    /// Opens the cache. `mode` has the users that may write to the file.
    pub(crate) fn open(
        env: sys::napi_env,
        builder: Builder,
        path: Option<PathBuf>,
        mode: u32,
    ) -> Result<Self, Failure> {
        let (place, notice) = larder_binding::Place::open(builder, path, Writers::OfMode(mode))?;
        warn(env, notice);
        Ok(Self(place))
    }

    /// Returns the cache. Once a second it follows a replaced file.
    #[inline]
    pub(crate) fn cache(&self, env: sys::napi_env) -> Result<InUse, Failure> {
        let cache = self.0.cache().ok_or_else(closed)?;
        if !self.0.is_due(&cache) {
            return Ok(cache);
        }
        drop(cache);
        warn(env, self.0.follow());
        self.0.cache().ok_or_else(closed)
    }

    pub(crate) fn close(&self) {
        self.0.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

#[cold]
fn closed() -> Failure {
    Failure::new(Code::Closed, "the cache is closed")
}

impl From<PlaceError> for Failure {
    #[cold]
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Untrusted(found) => Self::new(
                Code::Untrusted,
                format_args!(
                    "{found}: a process that can write to the file can end the processes that use \
                     it. To share it with its group pass permissions: 0o660, with everyone 0o666"
                ),
            ),
            error => Self::new(Code::Open, error),
        }
    }
}

/// Calls `process.emitWarning`, which prints the message after the running code has ended.
fn warn(env: sys::napi_env, notice: Option<Notice>) {
    if let Some(notice) = notice {
        // A warning that cannot be emitted changes nothing else.
        let _ = emit_warning(env, notice.to_string());
    }
}

#[cold]
fn emit_warning(env: sys::napi_env, message: String) -> napi::Result<()> {
    let process: Object<'_> = Env::from_raw(env).get_global()?.get_named_property("process")?;
    let emit: Function<'_, FnArgs<(String, &str)>, ()> =
        process.get_named_property("emitWarning")?;
    emit.apply(process, (message, "LarderWarning").into())
}
