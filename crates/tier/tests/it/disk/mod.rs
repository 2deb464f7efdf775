//! The disks of the tier: contract tests for both real files and the simulated disk, then tests for
//! each of them.
//!
//! Files in reading order: `contract`, `real`, `crashes`, `faults`.

mod contract;
mod crashes;
mod faults;
mod real;

use larder_tier::disk::{PAGE_BYTES, Page};

/// Returns a page filled with this byte.
fn page(byte: u8) -> Page {
    Page::new([byte; PAGE_BYTES])
}
