//! A file system that is frozen for ten seconds. Requests in memory must continue, and no change
//! that was made may be answered as failed.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use larder_testkit::Stream;
use larder_testkit::server::Signal;

use super::image::{Image, KINDS};
use super::{ask, line, start, value};

const FROZEN: Duration = Duration::from_secs(10);
/// Longer than any hit takes on a busy machine.
const HIT_MAX: Duration = Duration::from_millis(200);
const NOT_MADE: &str = "SERVER_ERROR the disk does not keep up; try again later";

fn set(key: &str, value: &str) -> String {
    format!("set {key} 0 0 {}\r\n{value}\r\n", value.len())
}

/// Reads an item in memory until the file system is thawed.
fn hits(stream: &mut Stream, until: Instant) -> Result<()> {
    while Instant::now() < until {
        let begun = Instant::now();
        ensure!(value(stream, "hot")?.as_deref() == Some(b"hot".as_slice()));
        let took = begun.elapsed();
        ensure!(took < HIT_MAX, "a hit took {took:?} while the file system was frozen");
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn with_sync_made_changes_wait_for_a_frozen_disk_and_hits_do_not() -> Result<()> {
    for kind in KINDS {
        let image = Image::new(kind)?;
        let args = ["--tier-mode", "store", "--durability", "sync"];
        let (server, _) = start(&image.mounted(), &args)?;
        let (mut writer, mut other) = (server.connect()?, server.connect()?);
        ensure!(ask(&mut other, &set("hot", "hot"))? == "STORED");
        image.freeze()?;
        let until = Instant::now() + FROZEN;
        writer.set_timeout(FROZEN * 3)?;
        writer.write_all(set("waits", "made").as_bytes())?;
        hits(&mut other, until)?;
        image.thaw()?;
        ensure!(line(&mut writer)? == "STORED", "a made change is not answered as failed");
        server.signal(Signal::KILL)?;
        drop(server);
        let (server, _) = start(&image.mounted(), &args)?;
        let found = value(&mut server.connect()?, "waits")?;
        ensure!(found.as_deref() == Some(b"made".as_slice()), "what was answered survives a kill");
    }
    Ok(())
}

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn with_async_changes_are_made_or_refused_while_the_disk_is_frozen() -> Result<()> {
    let image = Image::new("ext4")?;
    let args = ["--tier-mode", "store", "--durability", "async", "--tier-wait-secs", "0"];
    let (server, _) = start(&image.mounted(), &args)?;
    let (mut writer, mut other) = (server.connect()?, server.connect()?);
    ensure!(ask(&mut other, &set("hot", "hot"))? == "STORED");
    image.freeze()?;
    let until = Instant::now() + FROZEN;
    let (mut made, mut refused) = (Vec::new(), Vec::new());
    for n in 0..600 {
        let key = format!("k{n}");
        match &ask(&mut writer, &set(&key, &"v".repeat(10_000)))?[..] {
            "STORED" => made.push(key),
            NOT_MADE => refused.push(key),
            answer => anyhow::bail!("{key}: {answer}"),
        }
    }
    ensure!(
        !made.is_empty() && !refused.is_empty(),
        "{} made, {} refused",
        made.len(),
        refused.len()
    );
    for key in &refused {
        ensure!(value(&mut other, key)?.is_none(), "{key} was refused, and is there");
    }
    hits(&mut other, until)?;
    image.thaw()?;
    ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
    let (server, _) = start(&image.mounted(), &args)?;
    let mut stream = server.connect()?;
    for key in &made {
        ensure!(value(&mut stream, key)?.is_some_and(|value| value.len() == 10_000), "{key}");
    }
    for key in &refused {
        ensure!(value(&mut stream, key)?.is_none(), "{key} was refused, and comes back");
    }
    Ok(())
}

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn a_cache_goes_on_while_its_disk_is_frozen() -> Result<()> {
    let image = Image::new("xfs")?;
    let (server, _) = start(&image.mounted(), &["--tier-mode", "cache"])?;
    let (mut writer, mut other) = (server.connect()?, server.connect()?);
    image.freeze()?;
    let until = Instant::now() + FROZEN;
    for n in 0..2000 {
        let begun = Instant::now();
        let answer = ask(&mut writer, &set(&format!("k{n}"), &"v".repeat(10_000)))?;
        ensure!(answer == "STORED", "k{n}: {answer}");
        ensure!(begun.elapsed() < HIT_MAX, "a set of a cache waits for the disk");
    }
    ensure!(ask(&mut other, &set("hot", "hot"))? == "STORED");
    hits(&mut other, until)?;
    image.thaw()?;
    ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
    let (server, _) = start(&image.mounted(), &["--tier-mode", "cache"])?;
    let mut stream = server.connect()?;
    ensure!(
        value(&mut stream, "hot")?.as_deref() == Some(b"hot".as_slice()),
        "the stop kept the memory"
    );
    Ok(())
}
