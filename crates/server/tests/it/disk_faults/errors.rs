//! A disk that fails calls. A store must not confirm a change that may be lost, and must still
//! serve reads. A cache must continue in memory.

use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::server::Signal;
use larder_testkit::stat::stat;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};

use super::history::History;
use super::passing::Passing;
use super::{ask, binary, http, options, start, value};

const STORE: [&str; 4] = ["--tier-mode", "store", "--durability", "sync"];
const REFUSED: &str = "SERVER_ERROR the disk has failed; the log of the server says why";

/// Runs a store whose disk fails some calls of a kind while a client changes items.
fn changes_end(kind: &str, after: u32, count: u32) -> Result<()> {
    let disk = Passing::mount()?;
    let mut history = History::new(0);
    let (server, admin) = start(&disk.mounted(), &STORE)?;
    let mut stream = server.connect()?;
    ensure!(ask(&mut stream, "set kept 0 0 1\r\na\r\n")? == "STORED");
    (0..300).try_for_each(|_| history.change(&mut stream))?;
    let bystander = server.connect()?;
    disk.fail(kind, after, count)?;
    let ended = history.work(&mut stream, &AtomicBool::new(false));
    let ended = format!("{:#}", ended.err().context("changes continue although the disk fails")?);
    ensure!(ended.ends_with("got \"\"") || ended.contains(REFUSED), "the change ended by: {ended}");
    only_gets_go_on(&server, &admin, bystander)?;
    server.signal(Signal::KILL)?;
    drop(server);
    disk.withdraw(&format!("fail-{kind}"))?;
    let (server, _) = start(&disk.mounted(), &STORE)?;
    let mut stream = server.connect()?;
    let lost = history.check(&mut stream).with_context(|| server.log())?;
    let answered = lost.iter().filter(|change| change.answered.is_some()).count();
    ensure!(answered == 0, "{answered} changes that were answered are lost");
    (0..50).try_for_each(|_| history.change(&mut stream))
}

/// Checks that a store whose disk has failed refuses changes, logs the reason, and serves reads.
fn only_gets_go_on(server: &ServerUnderTest, admin: &Address, mut bystander: Stream) -> Result<()> {
    let ready = http::get(admin, "/ready", &[])?;
    let is_told = ready.status == 503 && ready.body.contains("the disk has failed");
    ensure!(is_told, "/ready: {} {}", ready.status, ready.body);
    wait_for(server, "the server refuses changes, but still serves reads")?;
    ensure!(server.log().contains("Input/output error"), "{}", server.log());
    for change in ["set other 0 0 1\r\na\r\n", "delete kept\r\n", "touch kept 100\r\n"] {
        for mut stream in [server.connect()?, server.connect()?] {
            let answer = ask(&mut stream, change)?;
            ensure!(answer == REFUSED, "{change:?}: {answer}");
        }
    }
    let mut found = 0;
    for key in 0..150 {
        // A get of the key whose change is unanswered waits for the disk, like that change.
        if value(&mut bystander, &format!("0-{key}")).is_ok_and(|value| value.is_some()) {
            found += 1;
        } else if bystander.ask(b"version\r\n", b"\r\n").is_err() {
            bystander = server.connect()?;
        }
    }
    ensure!(found > 50, "only {found} items are found");
    Ok(())
}

