//! The bytes that a cache writes for each byte that memory evicts to its disk.

use anyhow::Result;
use larder_tier::format::Record;

use crate::daemon::Daemon;
use crate::load::{KEY_BYTES, Load};
use crate::scale::Scale;

const VALUE_BYTES: usize = 1024;

pub(crate) fn run(scale: &Scale) -> Result<()> {
    let item_bytes = Record::item_bytes(KEY_BYTES, VALUE_BYTES) as u64;
    // The disk has space for half of the items, and memory for a sixteenth.
    let disk_mib = ((scale.items * item_bytes / 2) >> 20).max(32);
    let memory_mib = ((scale.items * item_bytes / 16) >> 20).max(8);
    println!(
        "gets, each miss set; Zipf 0.99, {} keys, values of 1 KiB; -m {memory_mib}, disk of \
         {disk_mib} MiB;",
        scale.items
    );
    println!("{} s each, after twice as long to fill the disk", scale.secs);
    println!(
        "{:<12} {:>8} {:>9} {:>12} {:>11} {:>16} {:>11}",
        "--tier-admit",
        "gets/s",
        "hit ratio",
        "evicted MB",
        "written MB",
        "written/evicted",
        "zeros MB"
    );
    for admit in ["all", "reused"] {
        let folder = scale.folder()?;
        let options = format!(
            "-m {memory_mib} --tier-mode cache --tier-size {disk_mib}m --tier-admit {admit}"
        );
        let daemon = Daemon::larderd(&scale.larderd, &folder.path().join("cache"), &options)?;
        // Uses another seed. Otherwise the measured load would request the keys that were just
        // stored.
        let load = |secs: u64, seed: u64| {
            let options = format!(
                "--mode get --fill --no-load --skew 0.99 --value-bytes {VALUE_BYTES} --keys {} \
                 --seed {seed} --seconds {secs}",
                scale.items
            );
            Load::run(&scale.larder, &daemon, &options)
        };
        load(2 * scale.secs, 1)?;
        let before = daemon.tier_statistics()?;
        let measured = load(scale.secs, 2)?;
        let after = daemon.tier_statistics()?;
        let evicted = (after.growth(&before, "tier_items_evicted")? * item_bytes) as f64;
        let written = after.growth(&before, "tier_written_bytes")? as f64;
        let zeroed = after.growth(&before, "tier_zeroed_bytes")? as f64;
        let ratio = match evicted > 0.0 {
            true => format!("{:.2}", written / evicted),
            false => "-".to_owned(),
        };
        println!(
            "{admit:<12} {:>8.0} {:>9.3} {:>12.1} {:>11.1} {:>16} {:>11.1}",
            measured.of("requests_per_second")?,
            measured.of("hit_ratio")?,
            evicted / 1e6,
            written / 1e6,
            ratio,
            zeroed / 1e6,
        );
    }
    Ok(())
}
