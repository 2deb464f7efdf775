//! The operations that programs call most, as functions of Node-API.
//!
//! Each operation is a function, not a method: its data pointer is the cache, so that a call does
//! not unwrap `this`, and no program can call it with another object.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;

use larder::signed::tag;
use larder::{Lent, Meta, Sink, StoreMode, StoreRequest, Stored};
use napi::bindgen_prelude::{Result, ToNapiValue};
use napi::sys;

use crate::errors::Failure;
use crate::key::{KeyRoom, unexpected};
use crate::place::Place;
use crate::scratch::{Memory, Outcome, array_memory};
use crate::value::{Form, Unencoded, decoded, with_bytes};

/// The data of the functions of one cache.
struct Target {
    place: Arc<Place>,
    memory: Rc<Memory>,
}

type Answer = std::result::Result<sys::napi_value, Failure>;
type Arguments = [sys::napi_value; ARGUMENTS_MAX];

const ARGUMENTS_MAX: usize = 5;

/// How many keys `prefetch` takes. `lib/cache.ts` has the same number.
const KEYS_AT_ONCE: usize = 16;

/// The results of `store`. `lib/native.ts` has the same numbers.
const NOT_STORED: i32 = 0;
const STORED: i32 = 1;
const EXISTS: i32 = 2;
const ABSENT: i32 = 3;
const NEEDS_CODEC: i32 = 4;

/// A value of Node-API, as the result of a function of napi-rs.
pub struct Raw(pub(crate) sys::napi_value);

impl ToNapiValue for Raw {
    unsafe fn to_napi_value(_env: sys::napi_env, value: Self) -> Result<sys::napi_value> {
        Ok(value.0)
    }
}

/// Returns an object with the functions.
///
/// # Safety
/// `env` is the environment of the running function.
pub(crate) unsafe fn object(
    env: sys::napi_env,
    place: &Arc<Place>,
    memory: &Rc<Memory>,
) -> Result<Raw> {
    let functions: [(&std::ffi::CStr, sys::napi_callback); 7] = [
        (c"get", Some(called::<Get<true>>)),
        (c"look", Some(called::<Get<false>>)),
        (c"getInto", Some(called::<GetInto>)),
        (c"store", Some(called::<Store>)),
        (c"prefetch", Some(prefetch)),
        (c"has", Some(called::<Has>)),
        (c"delete", Some(called::<Delete>)),
    ];
    let mut object = null_mut();
    // SAFETY: the caller guarantees the environment.
    check(unsafe { sys::napi_create_object(env, &raw mut object) })?;
    for (name, callback) in functions {
        let target = Target { place: Arc::clone(place), memory: Rc::clone(memory) };
        // SAFETY: as above.
        unsafe {
            let function = function(env, name, callback, target)?;
            check(sys::napi_set_named_property(env, object, name.as_ptr(), function))?;
        }
    }
    Ok(Raw(object))
}

/// # Safety
/// `env` is the environment of the running function. `callback` takes its data for a `Target`.
unsafe fn function(
    env: sys::napi_env,
    name: &std::ffi::CStr,
    callback: sys::napi_callback,
    target: Target,
) -> Result<sys::napi_value> {
    let length = name.count_bytes().cast_signed();
    let data: *mut c_void = Box::into_raw(Box::new(target)).cast();
    let mut made = null_mut();
    // SAFETY: the caller guarantees the environment and the callback. The finalizer frees the data
    // when nothing can call the function any more.
    unsafe {
        let status =
            sys::napi_create_function(env, name.as_ptr(), length, callback, data, &raw mut made);
        // If this fails, the function has no finalizer and stays callable, so its data stays.
        check(status)?;
        let hint = null_mut();
        check(sys::napi_add_finalizer(env, made, data, Some(free), hint, null_mut()))?;
    }
    Ok(made)
}

fn check(status: sys::napi_status) -> Result<()> {
    if status == sys::Status::napi_ok { Ok(()) } else { Err(unexpected()) }
}

unsafe extern "C" fn free(_env: sys::napi_env, data: *mut c_void, _hint: *mut c_void) {
    // SAFETY: `function` made the pointer of a box, and Node calls each finalizer once.
    drop(unsafe { Box::from_raw(data.cast::<Target>()) });
}

/// An operation. Arguments that the caller omits are undefined.
trait Operation {
    /// # Safety
    /// `env` is the environment of the running function, and `arguments` are its values.
    unsafe fn run(env: sys::napi_env, target: &Target, arguments: &Arguments) -> Answer;
}

