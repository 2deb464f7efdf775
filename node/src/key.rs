//! Keys of JavaScript as the bytes that the cache stores.

use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::slice;

use napi::bindgen_prelude::{Error, FromNapiValue, Result, Status, TypeName, ValidateNapiValue};
use napi::{ValueType, sys};

use crate::errors::Failure;

/// Longest key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 250;

/// Room for the longest key, for one more byte that shows that a key is longer, and for the NUL
/// that Node-API writes. A character has up to 4 bytes and is not divided.
const ROOM: usize = 256;

/// UTF-8 of U+FFFD, which Node-API writes in place of a lone surrogate.
const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

/// Memory for the bytes of a key.
pub(crate) struct KeyRoom([MaybeUninit<u8>; ROOM]);

impl KeyRoom {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self([MaybeUninit::uninit(); ROOM])
    }

    /// Returns the bytes of a key: of a string its UTF-8, of a `Uint8Array` its bytes.
    ///
    /// # Errors
    /// Another type, an empty or too long key, and a string with a lone surrogate.
    ///
    /// # Safety
    /// `env` is the environment of the running function and `value` one of its values.
    #[inline]
    pub(crate) unsafe fn read(
        &mut self,
        env: sys::napi_env,
        value: sys::napi_value,
    ) -> std::result::Result<&[u8], Failure> {
        let mut length = 0;
        let room = self.0.as_mut_ptr();
        // SAFETY: the caller guarantees the handles; the room has ROOM bytes.
        let status = unsafe {
            sys::napi_get_value_string_utf8(env, value, room.cast(), ROOM, &raw mut length)
        };
        if status != sys::Status::napi_ok {
            // SAFETY: as above.
            length = unsafe { self.copy_array(env, value)? };
        }
        // SAFETY: the call or the copy has initialised `length` bytes of the room.
        let key = unsafe { slice::from_raw_parts(room.cast::<u8>(), length) };
        if length == 0 || length > KEY_BYTES_MAX {
            return Err(wrong_length(length));
        }
        if status == sys::Status::napi_ok && !key.is_ascii() {
            // SAFETY: as above.
            unsafe { check_surrogates(env, value, key)? };
        }
        Ok(key)
    }

    /// Copies the bytes of a `Uint8Array`, and returns their number.
    ///
    /// # Safety
    /// Same as [`KeyRoom::read`].
    #[cold]
    unsafe fn copy_array(
        &mut self,
        env: sys::napi_env,
        value: sys::napi_value,
    ) -> std::result::Result<usize, Failure> {
        // SAFETY: the caller guarantees the handles.
        let Some(bytes) = (unsafe { bytes_of_array(env, value) }) else {
            return Err(Failure::argument("a key is a string or a Uint8Array"));
        };
        if bytes.len() > KEY_BYTES_MAX {
            return Err(wrong_length(bytes.len()));
        }
        for (to, from) in self.0.iter_mut().zip(bytes) {
            to.write(*from);
        }
        Ok(bytes.len())
    }
}

/// Returns the memory of a `Uint8Array` (a Buffer is one); `None` for other values. The code in
/// `lib/` passes no array whose memory other threads can change.
///
/// # Safety
/// Same as [`KeyRoom::read`]. JavaScript that runs later may free the bytes.
pub(crate) unsafe fn bytes_of_array<'a>(
    env: sys::napi_env,
    value: sys::napi_value,
) -> Option<&'a [u8]> {
    let (mut kind, mut length, mut data) = (0, 0, null_mut());
    // SAFETY: the caller guarantees the handles. Results that are not needed may be null.
    let status = unsafe {
        sys::napi_get_typedarray_info(
            env,
            value,
            &raw mut kind,
            &raw mut length,
            &raw mut data,
            null_mut(),
            null_mut(),
        )
    };
    if status != sys::Status::napi_ok || kind != sys::TypedarrayType::uint8_array {
        return None;
    }
    if data.is_null() {
        return Some(&[]);
    }
    // SAFETY: the array has `length` bytes at `data`, and no JavaScript runs while they are used.
    Some(unsafe { slice::from_raw_parts(data.cast(), length) })
}

