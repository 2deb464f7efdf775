//! The memory of JavaScript into which a get copies a value, and in which it reports what it has
//! copied.
//!
//! Node makes small Buffers as parts of a slab, because a new `ArrayBuffer` costs more than all of
//! a get. This module does the same: `lib/scratch.ts` makes the slab, a get copies a value into it,
//! and `lib/` returns that part of the slab as a Buffer.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::rc::Rc;
use std::slice;

use larder::{Deadline, Meta};
use napi::bindgen_prelude::{BigInt, Env, Object, Result};
use napi::{JsValue, sys};
use napi_derive::napi;

use crate::errors::Failure;

/// The result of a get. `lib/scratch.ts` has the same numbers.
pub(crate) enum Outcome {
    Miss,
    /// A value with these flags is in the slab.
    Copied {
        at: usize,
        length: usize,
        flags: u32,
    },
    /// The slab has no room for the value.
    TooLong {
        length: usize,
    },
}

/// The numbers of an [`Outcome`]: kind, begin, length, flags.
const REPORT_NUMBERS: usize = 4;

pub(crate) struct Memory {
    slab: Cell<*mut u8>,
    slab_bytes: Cell<usize>,
    used: Cell<usize>,
    cas: Cell<u64>,
    deadline: Cell<Deadline>,
    report: Cell<*mut u32>,
}

impl Memory {
    /// Returns the unused part of the slab.
    ///
    /// # Safety
    /// No other part of the program uses the result of an earlier call, and no JavaScript runs
    /// while the result is in use.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the caller guarantees that it is the only one")]
    pub(crate) unsafe fn room(&self) -> &mut [MaybeUninit<u8>] {
        let used = self.used.get();
        // SAFETY: `lib/scratch.ts` keeps the slab, and calls nothing with a slab that was detached.
        unsafe {
            let start = self.slab.get().add(used).cast();
            slice::from_raw_parts_mut(start, self.slab_bytes.get() - used)
        }
    }

    /// Returns how many bytes of the slab are used.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// Keeps what `lib/` may ask about the item that a get has found.
    #[inline]
    pub(crate) fn note(&self, meta: &Meta) {
        self.cas.set(meta.cas);
        self.deadline.set(meta.deadline);
    }

    /// Returns the deadline of the item that the last get has found.
    pub(crate) fn deadline(&self) -> Deadline {
        self.deadline.get()
    }

    /// Marks bytes of the room as used, and returns where they begin.
    #[inline]
    pub(crate) fn take(&self, length: usize) -> usize {
        let at = self.used.get();
        self.used.set(at + length);
        at
    }

    /// Tells JavaScript what a get has found.
    #[inline]
    pub(crate) fn report(&self, outcome: &Outcome) {
        let numbers = match *outcome {
            Outcome::Miss => [0, 0, 0, 0],
            Outcome::Copied { at, length, flags } => [1, at as u32, length as u32, flags],
            Outcome::TooLong { length } => {
                // No value has 4 GiB: `Builder::item_bytes_max` has a lower limit.
                [2, 0, length as u32, 0]
            }
        };
        // SAFETY: `lib/scratch.ts` keeps the array of REPORT_NUMBERS numbers, and no other code
        // that could detach it has it.
        unsafe { self.report.get().cast::<[u32; REPORT_NUMBERS]>().write(numbers) };
    }
}

/// The slab of one thread of JavaScript.
#[napi]
pub struct Scratch {
    memory: Rc<Memory>,
}

#[napi]
impl Scratch {
    /// `report` is a `Uint32Array` with four numbers.
    #[napi(constructor)]
    pub fn new(env: Env, report: Object<'_>) -> Result<Self> {
        // SAFETY: napi-rs has passed the environment and one of its values.
        let memory =
            unsafe { array_memory(env.raw(), report.raw(), sys::TypedarrayType::uint32_array) };
        let (pointer, length) = memory.map_err(|failure| failure.thrown(env.raw()))?;
        if length != REPORT_NUMBERS {
            return Err(Failure::argument("expected four numbers").thrown(env.raw()));
        }
        let memory = Memory {
            slab: Cell::new(std::ptr::NonNull::dangling().as_ptr()),
            slab_bytes: Cell::new(0),
            used: Cell::new(0),
            cas: Cell::new(0),
            deadline: Cell::new(Deadline::NEVER),
            report: Cell::new(pointer.cast()),
        };
        Ok(Self { memory: Rc::new(memory) })
    }

    /// Uses another slab, a `Uint8Array`.
    #[napi]
    pub fn renew(&self, env: Env, slab: Object<'_>) -> Result<()> {
        // SAFETY: napi-rs has passed the environment and one of its values.
        let memory =
            unsafe { array_memory(env.raw(), slab.raw(), sys::TypedarrayType::uint8_array) };
        let (pointer, length) = memory.map_err(|failure| failure.thrown(env.raw()))?;
        self.memory.slab.set(pointer);
        self.memory.slab_bytes.set(length);
        self.memory.used.set(0);
        Ok(())
    }

    /// The cas token of the item that the last get has found.
    #[napi(getter)]
    pub fn cas(&self) -> BigInt {
        self.memory.cas.get().into()
    }
}

impl Scratch {
    pub(crate) fn memory(&self) -> Rc<Memory> {
        Rc::clone(&self.memory)
    }
}

/// Returns the memory of a typed array, and its length in elements.
///
/// # Errors
/// Another value, or an array without memory.
///
/// # Safety
/// `env` is the environment of the running function and `array` one of its values.
pub(crate) unsafe fn array_memory(
    env: sys::napi_env,
    array: sys::napi_value,
    wanted: i32,
) -> std::result::Result<(*mut u8, usize), Failure> {
    let (mut kind, mut length, mut data) = (0, 0, null_mut());
    // SAFETY: the caller guarantees the handles. Results that are not needed may be null.
    let status = unsafe {
        sys::napi_get_typedarray_info(
            env,
            array,
            &raw mut kind,
            &raw mut length,
            &raw mut data,
            null_mut(),
            null_mut(),
        )
    };
    if status != sys::Status::napi_ok || kind != wanted || data.is_null() {
        return Err(Failure::argument("expected a typed array with memory"));
    }
    Ok((data.cast(), length))
}
