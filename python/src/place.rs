//! The cache of an object: opening, closing, and following a replaced file.

use std::ffi::CString;
use std::path::PathBuf;

use larder::Builder;
use larder_binding::{InUse, Notice, PlaceError, Writers};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

use crate::errors;

/// The location and the settings of a cache.
pub(crate) struct Place(larder_binding::Place);

impl Place {
    /// Opens the cache.
    ///
    /// # Errors
    /// `OpenError`; `UntrustedError` if other users can write to the file. A cache that this
    /// process can only read is a warning.
    pub(crate) fn open(
        py: Python<'_>,
        builder: Builder,
        path: Option<PathBuf>,
        writers: Writers,
    ) -> PyResult<Self> {
        // Another process may be opening the same file, so the wait can take seconds.
        let opened = py.detach(|| larder_binding::Place::open(builder, path, writers));
        let (place, notice) = opened.map_err(|error| exception(py, &error, writers))?;
        warn(py, notice, 2)?;
        Ok(Self(place))
    }

    /// Returns the cache. Once a second it follows a replaced file.
    ///
    /// # Errors
    /// `ClosedError` after [`Place::close`].
    #[inline]
    pub(crate) fn cache(&self, py: Python<'_>) -> PyResult<InUse> {
        match self.0.cache() {
            Some(cache) if !self.0.is_due(&cache) => Ok(cache),
            cache => self.followed(py, cache),
        }
    }

    #[cold]
    fn followed(&self, py: Python<'_>, cache: Option<InUse>) -> PyResult<InUse> {
        if cache.is_some() {
            drop(cache);
            let notice = py.detach(|| self.0.follow());
            warn(py, notice, 1)?;
        }
        self.0.cache().ok_or_else(|| errors::CLOSED.with(py, "the cache is closed"))
    }

    /// Closes the cache. Its memory is returned to the system as soon as no operation of another
    /// thread uses it.
    pub(crate) fn close(&self) {
        self.0.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// Returns the exception for a cache that cannot be opened.
#[cold]
fn exception(py: Python<'_>, error: &PlaceError, writers: Writers) -> PyErr {
    let PlaceError::Untrusted(found) = error else { return errors::OPEN.with(py, error) };
    let remedy = match writers {
        Writers::Trusted => {
            "reading a pickled value runs code of the program that wrote it: pass signing_key=, or \
             use another serializer"
        }
        Writers::OfMode(_) => {
            "a process that can write to the file can end the processes that use it: pass \
             permissions=0o660 to share it with its group, or 0o666 with everyone"
        }
    };
    errors::UNTRUSTED.with(py, format_args!("{found}; {remedy}"))
}

/// Emits a notice as a warning. `level` is that of `warnings.warn`.
fn warn(py: Python<'_>, notice: Option<Notice>, level: i32) -> PyResult<()> {
    let Some(notice) = notice else { return Ok(()) };
    // Only a path with a NUL, which cannot be opened, would be refused here.
    let message = CString::new(notice.to_string())?;
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &message, level)
}
