//! Converts the pointers from C into references, slices and [`Place`]s. The other files of this
//! crate call these functions and do not dereference pointers from C themselves.
//!
//! The functions are unsafe because the compiler cannot check the arguments of C. The C caller
//! upholds the [pointer contract](crate#pointer-contract), and each function documents the part
//! that it needs. The lifetime `'a` of a result must end with the call: exports drop every result
//! before they return.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use larder::Lent;
use larder_region::platform::path;

use crate::Status;

/// Runs the body of an export. Returns [`Status::Defect`] if the body panics.
#[inline]
pub(crate) fn guard(body: impl FnOnce() -> Result<Status, Status>) -> Status {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    outcome.unwrap_or(Err(Status::Defect)).unwrap_or_else(|status| status)
}

/// Converts a required pointer into a reference.
///
/// # Errors
/// [`Status::Invalid`] if it is null.
///
/// # Safety
/// `pointer` is null, or aligned and valid for reads, and nothing frees or changes it during `'a`.
#[inline]
pub(crate) unsafe fn reference<'a, T>(pointer: *const T) -> Result<&'a T, Status> {
    // SAFETY: `as_ref` checks for null; the caller guarantees that any other pointer is valid.
    unsafe { pointer.as_ref() }.ok_or(Status::Invalid)
}

/// Returns the `len` bytes at `start`. If `len` is 0, `start` may be any pointer.
///
/// # Errors
/// [`Status::Invalid`] if `start` is null, or `len` exceeds `isize::MAX`.
///
/// # Safety
/// `start` is null or valid for reads of `len` bytes, and nothing changes them during `'a`.
#[inline]
pub(crate) unsafe fn bytes<'a>(start: *const c_void, len: usize) -> Result<&'a [u8], Status> {
    // SAFETY: bytes need no alignment; the caller guarantees the other requirements.
    unsafe { elements(start.cast(), len) }
}

/// Returns the `len` elements at `start`. If `len` is 0, `start` may be any pointer.
///
/// # Errors
/// [`Status::Invalid`] if `start` is null or misaligned, or the elements exceed `isize::MAX` bytes.
///
/// # Safety
/// `start` is null or valid for reads of `len` elements, and nothing changes them during `'a`.
#[inline]
pub(crate) unsafe fn elements<'a, T>(start: *const T, len: usize) -> Result<&'a [T], Status> {
    if len == 0 {
        return Ok(&[]);
    }
    if !is_slice(start, len) {
        return Err(Status::Invalid);
    }
    // SAFETY: `is_slice` checked null, alignment and length; the caller guarantees that the memory
    // is readable and unchanged.
    Ok(unsafe { slice::from_raw_parts(start, len) })
}

/// Returns `len` elements at `start` for writing. If `len` is 0, `start` may be any pointer.
///
/// # Errors
/// Same as [`elements`].
///
/// # Safety
/// `start` is null or valid for writes of `len` elements, and nothing else reads or writes them
/// during `'a`.
#[inline]
pub(crate) unsafe fn elements_mut<'a, T>(
    start: *mut T,
    len: usize,
) -> Result<&'a mut [MaybeUninit<T>], Status> {
    if len == 0 {
        return Ok(&mut []);
    }
    if !is_slice(start, len) {
        return Err(Status::Invalid);
    }
    // SAFETY: `is_slice` checked null, alignment and length, and `MaybeUninit` accepts memory that
    // is not initialised; the caller guarantees that the memory is writable and exclusive.
    Ok(unsafe { slice::from_raw_parts_mut(start.cast(), len) })
}

/// Returns the caller's buffer for a value.
///
/// # Errors
/// Same as [`elements`].
///
/// # Safety
/// Same as [`elements_mut`], for `capacity` bytes.
#[inline]
pub(crate) unsafe fn buffer<'a>(start: *mut c_void, capacity: usize) -> Result<Lent<'a>, Status> {
    // SAFETY: bytes need no alignment; the caller guarantees the other requirements.
    Ok(Lent::uninit(unsafe { elements_mut(start.cast(), capacity)? }))
}

/// True if `start` and `len` can be a slice: `start` is aligned and not null, and the length is
/// within bounds.
#[inline]
fn is_slice<T>(start: *const T, len: usize) -> bool {
    let len_max = isize::MAX.cast_unsigned() / size_of::<T>();
    !start.is_null() && start.is_aligned() && len <= len_max
}

