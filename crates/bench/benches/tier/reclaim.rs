//! Latencies of lookups in memory and on the disk, with and without sets that keep reclaim busy.

use anyhow::{Result, ensure};
use larder_tier::format::{Record, SEGMENT_BYTES};

use crate::daemon::{Daemon, Statistics};
use crate::load::{KEY_BYTES, Load, Measured};
use crate::scale::Scale;

const VALUE_BYTES: usize = 1024;
/// Lookups per second, both in memory and on the disk.
const GETS_RATE: u32 = 5000;
const SETS_RATE: u32 = 10_000;
/// Seconds of sets after which reclaim must have begun.
const FILL_SECS_MAX: u32 = 300;

/// Seed of the first second of sets that fill the log. No other load uses this seed or a later one.
const FIRST_FILL_SEED: u32 = 10;

/// The results of one phase: lookups with sets (reclaim works), or without.
struct Phase {
    /// Lookups of a few keys that are always in memory.
    memory: Measured,
    /// Lookups of all keys, most of which are only on the disk.
    disk: Measured,
    /// How many items the server read from the disk.
    reads: u64,
    /// How many segments of the log were reclaimed.
    reclaimed: u64,
}

pub(crate) fn run(scale: &Scale) -> Result<()> {
    let items = scale.items;
    let live_bytes = items * Record::item_bytes(KEY_BYTES, VALUE_BYTES) as u64;
    let memory_mib = ((items * VALUE_BYTES as u64 / 4) >> 20).max(16);
    // A store keeps five segments free in addition to the segments with items.
    let size_kib = (live_bytes * 100 / 72 + 5 * SEGMENT_BYTES as u64) >> 10;
    let options = format!("-m {memory_mib} --tier-mode store --tier-size {size_kib}k");
    let folder = scale.folder()?;
    let daemon = Daemon::larderd(&scale.larderd, &folder.path().join("store"), &options)?;
    fill(scale, &daemon)?;
    let quiet = measure(scale, &daemon, false)?;
    let busy = measure(scale, &daemon, true)?;
    ensure!(busy.reclaimed > 0, "reclaim did not run during the sets: raise LARDER_SECS");

    let statistics = daemon.tier_statistics()?;
    let in_memory = statistics.of("curr_items")? as f64 / statistics.of("tier_items")? as f64;
    println!(
        "{items} keys, values of 1 KiB, -m {memory_mib}: {:.0} % of the items are in memory; the \
         log is 72 % live.",
        in_memory * 100.0
    );
    println!(
        "{GETS_RATE} gets a second of the same {} keys (memory) and of all keys (disk), without \
         and",
        hot_keys(scale)
    );
    println!("with {SETS_RATE} sets a second of all keys (reclaim); {} s each", scale.secs);
    println!(
        "{:<8} {:<8} {:>8} {:>10} {:>10} {:>10} {:>12} {:>10} {:>10}",
        "gets",
        "beside",
        "gets/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "p99 x quiet",
        "reads/get",
        "reclaimed"
    );
    row("memory", "nothing", &quiet, |phase| &phase.memory, &quiet)?;
    row("memory", "reclaim", &busy, |phase| &phase.memory, &quiet)?;
    row("disk", "nothing", &quiet, |phase| &phase.disk, &quiet)?;
    row("disk", "reclaim", &busy, |phase| &phase.disk, &quiet)
}

fn row(
    gets: &str,
    beside: &str,
    phase: &Phase,
    of: fn(&Phase) -> &Measured,
    quiet: &Phase,
) -> Result<()> {
    let (load, before) = (of(phase), of(quiet));
    // Lookups in memory do not cause reads, but sets of items that are not in memory do.
    let reads = match (gets, beside) {
        ("disk", "nothing") => format!("{:.3}", phase.reads as f64 / load.of("gets")?),
        _ => "-".to_owned(),
    };
    println!(
        "{gets:<8} {beside:<8} {:>8.0} {:>10.0} {:>10.0} {:>10.0} {:>12.2} {reads:>10} {:>10}",
        load.of("requests_per_second")?,
        load.of("p50_us")?,
        load.of("p99_us")?,
        load.of("p999_us")?,
        load.of("p99_us")? / before.of("p99_us")?,
        phase.reclaimed,
    );
    Ok(())
}

fn hot_keys(scale: &Scale) -> u64 {
    (scale.items / 100).clamp(1, 10_000)
}

fn load_of_all(scale: &Scale, rest: &str) -> String {
    format!("--value-bytes {VALUE_BYTES} --keys {} {rest}", scale.items)
}

/// Stores all keys, and then sets them until reclaim has begun.
fn fill(scale: &Scale, daemon: &Daemon) -> Result<()> {
    Load::run(&scale.larder, daemon, &load_of_all(scale, "--mode get --seconds 1"))?;
    for second in 0..FILL_SECS_MAX {
        if daemon.tier_statistics()?.of("tier_segments_reclaimed")? > 0 {
            return Ok(());
        }
        let sets = format!("--mode set --seconds 1 --seed {}", FIRST_FILL_SEED + second);
        Load::run(&scale.larder, daemon, &load_of_all(scale, &sets))?;
    }
    Err(anyhow::anyhow!("reclaim has not begun after {FILL_SECS_MAX} s of sets"))
}

fn measure(scale: &Scale, daemon: &Daemon, has_sets: bool) -> Result<Phase> {
    let (larder, secs) = (&scale.larder, scale.secs);
    let hot = |rest: &str| {
        let keys = hot_keys(scale);
        format!("--mode get --no-load --value-bytes {VALUE_BYTES} --keys {keys} {rest}")
    };
    // Brings the keys into memory.
    Load::run(larder, daemon, &hot("--seconds 2"))?;
    let before: Statistics = daemon.tier_statistics()?;
    // The sets begin earlier and end later than the lookups.
    let sets = format!("--mode set --rate {SETS_RATE} --seed 1 --seconds {}", secs + 2);
    let sets = has_sets.then(|| Load::begin(larder, daemon, &load_of_all(scale, &sets)));
    let gets = format!("--rate {GETS_RATE} --seconds {secs}");
    let memory = Load::begin(larder, daemon, &hot(&gets))?;
    // The two phases use different seeds. With one seed the second phase would look up the keys
    // that the first one has brought into memory.
    let seed = if has_sets { 2 } else { 3 };
    let disk = load_of_all(scale, &format!("--mode get --no-load --seed {seed} {gets}"));
    let disk = Load::begin(larder, daemon, &disk)?;
    let (memory, disk) = (memory.finish()?, disk.finish()?);
    sets.transpose()?.map(Load::finish).transpose()?;
    let after = daemon.tier_statistics()?;
    let reads = after.growth(&before, "tier_reads")?;
    let reclaimed = after.growth(&before, "tier_segments_reclaimed")?;
    Ok(Phase { memory, disk, reads, reclaimed })
}
