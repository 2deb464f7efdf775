//! Large values must be returned as they were stored: at any length, in any parts and in each
//! dialect, while other clients fill, delete and flush the same keys.

use std::io::Read;
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use larder_testkit::Stream;
use larder_testkit::stat::stat;

use crate::dice::Dice;
use crate::large;
use crate::large::{Guest, value};
use crate::peers::{Peer, Route, Site};

const LOOPS: [&str; 2] = ["uring", "epoll"];

/// Segments have 256 KiB, and pieces 32 KiB.
const ARGS: [&str; 4] = ["-t", "2", "-m", "64"];

/// Number of clients with their own keys, whose expected values are known.
const GUESTS: u64 = 4;

fn seed() -> Result<u64> {
    match std::env::var("LARDER_SEED") {
        Ok(seed) => seed.parse().context("LARDER_SEED is a number"),
        Err(_) => Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()),
    }
}

/// How long each poller is tested on each route.
fn duration() -> Duration {
    let secs = std::env::var("LARDER_SECS").ok().and_then(|secs| secs.parse().ok());
    Duration::from_secs(secs.unwrap_or(2))
}

/// Checks that all segments have been unpinned and all uploads, which are values that arrive in
/// parts, have ended.
fn is_let_go(stream: &mut Stream) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    for (group, name) in
        [("larder", "segments_pinned"), ("", "read_buf_bytes"), ("", "response_obj_bytes")]
    {
        while stat(stream, group, name)? > 0 {
            ensure!(Instant::now() < deadline, "{name} stays {}", stat(stream, group, name)?);
            sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// Executes random operations on all keys.
fn disturb(site: &Site, mut dice: Dice, until: Instant) -> Result<()> {
    let mut stream = site.scene.connect()?;
    let mut filled = 0u64;
    while Instant::now() < until {
        let (guest, key) = (dice.below(GUESTS as usize), dice.below(large::KEYS));
        match dice.below(40) {
            0 => drop(stream.ask(b"flush_all\r\n", b"OK\r\n")?),
            1 => {
                let mebibytes = dice.one_of(&[48, 56, 64]);
                let line = format!("cache_memlimit {mebibytes}\r\n");
                stream.ask(line.as_bytes(), b"OK\r\n")?;
            }
            2..=15 => {
                let line = format!("delete g{guest}k{key} noreply\r\ntouch g{guest}k{key} 0\r\n");
                stream.ask(line.as_bytes(), b"\r\n")?;
            }
            16..=20 => {
                let line = format!("mg g{guest}k{key} k\r\n");
                stream.ask(line.as_bytes(), b"\r\n")?;
            }
            21..=30 => {
                filled += 1;
                let bytes = 1 + dice.below(400_000);
                let line = format!("set fill{} 0 0 {bytes}\r\n", filled % 300);
                let set = [line.as_bytes(), value(0, bytes), b"\r\n"].concat();
                stream.ask(&set, b"STORED\r\n")?;
            }
            _ => sleep(Duration::from_micros(dice.below(2000) as u64)),
        }
    }
    stream.ask(b"cache_memlimit 64\r\n", b"OK\r\n")?;
    Ok(())
}

fn converse_on(route: Route) -> Result<()> {
    let seed = seed()?;
    for io in LOOPS {
        let Some(site) = Site::start(route, io, &ARGS)? else { continue };
        let until = Instant::now() + duration();
        let hits = thread::scope(|scope| -> Result<u64> {
            let site = &site;
            let guests: Vec<_> = (0..GUESTS)
                .map(|number| {
                    let dice = Dice::new(seed.wrapping_add(number));
                    scope.spawn(move || Guest::new(number, dice).stay(site, until))
                })
                .collect();
            let disturbed = disturb(site, Dice::new(!seed), until);
            let mut hits = 0;
            for guest in guests {
                hits += guest.join().map_err(|_| anyhow!("a guest has panicked"))??;
            }
            disturbed.map(|()| hits)
        })
        .with_context(|| {
            format!("{route:?}, {io}, LARDER_SEED={seed}: {}", site.scene.server.log())
        })?;
        ensure!(hits > 20, "{route:?}, {io}: only {hits} values were found");
        is_let_go(&mut site.control()?).with_context(|| format!("{route:?}, {io}"))?;
        site.scene.end()?;
    }
    Ok(())
}

#[test]
fn values_on_tcp_come_back_as_they_were_sent() -> Result<()> {
    converse_on(Route::Tcp)
}

#[test]
fn values_on_a_unix_socket_come_back_as_they_were_sent() -> Result<()> {
    converse_on(Route::Unix)
}

#[test]
fn values_with_tls_come_back_as_they_were_sent() -> Result<()> {
    converse_on(Route::Tls)
}

fn store(stream: &mut Stream, key: &str, value: &[u8]) -> Result<()> {
    let line = format!("set {key} 0 0 {}\r\n", value.len());
    stream.ask(&[line.as_bytes(), value, b"\r\n"].concat(), b"STORED\r\n")?;
    Ok(())
}

fn item(key: &str, value: &[u8]) -> Vec<u8> {
    [format!("VALUE {key} 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

/// The item is deleted while it is read, and several times as much data as fits into the cache is
/// stored.
#[test]
fn a_paused_reader_gets_the_rest_of_a_value_deleted_meanwhile() -> Result<()> {
    for (route, io) in [
        (Route::Tcp, "uring"),
        (Route::Tcp, "epoll"),
        (Route::Tls, "epoll"),
        (Route::Unix, "uring"),
    ] {
        let Some(site) = Site::start(route, io, &ARGS)? else { continue };
        let mut control = site.control()?;
        let large = value(7, 900_000);
        store(&mut control, "large", large)?;
        let mut peers: Vec<Peer> = (0..4).map(|_| site.connect()).collect::<Result<_>>()?;
        for peer in &mut peers {
            peer.send(&b"get large\r\n".repeat(10))?;
        }
        let mut first = [0; 1000];
        peers[0].read_exact(&mut first)?;
        sleep(Duration::from_millis(50));
        control.ask(b"delete large\r\n", b"DELETED\r\n")?;
        for number in 0..200 {
            store(&mut control, &format!("other{number}"), value(number, 900_000))?;
        }
        for (number, peer) in peers.iter_mut().enumerate() {
            peer.send(b"quit\r\n")?;
            let mut answer = if number == 0 { first.to_vec() } else { Vec::new() };
            peer.read_to_end(&mut answer)?;
            let whole = [&item("large", large)[..], b"END\r\n"].concat();
            let (mut rest, mut hits) = (&answer[..], 0);
            while let Some(behind) = rest.strip_prefix(&whole[..]) {
                (rest, hits) = (behind, hits + 1);
            }
            let misses = b"END\r\n".repeat(10 - hits);
            ensure!(hits > 0, "{route:?}, {io}: {hits} values, then {}", rest.len());
            ensure!(rest == misses, "{route:?}, {io}: {hits} values, then {}", rest.len());
        }
        drop(peers);
        is_let_go(&mut control).with_context(|| format!("{route:?}, {io}"))?;
        drop(control);
        site.scene.end()?;
    }
    Ok(())
}

/// More readers than may pin segments. The others receive copies, a little at a time.
#[test]
fn many_slow_readers_get_all_of_a_large_value() -> Result<()> {
    const PEERS: usize = 100;
    const VALUES: usize = 30;
    for io in LOOPS {
        let Some(site) = Site::start(Route::Tcp, io, &ARGS)? else { continue };
        let mut control = site.control()?;
        for number in 0..VALUES {
            store(&mut control, &format!("large{number}"), value(number, 1_000_000))?;
        }
        let mut peers: Vec<Peer> = (0..PEERS).map(|_| site.connect()).collect::<Result<_>>()?;
        for (number, peer) in peers.iter_mut().enumerate() {
            let key = format!("large{} ", number % VALUES);
            peer.send(format!("get {}\r\n", key.repeat(8)).as_bytes())?;
        }
        sleep(Duration::from_millis(300));
        // A small value must still be answered.
        store(&mut control, "small", b"value")?;
        let held_bytes = stat(&mut control, "", "response_obj_bytes")?;
        ensure!(
            held_bytes < 32 << 20,
            "{io}: {held_bytes} bytes are held for clients that do not read"
        );
        for (number, peer) in peers.iter_mut().enumerate() {
            let key = format!("large{}", number % VALUES);
            let large = value(number % VALUES, 1_000_000);
            let expected = [&item(&key, large).repeat(8)[..], b"END\r\n"].concat();
            let mut answer = vec![0; expected.len()];
            peer.read_exact(&mut answer).with_context(|| format!("{io}: peer {number}"))?;
            ensure!(answer == expected, "{io}: peer {number} got something else");
        }
        drop(peers);
        is_let_go(&mut control).with_context(|| io.to_owned())?;
        drop(control);
        site.scene.end()?;
    }
    Ok(())
}

/// They announce three times as much as the memory holds, and send almost nothing.
#[test]
fn unfinished_large_values_do_not_block_other_clients() -> Result<()> {
    const PEERS: usize = 500;
    for io in LOOPS {
        let Some(site) = Site::start(Route::Tcp, io, &ARGS)? else { continue };
        let mut control = site.control()?;
        let large = value(5, 500_000);
        store(&mut control, "large", large)?;
        let mut peers: Vec<Peer> = (0..PEERS).map(|_| site.connect()).collect::<Result<_>>()?;
        for (number, peer) in peers.iter_mut().enumerate() {
            peer.send(format!("set slow{number} 0 0 1000000\r\nx").as_bytes())?;
        }
        sleep(Duration::from_millis(200));
        let pinned = stat(&mut control, "larder", "segments_pinned")?;
        let segments = stat(&mut control, "larder", "segments")?;
        ensure!(pinned <= segments / 8 + 1, "{io}: {pinned} of {segments} segments are held");
        let found = control.ask(b"get large\r\n", b"END\r\n")?;
        ensure!(found == [&item("large", large)[..], b"END\r\n"].concat(), "{io}: it is gone");
        for number in 0..200 {
            store(&mut control, &format!("other{number}"), value(number, 500_000))?;
        }
        // If a client continues in time, its memory may already be reclaimed, but it receives an
        // error.
        for (number, peer) in peers.iter_mut().enumerate().take(20) {
            peer.send(&value(number, 1_000_000)[1..])?;
            peer.send(b"\r\nmn\r\n")?;
            let mut answer = Vec::new();
            while !answer.ends_with(b"MN\r\n") {
                let mut byte = [0];
                peer.read_exact(&mut byte)?;
                answer.extend(byte);
            }
            let expected =
                [&b"STORED\r\nMN\r\n"[..], b"SERVER_ERROR out of memory storing object\r\nMN\r\n"];
            ensure!(expected.contains(&&answer[..]), "{io}: {}", answer.escape_ascii());
        }
        drop(peers);
        is_let_go(&mut control).with_context(|| io.to_owned())?;
        drop(control);
        site.scene.end()?;
    }
    Ok(())
}

#[test]
fn the_rest_of_a_large_value_is_received_directly() -> Result<()> {
    let Some(site) = Site::start(Route::Tcp, "uring", &ARGS)? else { return Ok(()) };
    let mut stream = site.scene.connect()?;
    // After a short input a receive is in progress until it is cancelled.
    stream.ask(b"version\r\n", b"\r\n")?;
    std::io::Write::write_all(&mut stream, b"set k 0 0 300000\r\n")?;
    std::io::Write::write_all(&mut stream, &[b'v'; 100_000])?;
    let mut bystander = site.scene.connect()?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while stat(&mut bystander, "larder", "segments_pinned")? == 0 {
        ensure!(Instant::now() < deadline, "no room is held for it");
        sleep(Duration::from_millis(1));
    }
    stream.ask(&[&[b'v'; 200_000][..], b"\r\n"].concat(), b"STORED\r\n")?;
    let answer = stream.ask(b"get k\r\n", b"END\r\n")?;
    let expected = [b"VALUE k 0 300000\r\n", &[b'v'; 300_000][..], b"\r\nEND\r\n"].concat();
    assert!(answer == expected);
    drop(stream);
    is_let_go(&mut bystander)
}
