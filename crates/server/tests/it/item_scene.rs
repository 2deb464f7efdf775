//! The server of the tests of items over HTTP: a larderd with an admin listener, and requests for
//! its items.

use std::fs;

use anyhow::{Context, Result};
use larder_testkit::http::{Response, exchange, wait_until_ready};
use larder_testkit::server::free_address;
use larder_testkit::{Address, ServerUnderTest, Transport};

use crate::binary;

pub(crate) const MIB: usize = 1 << 20;

/// A server with an admin listener.
pub(crate) struct Cache {
    pub(crate) server: ServerUnderTest,
    pub(crate) admin: Address,
}

impl Cache {
    pub(crate) fn start(args: &[&str]) -> Result<Self> {
        let admin = free_address()?;
        let option = format!("--admin-listen={admin}");
        let args = [&[option.as_str()], args].concat();
        let server = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
        let admin = Address::Tcp(admin);
        wait_until_ready(&admin)?;
        Ok(Self { server, admin })
    }

    /// Sends a request for a key that is already encoded for a path.
    pub(crate) fn ask(
        &self,
        method: &str,
        key: &str,
        headers: &[&str],
        body: &[u8],
    ) -> Result<Response> {
        exchange(&self.admin, &request(method, key, headers, body))
            .with_context(|| format!("{method} {key}: {}", self.server.log()))
    }

    pub(crate) fn put(&self, key: &str, headers: &[&str], body: &[u8]) -> Result<Response> {
        self.ask("PUT", key, headers, body)
    }

    pub(crate) fn get(&self, key: &str) -> Result<Response> {
        self.ask("GET", key, &[], b"")
    }

    /// Sends commands of the text protocol, and returns the response without its end.
    pub(crate) fn wire(&self, commands: &str, end: &str) -> Result<String> {
        let answer = self.server.connect()?.ask(commands.as_bytes(), end.as_bytes())?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Returns a row of a statistics command.
    pub(crate) fn stat(&self, command: &str, name: &str) -> Result<u64> {
        let rows = self.wire(&format!("{command}\r\n"), "END\r\n")?;
        let row = rows.lines().find_map(|row| row.strip_prefix(&format!("STAT {name} ")));
        Ok(row.with_context(|| format!("no {name} in {rows}"))?.parse()?)
    }

    /// Returns the peak resident memory of the process so far, in bytes.
    pub(crate) fn peak_bytes(&self) -> Result<usize> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kib.context("no peak")?.parse::<usize>()? * 1024)
    }
}

pub(crate) fn head(method: &str, key: &str, headers: &[&str]) -> Vec<u8> {
    let mut head = format!("{method} /api/v1/cache/{key} HTTP/1.1\r\nHost: localhost\r\n");
    for line in headers {
        head += &format!("{line}\r\n");
    }
    (head + "\r\n").into_bytes()
}

pub(crate) fn request(method: &str, key: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let length = format!("Content-Length: {}", body.len());
    let headers = [headers, &["Connection: close", &length]].concat();
    [head(method, key, &headers), body.to_vec()].concat()
}

/// Returns a request with its body in chunks.
pub(crate) fn chunked(key: &str, chunks: &[&[u8]]) -> Vec<u8> {
    let mut bytes = head("PUT", key, &["Connection: close", "Transfer-Encoding: chunked"]);
    for chunk in chunks.iter().chain([&&b""[..]]) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Returns bytes that differ from position to position.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + (at >> 8) * 13 + (at >> 16)) as u8).collect()
}
