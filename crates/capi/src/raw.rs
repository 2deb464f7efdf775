//! Converts the pointers of C into references, slices and [`Place`]s. No other file of this crate
//! dereferences a pointer of C: they call the functions here.
//!
//! The functions are unsafe because the compiler cannot check the arguments of C. The C caller
//! upholds the [pointer contract](crate#pointer-contract), and each function names the part of it
//! that it needs. The lifetime `'a` of a result must end with the call: exports drop every result
//! before they return.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::slice;

use larder::Lent;

use crate::Status;

/// Runs the body of an export. Returns [`Status::Defect`] if the body panics.
#[inline]
pub(crate) fn guard(body: impl FnOnce() -> Result<Status, Status>) -> Status {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    outcome.unwrap_or(Err(Status::Defect)).unwrap_or_else(|status| status)
}

/// Converts a pointer that C must pass into a reference.
///
/// # Errors
/// [`Status::Invalid`] if it is null.
///
/// # Safety
/// `pointer` is null, or aligned and valid for reads, and nothing frees or changes it during `'a`.
#[inline]
pub(crate) unsafe fn reference<'a, T>(pointer: *const T) -> Result<&'a T, Status> {
    // SAFETY: `as_ref` checks for null; the caller vouches for any other pointer.
    unsafe { pointer.as_ref() }.ok_or(Status::Invalid)
}

/// Returns the `len` bytes at `start`. If `len` is 0, `start` may be any pointer.
///
/// # Errors
/// [`Status::Invalid`] if `start` is null, or `len` is beyond `isize::MAX`.
///
/// # Safety
/// `start` is null or valid for reads of `len` bytes, and nothing changes them during `'a`.
#[inline]
pub(crate) unsafe fn bytes<'a>(start: *const c_void, len: usize) -> Result<&'a [u8], Status> {
    // SAFETY: bytes need no alignment; the caller vouches for the rest.
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
    // SAFETY: `is_slice` checked null, alignment and length; the caller vouches for the memory.
    Ok(unsafe { slice::from_raw_parts(start, len) })
}

/// Returns `len` elements at `start` for writing. If `len` is 0, `start` may be any pointer.
///
/// # Errors
/// As [`elements`].
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
    // is not initialised; the caller vouches that the memory is writable and exclusive.
    Ok(unsafe { slice::from_raw_parts_mut(start.cast(), len) })
}

/// Returns the caller's buffer for a value.
///
/// # Errors
/// As [`elements`].
///
/// # Safety
/// As [`elements_mut`], for `capacity` bytes.
#[inline]
pub(crate) unsafe fn buffer<'a>(start: *mut c_void, capacity: usize) -> Result<Lent<'a>, Status> {
    // SAFETY: bytes need no alignment; the caller vouches for the rest.
    Ok(Lent::uninit(unsafe { elements_mut(start.cast(), capacity)? }))
}

/// True if a slice may begin at `start` and have `len` elements.
#[inline]
fn is_slice<T>(start: *const T, len: usize) -> bool {
    let len_max = isize::MAX.cast_unsigned() / size_of::<T>();
    !start.is_null() && start.is_aligned() && len <= len_max
}

/// Returns the text at `text`, which a zero ends; `None` if `text` is null.
///
/// # Safety
/// `text` is null, or a zero ends it, and nothing changes it during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: `text` is not null; the caller vouches for the zero at its end.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// An output argument. It is no reference, because C may pass one address for two outputs.
pub(crate) struct Place<'a, T>(Option<NonNull<T>>, PhantomData<&'a mut T>);

impl<T> Place<'_, T> {
    /// Writes an output, unless C passed null.
    #[inline(always)] // The compiler then builds a `larder_item` in the memory of the caller.
    pub(crate) fn put(&mut self, value: T) {
        if let Some(place) = self.0 {
            // SAFETY: the caller of `place` vouched for memory that is aligned and writable during
            // `'_`.
            unsafe { place.write(value) };
        }
    }
}

/// Returns an output argument that C may leave out.
///
/// # Safety
/// `place` is null, or aligned and valid for writes during `'a`.
#[inline]
pub(crate) unsafe fn place<'a, T>(place: *mut T) -> Place<'a, T> {
    Place(NonNull::new(place), PhantomData)
}

/// Returns an output argument that C must pass.
///
/// # Errors
/// [`Status::Invalid`] if it is null.
///
/// # Safety
/// As [`place`].
pub(crate) unsafe fn required_place<'a, T>(place: *mut T) -> Result<Place<'a, T>, Status> {
    if place.is_null() {
        return Err(Status::Invalid);
    }
    // SAFETY: the caller vouches for what `place` needs.
    Ok(unsafe { self::place(place) })
}

/// Reads a struct that begins with its size in bytes.
///
/// # Errors
/// The size that the struct gives, if that is not the size of `T`.
///
/// # Safety
/// `T` is `repr(C)` and begins with a `usize`. `place` is aligned and valid for reads of as many
/// bytes as that `usize` says, and of the `usize` itself.
pub(crate) unsafe fn sized<T: Copy>(place: *const T) -> Result<T, usize> {
    // SAFETY: the caller vouches that the first field is readable.
    let struct_bytes = unsafe { place.cast::<usize>().read() };
    if struct_bytes != size_of::<T>() {
        return Err(struct_bytes);
    }
    // SAFETY: the struct has the size of `T`, and the caller vouches that all of it is readable.
    Ok(unsafe { place.read() })
}

/// Writes `message` and a zero behind it, and cuts off what exceeds `capacity` bytes.
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
    // SAFETY: `len + 1` bytes are within `capacity`, for which the caller vouches. `message`
    // belongs to the library, so it does not overlap with memory of the caller.
    unsafe {
        ptr::copy_nonoverlapping(message.as_ptr().cast(), start, len);
        start.add(len).write(0);
    }
}

/// A function of C, and the pointer that it gets.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    function: unsafe extern "C" fn(*mut c_void, usize, usize),
    context: *mut c_void,
}

// SAFETY: the function is called on the thread that passed it, before its call returns; the pointer
// is for the function alone.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

impl Callback {
    /// # Safety
    /// The function may be called with `context` as long as the callback is used.
    pub(crate) unsafe fn new(
        function: unsafe extern "C" fn(*mut c_void, usize, usize),
        context: *mut c_void,
    ) -> Self {
        Self { function, context }
    }

    pub(crate) fn call(&self, done: usize, total: usize) {
        // SAFETY: the caller of `new` vouched for it.
        unsafe { (self.function)(self.context, done, total) };
    }
}

/// Drops an object that C got from [`Box::into_raw`]. Does nothing if the pointer is null.
///
/// # Safety
/// `boxed` is null, or from [`Box::into_raw`], and no other call uses it now or later.
pub(crate) unsafe fn close<T>(boxed: *mut T) {
    if boxed.is_null() {
        return;
    }
    // SAFETY: the caller vouches that `boxed` is from `Box::into_raw` and closed once.
    let boxed = unsafe { Box::from_raw(boxed) };
    guard(|| {
        drop(boxed);
        Ok(Status::Ok)
    });
}
