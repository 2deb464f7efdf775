//! `larder import`.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use larder_dump::{Piece, ReadEntry, Reader};
use larder_loadgen::address::{Address, ServerArgument};
use larder_loadgen::argument::whole;
use larder_loadgen::connect::dialer::AccessArguments;

use super::fetch::now_unix_secs;
use super::progress::{Pace, Progress};
use super::store::{Counts, Target};
use crate::outcome::Outcome;

/// Store the items of a dump in a server
///
/// Items that already exist in the server are kept, unless --overwrite is given.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The dump that larder export wrote; - is stdin
    #[arg(value_name = "FILE")]
    dump: PathBuf,
    /// The old form of --server
    #[arg(value_name = "ADDR", hide = true, conflicts_with = "server")]
    target: Option<Address>,
    #[command(flatten)]
    server: ServerArgument,
    #[command(flatten)]
    access: AccessArguments,
    /// Replace items that already exist in the server
    #[arg(long)]
    overwrite: bool,
    /// Store at most this many items per second
    #[arg(long, value_name = "ITEMS_PER_SEC", value_parser = whole::<u32>(1..=u32::MAX))]
    rate: Option<u32>,
    /// Show no progress and no summary
    #[arg(long)]
    quiet: bool,
}

const AFTER_HELP: &str = "\
The target may be any memcached from 1.6.10 on, with TCP or a Unix socket, with TLS (--tls) and a
login (--user), but not one that accepts only the binary protocol (-S). The remaining time to live
is computed with the clock of this machine; expired items are skipped. From a dump that is cut off
or damaged, the import stores the items up to that point and then fails.

The target may already serve clients: without --overwrite, the import does not overwrite newer
values. But a key that a client deletes during the import may come back with its older value.

Examples:
  larder import items.dump --server 127.0.0.1:11211
  zstd -d < items.dump.zst | larder import - --server /run/larder.sock
  larder export --server neighbour:11211 - | larder import - --server localhost:11211
  larder import items.dump --server cache7:11211 --tls --tls-ca authority.pem

Exit code: 0 all items are stored, kept or expired; 1 items were too large or refused; 2 the dump
could not be read to its end, or the server could not be reached.";

/// The numbers of items that were left out.
#[derive(Clone, Copy, Debug, Default)]
struct SkipCounts {
    expired: u64,
    /// Items whose value is not complete in the dump.
    void: u64,
}

/// Runs `larder import`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let (input, input_bytes) = open(&arguments.dump)?;
    let mut reader = Reader::new(input).with_context(|| shown(&arguments.dump))?;
    let address = arguments.target.as_ref().unwrap_or(&arguments.server.server);
    let dialer = arguments.access.dialer(address)?;
    let mut target = Target::open(&dialer, arguments.overwrite)
        .with_context(|| format!("import to {address}"))?;
    let mut progress = Progress::begin("imported", input_bytes, arguments.quiet);
    let mut skipped = SkipCounts::default();
    let mut pace = Pace::new(arguments.rate);
    let stored = store_all(&mut reader, &mut target, &mut pace, &mut skipped, &mut progress);
    // Waits for the responses even if the dump ends early, so that the counts include all items
    // sent.
    let stored = stored.with_context(|| shown(&arguments.dump));
    let finished = target.finish().with_context(|| format!("import to {address}"));
    let counts = target.counts();
    progress.end(counts.stored, counts.bytes, &rest(&counts, &skipped));
    stored.and(finished)?;
    let is_whole = counts.too_large == 0 && counts.refused == 0;
    Ok(if is_whole { Outcome::Done } else { Outcome::Missed })
}

