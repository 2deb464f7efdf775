//! The cost of a get and a set in each dialect, that is, in the text, the meta and the binary
//! protocol: parsing, executing and rendering, without sockets. A request over a socket also has
//! the cost of the kernel, which is the same for all dialects and makes the differences smaller.
#![forbid(unsafe_code)]

mod requests;

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use larder::Wait;
use larder_bench::is_measuring;
use larder_options::{Options, Protocol};
use larder_server::{Allowance, Executor, Next, Output, Server, Session};
use nix::time::{ClockId, clock_gettime};

use requests::{Dialect, KEYS, Operation};

/// Prints the nanoseconds per request, as the median of all rounds. The dialects take turns in a
/// round.
fn main() -> Result<()> {
    let (rounds, repeats) = if is_measuring() { (41, 20) } else { (1, 1) };
    println!(
        "{:<10} {:>6} {:>12} {:>8}   nanoseconds a request, and the ratio to text",
        "operation", "bytes", "dialect", "ns"
    );
    for (operation, value_bytes) in [
        (Operation::Get, 100),
        (Operation::Get, 1024),
        (Operation::Set, 100),
        (Operation::Set, 1024),
    ] {
        let mut measured = vec![Vec::new(); Dialect::ALL.len()];
        for _ in 0..rounds {
            for (dialect, nanoseconds) in Dialect::ALL.iter().zip(&mut measured) {
                nanoseconds.push(one_round(*dialect, operation, value_bytes, repeats)?);
            }
        }
        let medians: Vec<f64> = measured.into_iter().map(median).collect();
        for (dialect, nanoseconds) in Dialect::ALL.iter().zip(&medians) {
            let ratio = nanoseconds / medians[0];
            println!(
                "{:<10} {value_bytes:>6} {:>12} {nanoseconds:>8.1} {ratio:>6.2}",
                operation.name(),
                dialect.name()
            );
        }
    }
    Ok(())
}

/// Requests all keys several times from a new server. Returns the nanoseconds per request.
fn one_round(
    dialect: Dialect,
    operation: Operation,
    value_bytes: usize,
    repeats: usize,
) -> Result<f64> {
    let (options, _) = Options::from_map([("memory_limit", "64")])?;
    let server = Arc::new(Server::new(options)?);
    let mut session = Session::new(&server, 1, Protocol::Auto);
    let executor = Executor::new(server, 0);
    let mut out = Output::default();
    run(&mut session, &executor, &dialect.requests(Operation::Set, value_bytes), &mut out)?;
    let requests = dialect.requests(operation, value_bytes);
    run(&mut session, &executor, &requests, &mut out)?;
    ensure!(
        out.len() == dialect.answer_bytes(operation, value_bytes),
        "{} {}: {} bytes of answers",
        operation.name(),
        dialect.name(),
        out.len()
    );
    let started = processor_time()?;
    for _ in 0..repeats {
        run(&mut session, &executor, &requests, &mut out)?;
    }
    let took = processor_time()? - started;
    Ok(took / (repeats * KEYS) as f64)
}

/// Executes requests in a session; `out` holds the replies afterwards.
fn run(
    session: &mut Session,
    executor: &Executor,
    requests: &[u8],
    out: &mut Output,
) -> Result<()> {
    out.clear();
    let allowance = Allowance {
        commands_max: usize::MAX,
        keys_max: usize::MAX,
        out_bytes_max: usize::MAX,
        is_tight: false,
    };
    let progress = session.receive(executor, Wait::Block, requests, allowance, out);
    ensure!(progress.next == Next::Input && progress.consumed == requests.len(), "{progress:?}");
    Ok(())
}

/// Returns the processor time of this thread, in nanoseconds.
fn processor_time() -> Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().context("no rounds").unwrap_or(f64::NAN)
}
