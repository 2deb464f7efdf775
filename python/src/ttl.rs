//! Times to live.

use std::time::Duration;

use larder::{Cache, Deadline};
use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyEllipsis, PyFloat, PyInt};

/// A time to live, as an argument.
pub(crate) enum Ttl {
    /// The argument was omitted: the default of the cache.
    Omitted,
    /// Seconds from now; `None` for no limit.
    Given(Option<u32>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Ttl {
    type Error = PyErr;

    fn extract(ttl: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if ttl.is_none() {
            return Ok(Self::Given(None));
        }
        if PyEllipsis::is_type_of(&ttl) {
            return Ok(Self::Omitted);
        }
        let is_number = PyInt::is_type_of(&ttl) || PyFloat::is_type_of(&ttl);
        let secs: f64 = if is_number && !PyBool::is_type_of(&ttl) {
            ttl.extract()?
        } else if PyDelta::is_type_of(&ttl) {
            ttl.call_method0("total_seconds")?.extract()?
        } else {
            let found = ttl.get_type().qualname()?;
            return Err(PyTypeError::new_err(format!(
                "ttl is a number of seconds, a timedelta or None, found {found}"
            )));
        };
        if secs.is_nan() || secs <= 0.0 {
            return Err(PyValueError::new_err(format!(
                "ttl is {secs} s, expected more than 0; delete() removes an item, None keeps it"
            )));
        }
        // Casts of floats saturate.
        Ok(Self::Given(Some(secs.ceil() as u32)))
    }
}

/// Returns the deadline for a time to live; `None` means no limit.
pub(crate) fn deadline(cache: &Cache, ttl: Option<u32>) -> Deadline {
    ttl.map_or(Deadline::NEVER, |secs| cache.deadline_after(Duration::from_secs(secs.into())))
}
