//! `larder_warm`: a connection that copies items into the server while clients use it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::{ServerUnderTest, Stream, Transport};

use crate::binary;

fn start(args: &[&str]) -> Result<ServerUnderTest> {
    ServerUnderTest::start(&binary(), Transport::Unix, args)
}

/// Sends a request, and returns the first line of the response.
fn ask(stream: &mut Stream, request: &str) -> Result<String> {
    let response = stream.ask(request.as_bytes(), b"\r\n")?;
    Ok(String::from_utf8(response)?.trim_end().to_owned())
}

fn expect(stream: &mut Stream, request: &str, response: &str) -> Result<()> {
    let found = ask(stream, request)?;
    ensure!(found == response, "{request:?}: {found:?}, expected {response:?}");
    Ok(())
}

fn stat(server: &ServerUnderTest, name: &str) -> Result<String> {
    let response = server.connect()?.ask(b"stats larder\r\n", b"END\r\n")?;
    let text = String::from_utf8(response)?;
    let prefix = format!("STAT {name} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
    Ok(value.with_context(|| name.to_owned())?.to_owned())
}

fn wait_until_idle(server: &ServerUnderTest) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while stat(server, "warm_phase")? != "0" {
        ensure!(Instant::now() < deadline, "the copy does not end");
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Changes of a key by every kind of command. Items that they store expire after a second, so that
/// the key has no item when the server refuses to copy one.
const CHANGES: &[&str] = &[
    "set KEY 0 1 1\r\nv\r\n",
    "add KEY 0 1 1\r\nv\r\n",
    "replace KEY 0 1 1\r\nv\r\n",
    "append KEY 0 1 1\r\nv\r\n",
    "cas KEY 0 1 1 7\r\nv\r\n",
    "delete KEY\r\n",
    "incr KEY 1\r\n",
    "touch KEY 1\r\n",
    "ms KEY 1 T1\r\nv\r\n",
    "md KEY\r\n",
    "md KEY I\r\n",
    "ma KEY N1 J5\r\n",
    "mg KEY N1 v\r\n",
    "set KEY 0 1 900000\r\nLARGE\r\n",
    "set KEY 0 0 2000000\r\nTOO LARGE\r\n",
];

#[test]
fn a_key_that_a_client_has_changed_is_not_copied() -> Result<()> {
    let server = start(&["-m", "64"])?;
    let mut copy = server.connect()?;
    expect(&mut copy, "larder_warm 60000\r\n", "OK")?;
    for (number, change) in CHANGES.iter().enumerate() {
        let request = change
            .replace("KEY", &format!("key:{number}"))
            .replace("TOO LARGE", &"x".repeat(2_000_000))
            .replace("LARGE", &"x".repeat(900_000));
        ask(&mut server.connect()?, &request)?;
    }
    sleep(Duration::from_millis(2200));
    for (number, change) in CHANGES.iter().enumerate() {
        expect(&mut server.connect()?, &format!("mg key:{number}\r\n"), "EN")?;
        let copied = ask(&mut copy, &format!("ms key:{number} 6 ME\r\ncopied\r\n"))?;
        ensure!(copied == "NS", "{change:?}: {copied}");
    }
    expect(&mut copy, "ms other 6 ME\r\ncopied\r\n", "HD")?;
    ensure!(stat(&server, "warm_refused")? == CHANGES.len().to_string());
    ensure!(stat(&server, "warm_stored")? == "1");
    expect(&mut copy, "larder_warm end\r\n", "OK")?;
    expect(&mut server.connect()?, "mg other\r\n", "HD")
}

#[test]
fn values_of_all_sizes_and_in_parts_are_copied_and_guarded() -> Result<()> {
    let server = start(&["-m", "64", "-I", "8m"])?;
    let (mut copy, mut client) = (server.connect()?, server.connect()?);
    expect(&mut copy, "larder_warm 60000\r\n", "OK")?;
    for bytes in [0, 1, 100, 4096, 100_000, 3_000_000] {
        ask(&mut client, &format!("delete gone:{bytes}\r\n"))?;
        let value = "x".repeat(bytes);
        for (key, expected) in [("new", "HD"), ("gone", "NS")] {
            let request = format!("ms {key}:{bytes} {bytes} ME\r\n{value}\r\n");
            let (first, rest) = request.split_at(request.len() / 2);
            std::io::Write::write_all(&mut copy, first.as_bytes())?;
            sleep(Duration::from_millis(20));
            expect(&mut copy, rest, expected)?;
        }
    }
    expect(&mut copy, "larder_warm end\r\n", "OK")
}

#[test]
fn a_copy_whose_connection_ends_is_removed() -> Result<()> {
    let server = start(&["-m", "64"])?;
    let (mut copy, mut client) = (server.connect()?, server.connect()?);
    expect(&mut client, "set own 0 0 1\r\nv\r\n", "STORED")?;
    expect(&mut copy, "larder_warm 60000\r\n", "OK")?;
    for number in 0..1000 {
        expect(&mut copy, &format!("ms copied:{number} 1 ME\r\nv\r\n"), "HD")?;
    }
    drop(copy);
    let deadline = Instant::now() + Duration::from_secs(20);
    while ask(&mut client, "mg copied:7\r\n")? != "EN" {
        ensure!(Instant::now() < deadline, "the copied items stay: {}", server.log());
        sleep(Duration::from_millis(5));
    }
    wait_until_idle(&server)?;
    expect(&mut client, "mg own\r\n", "HD")?;
    ensure!(stat(&server, "warm_undone")? == "1");
    ensure!(server.log().contains("its connection ended"), "{}", server.log());
    let mut copy = server.connect()?;
    expect(&mut copy, "larder_warm 60000\r\n", "OK")
}

/// A tool that is stopped does not report changes of the source.
#[test]
fn a_copy_that_is_silent_is_removed() -> Result<()> {
    for io in ["--io=epoll", "--io=auto"] {
        let server = start(&["-m", "64", io])?;
        let (mut copy, mut client) = (server.connect()?, server.connect()?);
        expect(&mut copy, "larder_warm 1000\r\n", "OK")?;
        expect(&mut copy, "ms k 1 ME\r\nv\r\n", "HD")?;
        for _ in 0..5 {
            sleep(Duration::from_millis(400));
            expect(&mut copy, "mn\r\n", "MN")?;
        }
        expect(&mut client, "mg k\r\n", "HD")?;
        sleep(Duration::from_millis(3500));
        expect(&mut client, "mg k\r\n", "EN")?;
        ensure!(copy.ask(b"larder_warm end\r\n", b"\r\n").is_err(), "the connection is closed");
    }
    Ok(())
}

#[test]
fn a_flush_and_a_removal_end_the_copy() -> Result<()> {
    for removal in ["flush_all\r\n", "flush_all 100\r\n", "delete_prefix other\r\n"] {
        let server = start(&["-m", "64"])?;
        let (mut copy, mut client) = (server.connect()?, server.connect()?);
        expect(&mut copy, "larder_warm 60000\r\n", "OK")?;
        expect(&mut copy, "ms k 1 ME\r\nv\r\n", "HD")?;
        ask(&mut client, removal)?;
        let refused = ask(&mut copy, "ms late 1 ME\r\nv\r\n")?;
        ensure!(
            refused.starts_with("SERVER_ERROR the copy has ended: a client removed"),
            "{refused}"
        );
        let refused = ask(&mut copy, "larder_warm end\r\n")?;
        ensure!(refused.starts_with("SERVER_ERROR the copy has ended"), "{removal}: {refused}");
        wait_until_idle(&server)?;
        expect(&mut client, "mg k\r\n", "EN")?;
        expect(&mut client, "mg late\r\n", "EN")?;
    }
    Ok(())
}

#[test]
fn a_copied_item_is_dropped_and_copied_again() -> Result<()> {
    let server = start(&["-m", "64"])?;
    let (mut copy, mut client) = (server.connect()?, server.connect()?);
    expect(&mut copy, "larder_warm 60000\r\n", "OK")?;
    expect(&mut copy, "ms k 3 ME\r\nold\r\n", "HD")?;
    expect(&mut copy, "md k\r\n", "HD")?;
    expect(&mut copy, "ms k 3 ME\r\nnew\r\n", "HD")?;
    ensure!(client.ask(b"get k\r\n", b"END\r\n")?.ends_with(b"new\r\nEND\r\n"));
    expect(&mut copy, "larder_warm end\r\n", "OK")
}

#[test]
fn wrong_requests_are_refused_with_the_reason() -> Result<()> {
    let server = start(&["-m", "64"])?;
    let mut stream = server.connect()?;
    for (request, expected) in [
        ("larder_warm\r\n", "CLIENT_ERROR usage: larder_warm"),
        ("larder_warm 99\r\n", "CLIENT_ERROR usage: larder_warm"),
        ("larder_warm 60001\r\n", "CLIENT_ERROR usage: larder_warm"),
        ("larder_warm end now\r\n", "CLIENT_ERROR usage: larder_warm"),
        ("larder_warm end\r\n", "CLIENT_ERROR no larder_warm <ms> before"),
        ("larder_warm 1000\r\n", "OK"),
        ("larder_warm 1000\r\n", "SERVER_ERROR another copy is in progress"),
    ] {
        let response = ask(&mut stream, request)?;
        ensure!(response.starts_with(expected), "{request:?}: {response}");
    }
    let busy = ask(&mut server.connect()?, "larder_warm 1000\r\n")?;
    ensure!(busy.starts_with("SERVER_ERROR another copy"), "{busy}");
    let near = start(&["-m", "64", "--origin=127.0.0.1:1"])?;
    let refused = ask(&mut near.connect()?, "larder_warm 1000\r\n")?;
    ensure!(refused.contains("near cache"), "{refused}");
    let folder = tempfile::tempdir()?;
    let directory = format!("--tier-path={}", folder.path().join("items").display());
    let store = start(&["-m", "64", &directory, "--tier-size=64m", "--tier-mode=store"])?;
    let refused = ask(&mut store.connect()?, "larder_warm 1000\r\n")?;
    ensure!(refused.contains("store"), "{refused}");
    Ok(())
}
