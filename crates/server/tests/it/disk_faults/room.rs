//! A file system without free space. A store refuses stores before it changes anything, a cache
//! uses the space that it has, and both continue by themselves once there is more space.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use larder_testkit::Stream;
use larder_testkit::server::{Signal, command, run_to_end};

use super::image::{Image, KINDS};
use super::{ask, binary, http, options, start, value};

const ARGS: [&str; 4] = ["--tier-mode", "store", "--durability", "async"];
const NO_ROOM: &str = "SERVER_ERROR out of disk space storing object";
const NOT_MADE: &str = "SERVER_ERROR the disk does not keep up; try again later";
const VALUE_BYTES: usize = 50_000;

fn value_of(n: u32, round: u32) -> String {
    format!("{:0>1$}", format!("{n}/{round}"), VALUE_BYTES)
}

/// Sets an item; waits while the disk does not keep up.
fn set(stream: &mut Stream, n: u32, round: u32) -> Result<String> {
    loop {
        let request = format!("set k{n} 0 0 {VALUE_BYTES}\r\n{}\r\n", value_of(n, round));
        match ask(stream, &request)? {
            answer if answer == NOT_MADE => {}
            answer => return Ok(answer),
        }
    }
}

/// Stores items until one is refused, and returns its number.
fn store_until_full(stream: &mut Stream, from: u32, round: u32) -> Result<u32> {
    for n in from..from + 3000 {
        match &set(stream, n, round)?[..] {
            "STORED" => {}
            NO_ROOM => return Ok(n),
            answer => bail!("k{n}: {answer}"),
        }
    }
    bail!("3000 items are stored although the file system is full")
}

/// Repeats a set until it succeeds.
fn set_once_there_is_room(stream: &mut Stream, n: u32, round: u32) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while set(stream, n, round)? != "STORED" {
        ensure!(Instant::now() < deadline, "no item is stored although there is space again");
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn a_full_file_system_refuses_stores_before_they_change_anything() -> Result<()> {
    for kind in KINDS {
        let image = Image::new(kind)?;
        let (server, admin) = start(&image.mounted(), &ARGS)?;
        let mut stream = server.connect()?;
        for n in 0..200 {
            ensure!(set(&mut stream, n, 0)? == "STORED");
        }
        image.fill()?;
        let refused = store_until_full(&mut stream, 200, 0)?;
        // The number of live bytes is an estimate, so a few changes may fit after one was refused.
        let mut round = 0;
        while set(&mut stream, 7, round + 1)? != NO_ROOM {
            round += 1;
            ensure!(round < 500, "an overwrite also needs space");
        }
        let left = value(&mut stream, "k7")?;
        ensure!(left == Some(value_of(7, round).into()), "the old value stays");
        ensure!(value(&mut stream, &format!("k{refused}"))?.is_none(), "nothing was stored");
        ensure!(ask(&mut stream, "delete k8\r\n")? == "DELETED", "deletes continue");
        ensure!(value(&mut stream, "k8")?.is_none());
        ensure!(http::get(&admin, "/ready", &[])?.status == 200, "a full disk has not failed");
        image.make_room()?;
        set_once_there_is_room(&mut stream, 7, 1000)?;
        ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
        let (server, _) = start(&image.mounted(), &ARGS)?;
        let mut stream = server.connect()?;
        for n in (0..refused).filter(|n| *n != 8) {
            let round = if n == 7 { 1000 } else { 0 };
            let found = value(&mut stream, &format!("k{n}"))?;
            ensure!(found == Some(value_of(n, round).into()), "k{n} on {kind}");
        }
        ensure!(value(&mut stream, "k8")?.is_none(), "the deleted item comes back");
    }
    Ok(())
}

/// Checks that a start reports that the file system is full.
fn refused_for_space(image: &Image) -> Result<()> {
    let mut larderd = command(&binary());
    larderd.arg("-s").arg(image.mounted().join("../socket"));
    let output = run_to_end(larderd.args(options(&image.mounted(), &ARGS)?))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_clear = said.contains("option --tier-path: ") && said.contains("No space left");
    ensure!(output.status.code() == Some(1) && is_clear, "{}: {said}", output.status);
    Ok(())
}

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn deletes_make_room_in_the_space_that_a_full_file_system_has_given() -> Result<()> {
    for kind in KINDS {
        let image = Image::new(kind)?;
        let (server, _) = start(&image.mounted(), &ARGS)?;
        let mut stream = server.connect()?;
        for n in 0..800 {
            ensure!(set(&mut stream, n, 0)? == "STORED");
        }
        image.fill()?;
        let refused = store_until_full(&mut stream, 800, 0)?;
        for n in 0..refused {
            let answer = ask(&mut stream, &format!("delete k{n}\r\n"))?;
            ensure!(answer == "DELETED", "k{n} on {kind}: {answer}");
        }
        set_once_there_is_room(&mut stream, 3, 1)?;
        // The log writes within 100 ms.
        sleep(Duration::from_millis(500));
        server.signal(Signal::KILL)?;
        drop(server);
        // A start replaces MANIFEST in the space of the previous one, if a block has 4 KiB.
        let (server, _) = match start(&image.mounted(), &ARGS) {
            Ok(started) => started,
            Err(_) => {
                refused_for_space(&image)?;
                image.make_room()?;
                start(&image.mounted(), &ARGS)?
            }
        };
        let mut stream = server.connect()?;
        for n in 0..refused {
            let expected = (n == 3).then(|| value_of(3, 1).into_bytes());
            ensure!(value(&mut stream, &format!("k{n}"))? == expected, "k{n} on {kind}");
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn a_cache_uses_the_space_that_a_full_file_system_has_given() -> Result<()> {
    for kind in KINDS {
        let image = Image::new(kind)?;
        let args = ["--tier-mode", "cache"];
        let (server, _) = start(&image.mounted(), &args)?;
        let mut stream = server.connect()?;
        let store = |stream: &mut Stream, items: u32, round: u32| -> Result<()> {
            for n in 0..items {
                ensure!(set(stream, n, round)? == "STORED", "a cache stores in memory");
                // Slow enough for the disk to keep up.
                sleep(Duration::from_millis(3));
            }
            Ok(())
        };
        store(&mut stream, 600, 0)?;
        image.fill()?;
        for round in 1..4 {
            store(&mut stream, 1000, round)?;
            let mut found = 0;
            for n in 0..1000 {
                let value = value(&mut stream, &format!("k{n}"))?;
                found += usize::from(value.is_some());
                let is_newest = value.is_none_or(|value| value == value_of(n, round).into_bytes());
                ensure!(is_newest, "k{n} is not what was stored last");
            }
            // Memory by itself holds about 140.
            ensure!(found > 250, "only {found} items are found on {kind}");
        }
        image.make_room()?;
        ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
        let (server, _) = start(&image.mounted(), &args)?;
        let mut stream = server.connect()?;
        let found =
            (0..1000).filter(|n| matches!(value(&mut stream, &format!("k{n}")), Ok(Some(_))));
        ensure!(found.count() > 250, "the stop kept what the disk has");
    }
    Ok(())
}
