//! A server that is killed while it starts, reclaims or stops. Every acknowledged change must
//! survive.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use larder_testkit::server::Signal;
use larder_testkit::stat::stat;
use larder_testkit::{ServerUnderTest, Stream, Transport};
use tempfile::TempDir;

use super::history::History;
use super::{ask, binary, options, start, value};

const STORE: [&str; 4] = ["--tier-mode", "store", "--durability", "sync"];

fn place() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("larder-kills-").tempdir()?)
}

/// Runs clients that change a store, and kills it after a while.
fn work_until_killed(
    server: ServerUnderTest,
    clients: &mut [History],
    meanwhile: impl FnOnce(&ServerUnderTest) -> Result<()>,
) -> Result<()> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for client in clients {
            let mut stream = server.connect()?;
            let is_over = &is_over;
            scope.spawn(move || client.work(&mut stream, is_over));
        }
        let done = meanwhile(&server);
        server.signal(Signal::KILL)?;
        drop(server);
        is_over.store(true, Relaxed);
        done
    })
}

/// Checks that no acknowledged change is lost.
fn check(server: &ServerUnderTest, clients: &mut [History]) -> Result<()> {
    for client in clients {
        let lost = client.check(&mut server.connect()?).with_context(|| server.log())?;
        let answered = lost.iter().filter(|change| change.answered.is_some()).count();
        ensure!(answered == 0, "{answered} changes that were answered are lost");
    }
    Ok(())
}

/// Overwrites some items that are not checked, so that the log has much to reclaim.
fn overwrite(stream: &mut Stream, megabytes: usize) -> Result<()> {
    let long = "v".repeat(1_000_000);
    for n in 0..megabytes {
        let set = format!("set filler{} 0 0 {}\r\n{long}\r\n", n % 4, long.len());
        let answer = ask(stream, &set)?;
        ensure!(answer == "STORED", "{answer}");
    }
    Ok(())
}

#[test]
fn a_start_may_be_killed_again_and_again_until_it_succeeds() -> Result<()> {
    let place = place()?;
    let mut clients: Vec<History> = (0..2).map(History::new).collect();
    let (server, _) = start(place.path(), &STORE)?;
    work_until_killed(server, &mut clients, |server| overwrite(&mut server.connect()?, 60))?;
    let options = options(place.path(), &STORE)?;
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut killed = 0;
    for ms in (0..).map(|attempt| attempt * 5) {
        let server = ServerUnderTest::start(&binary(), Transport::Tcp, &options)?;
        sleep(Duration::from_millis(ms));
        if server.log().contains("with ") {
            check(&server, &mut clients)?;
            break;
        }
        server.signal(Signal::KILL)?;
        killed += 1;
        ensure!(ms < 20_000, "the start does not succeed: {}", server.log());
    }
    ensure!(killed > 0, "no start was killed before it had read the log");
    Ok(())
}

#[test]
fn kills_during_reclaim_take_nothing_that_was_answered() -> Result<()> {
    let place = place()?;
    let mut clients: Vec<History> = (0..2).map(History::new).collect();
    let args = [&STORE[..], &["--tier-size", "48m"]].concat();
    for round in 0..5 {
        let (server, _) = start(place.path(), &args)?;
        check(&server, &mut clients)?;
        work_until_killed(server, &mut clients, |server| {
            let mut stream = server.connect()?;
            // Reclaim continues in the last of them.
            overwrite(&mut stream, 60 + round * 3)?;
            let reclaimed = stat(&mut stream, "larder", "tier_segments_reclaimed")?;
            ensure!(reclaimed > 2, "only {reclaimed} segments were reclaimed");
            overwrite(&mut stream, 3)
        })?;
    }
    let (server, _) = start(place.path(), &args)?;
    check(&server, &mut clients)
}

#[test]
fn kills_during_a_clean_stop_take_nothing_that_was_answered() -> Result<()> {
    let place = place()?;
    let mut clients: Vec<History> = (0..2).map(History::new).collect();
    for ms in [0, 1, 2, 4, 8, 16, 32] {
        let (server, _) = start(place.path(), &STORE)?;
        check(&server, &mut clients)?;
        work_until_killed(server, &mut clients, |server| {
            sleep(Duration::from_millis(150));
            server.signal(Signal::TERM)?;
            sleep(Duration::from_millis(ms));
            Ok(())
        })?;
    }
    let (server, _) = start(place.path(), &STORE)?;
    check(&server, &mut clients)
}

#[test]
fn a_cache_that_is_killed_during_its_stop_returns_no_old_value() -> Result<()> {
    let place = place()?;
    let mut ends = [0; 2];
    for (round, ms) in [0, 2, 5, 10, 20, 40, 80, 400].into_iter().enumerate() {
        let (server, _) = start(place.path(), &["--tier-mode", "cache"])?;
        let mut stream = server.connect()?;
        let long = "v".repeat(4000);
        let mut found = 0;
        for n in 0..3000 {
            if let Some(value) = value(&mut stream, &format!("k{n}"))? {
                let expected = format!("{}{long}", round.wrapping_sub(1)).into_bytes();
                ensure!(value == expected, "k{n} is not what was stored last");
                found += 1;
            }
        }
        ends[usize::from(found > 0)] += 1;
        for n in 0..3000 {
            let set =
                format!("set k{n} 0 0 {}\r\n{round}{long}\r\n", 4000 + round.to_string().len());
            ensure!(ask(&mut stream, &set)? == "STORED");
        }
        server.signal(Signal::TERM)?;
        sleep(Duration::from_millis(ms));
        server.signal(Signal::KILL)?;
    }
    ensure!(ends[0] > 1, "no stop was killed before its end: {ends:?}");
    Ok(())
}

#[test]
fn all_items_of_a_full_store_can_be_deleted() -> Result<()> {
    let place = place()?;
    let args = ["--tier-mode", "store", "--durability", "async", "--tier-size", "40m"];
    let (server, _) = start(place.path(), &args)?;
    let mut stream = server.connect()?;
    let mut stored = 0;
    loop {
        let set = format!("set small-{stored} 0 0 100\r\n{stored:0100}\r\n");
        match &ask(&mut stream, &set)?[..] {
            "STORED" => stored += 1,
            "SERVER_ERROR the disk does not keep up; try again later" => {}
            full => {
                ensure!(full == "SERVER_ERROR out of disk space storing object", "{full}");
                break;
            }
        }
    }
    ensure!(stored > 50_000, "the store is full of {stored} items of 100 bytes");
    for n in 0..stored {
        let answer = ask(&mut stream, &format!("delete small-{n}\r\n"))
            .with_context(|| format!("{n} of {stored}"))?;
        ensure!(answer == "DELETED", "{n} of {stored}: {answer}");
    }
    ensure!(stat(&mut stream, "larder", "tier_items")? == 0);
    ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
    let (server, _) = start(place.path(), &args)?;
    ensure!(stat(&mut server.connect()?, "larder", "tier_items")? == 0, "items come back");
    Ok(())
}
