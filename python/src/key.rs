//! Keys of Python as the bytes that the cache stores.

use std::ffi::CStr;
use std::ops::Deref;
use std::slice;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// The error handler for text that is not Unicode: see [`Key::of`].
const SURROGATEESCAPE: &CStr = c"surrogateescape";

/// The bytes of a key.
pub(crate) enum Key<'a> {
    /// Bytes of a Python object that outlives the key.
    Borrowed(&'a [u8]),
    /// The bytes of text with lone surrogates.
    Encoded(Bound<'a, PyBytes>),
}

impl<'a> Key<'a> {
    /// Returns the bytes of a key: of `bytes` the bytes themselves, of `str` its UTF-8, with lone
    /// surrogates as the bytes that [`text_of`] made them from.
    ///
    /// # Errors
    /// `TypeError` for other types.
    #[inline]
    pub(crate) fn of<'py>(key: &'a Bound<'py, PyAny>) -> PyResult<Self>
    where
        'py: 'a,
    {
        if let Ok(text) = key.cast::<PyString>() {
            return match utf8(text) {
                Some(bytes) => Ok(Self::Borrowed(bytes)),
                None => escaped(text).map(Self::Encoded),
            };
        }
        match key.cast::<PyBytes>() {
            Ok(bytes) => Ok(Self::Borrowed(bytes.as_bytes())),
            Err(_) => Err(not_a_key(key)),
        }
    }
}

impl Deref for Key<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Encoded(bytes) => bytes.as_bytes(),
        }
    }
}

#[cold]
fn not_a_key(key: &Bound<'_, PyAny>) -> PyErr {
    match key.get_type().qualname() {
        Ok(name) => PyTypeError::new_err(format!("a key is str or bytes, found {name}")),
        Err(error) => error,
    }
}

/// Returns the UTF-8 of a text, which the text keeps; `None` if it has lone surrogates.
#[inline]
pub(crate) fn utf8<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a [u8]> {
    let mut bytes: ffi::Py_ssize_t = 0;
    // SAFETY: `text` is a live str, and this thread is attached to the interpreter.
    let at = unsafe { ffi::PyUnicode_AsUTF8AndSize(text.as_ptr(), &raw mut bytes) };
    if at.is_null() {
        // SAFETY: this thread is attached to the interpreter; the call failed and set an exception.
        unsafe { ffi::PyErr_Clear() };
        return None;
    }
    // SAFETY: the text owns the returned memory, with `bytes` bytes that do not change, and lives
    // as long as the borrow of `text`.
    Some(unsafe { slice::from_raw_parts(at.cast(), bytes.cast_unsigned()) })
}

#[cold]
fn escaped<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyBytes>> {
    let py = text.py();
    // SAFETY: `text` is a live str, and the two names end with a zero. The call returns a new
    // reference to bytes, or null and an exception.
    let bytes = unsafe {
        let (encoding, errors) = (c"utf-8".as_ptr(), SURROGATEESCAPE.as_ptr());
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyUnicode_AsEncodedString(text.as_ptr(), encoding, errors),
        )?
    };
    Ok(bytes.cast_into::<PyBytes>()?)
}

/// Returns stored bytes as text. Bytes that are not UTF-8 become lone surrogates, as in names of
/// files (`os.fsdecode`).
pub(crate) fn text_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the pointer and the length are those of `bytes`, and the name ends with a zero. The
    // call returns a new reference, or null and an exception.
    unsafe {
        let text = ffi::PyUnicode_DecodeUTF8(
            bytes.as_ptr().cast(),
            bytes.len().cast_signed(),
            SURROGATEESCAPE.as_ptr(),
        );
        Bound::from_owned_ptr_or_err(py, text)
    }
}
