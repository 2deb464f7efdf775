//! `larder warm`: copies items from running servers to one that joins them, or that takes over keys
//! of one that leaves. docs/decisions/0047 describes the protocol and names its rules. A comment
//! here names the rule that the code keeps.
//!
//! ```text
//! plan ─▶ which keys move ─▶ source: list, follow, fetch ─▶ target: store, drop
//! ```
//!
//! Each source has a thread. All of them use one connection to the target.

mod copied;
mod plan;
mod progress;
mod servers;
mod source;
mod target;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use larder_loadgen::argument::{counted, whole};
use larder_loadgen::connect::dialer::{AccessArguments, Dialer};
use larder_protocol::StatsSection;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::connection::Connection;
use crate::outcome::Outcome;
use crate::stats;
use crate::transfer::keys::KeyList;
use crate::transfer::progress::{Pace, Progress};
use plan::Plan;
use progress::Shared;
use source::Source;
use target::{Requests, Target, Use};

/// Copy to a server, from its running neighbours, the items that will belong to it
///
/// The clients divide the keys among the servers by ketama, as libmemcached does. Start this before
/// the clients use the new list of servers.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The servers that clients use now: A,B,C, or @FILE with a server on each line. A server is
    /// host, host:port, host:port:weight, [IPv6]:port or the path of a Unix socket, named as
    /// clients name it
    #[arg(long, value_name = "LIST")]
    from: String,
    /// The servers that clients will use; the default is --from and --self
    #[arg(long, value_name = "LIST")]
    to: Option<String>,
    /// The server to which the items are copied, named as in --to
    #[arg(long = "self", value_name = "HOST")]
    target: String,
    /// How clients divide the keys: ketama, the consistent hashing of libmemcached and its bindings
    #[arg(long, value_enum, default_value = "ketama")]
    ring: RingKind,
    /// Copy at most this many items per second from each source; 0: as many as possible, which
    /// slows its clients down
    #[arg(
        long, value_name = "ITEMS_PER_SEC", default_value_t = 50_000,
        value_parser = whole::<u32>(0..=u32::MAX)
    )]
    rate: u32,
    /// End this long after everything is copied, instead of at a signal
    #[arg(long, value_name = "SECS", value_parser = whole::<u32>(0..=u32::MAX))]
    hold: Option<u32>,
    /// Copy all items of one server, and keep the target equal to it until the end: a standby that
    /// no client uses. It keeps its items if the server is lost
    #[arg(long, conflicts_with = "to")]
    standby: bool,
    /// Show no progress and no summary
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    access: AccessArguments,
}

/// How clients divide the keys.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum RingKind {
    Ketama,
}

const AFTER_HELP: &str = "\
1. Start the new server, and larder warm.
2. It reports that everything is copied, and continues to follow the sources: an item that changes
   there is removed from the target and copied again.
3. Give the clients the new list.
4. End larder warm by Ctrl-C or SIGTERM (or let --hold end it). It exits after it has handled every
   change that the sources made before.

The copy never brings back an old value. The target refuses items whose keys clients have changed
there since the copy began, and items that it has from an earlier list are removed first. If the copy
fails, or is interrupted before everything is copied, the target removes the items that it has
copied. Items keep their flags and expire when their originals do; their cas tokens are new.

The sources must be larderd with --followers, of which the copy takes one place each. While clients
disagree about the list, a client with the old list that writes a key does not see writes of a
client with the new list, and the other way round, as without a copy.

When a server leaves, copy its items to each of the others before clients use the new list:
  larder warm --from A,B,C,D --to A,B,C --self A

With --standby the target is a copy of one server:
  larder warm --standby --from cache-1 --self spare
Its lag is up to 10 ms for items that it has, and up to ten times the duration of a listing of all
keys for new ones. Use it to keep a copy of a durable store on another machine.

Examples:
  larder warm --from cache-1,cache-2,cache-3 --self cache-4
  larder warm --from cache-1,cache-2,cache-3 --self cache-4 --rate 0
  larder warm --from @servers.before --to @servers.after --self cache-2 --hold 60

Exit code: 0 done; 1 some items could not be copied; 2 the copy has failed, and the target removes
its items.";

/// Runs `larder warm`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let RingKind::Ketama = arguments.ring;
    let (to, use_of_target) = (arguments.to.as_deref(), use_of(arguments));
    let plan = match use_of_target {
        Use::Standby => Plan::standby(&arguments.from, &arguments.target)?,
        Use::Member => Plan::new(&arguments.from, to, &arguments.target)?,
    };
    let dial = |address| arguments.access.dialer(address);
    let shared = Shared::default();
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&shared.is_interrupted)).context("signals")?;
    }
    let dialer = dial(&plan.target().address)?;
    let target = Mutex::new(Target::begin(&dialer, use_of_target)?);
    let mut sources = Vec::new();
    for (number, member) in plan.sources() {
        let dialer = dial(&member.address)?;
        sources.push(Source::open(dialer, number, &plan, &shared, &target)?);
    }
    if sources.is_empty() {
        bail!("--from names no other server than --self");
    }
    let total = sources.iter().map(|source| items_of(source.dialer())).sum::<Option<u64>>();
    let mut progress = Progress::begin("copied", total, arguments.quiet);
    let standby = arguments.standby.then_some(&dialer);
    if standby.is_none() {
        remove_leftovers(&plan, &dialer, &target)?;
    }
    let rate = Some(arguments.rate).filter(|rate| *rate > 0);
    let ended = thread::scope(|scope| {
        let count = sources.len() as u64;
        for source in sources {
            let shared = &shared;
            scope.spawn(move || {
                if let Err(error) = copy_and_follow(source, shared, rate, standby) {
                    shared.fail(error);
                }
            });
        }
        let ended = watch(arguments, &shared, &target, count, &mut progress);
        if ended.is_err() {
            shared.fail(anyhow!("the copy was ended"));
        }
        ended
    });
    if let Some(error) = ended.err().or_else(|| shared.error()) {
        progress.clear();
        let fate = match arguments.standby {
            true => "the standby keeps its items, and is no longer kept up to date",
            false => "the copy has failed; the target removes what was copied",
        };
        return Err(error.context(fate));
    }
    let mut target = target.into_inner().unwrap_or_else(PoisonError::into_inner);
    target.end()?;
    let numbers = shared.numbers();
    progress.end(numbers.copied, numbers.bytes, &rest(&shared, &target));
    let is_whole = numbers.left_out + numbers.unreadable + target.refused == 0;
    Ok(if is_whole { Outcome::Done } else { Outcome::Missed })
}

