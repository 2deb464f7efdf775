//! The cost of a get that reads larderd's memory from another process, compared with a get through
//! its Unix socket; the cost of these readers for the server's writers; and the cost of shareable
//! memory for all requests.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder::Client;
use larder_bench::{Draws, binary, is_measuring};
use larder_testkit::{Address, ServerUnderTest, Transport};
use nix::time::{ClockId, clock_gettime};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Zipf};

const VALUE_BYTES: usize = 100;
/// This many items fit into the processor's caches.
const FEW: u64 = 1000;
/// A near cache copies this many items.
const COPIES: u64 = 100_000;

/// The size of the measurement: the numbers of items, of reads in a round, of rounds and of reads
/// through the socket, and how long the server's writers are measured.
struct Extent {
    items: u64,
    reads: usize,
    rounds: usize,
    socket_reads: u64,
    writing: Duration,
}

const MEASURED: Extent = Extent {
    items: 1_000_000,
    reads: 1_000_000,
    rounds: 9,
    socket_reads: 50_000,
    writing: Duration::from_secs(4),
};
const TRIED: Extent = Extent {
    items: 1000,
    reads: 1000,
    rounds: 1,
    socket_reads: 100,
    writing: Duration::from_millis(50),
};

fn main() -> Result<()> {
    let extent = if is_measuring() { MEASURED } else { TRIED };
    let Ok(larderd) = binary("LARDERD") else {
        ensure!(!is_measuring(), "LARDERD is not set: `make bench NAME=local` sets it");
        return Ok(());
    };
    let args = ["--local-readers", "same-uid", "-m", "512", "-t", "2"];
    let server = ServerUnderTest::start(&larderd, Transport::Unix, &args)?;
    let Address::Unix(path) = server.address() else { bail!("the server has no Unix socket") };
    fill(path, extent.items)?;
    let client = Client::connect(path)?;
    ensure!(client.reads_memory(), "the client cannot read the server's memory: {}", server.log());

    println!(
        "{} items of {VALUE_BYTES} bytes; nanoseconds a get, median of {} rounds",
        extent.items, extent.rounds
    );
    let by_socket = through_the_socket(path, &extent)?;
    println!("through the socket, uniform  {by_socket:>8.0}");
    // The last row shows the cost without waiting for memory.
    let few = extent.items.min(FEW);
    for (name, items, zipf) in [
        ("uniform", extent.items, None),
        ("zipf 1.01", extent.items, Some(1.01)),
        ("few of them", few, None),
    ] {
        let local = in_the_memory(&client, &extent, items, zipf)?;
        println!(
            "in the memory, {name:<12}  {local:>8.1}   {:>5.0} times cheaper",
            by_socket / local
        );
    }
    print_copies(&larderd, &extent)?;
    print_pages(&larderd, path, server.pid(), &extent)?;
    println!("\nsets of a client, with others that read; nanoseconds of the server's time a set");
    let mut alone = f64::NAN;
    for readers in 0..=2 {
        let took = writes_with(readers, &client, path, server.pid(), &extent)?;
        alone = if readers == 0 { took } else { alone };
        println!("{readers} readers  {took:>8.0}   {:>+6.1} %", (took / alone - 1.0) * 100.0);
    }
    Ok(())
}

