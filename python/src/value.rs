//! Values of Python as the bytes and flags that the cache stores, and back.
//!
//! The flags contain a tag ([`tag`]): the type of the value. Scalars, `bytes` and `str` are stored
//! as they are. All other values need a serializer of `larder_cache._serializers`.

use larder::signed::tag;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

use crate::errors;
use crate::finalizing::call;
use crate::key::utf8;

/// Longest decimal text that Python converts to an int, by default.
const INT_DIGITS_MAX: usize = 4300;

/// A serializer that a cache uses: an object with the methods of
/// `larder_cache._serializers.Serializer`.
pub(crate) struct Serializer {
    object: Py<PyAny>,
    dumps: Py<PyAny>,
    loads: Py<PyAny>,
    tag: u32,
}

impl Serializer {
    /// Wraps a serializer; `None` for none.
    ///
    /// # Errors
    /// `TypeError` if the object has no tag, or one that belongs to a type without a serializer.
    pub(crate) fn of(object: Option<Bound<'_, PyAny>>) -> PyResult<Option<Self>> {
        let Some(object) = object else { return Ok(None) };
        let number = object.getattr("tag")?.extract::<u32>()?;
        let is_plain = [tag::STRING, tag::LONG, tag::DOUBLE, tag::BOOL, tag::NULL, tag::TEXT];
        if number > tag::MASK || is_plain.contains(&number) {
            return Err(PyTypeError::new_err(format!(
                "the tag of a serializer is a number up to {} that no plain type has, found {number}",
                tag::MASK
            )));
        }
        let (dumps, loads) = (object.getattr("dumps")?.unbind(), object.getattr("loads")?.unbind());
        Ok(Some(Self { object: object.unbind(), dumps, loads, tag: number }))
    }

    pub(crate) fn object<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.object.bind(py)
    }
}

/// Returns a function of `larder_cache._serializers`, imported at its first use.
fn helper<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyAny>> {
    let import = || {
        let module = py.import("larder_cache._serializers")?;
        PyResult::Ok(module.getattr(name)?.unbind())
    };
    Ok(cell.get_or_try_init(py, import)?.bind(py))
}

/// The bytes of a value.
pub(crate) enum Encoded<'a> {
    /// Bytes of the Python object.
    Borrowed(&'a [u8]),
    /// The decimal text of an int, and its length.
    Number(itoa::Buffer, i64),
    /// Bytes that were made for the store.
    Made(Bound<'a, PyBytes>),
}

impl Encoded<'_> {
    /// Passes the bytes to `f`.
    #[inline]
    pub(crate) fn with<T>(&mut self, f: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Borrowed(bytes) => f(bytes),
            Self::Number(buffer, number) => f(buffer.format(*number).as_bytes()),
            Self::Made(bytes) => f(bytes.as_bytes()),
        }
    }
}

/// Returns the bytes and flags of a value.
///
/// # Errors
/// `TypeError` if the value needs a serializer and there is none, and the errors of the serializer.
#[inline]
pub(crate) fn encoded<'a, 'py: 'a>(
    value: &'a Bound<'py, PyAny>,
    key: &[u8],
    serializer: Option<&Serializer>,
) -> PyResult<(Encoded<'a>, u32)> {
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        return Ok((Encoded::Borrowed(bytes.as_bytes()), tag::STRING));
    }
    if let Ok(text) = value.cast_exact::<PyString>()
        && let Some(bytes) = utf8(text)
    {
        return Ok((Encoded::Borrowed(bytes), tag::TEXT));
    }
    encoded_rarer(value, key, serializer)
}

