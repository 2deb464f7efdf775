//! A server whose disk stores evicted items (`--tier-mode cache`). It must never return an old
//! value, must keep everything over a clean stop, and must be empty after a kill.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, command, run_to_end};
use larder_testkit::{ServerUnderTest, Stream, Transport};
use tempfile::TempDir;

use crate::binary;

/// A directory for items.
struct Place(TempDir);

impl Place {
    fn new() -> Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("larder-cache-").tempdir()?))
    }

    fn tier(&self) -> String {
        self.0.path().join("ext.tier").display().to_string()
    }

    fn start(&self, args: &[&str]) -> Result<ServerUnderTest> {
        let tier = self.tier();
        let options = ["--tier-path", &tier, "--tier-size", "256m", "--tier-mode", "cache"];
        self.start_with(&options, args)
    }

    fn start_with(&self, options: &[&str], args: &[&str]) -> Result<ServerUnderTest> {
        let args = [options, &["-m", "8", "-t", "2"], args].concat();
        let server = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
        // The server listens before it has opened the directory.
        server.connect()?.ask(b"version\r\n", b"\r\n")?;
        Ok(server)
    }
}

fn stat(stream: &mut Stream, name: &str) -> Result<u64> {
    let answer = stream.ask(b"stats larder\r\n", b"END\r\n")?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let row = text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    Ok(row.with_context(|| format!("{name} in {text}"))?.trim().parse()?)
}

fn value_of(number: u32) -> Vec<u8> {
    let bytes = if number.is_multiple_of(17) { 20_000 } else { number as usize % 3000 };
    format!("{number:08}").into_bytes().into_iter().cycle().take(8 + bytes).collect()
}

fn set(stream: &mut Stream, key: &str, number: u32) -> Result<()> {
    let value = value_of(number);
    let head = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
    let answer = stream.ask(&[&head, &value[..], b"\r\n"].concat(), b"\r\n")?;
    ensure!(answer == b"STORED\r\n", "{key}: {}", answer.escape_ascii());
    Ok(())
}

/// Returns the number in the value of a key; `None` for a miss.
fn get(stream: &mut Stream, key: &str) -> Result<Option<u32>> {
    let answer = stream.ask(format!("get {key}\r\n").as_bytes(), b"END\r\n")?;
    if answer == b"END\r\n" {
        return Ok(None);
    }
    let at = answer.iter().position(|byte| *byte == b'\n').context("a line")? + 1;
    let number: u32 = std::str::from_utf8(&answer[at..at + 8])?.parse()?;
    let (value, end) = (value_of(number), b"\r\nEND\r\n");
    ensure!(answer[at..] == [&value, &end[..]].concat(), "{key} has bytes that no one has stored");
    Ok(Some(number))
}

/// A client with its own keys. It must read the value that it stored last, or nothing.
struct Client {
    name: u32,
    numbers: u32,
    has: HashMap<u32, u32>,
    misses: u32,
}

impl Client {
    fn new(name: u32) -> Self {
        Self { name, numbers: name, has: HashMap::new(), misses: 0 }
    }

    fn work(&mut self, stream: &mut Stream, steps: u32) -> Result<()> {
        (0..steps).try_for_each(|_| self.step(stream))
    }

    fn step(&mut self, stream: &mut Stream) -> Result<()> {
        self.numbers += 1;
        let number = self.numbers;
        let key = number.wrapping_mul(2_654_435_761) % 5000;
        let name = format!("{}-{key}", self.name);
        match number % 8 {
            0 => {
                let answer = stream.ask(format!("delete {name}\r\n").as_bytes(), b"\r\n")?;
                let was_there = answer == b"DELETED\r\n";
                ensure!(was_there <= self.has.contains_key(&key), "{name} was deleted before");
                self.has.remove(&key);
            }
            1 => {
                // `add` must also find an item that is only on disk.
                let value = value_of(number);
                let head = format!("add {name} 0 0 {}\r\n", value.len()).into_bytes();
                let answer = stream.ask(&[&head, &value[..], b"\r\n"].concat(), b"\r\n")?;
                if answer == b"STORED\r\n" {
                    self.has.insert(key, number);
                } else {
                    ensure!(self.has.contains_key(&key), "{name}: {}", answer.escape_ascii());
                }
            }
            2 => {
                let answer = stream.ask(format!("touch {name} 1000\r\n").as_bytes(), b"\r\n")?;
                ensure!(answer == b"NOT_FOUND\r\n" || self.has.contains_key(&key), "{name}");
            }
            3..6 => {
                set(stream, &name, number)?;
                self.has.insert(key, number);
            }
            _ => self.check(stream, key)?,
        }
        Ok(())
    }