/// Reads of the copies of a near cache also compare the clock with the end of their freshness.
fn print_copies(larderd: &Path, extent: &Extent) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let origin_path = folder.path().join("origin");
    let args = ["--followers", "1", "--local-readers", "same-uid", "-m", "512", "-t", "2"];
    let origin = ServerUnderTest::start_at(larderd, Address::Unix(origin_path.clone()), &args)?;
    let items = extent.items.min(COPIES);
    fill(&origin_path, items)?;
    let own = Client::connect(&origin_path)?;
    ensure!(own.reads_memory(), "the origin's memory is not read: {}", origin.log());
    let source = format!("--origin={}", origin_path.display());
    let args = [&*source, "--local-readers", "same-uid", "-m", "512", "-t", "2"];
    let near = ServerUnderTest::start(larderd, Transport::Unix, &args)?;
    let Address::Unix(path) = near.address() else { bail!("the server has no Unix socket") };
    let copies = Client::connect(path)?;
    let (deadline, mut value) = (Instant::now() + Duration::from_secs(60), Vec::new());
    for number in 0..items {
        // The first reads fail until the near cache has connected.
        while !copies
            .get_into(key(number), &mut value)
            .is_ok_and(|hit| hit.is_some_and(|hit| hit.is_local))
        {
            value.clear();
            ensure!(Instant::now() < deadline, "{} is not copied: {}", key(number), near.log());
        }
        value.clear();
    }
    println!("\nnanoseconds a get, of larderd's own items and of a near cache's copies");
    for (name, items) in [("uniform", items), ("few of them", items.min(FEW))] {
        let mut ratios = Vec::new();
        let (mut of_own, mut of_copies) = (Vec::new(), Vec::new());
        let short = Extent { rounds: 1, ..*extent };
        for _ in 0..extent.rounds {
            of_own.push(in_the_memory(&own, &short, items, None)?);
            of_copies.push(in_the_memory(&copies, &short, items, None)?);
            ratios.push(of_copies[of_copies.len() - 1] / of_own[of_own.len() - 1]);
        }
        let (of_own, of_copies) = (median(of_own)?, median(of_copies)?);
        println!(
            "{name:<12}  {of_own:>8.1}  {of_copies:>8.1}   {:.3} (asked: 1.05 at most)",
            median(ratios)?
        );
    }
    Ok(())
}

/// Shared memory has small pages on most systems; the private memory of a process has huge ones.
fn print_pages(larderd: &Path, path: &Path, pid: u32, extent: &Extent) -> Result<()> {
    let args = ["-m", "512", "-t", "2"];
    let other = ServerUnderTest::start(larderd, Transport::Unix, &args)?;
    let Address::Unix(other_path) = other.address() else { bail!("the server has no Unix socket") };
    fill(other_path, extent.items)?;
    println!("\nnanoseconds of the server's time a request, 50 at once, uniform");
    println!("operation  memory of its own  others may read");
    for (name, operation) in [("get", Operation::Get), ("set", Operation::Set)] {
        let (mut own, mut shared) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            own.push(served(operation, other_path, other.pid(), extent)?);
            shared.push(served(operation, path, pid, extent)?);
        }
        let (own, shared) = (median(own)?, median(shared)?);
        println!("{name:<9}  {own:>17.0}  {shared:>15.0}   {:.2}", shared / own);
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Operation {
    Get,
    Set,
}

fn key(number: u64) -> String {
    format!("key:{number:08}")
}

fn fill(path: &Path, items: u64) -> Result<()> {
    let mut stream = UnixStream::connect(path)?;
    let value = "v".repeat(VALUE_BYTES);
    for first in (0..items).step_by(1000) {
        let mut lines = String::new();
        for number in first..(first + 1000).min(items) {
            lines += &format!("set {} 0 0 {VALUE_BYTES} noreply\r\n{value}\r\n", key(number));
        }
        stream.write_all((lines + "mn\r\n").as_bytes())?;
        stream.read_exact(&mut [0; 4])?;
    }
    Ok(())
}

/// Returns the time of a get from its request to its response, in nanoseconds.
fn through_the_socket(path: &Path, extent: &Extent) -> Result<f64> {
    let mut stream = UnixStream::connect(path)?;
    let mut draws = Draws::new(7);
    let mut answer =
        vec![0; format!("VALUE {} 0 {VALUE_BYTES}\r\n\r\nEND\r\n", key(0)).len() + VALUE_BYTES];
    let mut rounds = Vec::new();
    for _ in 0..extent.rounds {
        let started = Instant::now();
        for _ in 0..extent.socket_reads {
            let line = format!("get {}\r\n", key(draws.below(extent.items)));
            stream.write_all(line.as_bytes())?;
            stream.read_exact(&mut answer)?;
        }
        rounds.push(started.elapsed().as_nanos() as f64 / extent.socket_reads as f64);
    }
    median(rounds)
}

/// Returns the processor time of a get in nanoseconds, including the client's reports to the
/// server.
fn in_the_memory(client: &Client, extent: &Extent, items: u64, zipf: Option<f64>) -> Result<f64> {
    let mut rng = SmallRng::seed_from_u64(7);
    let zipf = zipf.map(|exponent| Zipf::new(items as f64, exponent)).transpose()?;
    let mut draws = Draws::new(8);
    let keys: Vec<String> = (0..extent.reads)
        .map(|_| match &zipf {
            // Distributes the most popular keys randomly.
            Some(zipf) => key(larder_bench::mix(zipf.sample(&mut rng) as u64) % items),
            None => key(draws.below(items)),
        })
        .collect();
    let mut rounds = Vec::new();
    let mut value = Vec::new();
    for _ in 0..=extent.rounds {
        let started = processor_time()?;
        for key in &keys {
            value.clear();
            let hit = client.get_into(key, &mut value)?;
            ensure!(hit.is_some_and(|hit| hit.is_local), "{key} is not read from the memory");
        }
        rounds.push((processor_time()? - started) / extent.reads as f64);
    }
    // The first round touches memory that this process has not mapped yet.
    median(rounds.split_off(1))
}

/// Returns the server's processor time of a set while others read its memory, in nanoseconds.
fn writes_with(
    readers: usize,
    client: &Client,
    path: &Path,
    pid: u32,
    extent: &Extent,
) -> Result<f64> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for reader in 0..readers {
            let is_over = &is_over;
            scope.spawn(move || {
                let (mut draws, mut value) = (Draws::new(reader as u64), Vec::new());
                while !is_over.load(Relaxed) {
                    value.clear();
                    let _ = client.get_into(key(draws.below(extent.items)), &mut value);
                }
            });
        }
        let took = served(Operation::Set, path, pid, extent);
        is_over.store(true, Relaxed);
        took
    })
}

