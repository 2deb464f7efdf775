//! `larder doctor`: reports the problems of a server or a memory file, and their remedies.
//!
//! `facts.rs` queries the server and its machine. Each other file is a family of rules: functions
//! that examine the facts and return a sentence. A rule reports only a problem that the facts
//! prove.
//!
//! | file | findings |
//! |---|---|
//! | `memory.rs` | memory that is too small or exceeds a limit, stores that were refused |
//! | `connections.rs` | connections that were refused or had to wait |
//! | `buffers.rs` | connections that the server closed because the buffers were full |
//! | `event_loop.rs` | workers that use epoll although the kernel has io_uring |
//! | `pages.rs` | memory without huge pages |
//! | `restart.rs` | items that a restart would lose |
//! | `disk.rs` | a disk tier that is full, failed, slow, damaged, or does not fit its options |
//! | `near.rs` | a near cache whose origin is gone or silent, or whose copies are of little use |
//! | `followers.rs` | near caches that an origin serves badly |
//! | `discovery.rs` | a list of servers for clients that cannot be renewed |
//! | `memory_file.rs` | the state of a memory file |

mod buffers;
mod connections;
mod discovery;
mod disk;
mod event_loop;
mod facts;
mod followers;
mod memory;
mod memory_file;
mod near;
mod pages;
mod restart;
mod service;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Result, bail};
use larder_loadgen::address::ServerArgument;
use larder_loadgen::argument::Quoted;
use larder_loadgen::connect::dialer::AccessArguments;

use crate::outcome::Outcome;
use crate::source::Source;
use crate::time_limit::TimeLimit;
use facts::Facts;

/// Report the problems of a server or a memory file, and their remedies
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The file of a cache (-e), instead of --server
    // The old form of --server is also accepted here.
    #[arg(value_name = "FILE", conflicts_with = "server")]
    file: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgument,
    /// Leave out findings with this name
    #[arg(long, value_name = "NAME")]
    ignore: Vec<String>,
    #[command(flatten)]
    limit: TimeLimit,
    #[command(flatten)]
    access: AccessArguments,
}

const AFTER_HELP: &str = "\
Prints a line for each finding: its name, the problem, the remedy. Counters count since the start
of the server, or since the last `stats reset`. The process itself is examined only if the server
runs on this machine.

Examples:
  larder doctor
  larder doctor --server /run/larder.sock --ignore restart
  larder doctor /dev/shm/larder
  larder doctor --server cache7 --tls --tls-ca authority.pem --user ops --password-file password

Exit code: 0 nothing found; 1 findings; 2 the server or file could not be examined.";

/// A sentence with a problem and its remedy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The name of the finding, for `--ignore`.
    name: &'static str,
    sentence: String,
}

impl Finding {
    fn new(name: &'static str, sentence: String) -> Self {
        Self { name, sentence }
    }
}

/// Examines the facts for one kind of problem, and describes the problem if it exists.
type Rule = fn(&Facts) -> Option<Finding>;

const RULES: &[&[Rule]] = &[
    memory::RULES,
    connections::RULES,
    buffers::RULES,
    event_loop::RULES,
    pages::RULES,
    restart::RULES,
    disk::RULES,
    near::RULES,
    followers::RULES,
    discovery::RULES,
];

/// The names of all findings, for `--ignore`.
const NAMES: &[&str] = &[
    "memory-small",
    "memory-limit",
    "memory-refused",
    "value-too-large",
    "connections-limit",
    "buffers-limit",
    "no-io-uring",
    "no-huge-pages",
    "restart",
    "disk-failed",
    "disk-full",
    "disk-index-full",
    "disk-index-small",
    "disk-drops",
    "disk-unreadable",
    "disk-slow",
    "disk-file-system",
    "disk-space",
    "disk-stop",
    "disk-clock",
    "near-unreachable",
    "near-passes",
    "near-timed",
    "near-late",
    "near-weights",
    "near-silent",
    "near-streams-lost",
    "near-flushed",
    "near-keys-full",
    "near-buckets",
    "near-changes",
    "near-detached",
    "followers-slow",
    "followers-many",
    "followers-unnoted",
    "servers-stale",
    "file-old",
    "file-killed",
];

/// Runs `larder doctor`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    arguments.limit.begin();
    if let Some(unknown) = arguments.ignore.iter().find(|name| !NAMES.contains(&name.as_str())) {
        bail!("unknown finding {}, expected one of {}", Quoted::text(unknown), NAMES.join(", "));
    }
    let access = &arguments.access;
    let source = match &arguments.file {
        Some(file) => Source::open(file, access)?,
        None => Source::Server(access.dialer(&arguments.server.server)?),
    };
    let found = match source {
        Source::MemoryFile(inspection) => memory_file::examine(&inspection),
        Source::Directory(found) => {
            bail!("{} is a directory: check it with larder fsck", found.path().display())
        }
        Source::Server(dialer) => {
            let facts = Facts::ask(&dialer)?;
            RULES.iter().flat_map(|rules| rules.iter()).filter_map(|rule| rule(&facts)).collect()
        }
    };
    let is_wanted = |finding: &&Finding| !arguments.ignore.iter().any(|name| name == finding.name);
    let mut out = io::stdout().lock();
    let mut outcome = Outcome::Done;
    for Finding { name, sentence } in found.iter().filter(is_wanted) {
        debug_assert!(NAMES.contains(name), "{name}");
        writeln!(out, "{name}: {sentence}")?;
        outcome = Outcome::Missed;
    }
    if outcome == Outcome::Done {
        writeln!(out, "nothing found")?;
    }
    Ok(outcome)
}

/// Returns a share in percent.
fn percent(part: u64, whole: u64) -> u64 {
    (part * 100).checked_div(whole).unwrap_or(0)
}
