//! Calls of Python code while the interpreter may be ending.
//!
//! A daemon thread that runs Python code and needs the interpreter again after its end began is
//! ended by Python 3.11 to 3.13 with `pthread_exit`, which unwinds its stack. PyO3's frames catch
//! unwinding, and glibc then aborts the process. Python 3.14 lets such a thread wait for ever
//! instead, and so does this module.

use std::hint::black_box;
use std::mem::{forget, transmute};
use std::ptr::null_mut;
use std::thread;
use std::time::Duration;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyTuple};

/// Stops the thread if its stack is unwound other than by a panic of Rust.
struct Unwound;

impl Drop for Unwound {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        // The process ends without this thread, which does not hold the interpreter.
        loop {
            thread::sleep(Duration::from_secs(3600));
        }
    }
}

/// Functions of Python that may unwind.
type CallFunction = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *mut ffi::PyObject,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;
type NextFunction = unsafe extern "C-unwind" fn(*mut ffi::PyObject) -> *mut ffi::PyObject;

/// Calls a function of the program, such as a serializer, a loader, or a function for keys.
///
/// # Errors
/// The exception of the function.
pub(crate) fn call<'py>(
    function: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let named = named.map_or(null_mut(), Bound::as_ptr);
    let function_of_python: unsafe extern "C" fn(_, _, _) -> _ = ffi::PyObject_Call;
    // SAFETY: the two types differ only in the treatment of unwinding. PyO3 declares the function
    // as if it never unwound, and the compiler would omit the destructor of the guard. It does not
    // know which function the black box returns.
    let function_of_python = unsafe {
        transmute::<unsafe extern "C" fn(_, _, _) -> _, CallFunction>(black_box(function_of_python))
    };
    let unwound = Unwound;
    // SAFETY: the objects live during the call, and this thread is attached to the interpreter. The
    // call returns a new reference, or null and an exception. If it unwinds, the guard never
    // returns.
    let result = unsafe { function_of_python(function.as_ptr(), arguments.as_ptr(), named) };
    forget(unwound);
    // SAFETY: as above.
    unsafe { Bound::from_owned_ptr_or_err(function.py(), result) }
}

/// Returns the next element of an iterator of the program.
///
/// # Errors
/// The exception of the iterator.
pub(crate) fn next<'py>(iterator: &Bound<'py, PyIterator>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let function_of_python: unsafe extern "C" fn(_) -> _ = ffi::PyIter_Next;
    // SAFETY: as in `call`.
    let function_of_python = unsafe {
        transmute::<unsafe extern "C" fn(_) -> _, NextFunction>(black_box(function_of_python))
    };
    let unwound = Unwound;
    // SAFETY: the iterator lives during the call, and this thread is attached to the interpreter.
    // The call returns a new reference, or null, with an exception unless the iterator has ended.
    // If it unwinds, the guard never returns.
    let element = unsafe { function_of_python(iterator.as_ptr()) };
    forget(unwound);
    // SAFETY: as above.
    let element = unsafe { Bound::from_owned_ptr_or_opt(iterator.py(), element) };
    match PyErr::take(iterator.py()) {
        Some(error) => Err(error),
        None => Ok(element),
    }
}
