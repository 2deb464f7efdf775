//! The process stays within `-m` plus a constant, regardless of what it stores.

use std::io::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::stat::stat;
use larder_testkit::{ServerUnderTest, Stream, Transport};

use crate::binary;

const MIB: u64 = 1 << 20;
const LIMIT_BYTES: u64 = 64 * MIB;
/// Code, stacks, connection buffers and memory that the allocator keeps.
const CONSTANT_BYTES: u64 = 24 * MIB;

/// Pseudo-random keys and value lengths, the same in every run.
struct Stores {
    state: u64,
}

impl Stores {
    fn next(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % below
    }

    /// Stores values of these lengths under this many keys until their total is this many bytes.
    fn send(
        &mut self,
        stream: &mut Stream,
        lengths: Range<u64>,
        key_count: u64,
        bytes: u64,
    ) -> Result<()> {
        let value = vec![b'v'; usize::try_from(lengths.end)?];
        let mut sent_bytes = 0;
        while sent_bytes < bytes {
            let mut batch = Vec::new();
            while batch.len() < 100_000 {
                let key = self.next(key_count);
                if self.next(10) == 0 {
                    write!(batch, "delete key{key} noreply\r\n")?;
                    continue;
                }
                let length = lengths.start + self.next(lengths.end - lengths.start);
                write!(batch, "set key{key} 0 0 {length} noreply\r\n")?;
                batch.extend_from_slice(&value[..usize::try_from(length)?]);
                batch.extend_from_slice(b"\r\n");
            }
            stream.write_all(&batch)?;
            sent_bytes += batch.len() as u64;
        }
        stream.ask(b"version\r\n", b"\r\n")?;
        Ok(())
    }
}

#[test]
fn a_server_filled_several_times_over_takes_no_more_than_it_may() -> Result<()> {
    let binary = binary();
    let server = ServerUnderTest::start(&binary, Transport::Unix, &["-m", "64"])?;
    let mut stream = server.connect()?;
    let mut stores = Stores { state: 1 };
    for (lengths, key_count) in [
        (0..100, 2_000_000),
        (100..5_000, 100_000),
        (5_000..100_000, 5_000),
        (100_000..1_000_000, 500),
        (0..200, 2_000_000),
        (0..1_000_000, 1_000),
        (0..20_000, 50_000),
    ] {
        stores.send(&mut stream, lengths.clone(), key_count, 3 * LIMIT_BYTES)?;
        let rss_bytes = server.rss_bytes()?;
        ensure!(
            rss_bytes <= LIMIT_BYTES + CONSTANT_BYTES,
            "{} MiB after values of {lengths:?} bytes",
            rss_bytes / MIB
        );
        let bytes = stat(&mut stream, "", "bytes")?;
        ensure!(
            (LIMIT_BYTES / 4..=LIMIT_BYTES).contains(&bytes),
            "{bytes} bytes of items after values of {lengths:?} bytes"
        );
    }
    ensure!(stat(&mut stream, "", "evictions")? > 0, "all of that should not fit");
    Ok(())
}

/// Returns the peak memory of the process.
fn peak_bytes(server: &ServerUnderTest) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).context("no VmHWM")?;
    Ok(kib.parse::<u64>()? * 1024)
}

