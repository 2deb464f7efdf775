//! Look-ups that read a server's memory without a request ([`Client::look`]). Bindings that have
//! their own connections use them.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use larder::{Client, ClientError};
use larder_testkit::server::Signal;
use larder_testkit::{Address, ServerUnderTest};

use crate::binary;

/// Waits until a condition is true, for a few seconds at most.
fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let since = Instant::now();
    while !is_so()? {
        ensure!(since.elapsed() < Duration::from_secs(10), "{what} is never so");
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[test]
fn a_look_never_waits_for_the_server() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("socket");
    let readers = ["--local-readers", "same-uid", "-m", "64"];
    let start = || ServerUnderTest::start_at(&binary(), Address::Unix(socket.clone()), &readers);
    let server = start()?;
    let client = Client::connect(&socket)?;
    client.set("k", "value", None)?;
    let look = |key: &str| {
        let mut out = b"before ".to_vec();
        let hit = client.look(key, &mut out);
        (hit.map(|hit| hit.is_local), String::from_utf8(out).unwrap())
    };
    server.signal(Signal::STOP)?;
    assert_eq!(look("k"), (Some(true), "before value".into()));
    let began = Instant::now();
    assert_eq!(look("absent"), (None, "before ".into()));
    until("not trusted", || Ok(look("k").0.is_none()))?;
    assert!(began.elapsed() < Duration::from_secs(6), "a look waits for the stopped server");
    server.signal(Signal::CONT)?;
    until("trusted", || Ok(look("k").0.is_some()))?;
    // A restarted server: a look does not connect, a refresh does.
    drop(server);
    let server = start()?;
    server.connect()?.ask(b"set k 0 0 6\r\nsecond\r\n", b"STORED\r\n")?;
    until("not trusted", || Ok(look("k").0.is_none()))?;
    until("in the new memory", || {
        client.refresh()?;
        Ok(look("k") == (Some(true), "before second".into()))
    })?;
    drop(server);
    // The kernel closes the sockets of a killed process a moment after its end.
    until("gone", || Ok(matches!(client.refresh(), Err(ClientError::Connect { .. }))))?;
    Ok(())
}
