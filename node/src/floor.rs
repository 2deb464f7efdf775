//! What a call and a Buffer cost without a cache: `bench/` compares a get with them. Only a module
//! that is built with the feature `floor` has these functions.

use std::ptr::null_mut;

use napi::bindgen_prelude::{Env, Result};
use napi::sys;
use napi_derive::napi;

use crate::operations::Raw;

/// Returns the functions `nothing`, which returns undefined, and `buffer`, which returns a Buffer
/// of 100 bytes.
#[napi]
pub(crate) fn floor(env: Env) -> Result<Raw> {
    let mut object = null_mut();
    let functions: [(&std::ffi::CStr, sys::napi_callback); 2] =
        [(c"nothing", Some(nothing)), (c"buffer", Some(buffer))];
    // SAFETY: the environment is that of the running function.
    unsafe {
        sys::napi_create_object(env.raw(), &raw mut object);
        for (name, callback) in functions {
            let (mut function, length) = (null_mut(), name.count_bytes().cast_signed());
            let (data, made) = (null_mut(), &raw mut function);
            sys::napi_create_function(env.raw(), name.as_ptr(), length, callback, data, made);
            sys::napi_set_named_property(env.raw(), object, name.as_ptr(), function);
        }
    }
    Ok(Raw(object))
}

unsafe extern "C" fn nothing(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    let (mut count, mut argument) = (1, null_mut());
    // SAFETY: Node passes the environment and the information.
    unsafe {
        let (this, data) = (null_mut(), null_mut());
        sys::napi_get_cb_info(env, info, &raw mut count, &raw mut argument, this, data);
    }
    null_mut()
}

unsafe extern "C" fn buffer(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    static BYTES: [u8; 100] = [b'a'; 100];
    // SAFETY: Node passes the environment and the information.
    unsafe {
        nothing(env, info);
        let mut made = null_mut();
        let bytes = BYTES.as_ptr().cast();
        sys::napi_create_buffer_copy(env, BYTES.len(), bytes, null_mut(), &raw mut made);
        made
    }
}
