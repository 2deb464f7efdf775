//! Near caches: larderd with `--origin`, in front of another larderd or of a server that
//! misbehaves.

mod answers;
mod clocks;
mod copies;
mod drops;
mod http;
mod large;
mod losses;
mod origins;
mod readers;
mod security;
mod several;
mod timed;
mod upgrade;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_protocol::binary::Header;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};

use crate::binary;

/// An origin and a near cache in front of it.
pub(super) struct Chain {
    pub(super) origin: ServerUnderTest,
    pub(super) near: ServerUnderTest,
}

impl Chain {
    /// Starts both, and waits until the near cache may use copies.
    pub(super) fn start(near_args: &[&str]) -> Result<Self> {
        Self::over(Transport::Tcp, &[], near_args)
    }

    pub(super) fn over(
        transport: Transport,
        origin_args: &[&str],
        near_args: &[&str],
    ) -> Result<Self> {
        let origin_args = [&["--followers=64", "-t", "1"], origin_args].concat();
        let origin = ServerUnderTest::start(&binary(), transport, &origin_args)?;
        let near = start_near(&shown(origin.address()), near_args)?;
        await_state(&near, "copies")?;
        Ok(Self { origin, near })
    }

    pub(super) fn connect(&self) -> Result<(Stream, Stream)> {
        Ok((self.origin.connect()?, self.near.connect()?))
    }
}

/// Starts a near cache.
pub(super) fn start_near(origin: &str, args: &[&str]) -> Result<ServerUnderTest> {
    let origin = format!("--origin={origin}");
    let args = [&[&*origin, "-t", "2"], args].concat();
    ServerUnderTest::start(&binary(), Transport::Tcp, &args)
}

/// Returns an address in the form of `--origin`.
pub(super) fn shown(address: &Address) -> String {
    match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => path.display().to_string(),
    }
}

/// Returns a row of `stats larder`.
pub(super) fn stat(server: &ServerUnderTest, name: &str) -> Result<String> {
    let stats = server.connect()?.ask(b"stats larder\r\n", b"END\r\n")?;
    let stats = String::from_utf8(stats)?;
    let row = stats.lines().find_map(|row| row.strip_prefix(&format!("STAT {name} ")));
    row.map(str::to_owned).with_context(|| format!("no row {name} in {stats}"))
}

pub(super) fn count(server: &ServerUnderTest, name: &str) -> Result<u64> {
    Ok(stat(server, name)?.parse()?)
}

/// Waits until a near cache is in a state, and for `copies` until it may use them.
pub(super) fn await_state(near: &ServerUnderTest, state: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found = stat(near, "near_state")?;
        let is_fresh = stat(near, "near_fresh")? == stat(near, "near_origins")?;
        if found == state && (state != "copies" || is_fresh) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{found}, not {state}:\n{}", near.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a request and returns the response up to `end`.
#[track_caller]
pub(super) fn ask(stream: &mut Stream, request: &str, end: &str) -> Result<String> {
    let answer = stream.ask(request.as_bytes(), end.as_bytes());
    let answer = answer.with_context(|| format!("asked {request:?}"))?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

pub(super) fn get(stream: &mut Stream, key: &str) -> Result<String> {
    ask(stream, &format!("get {key}\r\n"), "END\r\n")
}

pub(super) fn set(stream: &mut Stream, key: &str, value: &str) -> Result<()> {
    let request = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
    let answer = ask(stream, &request, "\r\n")?;
    ensure!(answer == "STORED\r\n", "{answer:?}");
    Ok(())
}

/// Reads until a response is expected, for at most a second.
pub(super) fn read_until(stream: &mut Stream, key: &str, expected: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(1);
    loop {
        let answer = get(stream, key)?;
        if answer == expected {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{answer:?} after a second");
    }
}

/// Returns the response of `get` to a value.
pub(super) fn hit(key: &str, value: &str) -> String {
    format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len())
}

/// Returns a request of the binary protocol.
pub(super) fn binary_request(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let header = Header {
        opcode,
        key_bytes: key.len() as u16,
        extras_bytes: extras.len() as u8,
        status: 0,
        body_bytes: (extras.len() + key.len() + value.len()) as u32,
        opaque: 7,
        cas: 0,
    };
    [&header.bytes(0x80), extras, key, value].concat()
}
