//! One position-independent region of memory that holds all state of a cache.
//!
//! ```text
//! superblock │ global lines │ seats │ heads │ sequences │ segment headers │ directories │ pool of segments
//! ```
//!
//! Inside a region there are offsets and atomics, never pointers. [`Memory`] is the mapped bytes and the
//! only way to touch them: every access is clamped to the mapping, so that whatever a slot or a header
//! claims, no access leaves it. [`Layout`] says where things are; docs/region-format.md draws it.
//!
//! This crate knows neither items nor keys nor eviction. It is one of the few places where `unsafe` is
//! allowed: `mapping.rs` and `memory.rs` for the mapping, `raw.rs` for copies of bytes that others may be changing.
//!
//! Files in reading order: [`layout`], [`memory`], `mapping`, `raw`, [`turns`].

pub mod layout;
mod mapping;
pub mod memory;
mod raw;
pub mod turns;

pub use layout::{Layout, LayoutError};
pub use memory::{MapError, Memory};