fn store_all(
    reader: &mut Reader<File>,
    target: &mut Target,
    pace: &mut Pace,
    skipped: &mut SkipCounts,
    progress: &mut Progress,
) -> Result<()> {
    while let Some(entry) = reader.next_entry()? {
        let Counts { stored, bytes, .. } = target.counts();
        progress.show(reader.offset(), stored, bytes);
        let now = now_unix_secs();
        if entry.deadline_unix_secs.is_some_and(|deadline| deadline <= now) {
            skipped.expired += 1;
            continue;
        }
        pace.wait(1);
        skipped.void += u64::from(!store(reader, &entry, exptime(&entry, now), target)?);
    }
    Ok(())
}

/// Sends an item. Returns false if the dump marks its value as incomplete.
fn store(
    reader: &mut Reader<File>,
    entry: &ReadEntry,
    exptime: i64,
    target: &mut Target,
) -> Result<bool> {
    if !target.begin(entry, exptime)? {
        return Ok(true);
    }
    loop {
        match reader.next_piece() {
            Ok(Piece::Bytes(bytes)) => target.push(bytes)?,
            Ok(Piece::End) => {
                target.end()?;
                return Ok(true);
            }
            Ok(Piece::Void) => {
                target.abandon()?;
                return Ok(false);
            }
            Err(error) => {
                target.abandon()?;
                return Err(error.into());
            }
        }
    }
}

/// Returns the exptime of an item that is not expired. memcached accepts Unix times up to 2038, and
/// treats numbers up to 30 days as a TTL.
fn exptime(entry: &ReadEntry, now: u64) -> i64 {
    let Some(deadline) = entry.deadline_unix_secs else { return 0 };
    let ttl = deadline.saturating_sub(now);
    let exptime = if ttl <= TTL_SECS_MAX { ttl } else { deadline.min(EXPTIME_MAX) };
    i64::try_from(exptime).unwrap_or(0)
}

fn open(path: &Path) -> Result<(File, Option<u64>)> {
    if path.as_os_str() == "-" {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            bail!("stdin is a terminal: name the file of a dump, or redirect the input");
        }
        return Ok((stdin.as_fd().try_clone_to_owned()?.into(), None));
    }
    let cannot = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(cannot)?;
    let found = file.metadata().with_context(cannot)?;
    let bytes = Some(found.len()).filter(|_| found.is_file());
    Ok((file, bytes))
}

fn shown(path: &Path) -> String {
    match path.as_os_str() == "-" {
        true => "stdin".to_owned(),
        false => path.display().to_string(),
    }
}

fn rest(counts: &Counts, skipped: &SkipCounts) -> String {
    let parts = [
        (counts.kept, "already in the server and kept"),
        (skipped.expired, "expired"),
        (skipped.void, "without a complete value"),
        (counts.too_large, "too large for the server (-I)"),
        (counts.refused, "refused"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, why)| format!("; {count} {why}")).collect()
}

/// The longest TTL that is sent as a TTL. A larger number is a Unix time.
const TTL_SECS_MAX: u64 = 60 * 60 * 24 * 30;
/// The largest Unix time that memcached accepts. After a larger one it would execute the value as
/// commands.
const EXPTIME_MAX: u64 = i32::MAX as u64;

#[cfg(test)]
mod tests {
    use larder_dump::{Entry, Writer};

    use super::*;

    #[test]
    fn a_deadline_is_sent_as_a_ttl_up_to_thirty_days_and_never_beyond_2038() {
        let now = 1_700_000_000;
        for (deadline, expected) in [
            (None, 0),
            (Some(now + 1), 1),
            (Some(now + 2_592_000), 2_592_000),
            (Some(now + 2_592_001), 1_702_592_001),
            (Some(u64::MAX), 2_147_483_647),
        ] {
            let mut writer = Writer::new(Vec::new(), now).unwrap();
            let entry = Entry { key: b"k", flags: 0, deadline_unix_secs: deadline, value_bytes: 0 };
            writer.begin(&entry).unwrap();
            let dump = writer.finish().unwrap();
            let entry = Reader::new(&dump[..]).unwrap().next_entry().unwrap().unwrap();
            assert_eq!(exptime(&entry, now), expected, "{deadline:?}");
        }
    }
}