/// Returns the zero-terminated text at `text`; `None` if `text` is null.
///
/// # Safety
/// `text` is null or zero-terminated, and nothing changes it during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: `text` is not null; the caller guarantees the zero at its end.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Returns the path that a text names.
///
/// # Errors
/// The system has no path with these bytes. Contains the sentence for the caller.
pub(crate) fn path_of(text: &CStr) -> Result<&Path, String> {
    path::from_bytes(text.to_bytes())
        .ok_or_else(|| format!("the path {} is not UTF-8", text.to_string_lossy()))
}

/// An output argument. It is not a reference, because C may pass the same address for two outputs.
pub(crate) struct Place<'a, T>(Option<NonNull<T>>, PhantomData<&'a mut T>);

impl<T> Place<'_, T> {
    /// Writes the output, unless C passed null.
    #[inline(always)] // The compiler then builds a `larder_item` in the memory of the caller.
    pub(crate) fn put(&mut self, value: T) {
        if let Some(place) = self.0 {
            // SAFETY: the caller of `place` guaranteed that the memory is aligned and writable
            // during `'_`.
            unsafe { place.write(value) };
        }
    }
}

/// Returns an optional output argument.
///
/// # Safety
/// `place` is null, or aligned and valid for writes during `'a`.
#[inline]
pub(crate) unsafe fn place<'a, T>(place: *mut T) -> Place<'a, T> {
    Place(NonNull::new(place), PhantomData)
}

/// Returns a required output argument.
///
/// # Errors
/// [`Status::Invalid`] if it is null.
///
/// # Safety
/// Same as [`place`].
pub(crate) unsafe fn required_place<'a, T>(place: *mut T) -> Result<Place<'a, T>, Status> {
    if place.is_null() {
        return Err(Status::Invalid);
    }
    // SAFETY: the caller upholds the contract of `place`.
    Ok(unsafe { self::place(place) })
}

/// Reads a struct whose first field is its size in bytes.
///
/// # Errors
/// The size in the struct, if it differs from the size of `T`.
///
/// # Safety
/// `T` is `repr(C)` and begins with a `usize`. `place` is aligned, valid for reads of that `usize`,
/// and valid for reads of the number of bytes stored in it.
pub(crate) unsafe fn sized<T: Copy>(place: *const T) -> Result<T, usize> {
    // SAFETY: the caller guarantees that the first field is readable.
    let struct_bytes = unsafe { place.cast::<usize>().read() };
    if struct_bytes != size_of::<T>() {
        return Err(struct_bytes);
    }
    // SAFETY: the struct has the size of `T`, and the caller guarantees that all of it is readable.
    Ok(unsafe { place.read() })
}

/// Writes `message` and a terminating zero, truncated to `capacity` bytes.
///
/// # Safety
/// `start` is null, or valid for writes of `capacity` bytes.
pub(crate) unsafe fn put_text(start: *mut c_char, capacity: usize, message: &str) {
    if start.is_null() || capacity == 0 {
        return;
    }
    let mut len = message.len().min(capacity - 1);
    while !message.is_char_boundary(len) {
        len -= 1;
    }
    // SAFETY: `len + 1` is at most `capacity`, and the caller guarantees that `capacity` bytes are
    // writable. `message` belongs to the library, so it does not overlap memory of the caller.
    unsafe {
        ptr::copy_nonoverlapping(message.as_ptr().cast(), start, len);
        start.add(len).write(0);
    }
}

/// A function from C, and its context argument.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    function: unsafe extern "C" fn(*mut c_void, usize, usize),
    context: *mut c_void,
}

// SAFETY: the library calls the function only on the thread that passed it, before that thread's
// call returns. Only the function uses the pointer.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

impl Callback {
    /// # Safety
    /// The function may be called with `context` as long as the callback exists.
    pub(crate) unsafe fn new(
        function: unsafe extern "C" fn(*mut c_void, usize, usize),
        context: *mut c_void,
    ) -> Self {
        Self { function, context }
    }

    pub(crate) fn call(&self, done: usize, total: usize) {
        // SAFETY: the caller of `new` guaranteed that the function may be called.
        unsafe { (self.function)(self.context, done, total) };
    }
}

/// Drops an object that was passed to C with [`Box::into_raw`]. Does nothing if the pointer is
/// null.
///
/// # Safety
/// `boxed` is null, or from [`Box::into_raw`], and no other call uses it now or later.
pub(crate) unsafe fn close<T>(boxed: *mut T) {
    if boxed.is_null() {
        return;
    }
    // SAFETY: the caller guarantees that `boxed` is from `Box::into_raw` and closed only once.
    let boxed = unsafe { Box::from_raw(boxed) };
    guard(|| {
        drop(boxed);
        Ok(Status::Ok)
    });
}