/// Waits until the log of the server contains `words`.
fn wait_for(server: &ServerUnderTest, words: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !server.log().contains(words) {
        ensure!(Instant::now() < deadline, "the log does not contain {words:?}: {}", server.log());
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make verify ONLY=tier runs it"]
fn a_failed_write_or_sync_ends_changes_and_takes_nothing_that_was_answered() -> Result<()> {
    for (kind, after, count) in [
        // A sync that fails once. The next one would succeed, and would not report the loss.
        ("sync", 0, 1),
        ("sync", 3, 1),
        ("sync", 0, u32::MAX),
        // The kernel splits a long write. If one part fails, the write is short and continues.
        ("write", 0, u32::MAX),
        ("write", 1, u32::MAX),
        ("write", 5, u32::MAX),
        ("write", 20, u32::MAX),
    ] {
        changes_end(kind, after, count)
            .with_context(|| format!("{count} calls {kind} fail behind {after}"))?;
    }
    Ok(())
}

const UNREADABLE: &str = "SERVER_ERROR the disk did not return the item\r\n";
const VALUE_BYTES: usize = 10_000;

/// Stores more than fits into memory.
fn fill(stream: &mut Stream, round: u32) -> Result<()> {
    for n in 0..1500 {
        let answer = ask(stream, &set(n, round))?;
        ensure!(answer == "STORED", "k{n}: {answer}");
    }
    Ok(())
}

fn value_of(n: u32, round: u32) -> String {
    format!("{:0>1$}", format!("{n}/{round}"), VALUE_BYTES)
}

fn set(n: u32, round: u32) -> String {
    format!("set k{n} 0 0 {VALUE_BYTES}\r\n{}\r\n", value_of(n, round))
}

fn reads_fail(mode: &str, io: &str) -> Result<()> {
    let disk = Passing::mount()?;
    let (server, _) = start(&disk.mounted(), &["--tier-mode", mode, "--io", io])?;
    let mut stream = server.connect()?;
    fill(&mut stream, 0)?;
    sleep(Duration::from_millis(500));
    disk.fail("read", 0, u32::MAX)?;
    stream.write_all(b"get k1\r\nget k1 k2\r\nmn\r\n")?;
    let answers = String::from_utf8(stream.ask(b"", b"MN\r\n")?)?;
    match mode {
        // Clients expect nothing after the error.
        "store" => ensure!(answers == format!("{UNREADABLE}{UNREADABLE}MN\r\n"), "{answers}"),
        _ => {
            ensure!(answers == "END\r\nEND\r\nMN\r\n", "{answers}");
            ensure!(stat(&mut stream, "larder", "tier_items_unreadable")? > 0);
        }
    }
    ensure!(ask(&mut stream, &set(1499, 1))? == "STORED", "an item in memory is set");
    ensure!(value(&mut stream, "k1499")? == Some(value_of(1499, 1).into()));
    disk.withdraw("fail-read")?;
    let mut found = 0;
    for n in 3..200 {
        let value = value(&mut stream, &format!("k{n}"))?;
        ensure!(value.as_ref().is_none_or(|value| *value == value_of(n, 0).into_bytes()), "k{n}");
        found += usize::from(value.is_some());
    }
    // A cache drops evicted items while the disk does not keep up.
    let expected = if mode == "store" { 197 } else { 20 };
    ensure!(found >= expected, "reads continue once the disk does: {found} items are found");
    if mode == "store" {
        let found = value(&mut stream, "k1")?;
        ensure!(found == Some(value_of(1, 0).into()), "a read error is not a loss");
    }
    Ok(())
}

#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make verify ONLY=tier runs it"]
fn a_failed_read_is_an_error_of_a_store_and_a_miss_of_a_cache() -> Result<()> {
    for mode in ["store", "cache"] {
        for io in ["uring", "epoll"] {
            reads_fail(mode, io).with_context(|| format!("{mode}, {io}"))?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make verify ONLY=tier runs it"]
fn a_cache_whose_disk_fails_goes_on_in_memory() -> Result<()> {
    for (kind, count) in [("write", u32::MAX), ("sync", 1)] {
        let disk = Passing::mount()?;
        let (server, admin) = start(&disk.mounted(), &["--tier-mode", "cache"])?;
        let mut stream = server.connect()?;
        fill(&mut stream, 0)?;
        disk.fail(kind, 0, count)?;
        for round in 1..4 {
            fill(&mut stream, round)?;
            let mut found = 0;
            for n in 0..1500 {
                let value = value(&mut stream, &format!("k{n}"))?;
                found += usize::from(value.is_some());
                let is_newest = value.is_none_or(|value| value == value_of(n, round).into_bytes());
                ensure!(is_newest, "k{n} is not what was stored last");
            }
            ensure!(found > 300, "memory has {found} items");
        }
        ensure!(stat(&mut stream, "larder", "tier_failed")? == 1, "a failed {kind} is counted");
        wait_for(&server, "the cache continues in memory")?;
        ensure!(http::get(&admin, "/ready", &[])?.status == 200, "a cache is ready without it");
        server.signal(Signal::KILL)?;
        drop(server);
        disk.fail(kind, 0, 0)?;
        let (server, _) = start(&disk.mounted(), &["--tier-mode", "cache"])?;
        ensure!(value(&mut server.connect()?, "k1")?.is_none(), "a cache is empty after a kill");
    }
    Ok(())
}

/// Starts a server on a disk that fails calls. Returns its message if it ends; `None` if it serves.
fn complaint(disk: &Passing, args: &[&str]) -> Result<Option<String>> {
    let options = options(&disk.mounted(), args)?;
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut server = match ServerUnderTest::start(&binary(), Transport::Tcp, &options) {
        Ok(server) => server,
        Err(error) => return Ok(Some(format!("{error:#}"))),
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        // The server listens before it has opened the directory.
        if server.connect().and_then(|mut stream| ask(&mut stream, "version\r\n")).is_ok() {
            return Ok(None);
        }
        if !server.is_running()? {
            return Ok(Some(server.log()));
        }
    }
    bail!("neither serves nor ends: {}", server.log())
}

#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make verify ONLY=tier runs it"]
fn a_start_that_a_call_fails_says_so_and_changes_nothing() -> Result<()> {
    let disk = Passing::mount()?;
    let mut history = History::new(0);
    let mut ended = 0;
    for kind in ["read", "write", "sync"] {
        for after in (0..8).chain([15, 40]) {
            let (server, _) = start(&disk.mounted(), &STORE)?;
            let mut stream = server.connect()?;
            let lost = history.check(&mut stream).with_context(|| server.log())?;
            ensure!(lost.is_empty(), "a start loses changes that were answered");
            (0..20).try_for_each(|_| history.change(&mut stream))?;
            server.signal(Signal::KILL)?;
            drop(server);
            disk.fail(kind, after, 1)?;
            if let Some(said) = complaint(&disk, &STORE)? {
                ended += 1;
                let is_clear = said.contains("option --tier-path: ")
                    && said.contains("Input/output error")
                    && !said.contains("panicked");
                ensure!(is_clear, "call {after} of {kind}: {said}");
            }
            disk.withdraw(&format!("fail-{kind}"))?;
        }
    }
    ensure!(ended > 10, "only {ended} starts met a failed call");
    Ok(())
}