#[cold]
fn wrong_length(length: usize) -> Failure {
    let found = match length {
        0 => "an empty one".to_owned(),
        // A longer string is not read to its end.
        ROOM.. => format!("{length}"),
        _ => format!("{length} or more"),
    };
    Failure::argument(format_args!("a key has 1 to {KEY_BYTES_MAX} bytes, found {found}"))
}

/// Refuses a string with a lone surrogate: as UTF-8 it is equal to another string.
///
/// # Safety
/// Same as [`KeyRoom::read`].
#[cold]
unsafe fn check_surrogates(
    env: sys::napi_env,
    value: sys::napi_value,
    key: &[u8],
) -> std::result::Result<(), Failure> {
    // SAFETY: the caller guarantees the handles.
    if contains_replacement(key) && !unsafe { is_well_formed(env, value) } {
        return Err(Failure::argument(
            "the key contains a lone surrogate, which UTF-8 cannot express",
        ));
    }
    Ok(())
}

pub(crate) fn contains_replacement(text: &[u8]) -> bool {
    text.windows(REPLACEMENT.len()).any(|part| part == REPLACEMENT)
}

/// True if a string has no lone surrogate.
///
/// # Safety
/// Same as [`KeyRoom::read`].
#[cold]
pub(crate) unsafe fn is_well_formed(env: sys::napi_env, value: sys::napi_value) -> bool {
    let mut length = 0;
    // SAFETY: the caller guarantees the handles. Without a buffer the call returns the length.
    let status =
        unsafe { sys::napi_get_value_string_utf16(env, value, null_mut(), 0, &raw mut length) };
    if status != sys::Status::napi_ok {
        return false;
    }
    let mut units = vec![0_u16; length + 1];
    // SAFETY: as above; the buffer has room for the string and a NUL.
    let status = unsafe {
        let room = units.len();
        sys::napi_get_value_string_utf16(env, value, units.as_mut_ptr(), room, &raw mut length)
    };
    units.truncate(length);
    status == sys::Status::napi_ok && char::decode_utf16(units).all(|unit| unit.is_ok())
}

/// A key as an argument of a function of napi-rs.
pub struct Key(pub(crate) Box<[u8]>);

impl TypeName for Key {
    fn type_name() -> &'static str {
        "string | Uint8Array"
    }

    fn value_type() -> ValueType {
        ValueType::Unknown
    }
}

impl ValidateNapiValue for Key {}

impl FromNapiValue for Key {
    unsafe fn from_napi_value(env: sys::napi_env, value: sys::napi_value) -> Result<Self> {
        let mut room = KeyRoom::new();
        // SAFETY: napi-rs passes the environment of the running function and one of its values.
        match unsafe { room.read(env, value) } {
            Ok(key) => Ok(Self(key.into())),
            Err(failure) => Err(failure.thrown(env)),
        }
    }
}

/// The beginning of keys, which may be empty or of any length, as an argument.
pub struct Prefix(pub(crate) Vec<u8>);

impl TypeName for Prefix {
    fn type_name() -> &'static str {
        "string | Uint8Array"
    }

    fn value_type() -> ValueType {
        ValueType::Unknown
    }
}

impl ValidateNapiValue for Prefix {}

impl FromNapiValue for Prefix {
    unsafe fn from_napi_value(env: sys::napi_env, value: sys::napi_value) -> Result<Self> {
        // SAFETY: napi-rs passes the environment of the running function and one of its values.
        unsafe {
            if let Some(bytes) = bytes_of_array(env, value) {
                return Ok(Self(bytes.to_vec()));
            }
            let Ok(text) = String::from_napi_value(env, value) else {
                return Err(Failure::argument("a prefix is a string or a Uint8Array").thrown(env));
            };
            if contains_replacement(text.as_bytes()) && !is_well_formed(env, value) {
                return Err(Failure::argument("the prefix contains a lone surrogate").thrown(env));
            }
            Ok(Self(text.into_bytes()))
        }
    }
}

/// The error of a function of napi-rs for a call that fails without a reason.
#[cold]
pub(crate) fn unexpected() -> Error {
    Error::new(Status::GenericFailure, "Node-API refused a call")
}
