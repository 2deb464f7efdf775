//! One position-independent region of memory that holds all state of a cache.
//!
//! ```text
//! superblock │ global lines │ thread slots │ appenders │ sequences │ segment headers │ directories │ pool of segments
//! ```
//!
//! A region contains offsets and atomics, never pointers. [`Memory`] owns the mapped bytes and is
//! the only way to access them: every access is clamped to the mapping, so that a corrupt slot or
//! header cannot cause an access outside. [`Layout`] contains the offset of each part;
//! docs/region-format.md is a diagram of it.
//!
//! The mapping can be private, or shared with other processes: with forked children, with processes
//! that open the same [`file`](mod@file), or with read-only processes. [`locks`] show which
//! processes are alive, and [`forks`] shows whether this process was forked.
//!
//! The pool is divided into segments, which the engine fills with records of items. This crate
//! itself is independent of items, keys and eviction. It is one of the few crates that use
//! `unsafe`: `memory.rs` for the mapping, `sink.rs` for the targets of reads, `raw/` for copies of
//! bytes that other threads may be changing, `fork.rs` for inherited descriptors, and
//! [`platform`](mod@platform) for the calls of the operating system.
//!
//! Files in reading order: [`processes`], [`layout`], [`memory`], [`shared`], `raw`, `sink`,
//! [`turns`]; [`file`](mod@file), [`locks`], `fork`, `boot`; [`platform`](mod@platform).

mod boot;
pub mod file;
mod fork;
pub mod layout;
pub mod locks;
pub mod memory;
pub mod platform;
pub mod processes;
mod raw;
pub mod shared;
mod sink;
pub mod turns;

pub use boot::boot;
pub use file::{Access, FileError, NewFile};
pub use fork::forks;
pub use layout::{Layout, LayoutError, Sharing};
pub use locks::{LockError, Locks};
pub use memory::{MapError, Memory};
pub use platform::{HUGE_PAGE_BYTES, peer_groups};
pub use shared::ShareError;
pub use sink::{Lent, Sink};
