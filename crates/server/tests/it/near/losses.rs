//! Clients that lose their connection while a near cache passes their writes, and servers that are
//! stopped.

use std::io::Write;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::proxy::{Flow, Flows, Proxy};
use larder_testkit::server::Signal;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};

use super::{Chain, ask, await_state, get, hit, set, start_near};
use crate::binary;

/// The beginnings of stores, each of which lacks at least a byte.
fn beginnings() -> Vec<Vec<u8>> {
    let long = format!("set k 0 0 300000\r\n{}", "n".repeat(299_999));
    let mut binary = vec![0x80, 1, 0, 1, 8, 0, 0, 0, 0, 0, 0, 12];
    binary.extend_from_slice(&[0; 20]);
    binary.extend_from_slice(b"kne");
    let texts = ["set k 0 0 3\r\nnew\r", "set k 0 0 3\r\n", "ms k 3 q\r\nne", "set k 0 0 3", &long];
    texts.iter().map(|text| text.as_bytes().to_vec()).chain([binary]).collect()
}

/// Nothing is stored of a value that has not arrived completely.
#[test]
fn a_client_that_leaves_within_a_value_changes_nothing() -> Result<()> {
    for io in ["uring", "epoll"] {
        let Ok(chain) = Chain::start(&[&format!("--io={io}")]) else { continue };
        let (mut origin, mut near) = chain.connect()?;
        set(&mut origin, "k", "old")?;
        for beginning in beginnings() {
            let shown = String::from_utf8_lossy(&beginning[..beginning.len().min(20)]).into_owned();
            assert_eq!(get(&mut near, "k")?, hit("k", "old"), "{io}, {shown:?}");
            let mut leaving = chain.near.connect()?;
            leaving.write_all(&beginning)?;
            sleep(Duration::from_millis(20));
            drop(leaving);
            for _ in 0..5 {
                assert_eq!(get(&mut near, "k")?, hit("k", "old"), "{io}, {shown:?}");
                assert_eq!(get(&mut origin, "k")?, hit("k", "old"), "{io}, {shown:?}");
                sleep(Duration::from_millis(5));
            }
        }
        set(&mut near, "k", "new")?;
        assert_eq!(get(&mut near, "k")?, hit("k", "new"));
    }
    Ok(())
}

/// Returns the number in the response to a get.
fn number(answer: &str) -> Result<u64> {
    let value = answer.split("\r\n").nth(1).with_context(|| answer.to_owned())?;
    value.parse().with_context(|| answer.to_owned())
}

/// A write may be executed although its client has left before the answer. Once a reader has seen
/// it, no reader sees an older value.
#[test]
fn reads_after_a_client_left_before_its_answer_never_go_back() -> Result<()> {
    let origin = ServerUnderTest::start(&binary(), Transport::Tcp, &["--followers=4"])?;
    let Address::Tcp(address) = *origin.address() else { bail!("no TCP address") };
    let proxy = Proxy::start(address)?;
    let near = start_near(&proxy.address().to_string(), &[])?;
    await_state(&near, "copies")?;
    let delay = Flow::Delay(Duration::from_millis(5));
    proxy.set(&Flows { to_server: Flow::Pass, to_client: delay });
    let (mut direct, mut reader) = (origin.connect()?, near.connect()?);
    set(&mut direct, "k", "0")?;
    let mut last = 0;
    for n in 1..=60 {
        let until = Instant::now() + Duration::from_secs(5);
        let mut leaving = near.connect()?;
        leaving.write_all(format!("set k 0 0 {}\r\n{n}\r\n", n.to_string().len()).as_bytes())?;
        drop(leaving);
        while last < n {
            let found = number(&get(&mut reader, "k")?)?;
            ensure!(found >= last, "{found} after {last}");
            last = found;
            // All of the command has arrived, so it is executed.
            ensure!(Instant::now() < until, "{n} is not executed");
        }
        assert_eq!(number(&get(&mut direct, "k")?)?, n);
    }
    Ok(())
}

/// What a reader receives: when the read began and when it ended, and the answer.
type Read = (Instant, Instant, String);

