//! Clients that read hits directly in the memory of a server with a disk tier. The server must
//! return the items that are not in memory, and no reader may observe an old value.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use larder::Client;
use larder_testkit::server::Signal;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};
use tempfile::TempDir;

use crate::binary;

const MODES: [&str; 2] = ["store", "cache"];

/// Starts a server with 8 MiB of memory.
fn start(folder: &TempDir, mode: &str, args: &[&str]) -> Result<ServerUnderTest> {
    let tier = folder.path().join("tier").display().to_string();
    let tier = ["--tier-path", &tier, "--tier-size", "1g", "--tier-mode", mode];
    let readers = ["--local-readers", "same-uid", "-m", "8", "-t", "2"];
    let args = [&tier[..], &readers, args].concat();
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &args)?;
    // The server listens before it has opened the directory.
    server.connect()?.ask(b"version\r\n", b"\r\n")?;
    Ok(server)
}

fn path(server: &ServerUnderTest) -> &Path {
    match server.address() {
        Address::Unix(path) => path,
        Address::Tcp(_) => panic!("the server listens on a unix socket"),
    }
}

fn connect(server: &ServerUnderTest) -> Result<Client> {
    let client = Client::connect(path(server))?;
    client.get("first")?;
    ensure!(client.reads_memory(), "the memory is not read");
    Ok(client)
}

fn stat(stream: &mut Stream, name: &str) -> Result<u64> {
    let answer = stream.ask(b"stats larder\r\n", b"END\r\n")?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let row = text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    Ok(row.with_context(|| format!("{name} in {text}"))?.trim().parse()?)
}

/// Keys with 32 MB of data in total, four times the memory.
const KEYS: usize = 8000;

/// Every fifth change of a key is a delete.
fn is_delete(change: u32) -> bool {
    change.is_multiple_of(5)
}

fn value_of(key: usize, change: u32) -> Vec<u8> {
    // The value of every fortieth key is long enough to be stored in pieces.
    let bytes = if key.is_multiple_of(40) { 20_000 } else { 3000 + key % 1000 };
    format!("{key:08}{change:08}").into_bytes().into_iter().cycle().take(bytes).collect()
}

/// For each key, the number of the last change that was sent, and of the last one that was
/// answered.
struct Changes {
    begun: Vec<AtomicU32>,
    answered: Vec<AtomicU32>,
    is_over: AtomicBool,
}

impl Changes {
    fn new() -> Self {
        let zeros = || (0..KEYS).map(|_| AtomicU32::new(0)).collect();
        Self { begun: zeros(), answered: zeros(), is_over: AtomicBool::new(false) }
    }

    fn change(&self, client: &Client, key: usize) -> Result<()> {
        let change = self.begun[key].fetch_add(1, SeqCst) + 1;
        let name = format!("key {key}");
        match is_delete(change) {
            true => drop(client.delete(name)?),
            false => client.set(name, value_of(key, change), None)?,
        }
        self.answered[key].store(change, SeqCst);
        Ok(())
    }

    /// Checks the result of a read that began when change `low` was answered. Returns true if the
    /// item was missing although no change deleted it, which is allowed only if the disk has
    /// dropped it.
    fn check(&self, key: usize, low: u32, found: Option<&[u8]>) -> Result<bool> {
        let high = self.begun[key].load(SeqCst);
        let Some(found) = found else { return Ok(!(low..=high).any(is_delete)) };
        let change = std::str::from_utf8(found.get(8..16).context("a short value")?)?.parse()?;
        ensure!(found == value_of(key, change), "key {key}: bytes that no one has stored");
        ensure!((low..=high).contains(&change), "key {key}: {change} of {low} to {high}");
        Ok(false)
    }
}

#[derive(Default)]
struct Seen {
    local: u32,
    by_server: u32,
    /// Keys, each with the change that was missing.
    missing: HashSet<(usize, u32)>,
}

/// Reads until the writers are done.
fn read(client: &Client, changes: &Changes, seed: usize) -> Result<Seen> {
    let (mut seen, mut state) = (Seen::default(), seed);
    let mut value = Vec::new();
    while !changes.is_over.load(SeqCst) {
        let mut any_key = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % KEYS
        };
        let key = any_key();
        let low = changes.answered[key].load(SeqCst);
        value.clear();
        let hit = client.get_into(format!("key {key}"), &mut value)?;
        match &hit {
            Some(hit) if hit.is_local => seen.local += 1,
            _ => seen.by_server += 1,
        }
        if changes.check(key, low, hit.map(|_| &value[..]))? {
            seen.missing.insert((key, low));
        }
        let keys: Vec<_> = (0..10).map(|_| any_key()).collect();
        let lows: Vec<_> = keys.iter().map(|key| changes.answered[*key].load(SeqCst)).collect();
        let names: Vec<_> = keys.iter().map(|key| format!("key {key}")).collect();
        let found = client.get_many(&names)?;
        for ((key, low), found) in keys.into_iter().zip(lows).zip(found) {
            if changes.check(key, low, found.as_deref())? {
                seen.missing.insert((key, low));
            }
        }
    }
    Ok(seen)
}

