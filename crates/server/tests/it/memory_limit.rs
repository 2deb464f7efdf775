//! `-m` as a percentage of the memory limit of the process, in cgroups of this machine.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::stat::stat;
use larder_testkit::{MemoryGroup, Stream};

use crate::binary;

const MIB: u64 = 1 << 20;

/// Stores values of 10,000 bytes until this many MiB were sent.
fn fill(stream: &mut Stream, mebibytes: u64) -> Result<()> {
    let value = vec![b'v'; 10_000];
    for number in 0..mebibytes * MIB / 10_000 {
        write!(stream, "set key{number} 0 0 {} noreply\r\n", value.len())?;
        stream.write_all(&value)?;
        stream.write_all(b"\r\n")?;
    }
    stream.ask(b"version\r\n", b"\r\n")?;
    Ok(())
}

/// Waits until the limit of the cache is this many MiB. Returns the limits on the way.
fn wait_for_limit(stream: &mut Stream, mebibytes: u64) -> Result<Vec<u64>> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut limits = Vec::new();
    loop {
        let limit = stat(stream, "", "limit_maxbytes")?;
        if limits.last() != Some(&limit) {
            limits.push(limit);
        }
        if limit == mebibytes * MIB {
            return Ok(limits);
        }
        ensure!(Instant::now() < deadline, "the limits were {limits:?}, expected {mebibytes} MiB");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_percentage_follows_the_limit_of_the_cgroup() -> Result<()> {
    let Some(group) = MemoryGroup::new(&binary(), "follow", 256) else { return Ok(()) };
    let server = group.start(&["-m", "80%"])?;
    let mut stream = server.connect()?;
    // 80 % are 204.8 MiB, and connections and the process take 98.
    assert_eq!(stat(&mut stream, "", "limit_maxbytes")?, 106 * MIB);
    assert_eq!(stat(&mut stream, "settings", "maxbytes")?, 106 * MIB);
    assert_eq!(stat(&mut stream, "larder", "memory_bound_bytes")?, 256 * MIB);
    assert_eq!(stat(&mut stream, "larder", "memory_followed")?, 1);
    let log = server.log();
    ensure!(log.contains("-m 80% is 106 MiB: the percentage of 256 MiB (memory."), "{log}");
    ensure!(log.contains("larderd follows that limit"), "{log}");

    fill(&mut stream, 150)?;
    let full = server.rss_bytes()?;
    ensure!(full > 100 * MIB, "only {full} bytes are resident");
    group.limit(160)?;
    // 80 % of 160 MiB are 128.
    let limits = wait_for_limit(&mut stream, 30)?;
    ensure!(limits.len() > 10, "the limit fell too fast: {limits:?}");
    fill(&mut stream, 100)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.rss_bytes()? > full - 60 * MIB {
        ensure!(Instant::now() < deadline, "{} of {full} bytes stay", server.rss_bytes()?);
        sleep(Duration::from_millis(50));
    }
    assert_eq!(stat(&mut stream, "larder", "memory_bound_bytes")?, 160 * MIB);

    group.limit(256)?;
    wait_for_limit(&mut stream, 106)?;
    fill(&mut stream, 150)?;
    let log = server.log();
    ensure!(log.contains("which is now 160 MiB (memory."), "{log}");
    ensure!(log.contains("the cache goes from 106 MiB to 30 MiB, by 5 % each second"), "{log}");
    ensure!(log.contains("which is now 256 MiB (memory."), "{log}");
    assert_eq!(group.killed()?, 0);

    stream.ask(b"cache_memlimit 64\r\n", b"OK\r\n")?;
    assert_eq!(stat(&mut stream, "larder", "memory_followed")?, 0);
    let log = server.log();
    ensure!(log.contains("cache_memlimit set 64 MiB, which ends the following of -m 80%"), "{log}");
    group.limit(320)?;
    sleep(Duration::from_millis(2_500));
    assert_eq!(stat(&mut stream, "", "limit_maxbytes")?, 64 * MIB);
    Ok(())
}

#[test]
fn a_file_keeps_the_size_of_the_start() -> Result<()> {
    let Some(group) = MemoryGroup::new(&binary(), "file", 256) else { return Ok(()) };
    let file = group.temporary().join("items");
    let server = group.start(&["-m", "80%", "-e", file.to_str().context("not UTF-8")?])?;
    let log = server.log();
    ensure!(log.contains("stays until the next start, because -e fixes the memory"), "{log}");
    group.limit(512)?;
    sleep(Duration::from_millis(2_500));
    let mut stream = server.connect()?;
    assert_eq!(stat(&mut stream, "", "limit_maxbytes")?, 106 * MIB);
    assert_eq!(stat(&mut stream, "larder", "memory_followed")?, 0);
    Ok(())
}

#[test]
fn a_limit_that_is_too_small_is_refused_or_warned_about() -> Result<()> {
    let Some(group) = MemoryGroup::new(&binary(), "small", 100) else { return Ok(()) };
    let error = format!("{:#}", group.start(&["-m", "80%"]).unwrap_err());
    ensure!(error.contains("option -m: 80% of 100 MiB (memory."), "{error}");
    ensure!(error.contains("leaves 0 MiB, and a cache needs 8 MiB: raise that limit"), "{error}");
    let server = group.start(&["-m", "64"])?;
    let log = server.log();
    let expected = "option -m: 64 MiB and up to 98 MiB for connections and the process are more";
    ensure!(log.contains(expected), "{log}");
    drop(server);
    group.limit(200)?;
    let log = group.start(&["-m", "64"])?.log();
    ensure!(!log.contains("option -m"), "{log}");
    Ok(())
}

/// The main thread reads files of the kernel each second, which the filter of system calls permits.
#[test]
fn a_server_with_dropped_privileges_follows_too() -> Result<()> {
    let Some(group) = MemoryGroup::new(&binary(), "filtered", 256) else { return Ok(()) };
    let server = group.start(&["-m", "80%", "-o", "drop_privileges"])?;
    let mut stream = server.connect()?;
    group.limit(400)?;
    wait_for_limit(&mut stream, 222)?;
    Ok(())
}
