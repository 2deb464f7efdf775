//! `larder fsck`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use larder::{Cache, Inspection};

use crate::outcome::Outcome;

/// Check a cache in a file, in use or not
///
/// Opens the cache as any other process would: what processes left in it that were killed is put in order first. Then
/// everything is checked that must hold. While others use the cache, their work goes on; then what the index names is
/// checked part by part.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The file of the cache
    path: PathBuf,
    /// Change nothing: also leave what killed processes left, which is told as broken then
    #[arg(long)]
    read_only: bool,
}

const AFTER_HELP: &str = "\
Examples:
  larder fsck /dev/shm/larder
  larder fsck /dev/shm/larder --read-only

Exit code: 0 nothing is wrong; 1 something is; 2 the file cannot be used.";

/// Runs `larder fsck`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let mut out = std::io::stdout().lock();
    let started = Instant::now();
    let inspection = Inspection::open(&arguments.path)?;
    let (living, dead): (Vec<_>, Vec<_>) =
        inspection.peers().into_iter().partition(|peer| peer.lives);
    let checked = if arguments.read_only {
        inspection.validate().map(|()| inspection.report().items)
    } else {
        drop(inspection);
        let cache = Cache::open_shared(&arguments.path)?;
        cache.settle_accounts();
        if !dead.is_empty() {
            writeln!(out, "put in order what {} killed processes left", dead.len())?;
        }
        match living.is_empty() {
            true => cache.validate().map(|()| cache.len()),
            false => cache.validate_in_use(),
        }
    };
    let users = match living.len() {
        0 => "nobody uses it".to_owned(),
        count => format!("{count} processes use it"),
    };
    match checked {
        Ok(items) => {
            let took = started.elapsed();
            writeln!(out, "checked {items} items in {took:.1?}, {users}: nothing is wrong")?;
            Ok(Outcome::Done)
        }
        Err(broken) => {
            eprintln!("larder: broken: {broken} ({users})");
            let died = "which may be what killed processes were about: without --read-only it is put in order";
            let advice =
                "end who uses the cache, remove the file, which is only a cache's, and report this";
            let is_unreaped = arguments.read_only && !dead.is_empty();
            eprintln!("larder: {}", if is_unreaped { died } else { advice });
            Ok(Outcome::Missed)
        }
    }
}
