//! The extension module `larder_cache._larder`: the part of the Python package that uses the Rust
//! library. The package `larder_cache` wraps it; programs do not import it directly.
//!
//! | file | contents |
//! |---|---|
//! | `cache.rs`, `read.rs` | the class `CacheBase` and its operations |
//! | `place.rs` | opening a cache, closing it, and following a replaced file |
//! | `key.rs`, `arguments.rs` | keys of Python as bytes; the arguments of a call as a key |
//! | `ttl.rs` | times to live |
//! | `value.rs`, `sink.rs` | values of Python as bytes, and back |
//! | `cached.rs` | `CachedCall`, the function that `@cached` returns |
//! | `load.rs` | leases, and loads in progress |
//! | `walk.rs` | iterators |
//! | `client/` | reads in a server's memory; the placement of keys on servers |
//! | `finalizing.rs` | calls of Python code while the interpreter may be ending |
//! | `errors.rs` | errors of the library as exceptions of the package |
//!
//! The module is declared free-threading safe: each class is frozen, and its state is in atomic
//! values and in the library, which is thread-safe. Operations of less than a microsecond keep the
//! GIL. Walks, clears, values of 64 KiB and more, and everything that waits for a server release
//! it.

mod arguments;
mod cache;
mod cached;
mod client;
mod errors;
mod finalizing;
mod key;
mod load;
mod place;
mod read;
mod sink;
mod ttl;
mod value;
mod walk;

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The interpreter that has imported the module; -1 before the first import.
static INTERPRETER: AtomicI64 = AtomicI64::new(-1);

/// Refuses a second interpreter in the same process: the module keeps objects of the first one.
/// Python itself refuses it only in some versions and kinds of sub-interpreters.
fn check_interpreter() -> PyResult<()> {
    // SAFETY: this thread is attached to an interpreter, whose state the first call returns.
    let interpreter = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    match INTERPRETER.compare_exchange(-1, interpreter, Relaxed, Relaxed) {
        Err(first) if first != interpreter => Err(PyImportError::new_err(
            "larder_cache cannot be imported in a second interpreter of a process; use processes \
             instead, or with mod_wsgi `WSGIApplicationGroup %{GLOBAL}`",
        )),
        _ => Ok(()),
    }
}

/// The native part of larder_cache.
#[pymodule(gil_used = false)]
mod _larder {
    use super::*;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        check_interpreter()
    }

    #[pymodule_export]
    use crate::arguments::key_of_arguments;
    #[pymodule_export]
    use crate::cache::CacheBase;
    #[pymodule_export]
    use crate::cached::CachedCall;
    #[pymodule_export]
    use crate::client::local::LocalReader;
    #[pymodule_export]
    use crate::client::ring::Ring;
    #[pymodule_export]
    use crate::load::{Lease, Load};
    #[pymodule_export]
    use crate::value::{decode, encode};
    #[pymodule_export]
    use crate::walk::{Items, Keys};
}
