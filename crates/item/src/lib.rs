//! The definition of an item, independent of storage and protocol.
//!
//! An item is a key, a value, client flags, a deadline and a cas token. This crate contains the
//! rules for them that all other crates share. It performs no I/O, reads no clock, and depends
//! neither on the protocol nor on the memory layout.
//!
//! Files in reading order: [`key`], [`deadline`], [`meta`], [`mode`], [`number`].
#![forbid(unsafe_code)]

pub mod deadline;
pub mod key;
pub mod meta;
pub mod mode;
pub mod number;

pub use deadline::{Deadline, Epoch, Second};
pub use key::{KEY_BYTES_MAX, KeyError, check_key};
pub use meta::Meta;
pub use mode::StoreMode;
pub use number::{Direction, NotANumber, Number};