/// What Node calls.
unsafe extern "C" fn called<O: Operation>(
    env: sys::napi_env,
    info: sys::napi_callback_info,
) -> sys::napi_value {
    let mut arguments: Arguments = [null_mut(); ARGUMENTS_MAX];
    let (mut count, mut data) = (ARGUMENTS_MAX, null_mut());
    // SAFETY: Node passes the environment and the information. The data is that of `function`, and
    // lives as long as the function that is called.
    let target = unsafe {
        let values = arguments.as_mut_ptr();
        let this = null_mut();
        sys::napi_get_cb_info(env, info, &raw mut count, values, this, &raw mut data);
        &*data.cast::<Target>()
    };
    // SAFETY: as above.
    guarded(env, || unsafe { O::run(env, target, &arguments) })
}

/// Returns the result of an operation to Node, or throws its error. A panic must not unwind into
/// Node.
#[inline]
fn guarded(env: sys::napi_env, run: impl FnOnce() -> Answer) -> sys::napi_value {
    let failure = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::bug(),
    };
    failure.throw(env);
    null_mut()
}

/// `prefetch(key, …)` of up to 16 keys: loads the memory of their items into the processor's
/// caches. A program calls it before operations on several keys: their cache misses then overlap.
unsafe extern "C" fn prefetch(
    env: sys::napi_env,
    info: sys::napi_callback_info,
) -> sys::napi_value {
    let mut arguments = [null_mut(); KEYS_AT_ONCE];
    let (mut count, mut data) = (KEYS_AT_ONCE, null_mut());
    // SAFETY: Node passes the environment and the information. The data is that of `function`, and
    // lives as long as the function that is called.
    let target = unsafe {
        let (values, this) = (arguments.as_mut_ptr(), null_mut());
        sys::napi_get_cb_info(env, info, &raw mut count, values, this, &raw mut data);
        &*data.cast::<Target>()
    };
    guarded(env, || {
        let mut rooms = [const { KeyRoom::new() }; KEYS_AT_ONCE];
        let mut keys: [&[u8]; KEYS_AT_ONCE] = [&[]; KEYS_AT_ONCE];
        let count = count.min(KEYS_AT_ONCE);
        for (index, room) in rooms.iter_mut().take(count).enumerate() {
            // SAFETY: as above.
            keys[index] = unsafe { room.read(env, arguments[index])? };
        }
        target.place.cache(env)?.prefetch(keys[..count].iter().copied());
        Ok(null_mut())
    })
}

/// `get(key)` and `look(key)`: returns a value, or undefined and a report in the scratch memory.
/// `look` does not count as a read.
struct Get<const COUNTED: bool>;

impl<const COUNTED: bool> Operation for Get<COUNTED> {
    #[inline]
    unsafe fn run(env: sys::napi_env, target: &Target, arguments: &Arguments) -> Answer {
        let mut room = KeyRoom::new();
        // SAFETY: the caller guarantees the handles.
        let key = unsafe { room.read(env, arguments[0])? };
        let cache = target.place.cache(env)?;
        let memory = &target.memory;
        let mut meta = Meta::default();
        // SAFETY: nothing else uses the slab during the call, and no JavaScript runs.
        let slab = unsafe { memory.room() };
        let mut out = Lent::uninit(slab);
        let is_found = if COUNTED {
            cache.try_get_to(key, &mut out, |found| meta = *found)?
        } else {
            cache.look_to(key, &mut out, |found| meta = *found)
        };
        if !is_found {
            memory.report(&Outcome::Miss);
            return Ok(null_mut());
        }
        let (is_whole, length) = (out.is_whole(), out.filled());
        memory.note(&meta);
        if !is_whole {
            memory.report(&Outcome::TooLong { length: meta.value_bytes });
            return Ok(null_mut());
        }
        // SAFETY: the get has initialised `length` bytes of the slab; nothing writes to them now.
        let bytes = unsafe { std::slice::from_raw_parts(slab.as_ptr().cast::<u8>(), length) };
        // SAFETY: the caller guarantees the environment.
        if let Some(value) = unsafe { decoded(env, bytes, meta.flags)? } {
            return Ok(value);
        }
        // Nothing keeps the text from which `lib/` parses JSON.
        let at = if meta.flags == tag::JSON { memory.used() } else { memory.take(length) };
        memory.report(&Outcome::Copied { at, length, flags: meta.flags });
        Ok(null_mut())
    }
}

/// `getInto(key, array)`: copies a value into a `Uint8Array`, and reports what it has found. The
/// read is not counted.
struct GetInto;

impl Operation for GetInto {
    unsafe fn run(env: sys::napi_env, target: &Target, arguments: &Arguments) -> Answer {
        let mut room = KeyRoom::new();
        // SAFETY: the caller guarantees the handles.
        let (key, (start, length)) = unsafe {
            let array = array_memory(env, arguments[1], sys::TypedarrayType::uint8_array)?;
            (room.read(env, arguments[0])?, array)
        };
        let cache = target.place.cache(env)?;
        let mut meta = Meta::default();
        // SAFETY: `lib/` has made the array for this call, and no JavaScript runs.
        let mut out = Lent::uninit(unsafe { std::slice::from_raw_parts_mut(start.cast(), length) });
        let is_found = cache.look_to(key, &mut out, |found| meta = *found);
        target.memory.note(&meta);
        target.memory.report(&match (is_found, out.is_whole()) {
            (false, _) => Outcome::Miss,
            (true, true) => Outcome::Copied { at: 0, length: out.filled(), flags: meta.flags },
            (true, false) => Outcome::TooLong { length: meta.value_bytes },
        });
        Ok(null_mut())
    }
}

