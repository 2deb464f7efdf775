//! memcached's wire: bytes to [`Command`], [`Response`] to bytes.
//!
//! ```text
//! bytes ─▶ text::Parser ─▶ Command + Frame ─▶ (execute) ─▶ Response + Frame ─▶ text::render ─▶ bytes
//! ```
//!
//! This crate never opens a socket, never sees the cache, never reads a clock and never allocates
//! by a length that a peer announced. All dialects share [`Command`] and [`Response`]; what differs
//! between them is in [`Frame`].
//!
//! Files in reading order: [`command`], [`frame`], [`response`], [`parsed`], `number`, [`text`],
//! [`version`], [`docs`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod command;
pub mod docs;
pub mod frame;
mod number;
pub mod parsed;
pub mod response;
pub mod text;
pub mod version;

pub use command::{Command, StatsSection, Store};
pub use frame::{Dialect, Frame};
pub use parsed::{Bad, Parsed};
pub use response::{ClientError, Response, ServerError};
pub use version::WIRE_VERSION;
