//! What C gives, as what Rust has: the only file that believes a pointer.
//!
//! Each function is unsafe for one reason, which the header tells the caller: a pointer that is not null must be what it
//! says. A null pointer is never followed.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use larder::Lent;

use crate::Status;

/// Runs the body of a function: an early return is a status, and a panic ends here.
#[inline]
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

/// Memory of the caller's for a value.
///
/// # Safety
/// `start` is null, or `capacity` bytes can be written there, and are nobody else's before the call is over.
#[inline]
pub(crate) unsafe fn lent<'a>(start: *mut c_void, capacity: usize) -> Result<Lent<'a>, Status> {
    if capacity == 0 {
        return Ok(Lent::uninit(&mut []));
    }
    if start.is_null() || capacity > isize::MAX.cast_unsigned() {
        return Err(Status::Invalid);
    }
    // SAFETY: not null, and no longer than an object may be; the caller vouches for the rest.
    Ok(Lent::uninit(unsafe { std::slice::from_raw_parts_mut(start.cast(), capacity) }))
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
