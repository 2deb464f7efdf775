//! The disks of the tier: the contract that the log relies on, then what only real files have.
//!
//! Files in reading order: `contract`, `real`.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod contract;
mod real;

use larder_tier::disk::{PAGE_BYTES, Page};

/// Returns a page that is full of this byte.
fn page(byte: u8) -> Page {
    Page::new([byte; PAGE_BYTES])
}
