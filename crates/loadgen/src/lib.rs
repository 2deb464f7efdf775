//! `larder bench`: a load generator for memcached's protocols.
//!
//! ```text
//! options ─▶ Plan (measure) ─▶ Load, one a thread ─▶ Tally, Series ─▶ report: text, JSON, HTML
//!                               │      request: content (ask, draw, sizes) and time (schedule)
//!                               └▶ wire: Pipeline over a Channel (plain, TLS, datagrams)
//! ```
//! A *load* is the work of one thread: its connections and the requests that it sends. In an *open
//! loop* requests are due at fixed times, whether or not the server keeps up; in a *closed loop* a
//! connection sends its next requests when the previous ones have responses. A *tally* is the sum
//! of all counts of a run. A *series* has the counts of each second. A *dialect* is one of the
//! three protocols: text, meta or binary.
//!
//! A load thread waits only in its epoll. Latency counts from the time at which a request was due.
//! The modules from the top down. Each imports only modules below it:
//!
//! | module | contents |
//! |---|---|
//! | `arguments` | the command line |
//! | `compare` | runs against several servers in turn |
//! | `report` | the text, JSON and HTML reports |
//! | `measure` | the load threads, time series, the live display |
//! | `wire` | non-blocking connections, datagrams, dialects, pending requests |
//! | `request` | keys, values and the times at which requests are due |
//! | `options` | the options of a load |
//! | `connect` | blocking connections, TLS, logins |
//! | `address`, `argument`, `mix`, `outcome`, `sizes`, `skewed`, `tally`, `trace`, `units`, `value` | addresses and numbers of the command line; random numbers, the outcome of a subcommand, sizes of values, keys of a Zipf distribution, counts, traces, units, values |
//!
//! The tool's other subcommands share [`address`], [`argument`], [`mod@connect`], [`mod@mix`],
//! [`trace`] and [`value`].

#![forbid(unsafe_code)]

pub mod address;
pub mod argument;
mod arguments;
mod compare;
pub mod connect;
#[cfg(test)]
mod fixtures;
mod measure;
pub mod mix;
mod options;
mod outcome;
mod report;
mod request;
mod sizes;
mod skewed;
mod tally;
pub mod trace;
mod units;
pub mod value;
mod wire;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

pub use arguments::Arguments;
use arguments::Verb;
use measure::Plan;
use measure::live::Live;
use measure::stop::Stop;
pub use outcome::Outcome;
use report::{Report, html};

/// Runs `larder bench`. Writes its report to stdout.
///
/// # Errors
/// The options contradict each other, a file cannot be used, or all connections to the server have
/// failed.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    run_to(arguments, &mut std::io::stdout())
}

/// Runs `larder bench` and writes its report to `output`.
///
/// # Errors
/// Same as [`run`]; also errors of `output`.
pub fn run_to(arguments: &Arguments, output: &mut impl Write) -> Result<Outcome> {
    if let Some(Verb::Compare(arguments)) = &arguments.verb {
        return compare::run(arguments, output);
    }
    let load = &arguments.load;
    load.check()?;
    let stop = Stop::on_signals(false)?;
    let plan = Plan::new(load, &stop, None)?;
    if load.insecure {
        eprintln!(
            "larder: warning: --insecure accepts any certificate: the server's identity is not checked"
        );
    }
    let page = arguments.html.as_deref().map(create).transpose()?;
    let mut live = Live::new("");
    let at = || format!("bench at {}", load.server.server);
    live.say("storing all keys");
    plan.store_keys().with_context(at)?;
    let measured = plan.measure(&mut live).with_context(at)?;
    let report = Report::new(load, &measured, stop.is_asked());
    match arguments.json {
        true => writeln!(output, "{}", report.json())?,
        false => write!(output, "{}", report.text())?,
    }
    if let Some(mut page) = page {
        page.write_all(html::page(&report).as_bytes()).context("cannot write the report")?;
    }
    if let Some(reason) = &measured.tally.failed {
        return Err(plan.failure(reason)).with_context(at);
    }
    Ok(if measured.tally.is_sound() { Outcome::Done } else { Outcome::Missed })
}

/// Creates the file before the measurement, so that an unwritable path fails immediately and not
/// after an hour.
fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}
