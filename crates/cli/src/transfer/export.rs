//! `larder export`.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use larder_dump::Writer;
use larder_loadgen::address::Address;
use larder_loadgen::argument::whole;
use larder_loadgen::connect::dialer::AccessArguments;
use larder_protocol::StatsSection;

use super::fetch::{self, Counts, as_message, now_unix_secs};
use super::progress::{Pace, Progress};
use super::salvage::{self, Past};
use super::{directory, memory_file};
use crate::connection::Connection;
use crate::outcome::Outcome;
use crate::source::Source;
use crate::{stats, time_limit};

/// Write the items of a server, a memory file or a disk tier to a dump
///
/// The dump contains values, flags and times to live, but no cas tokens. The export does not count
/// as a use of the items.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, override_usage = USAGE)]
pub(crate) struct Arguments {
    /// With --server: the file to write; - is stdout. Without it: the file of a cache (-e), or the
    /// directory of a disk tier (--tier-path) that no server uses
    // Also accepts an address, the old form of --server.
    #[arg(value_name = "FILE|CACHE")]
    first: PathBuf,
    /// After CACHE: the file to write; - is stdout
    #[arg(value_name = "FILE", conflicts_with = "server")]
    second: Option<PathBuf>,
    /// The server: host[:port], [IPv6][:port], or the path of a Unix socket; the default port is
    /// 11211
    #[arg(short, long, value_name = "ADDR")]
    server: Option<Address>,
    #[command(flatten)]
    access: AccessArguments,
    /// Export only items whose keys begin with this
    #[arg(long, value_name = "PREFIX", default_value = "")]
    prefix: OsString,
    /// Request at most this many items per second
    #[arg(long, value_name = "ITEMS_PER_SEC", value_parser = whole::<u32>(1..=u32::MAX))]
    rate: Option<u32>,
    /// End with exit code 2 if the whole export takes longer
    #[arg(long, value_name = "SECS", value_parser = whole::<u32>(1..=u32::MAX))]
    timeout: Option<u32>,
    /// Continue past damage of a directory, and write these items
    #[arg(long, value_name = "WHICH")]
    past_damage: Option<Past>,
    /// Show no progress and no summary
    #[arg(long)]
    quiet: bool,
}

const USAGE: &str = "\
larder export [OPTIONS] --server <ADDR> <FILE>
       larder export [OPTIONS] <CACHE> <FILE>";

const AFTER_HELP: &str = "\
The source may be any memcached from 1.6.10 on, with TCP or a Unix socket, with TLS (--tls) and a
login (--user), but not one that accepts only the binary protocol (-S). It continues to serve
its clients; --rate limits the load of the export. FILE appears when the dump is complete.

The dump contains the old or the new value of an item that changes during the export. The export
leaves out items that are marked stale, or that a client is loading.

The export of a damaged directory stops. With --past-damage it reports the damage and continues. A
lost record may have been a newer value of any key, a delete or a flush, so items that were written
before it may be out of date. current leaves such items out, readable writes them. Neither writes an
older value of a key whose newest value is known to be damaged.

Examples:
  larder export --server 127.0.0.1:11211 items.dump
  larder export --server /run/larder.sock - | zstd > items.dump.zst
  larder export --server neighbour - --rate 50000 | larder import - --server localhost
  larder export /dev/shm/larder users.dump --prefix user:
  larder export /var/lib/larder/store items.dump
  larder export --server cache7 items.dump --tls --tls-ca authority.pem --user ops

Exit code: 0 done; 1 items are missing in the dump, because their values could not be read
completely, the server does not accept their keys, or the directory is damaged; 2 the dump is
incomplete.";

