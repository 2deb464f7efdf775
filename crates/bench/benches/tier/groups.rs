//! Sets that share a sync, with `--durability sync`.

use anyhow::Result;

use crate::daemon::Daemon;
use crate::device;
use crate::load::Load;
use crate::scale::Scale;

const CONNECTIONS: [u32; 3] = [1, 50, 200];

pub(crate) fn run(scale: &Scale) -> Result<()> {
    let folder = scale.folder()?;
    println!("sets of 1 KiB with --durability sync, {} s each, larderd -t 1;", scale.secs);
    println!("disk/s: writes of 4 KiB, each with an fdatasync, right before, by one thread");
    println!(
        "{:>11} {:>9} {:>10} {:>9} {:>9} {:>8} {:>10} {:>9}",
        "connections", "sets/s", "sets/sync", "syncs/s", "disk/s", "of disk", "bytes/set", "p99"
    );
    for connections in CONNECTIONS {
        let device = device::syncs_per_second(folder.path(), scale.duration() / 2)?;
        let files = folder.path().join(format!("store-{connections}"));
        let options = "-m 1024 --tier-mode store --tier-size 4g --durability sync";
        let daemon = Daemon::larderd(&scale.larderd, &files, options)?;
        let before = daemon.tier_statistics()?;
        let options = format!(
            "--mode set --value-bytes 1024 --keys 100000 --connections {connections} --seconds {}",
            scale.secs
        );
        let load = Load::run(&scale.larder, &daemon, &options)?;
        let after = daemon.tier_statistics()?;
        let sets = load.of("sets")?;
        let syncs = after.growth(&before, "tier_syncs")? as f64;
        let syncs_per_second = syncs / load.of("seconds")?;
        println!(
            "{connections:>11} {:>9.0} {:>10.1} {syncs_per_second:>9.0} {device:>9.0} \
             {:>8.2} {:>10.0} {:>6.2} ms",
            load.of("requests_per_second")?,
            sets / syncs,
            syncs_per_second / device,
            after.growth(&before, "tier_written_bytes")? as f64 / sets,
            load.of("p99_us")? / 1e3,
        );
    }
    Ok(())
}