#[test]
fn long_appends_and_prepends_take_no_memory_beside_the_cache() -> Result<()> {
    const LIMIT_BYTES: u64 = 128 * MIB;
    let binary = binary();
    let args = ["-m", "128", "-I", "60m"];
    let server = ServerUnderTest::start(&binary, Transport::Unix, &args)?;
    let mut stream = server.connect()?;
    let part = vec![b'v'; 25 << 20];
    for (word, reply) in
        [("set", "STORED"), ("append", "STORED"), ("set", "STORED"), ("prepend", "STORED")]
    {
        stream.write_all(format!("{word} k 0 0 {}\r\n", part.len()).as_bytes())?;
        stream.write_all(&part)?;
        let answer = stream.ask(b"\r\n", b"\r\n")?;
        ensure!(answer == format!("{reply}\r\n").as_bytes(), "{word}: {}", answer.escape_ascii());
    }
    let answer = stream.ask(b"mg k s\r\n", b"\r\n")?;
    ensure!(
        answer == format!("HD s{}\r\n", 2 * part.len()).as_bytes(),
        "{}",
        answer.escape_ascii()
    );
    // All memory is touched, so that any excess is noticed. Items are rarely stored again, because
    // eviction may have to drop a value of this size while more data arrives for it, in addition to
    // items in use.
    Stores { state: 1 }.send(&mut stream, 100..5_000, 10_000_000, 3 * LIMIT_BYTES)?;
    for word in ["set", "append", "set", "prepend"] {
        stream.write_all(format!("{word} k 0 0 {}\r\n", part.len()).as_bytes())?;
        stream.write_all(&part)?;
        ensure!(stream.ask(b"\r\n", b"\r\n")? == b"STORED\r\n", "{word}");
    }
    let peak_bytes = peak_bytes(&server)?;
    ensure!(peak_bytes <= LIMIT_BYTES + CONSTANT_BYTES, "{} MiB", peak_bytes / MIB);
    Ok(())
}

/// Stores until `stop` is set. Returns how many stores were answered and the duration of the
/// longest one.
fn store_on(stream: &mut Stream, stop: &AtomicBool) -> Result<(usize, Duration)> {
    let value = "v".repeat(4000);
    let (mut count, mut longest) = (0, Duration::ZERO);
    while !stop.load(Relaxed) {
        let set = format!("set other{} 0 0 {}\r\n{value}\r\n", count % 10_000, value.len());
        let begun = Instant::now();
        let answer = stream.ask(set.as_bytes(), b"\r\n")?;
        longest = longest.max(begun.elapsed());
        ensure!(answer == b"STORED\r\n", "store {count}: {}", answer.escape_ascii());
        count += 1;
    }
    Ok((count, longest))
}

#[test]
fn a_lower_limit_is_reached_while_stores_continue() -> Result<()> {
    const LONGEST: Duration = Duration::from_millis(250);
    let binary = binary();
    let args = ["-m", "1024", "-t", "2"];
    let server = ServerUnderTest::start(&binary, Transport::Unix, &args)?;
    let mut stream = server.connect()?;
    Stores { state: 1 }.send(&mut stream, 200..400, 4_000_000, 1400 * MIB)?;
    let before = server.rss_bytes()?;
    ensure!(before > 700 * MIB, "{} MiB are filled", before / MIB);
    let (stop, mut other) = (AtomicBool::new(false), server.connect()?);
    let (took, stored) = thread::scope(|scope| -> Result<_> {
        let storing = scope.spawn(|| store_on(&mut other, &stop));
        let begun = Instant::now();
        let answer = stream.ask(b"cache_memlimit 64\r\n", b"\r\n")?;
        let took = begun.elapsed();
        ensure!(answer == b"OK\r\n", "{}", answer.escape_ascii());
        while server.rss_bytes()? > 64 * MIB + CONSTANT_BYTES {
            let rss = server.rss_bytes()? / MIB;
            if begun.elapsed() > Duration::from_secs(60) {
                stop.store(true, Relaxed);
                anyhow::bail!("{rss} MiB after a minute");
            }
            sleep(Duration::from_millis(20));
        }
        stop.store(true, Relaxed);
        Ok((took, storing.join().expect("the storing thread does not panic")?))
    })?;
    println!("answered after {took:?}; {} stores, the longest took {:?}", stored.0, stored.1);
    ensure!(took < LONGEST, "{took:?}, {:?}", stored.1);
    ensure!(stored.1 < LONGEST, "{took:?}, {:?}", stored.1);
    ensure!(stat(&mut stream, "", "limit_maxbytes")? == 64 * MIB);
    Ok(())
}