    fn check(&mut self, stream: &mut Stream, key: u32) -> Result<()> {
        let found = get(stream, &format!("{}-{key}", self.name))?;
        let stored = self.has.get(&key).copied();
        ensure!(found.is_none() || found == stored, "{key}: found {found:?}, stored {stored:?}");
        self.misses += u32::from(stored.is_some() && found.is_none());
        Ok(())
    }

    fn check_all(&mut self, stream: &mut Stream) -> Result<()> {
        self.misses = 0;
        let keys: Vec<u32> = self.has.keys().copied().collect();
        keys.into_iter().try_for_each(|key| self.check(stream, key))
    }
}

/// Clients work with three times as much data as the 8 MiB of memory. Then the server stops and
/// starts again.
fn keep_over_a_stop(io: &str) -> Result<()> {
    let place = Place::new()?;
    let mut clients: Vec<Client> = (0..3).map(Client::new).collect();
    let mut dropped = 0;
    for round in 0..2 {
        let server = place.start(&[io])?;
        let missing = AtomicU64::new(0);
        thread::scope(|scope| {
            let work = |client: &mut Client| -> Result<()> {
                let mut stream = server.connect()?;
                client.check_all(&mut stream)?;
                missing.fetch_add(client.misses.into(), Relaxed);
                client.work(&mut stream, 12_000)
            };
            let clients = clients.iter_mut().map(|client| scope.spawn(move || work(client)));
            let ended: Vec<_> = clients.collect();
            ended.into_iter().try_for_each(|ended| ended.join().expect("a client panics"))
        })
        .with_context(|| server.log())?;
        let mut stream = server.connect()?;
        let (reads, evicted) =
            (stat(&mut stream, "tier_reads")?, stat(&mut stream, "tier_items_evicted")?);
        ensure!(reads > 300 && evicted > 1000, "{reads} reads, {evicted} items evicted");
        // Items are lost only if they are evicted while the disk's buffer is full. That can be many
        // if the thread of the log does not run.
        dropped += stat(&mut stream, "tier_items_dropped")?;
        let missing = missing.into_inner();
        let stored: usize = clients.iter().map(|client| client.has.len()).sum();
        ensure!(
            missing <= dropped + stored as u64 / 100,
            "round {round}: {missing} of {stored} items missing, {dropped} dropped"
        );
        ensure!(server.stop(Signal::TERM)?.success(), "a stop that keeps everything succeeds");
    }
    Ok(())
}

#[test]
fn no_old_value_is_returned_and_a_stop_keeps_everything_with_epoll() -> Result<()> {
    keep_over_a_stop("--io=epoll")
}

#[test]
fn no_old_value_is_returned_and_a_stop_keeps_everything_with_io_uring() -> Result<()> {
    keep_over_a_stop("--io=uring")
}

#[test]
fn a_killed_server_starts_empty() -> Result<()> {
    let place = Place::new()?;
    let server = place.start(&[])?;
    let mut stream = server.connect()?;
    for number in 0..20_000 {
        set(&mut stream, &format!("k{number}"), number)?;
        if number % 128 == 0 {
            stream.wait_for_disk(256 << 10)?;
        }
    }
    ensure!(stat(&mut stream, "tier_items_evicted")? > 5000, "memory evicts to the disk");
    server.signal(Signal::KILL)?;
    drop(server);
    let server = place.start(&[])?;
    let mut stream = server.connect()?;
    for number in 0..20_000 {
        let found = get(&mut stream, &format!("k{number}"))?;
        ensure!(found.is_none(), "k{number} may be old: nothing told the disk of its changes");
    }
    ensure!(stat(&mut stream, "tier_items")? == 0);
    Ok(())
}

