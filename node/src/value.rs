//! Values of JavaScript as the bytes and flags that the cache stores, and back.
//!
//! The flags contain a tag ([`tag`]): the type of the value. Strings, numbers, booleans, null and
//! bytes are stored as they are. The code in `lib/` makes bytes of all other values, by a codec.

use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::slice;

use larder::signed::tag;
use napi::sys;

use crate::errors::{Code, Failure};
use crate::key::{bytes_of_array, contains_replacement, is_well_formed};

/// Strings with fewer bytes are encoded without an allocation.
const ROOM: usize = 4096;

/// The integers that a number of JavaScript represents exactly: up to 2^53 - 1.
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

/// How `lib/` wants a value to be stored.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// By its type.
    OfType,
    /// The value is a string or bytes that a codec has made, with these flags.
    Encoded(u32),
}

/// The reason why a value has no bytes.
pub(crate) enum Unencoded {
    /// The value is a string with a lone surrogate, which `lib/` stores by the codec.
    LoneSurrogate,
    Failed(Failure),
}

impl From<Failure> for Unencoded {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Passes the bytes and flags of a value to `f`.
///
/// # Errors
/// A value that needs a codec, and a string that is no Unicode text.
///
/// # Safety
/// `env` is the environment of the running function and `value` one of its values. `f` runs no
/// JavaScript.
#[inline]
pub(crate) unsafe fn with_bytes<T>(
    env: sys::napi_env,
    value: sys::napi_value,
    form: Form,
    f: impl FnOnce(&[u8], u32) -> T,
) -> Result<T, Unencoded> {
    let mut kind = 0;
    // SAFETY: the caller guarantees the handles, here and below.
    unsafe { sys::napi_typeof(env, value, &raw mut kind) };
    let flags = |of_type| match form {
        Form::OfType => of_type,
        Form::Encoded(flags) => flags,
    };
    match kind {
        // SAFETY: as above.
        sys::ValueType::napi_string => unsafe { with_text(env, value, flags(tag::TEXT), f) },
        sys::ValueType::napi_object => {
            // SAFETY: as above.
            match unsafe { bytes_of_array(env, value) } {
                Some(bytes) => Ok(f(bytes, flags(tag::STRING))),
                None => Err(no_type().into()),
            }
        }
        // SAFETY: as above.
        _ => unsafe { with_scalar(env, value, kind, f) },
    }
}

/// # Safety
/// Same as [`with_bytes`].
#[inline]
unsafe fn with_text<T>(
    env: sys::napi_env,
    value: sys::napi_value,
    flags: u32,
    f: impl FnOnce(&[u8], u32) -> T,
) -> Result<T, Unencoded> {
    let mut room = [const { MaybeUninit::<u8>::uninit() }; ROOM];
    let mut long = Vec::<u8>::new();
    let mut length = 0;
    // SAFETY: the caller guarantees the handles; the room has ROOM bytes.
    unsafe {
        let start = room.as_mut_ptr().cast();
        sys::napi_get_value_string_utf8(env, value, start, ROOM, &raw mut length);
    }
    let text = if length < ROOM - 4 {
        // SAFETY: the call has initialised `length` bytes.
        unsafe { slice::from_raw_parts(room.as_ptr().cast(), length) }
    } else {
        // SAFETY: as above. Without a buffer the call returns the length of the whole string. The
        // buffer has room for it and for a NUL.
        unsafe {
            sys::napi_get_value_string_utf8(env, value, null_mut(), 0, &raw mut length);
            long.reserve_exact(length + 1);
            let start = long.as_mut_ptr();
            sys::napi_get_value_string_utf8(env, value, start.cast(), length + 1, &raw mut length);
            long.set_len(length);
        }
        &long
    };
    // SAFETY: as above.
    if !text.is_ascii() && contains_replacement(text) && !unsafe { is_well_formed(env, value) } {
        return Err(Unencoded::LoneSurrogate);
    }
    Ok(f(text, flags))
}

/// # Safety
/// Same as [`with_bytes`].
unsafe fn with_scalar<T>(
    env: sys::napi_env,
    value: sys::napi_value,
    kind: sys::napi_valuetype,
    f: impl FnOnce(&[u8], u32) -> T,
) -> Result<T, Unencoded> {
    match kind {
        sys::ValueType::napi_number => {
            let mut number = 0.0;
            // SAFETY: the caller guarantees the handles.
            unsafe { sys::napi_get_value_double(env, value, &raw mut number) };
            Ok(with_number(number, f))
        }
        sys::ValueType::napi_boolean => {
            let mut is_true = false;
            // SAFETY: as above.
            unsafe { sys::napi_get_value_bool(env, value, &raw mut is_true) };
            Ok(f(if is_true { b"1" } else { b"" }, tag::BOOL))
        }
        sys::ValueType::napi_null => Ok(f(b"", tag::NULL)),
        sys::ValueType::napi_bigint => {
            let (mut number, mut is_exact) = (0, false);
            // SAFETY: as above.
            unsafe {
                let exact = &raw mut is_exact;
                sys::napi_get_value_bigint_int64(env, value, &raw mut number, exact);
            };
            if !is_exact {
                let message = "a bigint has up to 64 bits; store a longer one as a string";
                return Err(Failure::argument(message).into());
            }
            Ok(f(itoa::Buffer::new().format(number).as_bytes(), tag::LONG))
        }
        _ => Err(no_type().into()),
    }
}

fn with_number<T>(number: f64, f: impl FnOnce(&[u8], u32) -> T) -> T {
    let integer = number as i64;
    let is_integer = integer as f64 == number
        && integer.unsigned_abs() <= SAFE_INTEGER_MAX
        && !(integer == 0 && number.is_sign_negative());
    if is_integer {
        return f(itoa::Buffer::new().format(integer).as_bytes(), tag::LONG);
    }
    // php-memcached's texts for the numbers that are not finite.
    let text = match number {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ if number.is_nan() => "NaN",
        _ => return f(format!("{number:?}").as_bytes(), tag::DOUBLE),
    };
    f(text.as_bytes(), tag::DOUBLE)
}

#[cold]
fn no_type() -> Failure {
    Failure::argument(
        "a value is a string, a Uint8Array, a number, a bigint, a boolean or null; other values need \
         a codec",
    )
}

/// Returns a value whose type needs no codec; `None` if `lib/` makes the value of the bytes: bytes,
/// and values of a codec.
///
/// # Errors
/// Bytes that are not of the type that their flags name.
///
/// # Safety
/// Same as [`with_bytes`].
#[inline]
pub(crate) unsafe fn decoded(
    env: sys::napi_env,
    bytes: &[u8],
    flags: u32,
) -> Result<Option<sys::napi_value>, Failure> {
    if flags == tag::STRING {
        return Ok(None);
    }
    let mut value = null_mut();
    // SAFETY: the caller guarantees the environment; the pointers and lengths are those of slices.
    let status = unsafe {
        match flags {
            tag::TEXT => text(env, bytes, &raw mut value)?,
            tag::LONG => integer(env, bytes, &raw mut value)?,
            tag::DOUBLE => sys::napi_create_double(env, parsed(bytes, "a number")?, &raw mut value),
            tag::BOOL => sys::napi_get_boolean(env, bytes == b"1", &raw mut value),
            tag::NULL => sys::napi_get_null(env, &raw mut value),
            _ => return Ok(None),
        }
    };
    match status {
        sys::Status::napi_ok => Ok(Some(value)),
        _ => Err(Failure::new(Code::Codec, "Node-API cannot make the value: it is too long")),
    }
}

/// # Safety
/// Same as [`with_bytes`].
#[inline]
unsafe fn text(
    env: sys::napi_env,
    bytes: &[u8],
    value: *mut sys::napi_value,
) -> Result<sys::napi_status, Failure> {
    let start = if bytes.is_empty() { null() } else { bytes.as_ptr().cast() };
    let length = bytes.len().cast_signed();
    // SAFETY: the caller guarantees the environment.
    unsafe {
        if bytes.is_ascii() {
            return Ok(sys::napi_create_string_latin1(env, start, length, value));
        }
        if str::from_utf8(bytes).is_err() {
            return Err(damaged("text in UTF-8"));
        }
        Ok(sys::napi_create_string_utf8(env, start, length, value))
    }
}

/// # Safety
/// Same as [`with_bytes`].
unsafe fn integer(
    env: sys::napi_env,
    bytes: &[u8],
    value: *mut sys::napi_value,
) -> Result<sys::napi_status, Failure> {
    let number: i128 = parsed(bytes, "an integer")?;
    // SAFETY: the caller guarantees the environment.
    unsafe {
        if let Ok(number) = i64::try_from(number) {
            if number.unsigned_abs() <= SAFE_INTEGER_MAX {
                return Ok(sys::napi_create_double(env, number as f64, value));
            }
            return Ok(sys::napi_create_bigint_int64(env, number, value));
        }
        let magnitude = number.unsigned_abs();
        let words = [magnitude as u64, (magnitude >> 64) as u64];
        let is_negative = i32::from(number < 0);
        Ok(sys::napi_create_bigint_words(env, is_negative, words.len(), words.as_ptr(), value))
    }
}

/// Parses a number.
fn parsed<T: std::str::FromStr>(bytes: &[u8], kind: &str) -> Result<T, Failure> {
    // memcached adds blanks if a decrement makes a number shorter.
    let text = str::from_utf8(bytes.trim_ascii_end()).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| damaged(kind))
}

#[cold]
fn damaged(kind: &str) -> Failure {
    Failure::new(Code::Codec, format_args!("the value is not {kind}, although its flags say so"))
}
