//! The arguments of a call as a key, for functions whose results are cached.
//!
//! Different arguments have different keys: each value is written with a letter for its type, and
//! text and bytes with their lengths. `1`, `1.0`, `True` and `"1"` differ.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple};

use larder::KEY_BYTES_MAX;

use crate::key::utf8;

/// A key with more bytes is stored under its first bytes and a hash.
const PLAIN_BYTES_MAX: usize = KEY_BYTES_MAX;

/// The bytes in front of the hash.
const FRONT_BYTES: usize = 180;

/// The length of the hash in bytes; the key has twice as many digits.
const HASH_BYTES: usize = 24;

/// Deepest nesting of tuples.
const DEPTH_MAX: u32 = 16;

/// Appends the key of a call to `out`, which contains the name of the function.
///
/// # Errors
/// `TypeError` for an argument of another type than str, bytes, int, float, bool, None, and tuples
/// of these.
#[inline]
pub(crate) fn write_call(
    out: &mut Vec<u8>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    for arg in args.iter_borrowed() {
        write(out, &arg, 0)?;
    }
    if let Some(kwargs) = kwargs.filter(|kwargs| !kwargs.is_empty()) {
        write_named(out, kwargs)?;
    }
    if out.len() > PLAIN_BYTES_MAX { shorten(args.py(), out) } else { Ok(()) }
}

fn write_named(out: &mut Vec<u8>, kwargs: &Bound<'_, PyDict>) -> PyResult<()> {
    let mut named = kwargs
        .iter()
        .map(|(name, value)| Ok((name.extract::<String>()?, value)))
        .collect::<PyResult<Vec<_>>>()?;
    named.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (name, value) in &named {
        out.push(b'=');
        write_counted(out, b'k', name.as_bytes());
        write(out, value, 0)?;
    }
    Ok(())
}

#[inline]
fn write(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, depth: u32) -> PyResult<()> {
    if let Ok(text) = value.cast_exact::<PyString>()
        && let Some(bytes) = utf8(text)
    {
        write_counted(out, b's', bytes);
        return Ok(());
    }
    if value.cast_exact::<PyInt>().is_ok() {
        out.push(b'i');
        match value.extract::<i64>() {
            Ok(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
            Err(_) => out.extend_from_slice(value.str()?.to_str()?.as_bytes()),
        }
        out.push(b';');
        return Ok(());
    }
    write_rarer(out, value, depth)
}

fn write_rarer(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, depth: u32) -> PyResult<()> {
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        write_counted(out, b'b', bytes.as_bytes());
    } else if let Ok(flag) = value.cast_exact::<PyBool>() {
        out.push(if flag.is_true() { b'T' } else { b'F' });
    } else if value.is_none() {
        out.push(b'N');
    } else if value.cast_exact::<PyFloat>().is_ok() {
        out.push(b'f');
        out.extend_from_slice(value.repr()?.to_str()?.as_bytes());
        out.push(b';');
    } else if let Ok(items) = value.cast::<PyTuple>()
        && depth < DEPTH_MAX
    {
        out.push(b'(');
        for item in items.iter_borrowed() {
            write(out, &item, depth + 1)?;
        }
        out.push(b')');
    } else {
        return Err(PyTypeError::new_err(format!(
            "an argument of type {} has no key: pass key=, a function that returns str or bytes, \
             or use str, bytes, int, float, bool, None and tuples of these",
            value.get_type().qualname()?
        )));
    }
    Ok(())
}

#[inline]
fn write_counted(out: &mut Vec<u8>, letter: u8, bytes: &[u8]) {
    out.push(letter);
    out.extend_from_slice(itoa::Buffer::new().format(bytes.len()).as_bytes());
    out.push(b':');
    out.extend_from_slice(bytes);
}

/// Replaces the end of a long key by a BLAKE2b hash of the whole key.
#[cold]
pub(crate) fn shorten(py: Python<'_>, out: &mut Vec<u8>) -> PyResult<()> {
    let named = PyDict::new(py);
    named.set_item("digest_size", HASH_BYTES)?;
    let hash =
        py.import("hashlib")?.call_method("blake2b", (PyBytes::new(py, out),), Some(&named))?;
    let digits: String = hash.call_method0("hexdigest")?.extract()?;
    out.truncate(FRONT_BYTES);
    out.push(b'#');
    out.extend_from_slice(digits.as_bytes());
    Ok(())
}

/// Returns the key of a call: `prefix`, followed by the arguments. A long key ends in a hash.
#[pyfunction]
#[pyo3(signature = (prefix, args, kwargs=None))]
pub(crate) fn key_of_arguments<'py>(
    py: Python<'py>,
    prefix: &[u8],
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut key = prefix.to_vec();
    write_call(&mut key, args, kwargs)?;
    Ok(PyBytes::new(py, &key))
}