/// Copies the items of a source, and follows it until the copy ends.
fn copy_and_follow(
    mut source: Source<'_>,
    shared: &Shared,
    rate: Option<u32>,
    standby: Option<&Dialer>,
) -> Result<()> {
    let began = Instant::now();
    let mut since = source.copy(None, Pace::new(rate))?;
    if let Some(standby) = standby {
        source.remove_others(standby)?;
    }
    shared.complete();
    let mut listing = began.elapsed();
    let mut listed = Instant::now();
    while !shared.is_ending() {
        shared.check()?;
        source.follow()?;
        // Clients with the old list have stored further items.
        if listed.elapsed() > (listing * LISTING_PAUSE).max(LISTING_PAUSE_MIN) {
            let began = Instant::now();
            since = source.copy(Some(since), Pace::new(rate))?;
            (listing, listed) = (began.elapsed(), Instant::now());
        }
        thread::sleep(FOLLOW_PAUSE);
    }
    if standby.is_some() {
        // If the source does not change any more, the standby is now equal to it.
        source.copy(Some(since), Pace::new(rate))?;
        return source.settle();
    }
    source.catch_up()
}

/// Shows the progress, keeps the copy of the target open, and decides when it ends.
fn watch(
    arguments: &Arguments,
    shared: &Shared,
    target: &Mutex<Target>,
    sources: u64,
    progress: &mut Progress,
) -> Result<()> {
    let mut copied_at = None;
    loop {
        thread::sleep(WATCH_PAUSE);
        if shared.has_failed() {
            return Err(shared.error().unwrap_or_else(|| anyhow!("a source has failed")));
        }
        target
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .execute(&mut Requests::new(use_of(arguments)))?;
        let numbers = shared.numbers();
        progress.show(numbers.listed, numbers.copied, numbers.bytes);
        let is_interrupted = shared.is_interrupted.load(Relaxed);
        let Some(copied_at) = copied_at else {
            if is_interrupted {
                bail!("interrupted before everything was copied");
            }
            if numbers.complete == sources {
                copied_at = Some(Instant::now());
                announce(arguments, numbers.copied, progress);
            }
            continue;
        };
        let held = Instant::duration_since(&Instant::now(), copied_at);
        let is_over = arguments.hold.is_some_and(|secs| held.as_secs() >= u64::from(secs));
        if is_interrupted || is_over {
            shared.end();
            return Ok(());
        }
    }
}

fn use_of(arguments: &Arguments) -> Use {
    match arguments.standby {
        true => Use::Standby,
        false => Use::Member,
    }
}

fn announce(arguments: &Arguments, copied: u64, progress: &Progress) {
    if arguments.quiet {
        return;
    }
    let copied = counted(copied, "item");
    progress.print(&match arguments.hold {
        None if arguments.standby => {
            format!("{copied} copied; the standby is kept up to date until Ctrl-C or SIGTERM")
        }
        None => format!(
            "{copied} copied; following the sources: give the clients the new list, then end this \
             with Ctrl-C or SIGTERM"
        ),
        Some(secs) => format!("{copied} copied; following the sources for {secs} s"),
    });
}

/// Removes items of the target that are left from an earlier list of servers. Their originals may
/// have changed since.
fn remove_leftovers(plan: &Plan, dialer: &Dialer, target: &Mutex<Target>) -> Result<()> {
    let mut target = target.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut keys, mut key) = (KeyList::begin(dialer)?, Vec::new());
    let mut requests = Requests::new(Use::Member);
    while keys.next(&mut key)? {
        if plan.is_leftover(&key) {
            requests.drop(&key);
        }
        if requests.are_many() {
            target.execute(&mut requests)?;
        }
    }
    target.execute(&mut requests)
}

fn rest(shared: &Shared, target: &Target) -> String {
    let numbers = shared.numbers();
    let parts = [
        (numbers.dropped, "removed again, because they changed"),
        (target.kept, "not stored, because clients had changed them at the target"),
        (numbers.left_out, "left out: stale, too large or with a key that the target refuses"),
        (numbers.unreadable, "not read from the disks of the sources"),
        (target.refused, "refused by the target"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, why)| format!("; {count} {why}")).collect()
}

/// Returns the number of items of a server, for the progress bar. Without it there is no bar.
fn items_of(dialer: &Dialer) -> Option<u64> {
    let mut connection = Connection::open(dialer).ok()?;
    let lines = stats::ask(&mut connection, StatsSection::General).ok()?;
    lines.iter().find(|line| line.name == "curr_items")?.value.parse().ok()
}

const WATCH_PAUSE: Duration = Duration::from_millis(100);

/// How long a change of a source may wait before it is handled.
const FOLLOW_PAUSE: Duration = Duration::from_millis(10);

/// The keys of a source are listed again after this many times the duration of the last list.
const LISTING_PAUSE: u32 = 10;
const LISTING_PAUSE_MIN: Duration = Duration::from_millis(500);
