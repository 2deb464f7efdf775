//! `-o drop_privileges` with a disk tier. The system call filter must permit the full life of a
//! directory: writes, reclaim, reads, deletes, flushes, a clean stop, which replaces the manifest
//! and writes a cache's index, and a restart.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::Signal;
use larder_testkit::{ServerUnderTest, Stream, Transport};
use tempfile::TempDir;

use crate::binary;

fn start(place: &TempDir, mode: &[&str]) -> Result<(ServerUnderTest, Stream)> {
    let path = place.path().join("items").display().to_string();
    let fixed = ["--tier-path", &path, "--tier-size", "32m", "-m", "4", "-t", "2"];
    let dropped = ["-o", "drop_privileges", "--io=auto"];
    let args = [&fixed, mode, &dropped].concat();
    let binary = binary();
    let server = ServerUnderTest::start(&binary, Transport::Tcp, &args)?;
    let mut stream = server.connect()?;
    // A request for an item waits until the server has opened its directory.
    stream.ask(b"get none\r\n", b"END\r\n")?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !modes(&server)?.iter().all(|mode| mode == "2") {
        ensure!(Instant::now() < deadline, "the filter is not there: {:?}", modes(&server)?);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok((server, stream))
}

/// Returns the seccomp modes of the threads.
fn modes(server: &ServerUnderTest) -> Result<Vec<String>> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid()))?.flatten();
    // A thread that has ended in the meantime has no status.
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let mode = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        Ok(line.context("a line about seccomp")?.trim().to_owned())
    };
    statuses.map(mode).collect()
}

fn stat(stream: &mut Stream, name: &str) -> Result<u64> {
    let answer = String::from_utf8(stream.ask(b"stats larder\r\n", b"END\r\n")?)?;
    let row = answer.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    Ok(row.with_context(|| format!("{name} in {answer}"))?.parse()?)
}

fn value_of(key: u32, round: u32) -> String {
    format!("{key:06}-{round:04} ").repeat(80)
}

fn set(stream: &mut Stream, keys: std::ops::Range<u32>, round: u32) -> Result<()> {
    let set = |key: u32| {
        let value = value_of(key, round);
        format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len())
    };
    // The requests of a pipeline share their syncs.
    for first in keys.clone().step_by(100) {
        let last = keys.end.min(first + 100);
        let sets = (first..last).map(set).collect::<String>() + "mn\r\n";
        let answer = stream.ask(sets.as_bytes(), b"MN\r\n")?;
        let expected = "STORED\r\n".repeat((last - first) as usize) + "MN\r\n";
        ensure!(answer == expected.as_bytes(), "{}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}

/// Counts the existing items, each of which must have the value of the round.
fn hits(stream: &mut Stream, keys: std::ops::Range<u32>, round: u32) -> Result<u32> {
    let mut hits = 0;
    for key in keys {
        let answer = stream.ask(format!("get k{key}\r\n").as_bytes(), b"END\r\n")?;
        let answer = String::from_utf8(answer)?;
        if answer != "END\r\n" {
            ensure!(answer.contains(&value_of(key, round)), "k{key}: {answer}");
            hits += 1;
        }
    }
    Ok(hits)
}

/// Waits until everything is on disk, and asserts that the disk works.
fn settle(stream: &mut Stream) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while stat(stream, "tier_dirty_bytes")? > 0 {
        ensure!(stat(stream, "tier_failed")? == 0, "the disk has failed");
        ensure!(Instant::now() < deadline, "the disk has not got everything after 10 s");
        std::thread::sleep(Duration::from_millis(10));
    }
    ensure!(stat(stream, "tier_failed")? == 0, "the disk has failed");
    Ok(())
}

fn live(mode: &[&str]) -> Result<()> {
    const KEYS: u32 = 6000;
    const ASKED: u32 = 1500;
    let is_store = mode.contains(&"store");
    let place = tempfile::tempdir()?;
    let (server, mut stream) = start(&place, mode)?;
    // More than fits into the log, so that reclaim runs and extents are allocated again.
    let mut round = 0;
    while stat(&mut stream, "tier_segments_reclaimed")? <= 4 {
        round += 1;
        ensure!(round < 100, "nothing is reclaimed");
        // A cache drops items that arrive faster than its disk writes.
        for first in (0..KEYS).step_by(500) {
            set(&mut stream, first..first + 500, round)?;
            settle(&mut stream)?;
        }
    }
    let found = hits(&mut stream, 0..ASKED, round)?;
    ensure!(if is_store { found == ASKED } else { found > ASKED / 4 }, "{found} hits");
    ensure!(stat(&mut stream, "tier_reads")? > 0, "nothing was read from the disk");
    stream.ask(b"delete k0\r\ntouch k1 1000\r\nmn\r\n", b"MN\r\n")?;
    let manifest =
        || -> Result<u64> { Ok(fs::metadata(place.path().join("items/MANIFEST"))?.ino()) };
    let before = manifest()?;
    ensure!(server.stop(Signal::TERM)?.code() == Some(0), "the stop is not clean");
    ensure!(manifest()? != before, "the stop has not replaced the manifest");

    let (server, mut stream) = start(&place, mode)?;
    ensure!(hits(&mut stream, 0..1, 0)? == 0, "a deleted item is back");
    let again = hits(&mut stream, 1..ASKED, round)?;
    ensure!(if is_store { again == ASKED - 1 } else { again > ASKED / 4 }, "{again} hits");
    stream.ask(b"flush_all\r\n", b"OK\r\n")?;
    ensure!(hits(&mut stream, 0..ASKED, 0)? == 0, "a flushed item is there");
    ensure!(server.stop(Signal::USR1)?.code() == Some(0), "the graceful stop is not clean");

    let (server, mut stream) = start(&place, mode)?;
    ensure!(hits(&mut stream, 0..ASKED, 0)? == 0, "a flushed item is back");
    ensure!(server.stop(Signal::TERM)?.code() == Some(0));
    Ok(())
}

#[test]
fn a_store_lives_under_the_filter() -> Result<()> {
    live(&["--tier-mode", "store", "--durability", "interval=5"])
}

#[test]
fn a_store_that_syncs_each_change_lives_under_the_filter() -> Result<()> {
    live(&["--tier-mode", "store", "--durability", "sync"])
}

#[test]
fn a_cache_lives_under_the_filter() -> Result<()> {
    live(&["--tier-mode", "cache"])
}
