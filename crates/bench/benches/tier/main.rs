//! The disk tier on a real disk. Each part prints one table: `groups` (sets that share a sync),
//! `writes` (bytes written for each byte of a change), `evictions` (bytes that a cache writes for
//! evicted items), `reclaim` (latencies while the log reclaims segments, that is, copies live items
//! and frees the rest), `recovery` (a start after `kill -9`), `compress` (values that are
//! compressed on the disk).
//!
//! `LARDERD` and `LARDER` name the release builds, and `ROCKSDB_SERVER` the server of
//! `crates/bench/rocksdb`, without which its columns are empty. `make bench NAME=tier` sets all
//! three. `LARDER_TIER_DIR` names a directory on the disk, in which the bench creates and removes
//! directories. `LARDER_ITEMS`, `LARDER_SECS` and `LARDER_LOG_MIB` set the sizes of the parts.
//! `LARDER_WORKLOAD` selects the rows of `writes` whose names contain it. Without `--bench`, which
//! cargo bench adds, a short run only tests that everything works.
//!
//! Files in reading order: [`scale`], [`daemon`], [`load`], [`device`], then the parts.
#![forbid(unsafe_code)]

mod compress;
mod daemon;
mod device;
mod evictions;
mod groups;
mod load;
mod reclaim;
mod recovery;
mod scale;
mod writes;

use anyhow::{Context, Result};
use larder_bench::is_asked_for;

use scale::Scale;

type Part = (&'static str, fn(&Scale) -> Result<()>);

const PARTS: [Part; 6] = [
    ("groups", groups::run),
    ("writes", writes::run),
    ("evictions", evictions::run),
    ("reclaim", reclaim::run),
    ("recovery", recovery::run),
    ("compress", compress::run),
];

fn main() -> Result<()> {
    let scale = Scale::of_environment()?;
    println!("disk: {}", scale.disk.display());
    for (name, part) in PARTS.iter().filter(|(name, _)| is_asked_for(name)) {
        println!("\n{name}");
        part(&scale).with_context(|| (*name).to_owned())?;
    }
    Ok(())
}
