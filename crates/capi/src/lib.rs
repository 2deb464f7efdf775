//! The C ABI, which `c/include/larder.h` declares. `make header` generates that header
//! from this crate, and a test compares the two.
//!
//! The exports only convert: arguments of C into types of Rust, and results into a [`Status`] and
//! outputs. The operations are methods of [`Handle`]. An export allocates nothing for the caller
//! except objects with a `_close` function, keeps no pointer after it returns, starts threads only
//! for [`flag::LARDER_MAINTAINER`] and [`Options::tier`], and returns [`Status::Defect`] if it
//! panics.
//!
//! The library holds no lock and no memory of the caller between two calls, so a host may jump out
//! of any code between them (PHP's bail-out, Lua's errors). Any number of threads may call at the
//! same time, and so may children of a `fork`; signal handlers must not.
//!
//! # Pointer contract
//!
//! The C caller upholds, for every pointer that it passes and that is not null:
//!
//! - an input is aligned and readable for its type or for its length in bytes, and is not changed
//!   until the call returns;
//! - an output is aligned and writable for its type or for its capacity, and nothing else reads or
//!   writes it until the call returns; buffers overlap no other argument;
//! - a handle, a walk or a queue comes from this library, and no thread closes it before the call
//!   returns;
//! - a text ends with a zero.
//!
//! Files in reading order: `status`, `handle`, `item`, `open`, `get`, `set`, `load`, `count`,
//! `walk`, `entry`, `removals`, `stats`, `tier`, and `raw`, which converts the pointers.

#![allow(rustdoc::private_intra_doc_links, reason = "exports link to the operations they call")]

mod count;
mod entry;
mod get;
mod handle;
mod item;
mod load;
mod open;
mod raw;
mod removals;
mod set;
mod stats;
mod status;
mod tier;
mod walk;

pub use count::{larder_add_i64, larder_cas_i64, larder_decrement, larder_increment};
pub use entry::{Entry, WalkCursor, larder_describe, larder_walk};
pub use get::{
    Slice, larder_contains, larder_get, larder_get_and_touch, larder_get_many, larder_look,
    larder_peek, larder_prefetch, larder_prefetch_group,
};
pub use handle::Handle;
pub use item::{Item, mark, tag};
pub use load::{
    LeaseToken, Load, larder_begin_load, larder_cancel_load, larder_end_load, larder_lease,
    larder_release,
};
pub use open::{
    Options, flag, larder_close, larder_connect, larder_open, larder_set_now, larder_share,
    larder_usable,
};
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
    larder_reset_stats, larder_set_memory, larder_stats,
};
pub use status::{Status, larder_status_text};
pub use tier::{
    Progress, Tier, admission, durability, larder_stop, larder_sync, larder_tier_trouble, tier_mode,
};
pub use walk::{Keys, LARDER_KEY_BYTES_MAX, larder_keys, larder_keys_close, larder_keys_next};

/// The version of the interface that a program was compiled with. `larder_abi_version` returns the
/// version of the loaded library; if the numbers differ, the interfaces are incompatible.
pub const LARDER_ABI_VERSION: u32 = 1;

/// Returns the interface version of the loaded library: compare it with `LARDER_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn larder_abi_version() -> u32 {
    LARDER_ABI_VERSION
}

/// Returns the version of the loaded library, such as `0.1.0`. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn larder_version() -> *const std::ffi::c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