/// Reads without a pause until some time.
fn read_until(near: &mut Stream, until: Instant) -> Result<Vec<Read>> {
    let mut reads = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        let answer = ask(near, "get k\r\nmn\r\n", "MN\r\n")?;
        let answer = answer.strip_suffix("MN\r\n").unwrap_or_default().to_owned();
        reads.push((began, Instant::now(), answer));
        sleep(Duration::from_millis(5));
    }
    Ok(reads)
}

const STOPPED: Duration = Duration::from_secs(10);
const STALE_MAX: Duration = Duration::from_secs(2);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_millis(500);

const ERRORS: [&str; 2] =
    ["SERVER_ERROR origin did not answer\r\n", "SERVER_ERROR origin unreachable\r\n"];

/// While the origin is stopped, clients receive copies as long as those may be stale, and then the
/// errors of the documentation.
fn stop_origin() -> Result<()> {
    let chain = Chain::start(&[])?;
    let (mut direct, mut near) = chain.connect()?;
    set(&mut direct, "k", "old")?;
    assert_eq!(get(&mut near, "k")?, hit("k", "old"));
    let stopped = Instant::now();
    chain.origin.signal(Signal::STOP)?;
    // A thread that runs on another processor stops a moment later.
    sleep(Duration::from_millis(100));
    // The origin executes it once it continues.
    direct.write_all(b"set k 0 0 3\r\nnew\r\n")?;
    let reads = read_until(&mut near, stopped + STOPPED)?;
    chain.origin.signal(Signal::CONT)?;
    direct.ask(b"", b"STORED\r\n")?;
    let after = read_until(&mut near, Instant::now() + Duration::from_secs(3))?;
    let mut copies = 0;
    for (began, ended, answer) in &reads {
        ensure!(*ended - *began < Duration::from_secs(1), "a read took {:?}", *ended - *began);
        match *began < stopped + STALE_MAX + SLACK {
            true if *answer == hit("k", "old") => copies += 1,
            _ => ensure!(ERRORS.contains(&&**answer), "{answer:?} after {:?}", *began - stopped),
        }
    }
    ensure!(copies > 0, "{copies} reads of the copy");
    let begin = after.iter().position(|(.., answer)| *answer == hit("k", "new"));
    let begin = begin.context("no read of the new value")?;
    for (.., answer) in &after[..begin] {
        ensure!(ERRORS.contains(&&**answer), "{answer:?} before the new value");
    }
    for (.., answer) in &after[begin..] {
        ensure!(*answer == hit("k", "new"), "{answer:?} after the new value");
    }
    Ok(())
}

/// A near cache that was stopped has missed the reports, and answers with nothing older than it
/// may, also to a read that waited for it.
fn stop_near() -> Result<()> {
    let chain = Chain::start(&[])?;
    let (mut direct, mut near) = chain.connect()?;
    set(&mut direct, "k", "old")?;
    assert_eq!(get(&mut near, "k")?, hit("k", "old"));
    chain.near.signal(Signal::STOP)?;
    sleep(Duration::from_millis(200));
    set(&mut direct, "k", "new")?;
    sleep(STALE_MAX + SLACK);
    let mut waiting = chain.near.connect()?;
    waiting.write_all(b"get k\r\nmn\r\n")?;
    sleep(STOPPED - STALE_MAX - SLACK);
    chain.near.signal(Signal::CONT)?;
    let waited = String::from_utf8(waiting.ask(b"", b"MN\r\n")?)?;
    let waited = waited.strip_suffix("MN\r\n").unwrap_or_default();
    let is_right = waited == hit("k", "new") || ERRORS.contains(&waited);
    ensure!(is_right, "{waited:?} for a read that waited");
    for (.., answer) in read_until(&mut near, Instant::now() + Duration::from_secs(2))? {
        ensure!(answer == hit("k", "new") || ERRORS.contains(&&*answer), "{answer:?} later");
    }
    await_state(&chain.near, "copies")?;
    assert_eq!(get(&mut near, "k")?, hit("k", "new"));
    Ok(())
}

#[test]
fn servers_that_are_stopped_for_ten_seconds_return_nothing_older_than_promised() -> Result<()> {
    scope(|scope| {
        let origin = scope.spawn(stop_origin);
        let near = scope.spawn(stop_near);
        let ended =
            |end: std::thread::Result<Result<()>>| end.unwrap_or_else(|_| bail!("it panicked"));
        ended(origin.join()).context("the origin is stopped")?;
        ended(near.join()).context("the near cache is stopped")
    })
}