fn read_beside_writers(mode: &str, io: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = start(&folder, mode, &["--io", io])?;
    let changes = Changes::new();
    let clients = (0..4).map(|_| connect(&server)).collect::<Result<Vec<_>>>()?;
    (0..KEYS).try_for_each(|key| changes.change(&clients[0], key))?;
    let seen = thread::scope(|scope| -> Result<Vec<Seen>> {
        let changes = &changes;
        let write = |client, half: usize| {
            move || {
                (0..2).try_for_each(|_| {
                    (half..KEYS).step_by(2).try_for_each(|key| changes.change(client, key))
                })
            }
        };
        let readers = [7, 8].map(|seed| {
            let client = &clients[seed % 2 + 2];
            scope.spawn(move || read(client, changes, seed))
        });
        let writers = [0, 1].map(|half| scope.spawn(write(&clients[half], half)));
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        changes.is_over.store(true, SeqCst);
        written.into_iter().collect::<Result<Vec<_>>>()?;
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    })?;
    let mut stream = server.connect()?;
    let dropped = match mode {
        "store" => 0,
        // The index of the disk distinguishes keys only by a tag, a few bits of their hash. A
        // change also removes the keys that have the same tag as its key.
        _ => stat(&mut stream, "tier_items_dropped")? as usize + KEYS / 100,
    };
    for Seen { local, by_server, missing } in seen {
        ensure!(missing.len() <= dropped, "{} are missing, {dropped} dropped", missing.len());
        // On a busy machine the writers leave a reader little time.
        ensure!(local >= 10 && by_server >= 10, "{local} local, {by_server} by the server");
    }
    ensure!(stat(&mut stream, "tier_reads")? > 1000);
    ensure!(stat(&mut stream, "local_reads")? > 0);
    // Nothing changes any more.
    let missing = (0..KEYS).filter(|key| {
        let low = changes.answered[*key].load(SeqCst);
        let found = clients[2].get(format!("key {key}")).unwrap();
        changes.check(*key, low, found.as_deref()).unwrap()
    });
    let missing = missing.count();
    ensure!(missing <= dropped, "{missing} are missing, {dropped} dropped");
    Ok(())
}

#[test]
fn a_reader_misses_nothing_and_sees_nothing_old_with_io_uring() -> Result<()> {
    MODES.into_iter().try_for_each(|mode| read_beside_writers(mode, "uring"))
}

#[test]
fn a_reader_misses_nothing_and_sees_nothing_old_with_epoll() -> Result<()> {
    MODES.into_iter().try_for_each(|mode| read_beside_writers(mode, "epoll"))
}

#[test]
fn a_reader_sees_a_delayed_flush_of_a_server_that_does_nothing_else() -> Result<()> {
    for mode in MODES {
        let folder = tempfile::tempdir()?;
        let server = start(&folder, mode, &[])?;
        let client = connect(&server)?;
        client.set("k", "v", None)?;
        server.connect()?.ask(b"flush_all 2\r\n", b"\r\n")?;
        ensure!(client.get("k")?.is_some(), "{mode}: gone before its time");
        thread::sleep(Duration::from_millis(3100));
        ensure!(client.get("k")?.is_none(), "{mode}: there after its time");
        client.set("k", "v", None)?;
        ensure!(client.get("k")?.is_some(), "{mode}: a later item is gone");
    }
    Ok(())
}

#[test]
fn a_reader_sees_a_delayed_flush_that_was_pending_at_a_restart() -> Result<()> {
    for mode in MODES {
        let folder = tempfile::tempdir()?;
        let server = start(&folder, mode, &[])?;
        connect(&server)?.set("k", "v", None)?;
        server.connect()?.ask(b"flush_all 4\r\n", b"\r\n")?;
        server.stop(Signal::TERM)?;
        let server = start(&folder, mode, &[])?;
        let client = connect(&server)?;
        ensure!(client.get("k")?.is_some(), "{mode}: gone before its time");
        thread::sleep(Duration::from_millis(5100));
        ensure!(client.get("k")?.is_none(), "{mode}: there after its time");
    }
    Ok(())
}

#[test]
fn a_report_of_reads_brings_nothing_back_from_the_disk() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = start(&folder, "store", &[])?;
    let client = connect(&server)?;
    (0..KEYS).try_for_each(|key| client.set(format!("key{key}"), value_of(key, 1), None))?;
    let mut stream = server.connect()?;
    let reads = stat(&mut stream, "tier_reads")?;
    // key0 was evicted; it is `a2V5MA==` in base64.
    stream.ask(b"larder_read a2V5MA==\r\nversion\r\n", b"\r\n")?;
    ensure!(stat(&mut stream, "tier_reads")? == reads, "a report has read the disk");
    ensure!(client.get("key0")?.as_deref() == Some(&value_of(0, 1)[..]));
    ensure!(stat(&mut stream, "tier_reads")? > reads, "key0 was in memory");
    Ok(())
}