/// Runs `larder export`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    if let Some(secs) = arguments.timeout {
        time_limit::begin(secs);
    }
    let (first, access) = (&arguments.first, &arguments.access);
    let (source, dump) = match (&arguments.server, &arguments.second) {
        (Some(address), _) => (Source::Server(access.dialer(address)?), first),
        (None, Some(second)) => (Source::open(first, access)?, second),
        // The user may have meant the only path as the cache to export. If there were a default
        // server, the items of that server would overwrite this cache.
        (None, None) => bail!(
            "the source or the destination of the export is missing: name a server with --server \
             ADDR and the dump, or the paths of a cache and of the dump; found only {}",
            first.display()
        ),
    };
    let output = Output::open(dump)?;
    let mut writer = Writer::new(output, now_unix_secs()).map_err(as_message)?;
    let mut progress = Progress::begin("exported", items_of(&source), arguments.quiet);
    let pace = Pace::new(arguments.rate);
    let prefix = arguments.prefix.as_bytes();
    let mut damages = 0;
    let exported = match (&source, arguments.past_damage) {
        (Source::Server(dialer), None) => {
            fetch::export(dialer, prefix, pace, &mut writer, &mut progress)
                .with_context(|| format!("export from {}", dialer.address()))
        }
        (Source::MemoryFile(inspection), None) => {
            memory_file::export(inspection, prefix, pace, &mut writer, &mut progress)
        }
        (Source::Directory(found), None) => {
            directory::export(found, prefix, pace, &mut writer, &mut progress)
                .with_context(|| format!("export from {}", found.path().display()))
        }
        (Source::Directory(found), Some(past)) => {
            let salvaged = salvage::export(found, prefix, past, &mut writer, &mut progress);
            salvaged.map(|(counts, salvaged)| {
                damages = salvaged.damages;
                counts
            })
        }
        (_, Some(_)) => bail!("--past-damage is for the directory of a disk tier"),
    };
    let items = writer.items();
    let counts = exported?;
    writer.finish().map_err(as_message)?.complete()?;
    progress.end(items, counts.bytes, &rest(&counts));
    let is_whole = counts.lost == 0 && counts.unreachable == 0 && damages == 0;
    Ok(if is_whole { Outcome::Done } else { Outcome::Missed })
}

fn rest(counts: &Counts) -> String {
    let parts = [
        (counts.gone, "gone during the export"),
        (counts.stale, "stale or being loaded, left out"),
        (counts.lost, "not read to the end"),
        (counts.unreachable, "with binary keys that the server does not accept"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, why)| format!("; {count} {why}")).collect()
}

/// Returns the number of items, for the progress bar.
fn items_of(source: &Source) -> Option<u64> {
    match source {
        Source::MemoryFile(inspection) => Some(inspection.report().items),
        // The 1 is not a number of items. It only makes the progress bar appear; the total is known
        // when the export reads the directory.
        Source::Directory(_) => Some(1),
        Source::Server(dialer) => {
            // Without statistics there is no bar; the export itself reports the problem.
            let mut connection = Connection::open(dialer).ok()?;
            let lines = stats::ask(&mut connection, StatsSection::General).ok()?;
            lines.iter().find(|line| line.name == "curr_items")?.value.parse().ok()
        }
    }
}

/// The file or pipe that receives the dump.
#[derive(Debug)]
enum Output {
    /// Stdout, or a file that is not regular.
    Stream(File),
    /// The file under a temporary name, and its final name.
    File { file: File, part: PathBuf, path: PathBuf },
}

impl Output {
    fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            let stdout = io::stdout();
            if stdout.is_terminal() {
                bail!(
                    "a dump is not text, so it is not written to a terminal: name a file, or \
                redirect the output"
                );
            }
            // Rust's stdout is buffered by line, which would split the dump into many writes.
            return Ok(Self::Stream(stdout.as_fd().try_clone_to_owned()?.into()));
        }
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(path);
            let file = file.with_context(|| format!("cannot write {}", path.display()))?;
            return Ok(Self::Stream(file));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        // Values may be confidential, so that only the owner may read the dump.
        let mut file = OpenOptions::new();
        file.write(true).create(true).truncate(true).mode(0o600);
        let file = file.open(&part).with_context(|| format!("cannot write {}", part.display()))?;
        time_limit::set_unfinished(Some(&part));
        Ok(Self::File { file, part, path: path.to_owned() })
    }

    /// Renames a complete dump to its final name.
    fn complete(mut self) -> Result<()> {
        if let Self::File { file, part, path } = &mut self {
            file.sync_all().with_context(|| format!("cannot write {}", part.display()))?;
            fs::rename(&*part, &*path)
                .with_context(|| format!("cannot name {}", path.display()))?;
            part.clear();
            time_limit::set_unfinished(None);
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(file) | Self::File { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Output {
    /// Removes an incomplete dump.
    fn drop(&mut self) {
        if let Self::File { part, .. } = self
            && part.as_os_str() != ""
        {
            // The error is already reported, and the file only takes space.
            let _ = fs::remove_file(part);
        }
    }
}
