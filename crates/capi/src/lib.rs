//! The C ABI: what `bindings/c/include/larder.h` declares. That header is made from this crate, and a test holds it to it.
//!
//! Every function takes what C has: pointers with lengths, numbers, and memory of the caller's to write to. It never
//! allocates for the caller, keeps no pointer after it has returned, starts no thread unless [`flag::MAINTAINER`] asks for
//! one, and panics into nobody's frames: a defect is [`Status::Defect`].
//!
//! A host may jump out of any place between two calls (PHP's bail-out, Lua's errors), for nothing is held between them but
//! what has a `_close` of its own. Functions may be called by any number of threads at the same time, and in children of a
//! `fork`; not from a signal's handler.
//!
//! Files in reading order: `status`, `handle`, `open`, `get`, `set`, `load`, `count`, `walk`, `removals`, `stats`, and `raw`, which
//! has all that is believed of pointers.

mod count;
mod get;
mod handle;
mod load;
mod open;
mod raw;
mod removals;
mod set;
mod stats;
mod status;
mod walk;

pub use count::{larder_decrement, larder_increment};
pub use get::{
    Item, larder_contains, larder_get, larder_get_and_touch, larder_get_many, larder_peek, mark,
};
pub use handle::{Handle, larder_close};
pub use load::{Load, larder_begin_load, larder_cancel_load, larder_end_load};
pub use open::{Options, flag, larder_connect, larder_open};
pub use removals::{
    LARDER_NO_VALUE, Removals, larder_removals_close, larder_removals_lost, larder_removals_next,
    larder_subscribe, reason,
};
pub use set::{
    larder_add, larder_append, larder_compare_and_set, larder_delete, larder_prepend,
    larder_remove_prefix, larder_replace, larder_set, larder_touch,
};
pub use stats::{
    Memory, Stat, larder_clear, larder_length, larder_maintain, larder_memory_of,
    larder_set_memory, larder_stats,
};
pub use status::{Status, larder_status_text};
pub use walk::{Keys, LARDER_KEY_BYTES_MAX, larder_keys, larder_keys_close, larder_keys_next};

/// What a program was compiled with; [`larder_abi_version`] says what it runs with. Another number is another interface.
pub const LARDER_ABI_VERSION: u32 = 1;

/// The interface of the library that is loaded: compare it with `LARDER_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn larder_abi_version() -> u32 {
    LARDER_ABI_VERSION
}

/// The version of the library that is loaded, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn larder_version() -> *const std::ffi::c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
