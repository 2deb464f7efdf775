//! One position-independent region of memory that holds all state of a cache.
//!
//! ```text
//! superblock │ global lines │ thread slots │ appenders │ sequences │ segment headers │ directories │ pool of segments
//! ```
//!
//! Inside a region there are offsets and atomics, never pointers. [`Memory`] is the mapped bytes and the
//! only way to touch them: every access is clamped to the mapping, so that whatever a slot or a header
//! claims, no access leaves it. [`Layout`] says where things are; docs/region-format.md draws it.
//!
//! What is mapped can be private, or shared with other processes: with those that are forked from this one, with those
//! that open the same [`file`](mod@file), with those that only read. Which of them live is told by [`locks`], and whether this process was forked by
//! [`forks`].
//!
//! This crate knows neither items nor keys nor eviction. It is one of the few places where `unsafe` is
//! allowed: `mapping.rs` and `memory.rs` for the mapping, `sink.rs` for what is read from it, `raw.rs` for copies of
//! bytes that others may be changing, `fork.rs`, `locks.rs` and `groups.rs` for what the C library alone offers.
//!
//! Files in reading order: [`layout`], [`memory`], [`shared`], `mapping`, `raw`, `sink`, [`turns`]; [`file`](mod@file), [`locks`], `fork`,
//! `boot`, `groups`.

mod boot;
pub mod file;
mod fork;
mod groups;
pub mod layout;
pub mod locks;
mod mapping;
pub mod memory;
mod raw;
pub mod shared;
mod sink;
pub mod turns;

pub use boot::boot;
pub use file::{Access, FileError, NewFile};
pub use fork::forks;
pub use groups::peer_groups;
pub use layout::{Layout, LayoutError, Sharing};
pub use locks::{LockError, Locks};
pub use memory::{MapError, Memory};
pub use shared::ShareError;
pub use sink::{Lent, Sink};