fn encoded_rarer<'a, 'py: 'a>(
    value: &'a Bound<'py, PyAny>,
    key: &[u8],
    serializer: Option<&Serializer>,
) -> PyResult<(Encoded<'a>, u32)> {
    if value.cast_exact::<PyInt>().is_ok() {
        if let Ok(number) = value.extract::<i64>() {
            return Ok((Encoded::Number(itoa::Buffer::new(), number), tag::LONG));
        }
        return Ok((Encoded::Made(ascii_of(&value.str()?)?), tag::LONG));
    }
    if let Ok(flag) = value.cast_exact::<PyBool>() {
        let digit: &[u8] = if flag.is_true() { b"1" } else { b"" };
        return Ok((Encoded::Borrowed(digit), tag::BOOL));
    }
    if value.is_none() {
        return Ok((Encoded::Borrowed(b""), tag::NULL));
    }
    if let Ok(number) = value.cast_exact::<PyFloat>() {
        return Ok((text_of_float(number)?, tag::DOUBLE));
    }
    if let Some(bytes) = bytes_of_buffer(value)? {
        return Ok((Encoded::Made(bytes), tag::STRING));
    }
    serialized(value, key, serializer)
}

/// Returns the shortest decimal text of a float, and php-memcached's texts for the numbers that are
/// not finite.
fn text_of_float<'a>(number: &Bound<'a, PyFloat>) -> PyResult<Encoded<'a>> {
    let value = number.value();
    Ok(match value {
        f64::INFINITY => Encoded::Borrowed(b"Infinity"),
        f64::NEG_INFINITY => Encoded::Borrowed(b"-Infinity"),
        _ if value.is_nan() => Encoded::Borrowed(b"NaN"),
        _ => Encoded::Made(ascii_of(&number.repr()?)?),
    })
}

#[cold]
fn ascii_of<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(text.py(), text.to_str()?.as_bytes()))
}

/// Copies the bytes of a `bytearray` or `memoryview`; `None` for other types.
fn bytes_of_buffer<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    // SAFETY: `value` is a live object. PyBytes_FromObject returns a new reference to a bytes
    // object, or null and an exception. It makes a list of numbers into bytes, too, so only objects
    // with a buffer reach it.
    unsafe {
        let has_buffer = ffi::PyByteArray_CheckExact(value.as_ptr()) != 0
            || ffi::PyMemoryView_Check(value.as_ptr()) != 0;
        if !has_buffer {
            return Ok(None);
        }
        let bytes = ffi::PyBytes_FromObject(value.as_ptr());
        Ok(Some(Bound::from_owned_ptr_or_err(value.py(), bytes)?.cast_into()?))
    }
}

fn serialized<'py>(
    value: &Bound<'py, PyAny>,
    key: &[u8],
    serializer: Option<&Serializer>,
) -> PyResult<(Encoded<'py>, u32)> {
    static UNSERIALIZABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let Some(serializer) = serializer else {
        if value.cast_exact::<PyString>().is_ok() {
            // Text with lone surrogates: this raises the exception that says where they are.
            value.call_method1("encode", ("utf-8",))?;
        }
        let error = helper(py, &UNSERIALIZABLE, "unserializable")?.call1((value,))?;
        return Err(PyErr::from_value(error));
    };
    let arguments = (PyBytes::new(py, key), value).into_pyobject(py)?;
    let made = call(serializer.dumps.bind(py), &arguments, None)?;
    let Ok(made) = made.cast_into::<PyBytes>() else {
        return Err(PyTypeError::new_err("dumps of a serializer returns bytes"));
    };
    Ok((Encoded::Made(made), serializer.tag))
}

/// Returns the value of stored bytes.
///
/// # Errors
/// `SerializerError` if another serializer stored the value, or the bytes are damaged; and the
/// errors of the serializer.
pub(crate) fn decoded<'py>(
    py: Python<'py>,
    bytes: &[u8],
    flags: u32,
    key: &[u8],
    serializer: Option<&Serializer>,
) -> PyResult<Bound<'py, PyAny>> {
    match flags {
        tag::STRING => Ok(PyBytes::new(py, bytes).into_any()),
        tag::TEXT => text(py, bytes),
        tag::LONG => int(py, bytes, key),
        tag::DOUBLE => float(py, bytes, key),
        tag::BOOL => Ok(PyBool::new(py, bytes == b"1").to_owned().into_any()),
        tag::NULL => Ok(py.None().into_bound(py)),
        _ => deserialized(py, bytes, flags, key, serializer),
    }
}

fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the pointer and the length are those of `bytes`. The call returns a new reference, or
    // null and an exception.
    unsafe {
        let (at, length) = (bytes.as_ptr().cast(), bytes.len().cast_signed());
        let text = ffi::PyUnicode_DecodeUTF8(at, length, std::ptr::null());
        Bound::from_owned_ptr_or_err(py, text)
    }
}

fn int<'py>(py: Python<'py>, bytes: &[u8], key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    // memcached adds blanks if a decrement makes a number shorter.
    let digits = bytes.trim_ascii_end();
    let number = str::from_utf8(digits).ok().filter(|text| text.len() <= INT_DIGITS_MAX);
    let Some(number) = number.filter(|text| !text.is_empty() && is_decimal(text)) else {
        return Err(damaged(py, key, "an int"));
    };
    if let Ok(small) = number.parse::<i64>() {
        return Ok(small.into_pyobject(py)?.into_any());
    }
    py.get_type::<PyInt>().call1((number,))
}

fn is_decimal(text: &str) -> bool {
    text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit())
}

fn float<'py>(py: Python<'py>, bytes: &[u8], key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match str::from_utf8(bytes).ok().and_then(|text| text.parse::<f64>().ok()) {
        Some(number) => Ok(PyFloat::new(py, number).into_any()),
        None => Err(damaged(py, key, "a float")),
    }
}

#[cold]
fn damaged(py: Python<'_>, key: &[u8], kind: &str) -> PyErr {
    let key = key.escape_ascii();
    errors::SERIALIZER.with(py, format_args!("the value of b'{key}' is not {kind}"))
}

fn deserialized<'py>(
    py: Python<'py>,
    bytes: &[u8],
    flags: u32,
    key: &[u8],
    serializer: Option<&Serializer>,
) -> PyResult<Bound<'py, PyAny>> {
    static REFUSE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static DAMAGED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let key = PyBytes::new(py, key);
    let Some(ours) = serializer.filter(|serializer| serializer.tag == flags) else {
        let ours = serializer.map(|ours| ours.object(py));
        let error = helper(py, &REFUSE, "refuse")?.call1((key, flags, ours))?;
        return Err(PyErr::from_value(error));
    };
    let arguments = (&key, PyBytes::new(py, bytes)).into_pyobject(py)?;
    call(ours.loads.bind(py), &arguments, None).or_else(|error| {
        // An exception that ends the program or the task is not about the value.
        if !error.is_instance_of::<PyException>(py) {
            return Err(error);
        }
        let damaged = helper(py, &DAMAGED, "damaged")?.call1((key, error.value(py)))?;
        Err(PyErr::from_value(damaged))
    })
}

/// Returns the bytes and flags that a cache stores for a value, with a serializer of
/// `_serializers` or None.
#[pyfunction]
#[pyo3(signature = (value, key, serializer=None))]
pub(crate) fn encode<'py>(
    value: &Bound<'py, PyAny>,
    key: &[u8],
    serializer: Option<Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyBytes>, u32)> {
    let serializer = Serializer::of(serializer)?;
    let (mut bytes, flags) = encoded(value, key, serializer.as_ref())?;
    Ok((bytes.with(|bytes| PyBytes::new(value.py(), bytes)), flags))
}

/// Returns the value of stored bytes and flags.
#[pyfunction]
#[pyo3(signature = (data, flags, key, serializer=None))]
pub(crate) fn decode<'py>(
    py: Python<'py>,
    data: &[u8],
    flags: u32,
    key: &[u8],
    serializer: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    decoded(py, data, flags, key, Serializer::of(serializer)?.as_ref())
}

/// Returns a new `bytes` object of `length` bytes, and its memory, which is not initialised. The
/// caller initialises the memory before it shares the object.
///
/// # Errors
/// Python's error for a lack of memory.
pub(crate) fn new_bytes<'py>(
    py: Python<'py>,
    length: usize,
) -> PyResult<(Bound<'py, PyAny>, *mut u8)> {
    // SAFETY: with a null pointer the call returns a new object with a single reference, or null
    // and an exception.
    unsafe {
        let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), length.cast_signed());
        let object = Bound::from_owned_ptr_or_err(py, object)?;
        let memory = ffi::PyBytes_AsString(object.as_ptr()).cast();
        Ok((object, memory))
    }
}
