//! Errors of the library as exceptions of `larder_cache._errors`.

use larder::{ClientError, CountError, Refusal, StoreError};
use larder_binding::AddError;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// An exception class of `larder_cache._errors`, imported at its first use.
pub(crate) struct Exception {
    name: &'static str,
    class: PyOnceLock<Py<PyType>>,
}

impl Exception {
    const fn new(name: &'static str) -> Self {
        Self { name, class: PyOnceLock::new() }
    }

    /// True if an exception is of this class.
    #[cold]
    pub(crate) fn is_class_of(&self, py: Python<'_>, error: &PyErr) -> PyResult<bool> {
        let class = self.class.import(py, "larder_cache._errors", self.name)?;
        Ok(error.is_instance(py, class))
    }

    /// Returns an exception with a message.
    #[cold]
    pub(crate) fn with(&self, py: Python<'_>, message: impl std::fmt::Display) -> PyErr {
        match self.class.import(py, "larder_cache._errors", self.name) {
            Ok(class) => PyErr::from_type(class.clone(), (message.to_string(),)),
            Err(error) => error,
        }
    }
}

pub(crate) static CLOSED: Exception = Exception::new("ClosedError");
pub(crate) static OPEN: Exception = Exception::new("OpenError");
pub(crate) static CAS: Exception = Exception::new("CasError");
static COUNTER: Exception = Exception::new("CounterError");
static STORE: Exception = Exception::new("StoreError");
static TOO_LARGE: Exception = Exception::new("TooLargeError");
pub(crate) static SERIALIZER: Exception = Exception::new("SerializerError");
static SERVER: Exception = Exception::new("ServerError");
static UNAVAILABLE: Exception = Exception::new("UnavailableError");
pub(crate) static UNTRUSTED: Exception = Exception::new("UntrustedError");

/// Returns the exception for a failed store.
#[cold]
pub(crate) fn store(py: Python<'_>, error: StoreError) -> PyErr {
    match error {
        StoreError::Key(error) => PyValueError::new_err(error.to_string()),
        StoreError::TooLarge => TOO_LARGE.with(py, error),
        StoreError::Journal(Refusal::Lost) => STORE.with(
            py,
            "this process can only read the cache: too many processes use it, or it was forked \
             when too many files were open; create the file with a larger processes=",
        ),
        StoreError::NoMemory | StoreError::Journal(_) | StoreError::Stuck(_) => {
            STORE.with(py, error)
        }
    }
}

/// Returns the exception for a failed change of a counter.
#[cold]
pub(crate) fn add(py: Python<'_>, key: &[u8], error: AddError) -> PyErr {
    match error {
        AddError::Overflow => PyOverflowError::new_err("a counter is an int of 64 bits"),
        AddError::Count(CountError::Store(error)) => store(py, error),
        AddError::Count(CountError::NotANumber) => {
            let key = key.escape_ascii();
            COUNTER.with(py, format_args!("the value of b'{key}' is not an int of 64 bits"))
        }
    }
}

/// Returns the exception for a failed request to a server.
#[cold]
pub(crate) fn client(py: Python<'_>, error: &ClientError) -> PyErr {
    match error {
        ClientError::Connect { .. } | ClientError::Io(_) => UNAVAILABLE.with(py, error),
        ClientError::Key(_) | ClientError::LongKey { .. } => {
            PyValueError::new_err(error.to_string())
        }
        ClientError::Server(_) | ClientError::Protocol(_) => SERVER.with(py, error),
    }
}
