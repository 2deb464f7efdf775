//! A client for the admin listener. It can send any bytes, even if they are not HTTP.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::server::free_address;
use crate::{Address, ServerUnderTest, Stream, Transport};
use anyhow::{Context, Result, ensure};

/// A response.
#[derive(Debug)]
pub struct Response {
    /// The code of the first line.
    pub status: u16,
    /// The headers, in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body as text.
    pub body: String,
    /// The body as bytes.
    pub bytes: Vec<u8>,
}

/// Requests a path with additional header lines.
pub fn get(address: &Address, path: &str, headers: &[&str]) -> Result<Response> {
    let mut request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|line| line.to_ascii_lowercase().starts_with("host:")) {
        request += "Host: localhost\r\n";
    }
    for line in headers {
        request += &format!("{line}\r\n");
    }
    exchange(address, (request + "\r\n").as_bytes())
}

/// Waits until the server is ready. Its sockets listen before its cache is open, and the sockets
/// for clients of the cache listen first.
pub fn wait_until_ready(address: &Address) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let asked = get(address, "/ready", &[]);
        if asked.as_ref().is_ok_and(|response| response.status == 200) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the server does not become ready: {asked:?}");
        sleep(Duration::from_millis(5));
    }
}

/// Starts a server on TCP with an admin listener on loopback, and waits until it is ready.
pub fn start(binary: &Path, args: &[&str]) -> Result<(ServerUnderTest, Address)> {
    let admin = free_address()?;
    let option = format!("--admin-listen={admin}");
    let args = [&[option.as_str()], args].concat();
    let server = ServerUnderTest::start(binary, Transport::Tcp, &args)?;
    let admin = Address::Tcp(admin);
    wait_until_ready(&admin)?;
    Ok((server, admin))
}

/// Sends bytes and reads one response until the end of the connection.
pub fn exchange(address: &Address, request: &[u8]) -> Result<Response> {
    let mut stream = Stream::connect(address)?;
    stream.set_timeout(Duration::from_secs(20))?;
    // Fails if the server refuses the request before it has read all of it.
    let _ = stream.write_all(request);
    let mut received = Vec::new();
    // Returns an error if the server closes the connection before it has read the complete request.
    let ended = stream.read_to_end(&mut received);
    ensure!(!received.is_empty(), "no response: {ended:?}");
    parse(&received)
}

/// Parses a complete response.
pub fn parse(received: &[u8]) -> Result<Response> {
    let end = received.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let (head, bytes) = received.split_at(end.context("a head without an end")?);
    let (head, bytes) = (String::from_utf8_lossy(head), bytes[4..].to_vec());
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("no status")?;
    let headers = lines.filter_map(|line| line.split_once(": "));
    Ok(Response {
        status: status.parse()?,
        headers: headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect(),
        body: String::from_utf8_lossy(&bytes).into_owned(),
        bytes,
    })
}