#[test]
fn a_refused_set_removes_the_old_item_from_the_disk_too() -> Result<()> {
    let place = Place::new()?;
    let server = place.start(&[])?;
    let mut stream = server.connect()?;
    set(&mut stream, "k", 1)?;
    set(&mut stream, "other", 1)?;
    (0..10_000).try_for_each(|number| set(&mut stream, &format!("filler{number}"), number))?;
    let reads = stat(&mut stream, "tier_reads")?;
    ensure!(get(&mut stream, "other")? == Some(1));
    ensure!(stat(&mut stream, "tier_reads")? > reads, "these items are on the disk only");
    let head = b"set k 0 0 2000000\r\n";
    let refused = stream.ask(&[&head[..], &[b'v'; 2_000_000], b"\r\n"].concat(), b"\r\n")?;
    ensure!(refused.starts_with(b"SERVER_ERROR"), "{}", refused.escape_ascii());
    ensure!(get(&mut stream, "k")?.is_none(), "clients must not read what was to be replaced");
    Ok(())
}

#[test]
fn memcacheds_option_for_extstore_means_such_a_disk_beside_the_file() -> Result<()> {
    let place = Place::new()?;
    let file = place.0.path().join("ext");
    std::fs::File::create(&file)?.write_all(b"of extstore")?;
    let option = format!("ext_path={}:64m", file.display());
    let server = place.start_with(&["-o", &option], &[])?;
    let mut stream = server.connect()?;
    ensure!(stat(&mut stream, "tier_size_bytes")? == 64 << 20);
    set(&mut stream, "k", 1)?;
    ensure!(server.stop(Signal::TERM)?.success());
    ensure!(std::fs::read(&file)? == b"of extstore", "the file itself stays unchanged");
    let server = place.start(&[])?;
    ensure!(get(&mut server.connect()?, "k")? == Some(1), "the directory has the same meaning");
    Ok(())
}

#[test]
fn contradictions_are_refused_with_a_reason() -> Result<()> {
    let place = Place::new()?;
    drop(place.start(&[])?);
    let tier = place.tier();
    let new = format!("{tier}.new");
    let at = |path: &'static str, args: &[&str]| -> Vec<String> {
        let path = if path == "tier" { &tier } else { &new };
        let options = ["--tier-path", path, "--tier-size", "256m", "--tier-mode"];
        options.iter().chain(args).map(|arg| (*arg).to_owned()).collect()
    };
    let words = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    for (args, expected) in [
        (at("tier", &["store"]), "is a cache, but was opened as a store"),
        (at("new", &["cache", "--durability", "sync"]), "a crash empties a cache"),
        (at("new", &["cache", "-M"]), "the disk gets what memory evicts"),
        (at("new", &["store", "--tier-admit", "reused"]), "a store has all items"),
        (at("new", &["cache", "-o", "ext_path=/x:1g"]), "--tier-path names another directory"),
        (words(&["-o", "ext_path=/x:1g,ext_path=/y:1g"]), "is the second one"),
        (words(&["-o", "ext_path=/x:1m"]), "1048576 bytes are less than the 33554432"),
        (words(&["-o", "ext_path=/x"]), "is not a file and a size"),
        (words(&["-o", "ext_path=/x:1g", "--tier-size", "2g"]), "it is a part of -o ext_path"),
        (words(&["--tier-admit", "reused"]), "it needs the directory of a disk tier"),
    ] {
        let mut larderd = command(&binary());
        larderd.arg("-s").arg(place.0.path().join("refused")).args(&args);
        let output = run_to_end(&mut larderd)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && said.contains(expected), "{args:?}: {said}");
    }
    Ok(())
}
