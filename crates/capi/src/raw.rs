//! What C gives, as what Rust has: the only file that believes a pointer.
//!
//! Each function is unsafe for one reason, which the header tells the caller: a pointer that is not null must be what it
//! says. A null pointer is never followed.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::Status;

/// Runs the body of a function: an early return is a status, and a panic ends here.
pub(crate) fn guard(body: impl FnOnce() -> Result<Status, Status>) -> Status {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    outcome.unwrap_or(Err(Status::Defect)).unwrap_or_else(|status| status)
}

/// What a handle points to.
///
/// # Safety
/// `handle` is null or of this library, and not closed before the call is over.
pub(crate) unsafe fn handle<'a, T>(handle: *const T) -> Result<&'a T, Status> {
    // SAFETY: the caller vouches for a pointer that is not null.
    unsafe { handle.as_ref() }.ok_or(Status::Invalid)
}

/// Bytes to read. None at all may come with any pointer.
///
/// # Safety
/// `bytes` is null, or `len` bytes can be read there, which nobody changes before the call is over.
pub(crate) unsafe fn bytes<'a>(bytes: *const c_void, len: usize) -> Result<&'a [u8], Status> {
    if len == 0 {
        return Ok(&[]);
    }
    if bytes.is_null() || len > isize::MAX.cast_unsigned() {
        return Err(Status::Invalid);
    }
    // SAFETY: not null, and no longer than an object may be; the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), len) })
}

/// Numbers to read.
///
/// # Safety
/// As with [`bytes`], for `len` numbers.
pub(crate) unsafe fn numbers<'a>(numbers: *const u32, len: usize) -> Result<&'a [u32], Status> {
    if len == 0 {
        return Ok(&[]);
    }
    if !numbers.is_aligned() || len > isize::MAX.cast_unsigned() / 4 {
        return Err(Status::Invalid);
    }
    if numbers.is_null() {
        return Err(Status::Invalid);
    }
    // SAFETY: not null, aligned, and no longer than an object may be; the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(numbers, len) })
}

/// A text that ends with a zero; none for a null pointer.
///
/// # Safety
/// `text` is null, or there is such a text, which nobody changes before the call is over.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not null; the caller vouches for the rest.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Stores something for the caller, unless it does not want it.
///
/// # Safety
/// `place` is null, or can be written to.
pub(crate) unsafe fn give<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not null; the caller vouches for the rest.
        unsafe { ptr::write(place, value) };
    }
}

/// Memory of the caller's for a value, which is written to at most once.
pub(crate) struct Room {
    start: *mut u8,
    capacity: usize,
}

impl Room {
    /// # Safety
    /// `start` is null, or `capacity` bytes can be written there as long as this is used.
    pub(crate) unsafe fn new(start: *mut c_void, capacity: usize) -> Result<Self, Status> {
        match start.is_null() && capacity > 0 {
            true => Err(Status::Invalid),
            false => Ok(Self { start: start.cast(), capacity }),
        }
    }

    /// Copies `bytes` to `at`, or nothing where they do not fit.
    pub(crate) fn put(&self, at: usize, bytes: &[u8]) -> Status {
        match self.capacity.checked_sub(at) {
            Some(left) if bytes.len() <= left => {
                if !bytes.is_empty() {
                    // SAFETY: `at + len` is within the capacity, which `new` was vouched for; what the library reads
                    // from is never the caller's.
                    unsafe {
                        ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at), bytes.len())
                    };
                }
                Status::Ok
            }
            _ => Status::TooSmall,
        }
    }
}

/// Writes a message and a zero behind it, cut off where there is no room.
///
/// # Safety
/// `place` is null, or `capacity` bytes can be written there.
pub(crate) unsafe fn tell(place: *mut c_char, capacity: usize, message: &str) {
    if place.is_null() || capacity == 0 {
        return;
    }
    let mut len = message.len().min(capacity - 1);
    while !message.is_char_boundary(len) {
        len -= 1;
    }
    // SAFETY: `len + 1` bytes are within the capacity, which the caller vouches for.
    unsafe {
        ptr::copy_nonoverlapping(message.as_ptr().cast(), place, len);
        place.add(len).write(0);
    }
}