/// `store(key, value, ttlSecs, how, token?)`: returns one of the numbers above. A time to live of 0
/// stands for no limit. `how` is the mode, and 16 times the flags plus 1 of a value that is encoded
/// already.
struct Store;

impl Operation for Store {
    #[inline]
    unsafe fn run(env: sys::napi_env, target: &Target, arguments: &Arguments) -> Answer {
        let [key, value, secs, how, token] = *arguments;
        let mut room = KeyRoom::new();
        // SAFETY: the caller guarantees the handles.
        let (key, secs, how, token) = unsafe {
            (room.read(env, key)?, uint32(env, secs)?, uint32(env, how)?, token_of(env, token))
        };
        let cache = target.place.cache(env)?;
        let (mode, form) = mode_and_form(how)?;
        let deadline = crate::cache::deadline(&cache, secs);
        let store = |bytes: &[u8], flags: u32| {
            let request =
                StoreRequest { deadline, flags, cas: token, ..StoreRequest::new(key, mode) };
            cache.store_counted(&request, bytes)
        };
        // SAFETY: the caller guarantees the handles.
        let answer = match unsafe { with_bytes(env, value, form, store) } {
            Ok(stored) => match stored? {
                Stored::Stored { .. } => STORED,
                Stored::NotStored => NOT_STORED,
                Stored::Exists => EXISTS,
                Stored::NotFound => ABSENT,
            },
            Err(Unencoded::LoneSurrogate) => NEEDS_CODEC,
            Err(Unencoded::Failed(failure)) => return Err(failure),
        };
        let mut result = null_mut();
        // SAFETY: as above.
        unsafe { sys::napi_create_int32(env, answer, &raw mut result) };
        Ok(result)
    }
}

/// The mode and the form that the fourth argument of `store` means.
fn mode_and_form(how: u32) -> std::result::Result<(StoreMode, Form), Failure> {
    let mode = match how % 16 {
        0 => StoreMode::Set,
        1 => StoreMode::Add,
        2 => StoreMode::Replace,
        3 => StoreMode::Append,
        4 => StoreMode::Prepend,
        _ => return Err(Failure::argument("the mode of a store is a number from 0 to 4")),
    };
    Ok((mode, (how / 16).checked_sub(1).map_or(Form::OfType, Form::Encoded)))
}

/// # Safety
/// Same as [`Operation::run`].
#[inline]
unsafe fn uint32(env: sys::napi_env, value: sys::napi_value) -> std::result::Result<u32, Failure> {
    let mut number = 0;
    // SAFETY: the caller guarantees the handles.
    let status = unsafe { sys::napi_get_value_uint32(env, value, &raw mut number) };
    if status == sys::Status::napi_ok {
        Ok(number)
    } else {
        Err(Failure::argument("expected a number"))
    }
}

/// # Safety
/// Same as [`Operation::run`].
#[inline]
unsafe fn token_of(env: sys::napi_env, value: sys::napi_value) -> Option<u64> {
    let (mut token, mut is_exact) = (0, false);
    // SAFETY: the caller guarantees the handles.
    let status = unsafe {
        let exact = &raw mut is_exact;
        sys::napi_get_value_bigint_uint64(env, value, &raw mut token, exact)
    };
    (status == sys::Status::napi_ok).then_some(token)
}

/// `has(key)`: true if the key is present.
struct Has;

impl Operation for Has {
    unsafe fn run(env: sys::napi_env, target: &Target, arguments: &Arguments) -> Answer {
        let mut room = KeyRoom::new();
        // SAFETY: the caller guarantees the handles.
        let key = unsafe { room.read(env, arguments[0])? };
        let is_present = target.place.cache(env)?.contains(key);
        let mut result = null_mut();
        // SAFETY: as above.
        unsafe { sys::napi_get_boolean(env, is_present, &raw mut result) };
        Ok(result)
    }
}

/// `delete(key)`: true if the key was present.
struct Delete;

impl Operation for Delete {
    unsafe fn run(env: sys::napi_env, target: &Target, arguments: &Arguments) -> Answer {
        let mut room = KeyRoom::new();
        // SAFETY: the caller guarantees the handles.
        let key = unsafe { room.read(env, arguments[0])? };
        let was_present = target.place.cache(env)?.delete(key)?;
        let mut result = null_mut();
        // SAFETY: as above.
        unsafe { sys::napi_get_boolean(env, was_present, &raw mut result) };
        Ok(result)
    }
}
