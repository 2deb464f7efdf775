//! Starts of larderd: from the log after `kill -9`, and from the index after a clean stop.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use larder_tier::format::{Record, SEGMENT_BYTES};
use nix::unistd::sync;

use crate::daemon::Daemon;
use crate::device;
use crate::load::{KEY_BYTES, Load};
use crate::scale::Scale;

/// A start, until the server responds to a get.
struct Start {
    daemon: Daemon,
    took: Duration,
    bytes_read: u64,
}

pub(crate) fn run(scale: &Scale) -> Result<()> {
    match drop_page_cache() {
        Ok(()) => println!("the page cache is dropped before each start"),
        Err(error) => println!("the page cache is NOT dropped, which needs root: {error}"),
    }
    for value_bytes in [100, 1024] {
        measure(scale, value_bytes)?;
    }
    Ok(())
}

fn measure(scale: &Scale, value_bytes: usize) -> Result<()> {
    let items = scale.items;
    let log_bytes = items * Record::item_bytes(KEY_BYTES, value_bytes) as u64;
    // Live items fill two thirds of the log.
    let size_kib = (log_bytes * 3 / 2 + 16 * SEGMENT_BYTES as u64) >> 10;
    // The memory includes a catalog of at most 12.5 bytes per item.
    let memory_mib = 64 + ((items * 32) >> 20);
    let options =
        format!("-m {memory_mib} --tier-mode store --tier-size {size_kib}k --tier-wait-secs 1");
    let folder = scale.folder()?;
    let files = folder.path().join("store");
    fill(scale, &files, &options, value_bytes)?;

    let after_kill = start(scale, &files, &options)?;
    let began = Instant::now();
    after_kill.daemon.stop()?;
    let stop_took = began.elapsed();
    let after_stop = start(scale, &files, &options)?;
    after_stop.daemon.kill()?;
    // Many disks are faster for the first reads than in the long run. So the comparison reads as
    // many bytes as recovery did.
    let disk = device::read_bytes_per_second(&files, after_kill.bytes_read)?;

    let rate = after_kill.bytes_read as f64 / after_kill.took.as_secs_f64();
    println!("{items} items of {value_bytes}-byte values and 20-byte keys, -m {memory_mib}");
    println!("{:<28} {:>8} {:>9} {:>8} {:>8}", "", "seconds", "MB read", "MB/s", "ns/item");
    row("start after kill -9", after_kill.took, Some(after_kill.bytes_read), items);
    row("clean stop", stop_took, None, items);
    row("start after a clean stop", after_stop.took, Some(after_stop.bytes_read), items);
    let read_took = Duration::from_secs_f64(after_kill.bytes_read as f64 / disk);
    row("the disk, read in sequence", read_took, Some(after_kill.bytes_read), items);
    println!("rate of the start after kill -9: {:.2} of the disk's", rate / disk);
    let secs = after_kill.took.as_secs_f64() * 1e9 / items as f64;
    println!("a thousand million items, by seconds x 10^9 / items: {secs:.0} s");
    Ok(())
}

fn row(what: &str, took: Duration, bytes: Option<u64>, items: u64) {
    let secs = took.as_secs_f64();
    let (megabytes, rate) = match bytes {
        Some(bytes) => {
            let megabytes = bytes as f64 / 1e6;
            (format!("{megabytes:.1}"), format!("{:.0}", megabytes / secs))
        }
        None => ("-".to_owned(), "-".to_owned()),
    };
    println!("{what:<28} {secs:>8.3} {megabytes:>9} {rate:>8} {:>8.0}", secs * 1e9 / items as f64);
}

/// Stores the items and kills the server.
fn fill(scale: &Scale, files: &Path, options: &str, value_bytes: usize) -> Result<()> {
    let daemon = Daemon::larderd(&scale.larderd, files, options)?;
    let load = format!("--mode get --seconds 1 --keys {} --value-bytes {value_bytes}", scale.items);
    Load::run(&scale.larder, &daemon, &load)?;
    // Twice the interval of `--durability`.
    sleep(Duration::from_millis(200));
    daemon.kill()
}

fn start(scale: &Scale, files: &Path, options: &str) -> Result<Start> {
    // If this fails, the line above the table reports it.
    drop_page_cache().ok();
    // Loads the program, so that its load time is not measured.
    fs::read(&scale.larderd)?;
    let began = Instant::now();
    let daemon = Daemon::larderd(&scale.larderd, files, options)?;
    daemon.wait_until_it_serves()?;
    let took = began.elapsed();
    let items = daemon.tier_statistics()?.of("tier_items")?;
    ensure!(items == scale.items, "{items} of {} items after the start", scale.items);
    let bytes_read = daemon.bytes_read()?;
    Ok(Start { daemon, took, bytes_read })
}

fn drop_page_cache() -> std::io::Result<()> {
    sync();
    fs::write("/proc/sys/vm/drop_caches", "3")
}
