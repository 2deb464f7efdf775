//! The speed of the disk itself, measured in the same run as the tier.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use larder_tier::disk::platform::RealDirectory;
use larder_tier::disk::{Directory, File, PAGE_BYTES, zeroed_pages};
use larder_tier::log::FILE_NAME;

/// Pages of the file that is used to measure syncs.
const PAGES: u64 = 4096;
/// Pages per read.
const READ_PAGES: u64 = 1024;

/// Returns how many writes of 4 KiB, each with an fdatasync, the disk completes per second. They
/// bypass the page cache and write to space that was allocated and zeroed before.
pub(crate) fn syncs_per_second(folder: &Path, during: Duration) -> Result<f64> {
    let directory = RealDirectory::open(folder.join("calibration"))?;
    let file = directory.create("pages")?;
    file.allocate(0, PAGES)?;
    file.sync_data()?;
    let page = zeroed_pages(1);
    let (began, mut syncs) = (Instant::now(), 0);
    while began.elapsed() < during {
        file.write_pages(syncs % PAGES, &page)?;
        file.sync_data()?;
        syncs += 1;
    }
    Ok(syncs as f64 / began.elapsed().as_secs_f64())
}

/// Returns how fast one reader reads the first `bytes` of a tier's log, in bytes per second. It
/// reads 4 MiB at a time and bypasses the page cache (`O_DIRECT`).
pub(crate) fn read_bytes_per_second(tier: &Path, bytes: u64) -> Result<f64> {
    let file = RealDirectory::open(tier)?.open(FILE_NAME)?.context("the tier has no log")?;
    let pages = bytes.min(file.len()?) / PAGE_BYTES as u64;
    let mut block = zeroed_pages(READ_PAGES as usize);
    let began = Instant::now();
    for first in (0..pages).step_by(READ_PAGES as usize) {
        let count = READ_PAGES.min(pages - first);
        file.read_pages(first, &mut block[..count as usize])?;
    }
    Ok((pages * PAGE_BYTES as u64) as f64 / began.elapsed().as_secs_f64())
}
