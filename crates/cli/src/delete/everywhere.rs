//! `larder delete --prefix --servers`: removes a prefix from several servers, all or named.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder::KEY_BYTES_MAX;
use larder_loadgen::argument::{Quoted, agree, counted};
use larder_loadgen::connect::dialer::Dialer;

use super::removal::{Removal, State};
use crate::admin::removal::{bar, catch_signals, show_share};
use crate::outcome::Outcome;

/// Removes a prefix from all servers in parallel, for at most `time_max`.
///
/// # Errors
/// The prefix or the list cannot be used, or a server has not removed the prefix. The message names
/// these servers, and a line before it the reason for each.
pub(super) fn run(dialers: &[Dialer], prefix: &[u8], time_max: Duration) -> Result<Outcome> {
    check(dialers, prefix)?;
    let is_interrupted = catch_signals()?;
    let deadline = Instant::now() + time_max;
    let removals = begin(dialers, prefix)?;
    let when = if wait(&removals, deadline, &is_interrupted) {
        "at the interrupt".to_owned()
    } else {
        format!("after {} s", time_max.as_secs())
    };
    report(&removals, prefix, &when)
}

/// Checks the arguments, before the first server receives a request.
fn check(dialers: &[Dialer], prefix: &[u8]) -> Result<()> {
    ensure!(!prefix.is_empty(), "the prefix is empty: flush_all removes all items of a server");
    ensure!(
        prefix.len() <= KEY_BYTES_MAX,
        "the prefix has {} bytes, expected {KEY_BYTES_MAX} at most, as in a key",
        prefix.len()
    );
    ensure!(
        dialers.len() <= SERVERS_MAX,
        "--servers names {} servers, expected {SERVERS_MAX} at most: use several commands",
        dialers.len()
    );
    for (index, dialer) in dialers.iter().enumerate() {
        let address = dialer.address();
        let is_again = dialers[..index].iter().any(|before| before.address() == address);
        ensure!(!is_again, "--servers names {address} twice: name each server once");
    }
    Ok(())
}

/// Starts a thread for each server.
fn begin(dialers: &[Dialer], prefix: &[u8]) -> Result<Vec<Arc<Removal>>> {
    let removals: Vec<_> =
        dialers.iter().map(|dialer| Arc::new(Removal::new(dialer.clone()))).collect();
    for removal in &removals {
        let (removal, prefix) = (removal.clone(), prefix.to_vec());
        thread::Builder::new()
            .name("removal".to_owned())
            .spawn(move || removal.run(&prefix))
            .context("cannot start a thread; some servers may have begun the removal")?;
    }
    Ok(removals)
}

/// Waits until all removals have ended, until the deadline, or for a signal. Returns true if a
/// signal ended the wait.
fn wait(removals: &[Arc<Removal>], deadline: Instant, is_interrupted: &AtomicBool) -> bool {
    let bar = stderr().is_terminal().then(bar);
    let is_signalled = loop {
        let states: Vec<_> = removals.iter().map(|removal| removal.state()).collect();
        let ended = states.iter().filter(|state| state.is_end()).count();
        if ended == states.len() || Instant::now() >= deadline {
            break false;
        }
        if is_interrupted.load(Ordering::Relaxed) {
            break true;
        }
        if let Some(bar) = &bar {
            let shares: f64 = states.iter().map(State::share).sum();
            let message = format!("{ended} of {}", counted(states.len() as u64, "server"));
            show_share(bar, shares / states.len() as f64, message);
        }
        sleep(POLL);
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    is_signalled
}

/// Ends all removals, prints a line for each server, and returns an error that names those that
/// have not removed the prefix.
fn report(removals: &[Arc<Removal>], prefix: &[u8], when: &str) -> Result<Outcome> {
    // All of them before the first line, so that no server begins while the lines are printed.
    let states: Vec<_> = removals.iter().map(|removal| removal.leave()).collect();
    let (mut done, mut missing) = (Vec::new(), Vec::new());
    for (removal, state) in removals.iter().zip(&states) {
        let address = removal.dialer.address().to_string();
        if let State::Done(progress) = state {
            let removed = counted(progress.removed, "item");
            writeln!(stdout(), "{address}: {removed} removed, in {:.1} s", progress.secs)?;
            done.push(address);
        } else {
            eprintln!("larder: {address}: {}", state.unfinished(when));
            missing.push(address);
        }
    }
    if missing.is_empty() {
        return Ok(Outcome::Done);
    }
    let done = if done.is_empty() { "no server".to_owned() } else { done.join(", ") };
    let count = missing.len() as u64;
    bail!(
        "{count} of {} {} not removed the prefix {}: {}; removed by: {done}; repeat the command \
         with --servers {}",
        counted(removals.len() as u64, "server"),
        agree(count, "has", "have"),
        Quoted(prefix),
        missing.join(", "),
        missing.join(","),
    )
}

/// The largest number of servers, each of which has a thread.
const SERVERS_MAX: usize = 1000;

/// Time between two checks of the states.
const POLL: Duration = Duration::from_millis(5);
