//! A disk that hangs stops only those who need it.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::Stream;
use larder_testkit::server::Signal;

use crate::passing::Passing;
use crate::{line, start};

const VALUE: [u8; 10_000] = [b'v'; 10_000];

fn set(key: &str) -> Vec<u8> {
    [format!("set {key} 0 0 {}\r\n", VALUE.len()).as_bytes(), &VALUE, b"\r\n"].concat()
}

/// Stores more than the memory holds; then one item that memory keeps.
fn fill(stream: &mut Stream) -> Result<()> {
    for number in 0..1500 {
        let answer = stream.ask(&set(&format!("k{number}")), b"\r\n")?;
        ensure!(answer == b"STORED\r\n", "{}", String::from_utf8_lossy(&answer));
    }
    stream.ask(b"set hot 0 0 3\r\nhot\r\n", b"\r\n")?;
    sleep(Duration::from_millis(500));
    Ok(())
}

/// The longest of some gets of an item in memory.
fn slowest_hit(stream: &mut Stream) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let begun = Instant::now();
        let answer = stream.ask(b"get hot\r\n", b"END\r\n")?;
        ensure!(answer.starts_with(b"VALUE hot"), "{}", String::from_utf8_lossy(&answer));
        slowest = slowest.max(begun.elapsed());
        sleep(Duration::from_millis(10));
    }
    Ok(slowest)
}

/// Reads that hang hold back only the connection that asked for them.
fn reads_hang(args: &[&str]) -> Result<()> {
    let disk = Passing::mount()?;
    let (server, _) = start(&disk.mounted(), args)?;
    let (mut asker, mut other) = (server.connect()?, server.connect()?);
    fill(&mut asker)?;
    disk.order("hang-read")?;
    asker.write_all(b"get k1 k2\r\n")?;
    sleep(Duration::from_millis(100));
    let slowest = slowest_hit(&mut other)?;
    ensure!(slowest < HIT_MAX, "a hit took {slowest:?} while another connection reads the disk");
    let stored = other.ask(b"set another 0 0 1\r\na\r\n", b"\r\n")?;
    ensure!(stored == b"STORED\r\n", "{}", String::from_utf8_lossy(&stored));
    disk.withdraw("hang-read")?;
    let answer = asker.ask(b"", b"END\r\n")?;
    let both = [b"VALUE k1 0 10000\r\n", &VALUE[..], b"\r\nVALUE k2 0 10000\r\n", &VALUE[..]];
    ensure!(answer == [&both.concat()[..], b"\r\nEND\r\n"].concat(), "{} bytes", answer.len());
    ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
    Ok(())
}

/// Writes that hang hold back only changes, which fail before anything changes.
fn writes_hang(args: &[&str]) -> Result<()> {
    let disk = Passing::mount()?;
    let (server, _) = start(&disk.mounted(), args)?;
    let (mut writer, mut other) = (server.connect()?, server.connect()?);
    fill(&mut writer)?;
    disk.order("hang-write")?;
    disk.order("hang-sync")?;
    let mut refused = None;
    for number in 0..3000 {
        let answer = writer.ask(&set(&format!("w{number}")), b"\r\n")?;
        if answer != b"STORED\r\n" {
            refused = Some((number, answer));
            break;
        }
    }
    let (number, answer) = refused.context("no set is refused while the disk hangs")?;
    let expected = b"SERVER_ERROR the disk does not keep up; try again later\r\n";
    ensure!(answer == expected, "{}", String::from_utf8_lossy(&answer));
    writer.write_all(&set("waits"))?;
    let slowest = slowest_hit(&mut other)?;
    ensure!(slowest < HIT_MAX, "a hit took {slowest:?} while the set of another waits");
    let refused = other.ask(format!("get w{number}\r\n").as_bytes(), b"END\r\n")?;
    ensure!(refused == b"END\r\n", "the refused set is seen");
    disk.withdraw("hang-write")?;
    disk.withdraw("hang-sync")?;
    line(&mut writer)?;
    let stored = other.ask(b"set after 0 0 1\r\na\r\n", b"\r\n")?;
    ensure!(stored == b"STORED\r\n", "{}", String::from_utf8_lossy(&stored));
    ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
    Ok(())
}

#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make tier runs it"]
fn reads_that_hang_hold_back_only_those_who_need_them() -> Result<()> {
    for io in ["uring", "epoll"] {
        let store = ["--io", io, "--tier-mode", "store", "--durability", "sync"];
        reads_hang(&store).with_context(|| format!("a store, {io}"))?;
        let cache = ["--io", io, "--tier-mode", "cache"];
        reads_hang(&cache).with_context(|| format!("a cache, {io}"))?;
    }
    Ok(())
}

#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make tier runs it"]
fn writes_that_hang_hold_back_only_changes() -> Result<()> {
    for io in ["uring", "epoll"] {
        let args = ["--io", io, "--tier-mode", "store", "--durability", "async"];
        writes_hang(&args).with_context(|| format!("a store, {io}"))?;
    }
    Ok(())
}

/// Longer than any hit takes on a busy machine, shorter than a wait for the disk.
const HIT_MAX: Duration = Duration::from_millis(200);
