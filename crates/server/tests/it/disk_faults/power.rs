//! Power losses. A store must keep what its durability promises, a cache must start empty, and a
//! clean stop must keep everything.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::Signal;
use larder_testkit::{ServerUnderTest, Transport};

use super::history::{Change, History};
use super::image::{Image, KINDS};
use super::{ask, binary, options, start, value};

/// Several times, runs clients that change a store and cuts the power of its disk. `judge` receives
/// the lost changes and the time of the power loss.
fn lose_power(
    kind: &str,
    durability: &str,
    judge: impl Fn(&[Change], Instant) -> Result<()>,
) -> Result<()> {
    let image = Image::new(kind)?;
    let mut clients: Vec<History> = (0..3).map(History::new).collect();
    let args = ["--tier-mode", "store", "--durability", durability, "--tier-dirty-bytes", "1m"];
    for ms in PAUSES_MS {
        // The test does not wait until the server is ready, so that the power may fail while the
        // start still changes the directory.
        let options = options(&image.mounted(), &args)?;
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let server = ServerUnderTest::start(&binary(), Transport::Tcp, &options)?;
        let is_over = AtomicBool::new(false);
        let cut_at = thread::scope(|scope| -> Result<Instant> {
            for client in &mut clients {
                let mut stream = server.connect()?;
                let is_over = &is_over;
                scope.spawn(move || client.work(&mut stream, is_over));
            }
            sleep(Duration::from_millis(ms));
            let cut_at = Instant::now();
            let cut = image.cut_power();
            // Without its disk the server would still serve reads from memory. In a power loss it
            // also ends.
            server.signal(Signal::KILL)?;
            is_over.store(true, Relaxed);
            cut.map(|()| cut_at)
        })?;
        drop(server);
        image.unmount()?;
        image.mount(&[])?;
        let (server, _) = start(&image.mounted(), &args)?;
        let mut lost = Vec::new();
        for client in &mut clients {
            lost.extend(client.check(&mut server.connect()?).with_context(|| server.log())?);
        }
        judge(&lost, cut_at).with_context(|| format!("{kind}, {durability}, after {ms} ms"))?;
    }
    let answered: usize = clients.iter().map(History::answered).sum();
    ensure!(answered > 100, "only {answered} changes survived all power losses");
    Ok(())
}

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn with_sync_a_power_loss_takes_nothing_that_was_answered() -> Result<()> {
    KINDS.iter().try_for_each(|kind| {
        lose_power(kind, "sync", |lost, _| {
            let answered = lost.iter().filter(|change| change.answered.is_some()).count();
            ensure!(answered == 0, "{answered} changes that were answered are lost");
            Ok(())
        })
    })
}

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn with_an_interval_a_power_loss_takes_the_changes_of_two_intervals() -> Result<()> {
    KINDS.iter().try_for_each(|kind| {
        lose_power(kind, &format!("interval={INTERVAL_MS}"), |lost, cut_at| {
            let ages =
                lost.iter().filter_map(|change| cut_at.checked_duration_since(change.answered?));
            let oldest = ages.max().unwrap_or_default();
            ensure!(
                oldest <= Duration::from_millis(2 * INTERVAL_MS),
                "lost: answered {oldest:?} before"
            );
            Ok(())
        })
    })
}

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn with_async_a_power_loss_takes_no_more_than_the_logs_memory() -> Result<()> {
    KINDS.iter().try_for_each(|kind| {
        lose_power(kind, "async", |lost, cut_at| {
            let answered = |change: &&Change| change.answered.is_some_and(|at| at <= cut_at);
            let bytes: usize = lost.iter().filter(answered).map(Change::bytes).sum();
            ensure!(bytes <= 1 << 20, "{bytes} bytes that were answered are lost");
            Ok(())
        })
    })
}

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn a_clean_stop_keeps_everything_over_the_power_loss_behind_it() -> Result<()> {
    for kind in KINDS {
        for mode in ["store", "cache"] {
            let image = Image::new(kind)?;
            for round in 0..3 {
                let (server, _) = start(&image.mounted(), &["--tier-mode", mode])?;
                let mut stream = server.connect()?;
                if round > 0 {
                    for n in 0..ITEMS {
                        let found = value(&mut stream, &format!("k{n}"))?;
                        let expected = format!("{n:08}-{}{}", round - 1, "v".repeat(4000));
                        ensure!(found == Some(expected.into()), "{mode} on {kind}: k{n}");
                    }
                }
                for n in 0..ITEMS {
                    let value = format!("{n:08}-{round}{}", "v".repeat(4000));
                    let set = format!("set k{n} 0 0 {}\r\n{value}\r\n", value.len());
                    ensure!(ask(&mut stream, &set)? == "STORED");
                }
                ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
                image.cut_power()?;
                image.unmount()?;
                image.mount(&[])?;
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn a_cache_is_empty_after_a_power_loss() -> Result<()> {
    for kind in KINDS {
        let image = Image::new(kind)?;
        let (server, _) = start(&image.mounted(), &["--tier-mode", "cache"])?;
        let mut stream = server.connect()?;
        let value_of = "v".repeat(4000);
        for n in 0..8000 {
            ensure!(ask(&mut stream, &format!("set k{n} 0 0 4000\r\n{value_of}\r\n"))? == "STORED");
        }
        image.cut_power()?;
        drop(server);
        image.unmount()?;
        image.mount(&[])?;
        let (server, _) = start(&image.mounted(), &["--tier-mode", "cache"])?;
        let mut stream = server.connect()?;
        for n in 0..8000 {
            ensure!(value(&mut stream, &format!("k{n}"))?.is_none(), "k{n} on {kind} may be old");
        }
    }
    Ok(())
}

/// Times between a start and the power loss.
const PAUSES_MS: [u64; 7] = [700, 0, 300, 2, 40, 8, 1200];

/// Longer than a sync takes on a busy machine.
const INTERVAL_MS: u64 = 500;

/// Items of 4 kB. All of them fit into memory, so a cache drops none.
const ITEMS: usize = 1200;
