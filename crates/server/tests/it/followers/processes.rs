//! Only one process tells changes: upgrades, and other processes that use the cache.

use std::io::BufRead;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder::Cache;
use larder_protocol::follow::{Fetched, Terms};
use larder_testkit::{ServerUnderTest, Stream, Transport};

use super::{Near, line, start};
use crate::upgrade_scene::Scene;

const UPGRADING: &[u8] = b"SERVER_ERROR upgrade in progress; try again later\r\n";
const SHARED: &[u8] =
    b"SERVER_ERROR another process uses the cache and may change it unnoticed; end it\r\n";

fn follow(stream: &mut Stream) -> Result<Vec<u8>> {
    Ok(stream.ask(b"larder_follow 1000\r\n", b"\r\n")?)
}

/// Follows as soon as the server permits it.
fn follow_soon(connect: impl Fn() -> Result<Stream>) -> Result<Near> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match Near::on(connect()?, connect()?, 10_000) {
            Ok(near) => return Ok(near),
            Err(_) if Instant::now() < until => sleep(Duration::from_millis(20)),
            Err(error) => return Err(error),
        }
    }
}

/// Checks that the stream of a near cache has ended, with this line.
fn ensure_ended(near: &mut Near, last: &[u8]) -> Result<()> {
    let mut rest = Vec::new();
    near.stream.read_until(0, &mut rest)?;
    ensure!(rest.ends_with(last), "{}", rest.escape_ascii());
    Ok(())
}

fn upgrade(args: &[&str]) -> Result<()> {
    let mut scene = Scene::tcp(&[&["--followers=9", "--upgrade-drain=2"], args].concat())?;
    let mut near = Near::follow(&scene.first)?;
    let mut client = scene.first.connect()?;
    client.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    ensure!(near.fetch(b"k")?.is_noted());
    let token = near.terms.token;
    let old = scene.upgrade()?;
    ensure_ended(&mut near, UPGRADING)?;
    // On the predecessor, whose connection of the near cache still serves.
    let copy = near.fetch(b"k")?;
    ensure!(matches!(copy.fetched, Fetched::Value { is_noted: false, .. }), "{copy:?}");
    ensure!(!near.fetch(b"absent")?.is_noted());
    ensure!(follow(&mut client)? == UPGRADING);
    // On the successor, while the predecessor has not ended.
    let mut after = scene.first.connect()?;
    let refusal = follow(&mut after)?;
    ensure!(refusal == UPGRADING, "{}", refusal.escape_ascii());
    let found = after.ask(format!("larder_follower {token:032x}\r\n").as_bytes(), b"\r\n")?;
    ensure!(found.starts_with(b"CLIENT_ERROR no change stream"), "{}", found.escape_ascii());
    drop((near, client));
    scene.wait_for_end(old)?;
    let mut near = follow_soon(|| Ok(Stream::connect(scene.first.address())?))?;
    ensure!(near.terms.token != token);
    near.fetch(b"k")?;
    after.ask(b"set k 0 0 1\r\nw\r\n", b"STORED\r\n")?;
    ensure!(near.changes()? == [near.changed(b"k")]);
    Ok(())
}

#[test]
fn no_process_tells_while_a_memory_file_is_handed_over() -> Result<()> {
    let folder = tempfile::tempdir()?;
    upgrade(&["-e", &folder.path().join("cache").display().to_string()])
}

#[test]
fn no_process_tells_while_another_one_takes_over_with_an_empty_cache() -> Result<()> {
    upgrade(&[])
}

#[test]
fn no_process_tells_while_memory_for_local_readers_is_handed_over() -> Result<()> {
    upgrade(&["--local-readers=same-uid"])
}

#[test]
fn streams_begin_again_after_an_upgrade_that_failed() -> Result<()> {
    let scene = Scene::tcp(&["--followers=9"])?;
    let mut near = Near::follow(&scene.first)?;
    std::fs::remove_file(scene.path("larderd"))?;
    std::os::unix::fs::symlink("/bin/false", scene.path("larderd"))?;
    rustix::process::kill_process(scene.pid()?, larder_testkit::server::Signal::USR2)?;
    ensure_ended(&mut near, UPGRADING)?;
    let mut near = follow_soon(|| scene.first.connect())?;
    ensure!(near.changes()?.is_empty());
    Ok(())
}

/// Starts a server on a file that other processes can open.
fn on_file(folder: &tempfile::TempDir) -> Result<(ServerUnderTest, String)> {
    let path = folder.path().join("cache").display().to_string();
    let server = start(Transport::Unix, &["--followers=9", "-e", &path])?;
    server.connect()?.ask(b"version\r\n", b"\r\n")?;
    Ok((server, path))
}

#[test]
fn a_stream_ends_when_another_process_opens_the_memory_file() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, path) = on_file(&folder)?;
    let mut near = Near::follow(&server)?;
    ensure!(near.changes()?.is_empty());
    let other = Cache::open_shared(&path)?;
    let ended = near.changes().expect_err("the stream ends");
    ensure!(SHARED.starts_with(ended.to_string().as_bytes()), "{ended}");
    let mut client = server.connect()?;
    ensure!(follow(&mut client)? == SHARED);
    drop(other);
    client.ask(b"version\r\n", b"\r\n")?;
    let mut stream = std::io::BufReader::new(client);
    std::io::Write::write_all(stream.get_mut(), b"larder_follow 1000\r\n")?;
    let terms = line(&mut stream)?;
    Terms::read(terms.as_bytes()).context(terms)?;
    Ok(())
}