/// Returns the server's processor time of a request, in nanoseconds.
fn served(operation: Operation, path: &Path, pid: u32, extent: &Extent) -> Result<f64> {
    const AT_ONCE: u64 = 50;
    let stream = UnixStream::connect(path)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let (mut draws, mut requests, mut line) = (Draws::new(9), 0, String::new());
    let value = "w".repeat(VALUE_BYTES);
    let (started, before) = (Instant::now(), time_of(pid)?);
    while started.elapsed() < extent.writing {
        let mut lines = String::new();
        for _ in 0..AT_ONCE {
            let key = key(draws.below(extent.items));
            lines += &match operation {
                Operation::Get => format!("mg {key} v\r\n"),
                Operation::Set => format!("ms {key} {VALUE_BYTES}\r\n{value}\r\n"),
            };
        }
        (&stream).write_all(lines.as_bytes())?;
        for _ in 0..AT_ONCE {
            line.clear();
            answers.read_line(&mut line)?;
            if matches!(operation, Operation::Get) {
                ensure!(line == "VA 100\r\n", "{line}");
                line.clear();
                answers.read_line(&mut line)?;
            } else {
                ensure!(line == "HD\r\n", "{line}");
            }
        }
        requests += AT_ONCE;
    }
    Ok((time_of(pid)? - before) / requests as f64)
}

/// Returns the processor time of a process, in nanoseconds.
fn time_of(pid: u32) -> Result<f64> {
    let mut sum = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let schedstat = fs::read_to_string(thread?.path().join("schedstat"))?;
        let ran = schedstat.split(' ').next().context("a schedstat has three numbers")?;
        sum += ran.parse::<f64>()?;
    }
    Ok(sum)
}

/// Returns the processor time of this thread, in nanoseconds.
fn processor_time() -> Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}

fn median(mut numbers: Vec<f64>) -> Result<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().context("no rounds")
}
