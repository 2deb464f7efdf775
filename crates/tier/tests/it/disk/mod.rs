//! The disks of the tier: one contract over real files and the simulated disk, then what only one
//! of them has.
//!
//! Files in reading order: `contract`, `real`, `crashes`, `faults`.

mod contract;
mod crashes;
mod faults;
mod real;

use larder_tier::disk::{PAGE_BYTES, Page};

/// Returns a page that is full of this byte.
fn page(byte: u8) -> Page {
    Page::new([byte; PAGE_BYTES])
}
