//! A target for values that are read from the cache: a `bytes` object of the right length.

use std::cell::Cell;
use std::ptr::{NonNull, null_mut};

use larder::signed::tag;
use larder::{Meta, Sink};
use pyo3::ffi;
use pyo3::prelude::*;

/// The metadata of the item that is being read. The reader sets it before it appends the value.
#[derive(Default)]
pub(crate) struct Announced(Cell<Meta>);

impl Announced {
    #[inline]
    pub(crate) fn set(&self, meta: &Meta) {
        self.0.set(*meta);
    }

    #[inline]
    pub(crate) fn meta(&self) -> Meta {
        self.0.get()
    }
}

/// Receives a value. If the item's tag is `bytes`, the value is copied directly into a new `bytes`
/// object, otherwise into a buffer, from which another object is made. A value longer than the
/// limit is not copied: see [`ValueSink::is_whole`](Sink::is_whole).
pub(crate) struct ValueSink<'a> {
    announced: &'a Announced,
    limit: usize,
    /// A `bytes` object with one reference, which only the sink has; null if there is none.
    object: *mut ffi::PyObject,
    /// The length of `object`.
    capacity: usize,
    buffer: Vec<u8>,
    filled: usize,
    is_whole: bool,
}

impl<'a> ValueSink<'a> {
    /// Returns an empty sink. The calling thread must be attached to the interpreter until the sink
    /// is dropped, which `py` shows.
    #[inline]
    pub(crate) fn new(_py: Python<'a>, announced: &'a Announced, limit: usize) -> Self {
        Self {
            announced,
            limit,
            object: null_mut(),
            capacity: 0,
            buffer: Vec::new(),
            filled: 0,
            is_whole: true,
        }
    }

    /// Returns the value if it was read into a `bytes` object.
    #[inline]
    pub(crate) fn take_object<'py>(&mut self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        if self.object.is_null() || self.capacity != self.filled {
            return None;
        }
        self.capacity = 0;
        let object = std::mem::replace(&mut self.object, null_mut());
        // SAFETY: the sink had the only reference to the object, and gives it to the caller.
        Some(unsafe { Bound::from_owned_ptr(py, object) })
    }

    /// Returns the bytes of the value if it was read into the buffer.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    fn drop_object(&mut self) {
        if !self.object.is_null() {
            // SAFETY: the sink has a reference, and its thread is attached to the interpreter.
            unsafe { ffi::Py_DECREF(self.object) };
            self.object = null_mut();
        }
    }

    /// Returns memory for `len` bytes of the `bytes` object; `None` if they do not fit.
    #[inline]
    fn room_in_object(&mut self, len: usize) -> Option<NonNull<u8>> {
        if self.filled == 0 {
            let capacity = self.announced.meta().value_bytes;
            if self.object.is_null() || self.capacity != capacity {
                self.drop_object();
                // SAFETY: the thread of the sink is attached to the interpreter. With a null
                // pointer the call returns a new object whose bytes are not initialised, or null.
                self.object = unsafe {
                    ffi::PyBytes_FromStringAndSize(std::ptr::null(), capacity.cast_signed())
                };
                self.capacity = capacity;
                if self.object.is_null() {
                    // SAFETY: as above. The caller allocates again, and reports that error.
                    unsafe { ffi::PyErr_Clear() };
                }
            }
        }
        if self.object.is_null() || self.filled + len > self.capacity {
            return None;
        }
        // SAFETY: `object` is a live bytes object.
        let start = unsafe { ffi::PyBytes_AsString(self.object) };
        // SAFETY: the object has `capacity` bytes, and `filled` is at most `capacity`.
        NonNull::new(unsafe { start.cast::<u8>().add(self.filled) })
    }
}

impl Drop for ValueSink<'_> {
    #[inline]
    fn drop(&mut self) {
        self.drop_object();
    }
}

// SAFETY: the memory passed to `copy` belongs to a `bytes` object to which only the sink has a
// reference, or to the buffer; both have `len` more bytes.
unsafe impl Sink for ValueSink<'_> {
    #[inline]
    fn filled(&self) -> usize {
        self.filled
    }

    #[inline]
    unsafe fn append(&mut self, len: usize, copy: impl FnOnce(NonNull<u8>)) {
        let meta = self.announced.meta();
        if meta.value_bytes > self.limit || !self.is_whole {
            (self.filled, self.is_whole) = (self.filled + len, false);
            return;
        }
        if meta.flags == tag::STRING {
            match self.room_in_object(len) {
                Some(room) => copy(room),
                None => self.is_whole = false,
            }
        } else {
            // SAFETY: the caller guarantees that `copy` writes `len` bytes.
            unsafe { Sink::append(&mut self.buffer, len, copy) };
        }
        self.filled += len;
    }

    #[inline]
    fn is_whole(&self) -> bool {
        self.is_whole
    }

    #[inline]
    fn truncate(&mut self, filled: usize) {
        self.buffer.truncate(filled);
        if filled == 0 {
            self.is_whole = true;
        }
        self.filled = filled;
    }
}
