//! `larder fsck`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use larder::Cache;
use larder_loadgen::argument::{agree, counted};

use crate::outcome::Outcome;
use crate::{disk_tier, source, units};

/// Check a cache in a file, even while it is in use, or the directory of a disk tier
///
/// Opens the cache like any other process, which first repairs the state that killed processes left
/// in it. Then checks every invariant of the cache. Other processes can continue to use the cache:
/// the index is then checked part by part.
///
/// The directory of a disk tier (--tier-path) must not be in use. The check reads the complete log
/// and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The file of the cache, or the directory
    path: PathBuf,
    /// Change nothing: report the unfinished work of killed processes as damage, do not repair it
    #[arg(long)]
    read_only: bool,
}

const AFTER_HELP: &str = "\
Examples:
  larder fsck /dev/shm/larder
  larder fsck /dev/shm/larder --read-only
  larder fsck /var/lib/larder/store

Exit code: 0 no damage found; 1 the cache is damaged; 2 bad usage, or the file or directory cannot
be used: it is missing, in use, or does not contain a cache.";

/// Runs `larder fsck`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    if arguments.path.is_dir() {
        return disk_tier::fsck(&arguments.path);
    }
    let mut out = std::io::stdout().lock();
    let started = Instant::now();
    let inspection = source::memory_file(&arguments.path)?;
    let (living, dead): (Vec<_>, Vec<_>) =
        inspection.peers().into_iter().partition(|peer| peer.lives);
    let checked = if arguments.read_only {
        inspection.validate().map(|()| inspection.report().items)
    } else {
        drop(inspection);
        let cache = Cache::open_shared(&arguments.path)?;
        cache.settle_accounts();
        if !dead.is_empty() {
            let killed = counted(dead.len() as u64, "killed process");
            writeln!(out, "repaired the state that {killed} left")?;
        }
        match living.is_empty() {
            true => cache.validate().map(|()| cache.len()),
            false => cache.validate_in_use(),
        }
    };
    let users = match living.len() as u64 {
        0 => "no process uses it".to_owned(),
        count => format!("{} {} it", counted(count, "process"), agree(count, "uses", "use")),
    };
    match checked {
        Ok(items) => {
            let (items, took) = (counted(items, "item"), units::duration_of(started.elapsed()));
            writeln!(out, "checked {items} in {took}, {users}: no damage found")?;
            Ok(Outcome::Done)
        }
        Err(broken) => {
            eprintln!("larder: damaged: {broken} ({users})");
            let died = "killed processes may have left this unfinished: run larder fsck without \
                        --read-only to repair it";
            let advice = "end the processes that use the cache and remove the file: it holds only \
                          cached items. This is a bug in Larder: please report the line above";
            let is_unreaped = arguments.read_only && !dead.is_empty();
            eprintln!("larder: {}", if is_unreaped { died } else { advice });
            Ok(Outcome::Missed)
        }
    }
}
