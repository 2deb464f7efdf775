//! The list of servers that clients discover: `config get cluster`, and its key.

mod files;
mod name_server;
mod names;
mod reads;

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::{ServerUnderTest, Stream};

/// The key under which clients of old servers read the list.
const KEY: &str = "AmazonElastiCache:cluster";

/// A list as a client receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Received {
    version: u64,
    /// `host|ip|port`, with spaces between servers.
    nodes: String,
}

/// Sends a line, and returns its response up to `end`.
fn ask(stream: &mut Stream, line: &str, end: &str) -> Result<String> {
    let response = stream.ask(format!("{line}\r\n").as_bytes(), end.as_bytes())?;
    Ok(String::from_utf8(response)?)
}

/// Reads the list with `config get cluster`, and with its key. Both must be the same.
fn list(server: &ServerUnderTest) -> Result<Received> {
    list_on(&mut server.connect()?)
}

fn list_on(stream: &mut Stream) -> Result<Received> {
    // A no-op ends every response, also an error.
    const CONFIG: &str = "config get cluster\r\nmn";
    let mut response = ask(stream, CONFIG, "MN\r\n")?;
    loop {
        let item = ask(stream, &format!("get {KEY}\r\nmn"), "MN\r\n")?;
        // The list may change between the two.
        let later = ask(stream, CONFIG, "MN\r\n")?;
        if later == response {
            let body = body(&response, "CONFIG cluster 0 ")?;
            let of_item = self::body(&item, &format!("VALUE {KEY} 0 "))?;
            ensure!(of_item == body, "{item} after {response}");
            break;
        }
        response = later;
    }
    let body = body(&response, "CONFIG cluster 0 ")?;
    let (version, nodes) = body.split_once('\n').context("no version")?;
    let nodes = nodes.strip_suffix('\n').context("no end of the list")?;
    ensure!(!nodes.is_empty(), "an empty list: {response}");
    Ok(Received { version: version.parse()?, nodes: nodes.to_owned() })
}

/// Returns the part of a response that its length announces.
fn body<'a>(response: &'a str, head: &str) -> Result<&'a str> {
    let wrong = || format!("not a list: {response}");
    let (bytes, rest) =
        response.strip_prefix(head).and_then(|rest| rest.split_once("\r\n")).with_context(wrong)?;
    let (body, end) = rest.split_at_checked(bytes.parse()?).with_context(wrong)?;
    ensure!(end == "\r\nEND\r\nMN\r\n", wrong());
    Ok(body)
}

/// Returns a row of `stats larder`.
fn row(server: &ServerUnderTest, name: &str) -> Result<u64> {
    let stats = ask(&mut server.connect()?, "stats larder", "END\r\n")?;
    let row = stats.lines().find_map(|row| row.strip_prefix(&format!("STAT {name} ")));
    Ok(row.with_context(|| format!("no row {name} in {stats}"))?.parse()?)
}

/// Waits until something holds.
fn wait_until(
    server: &ServerUnderTest,
    what: &str,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds()? {
        ensure!(Instant::now() < deadline, "not within 30 s: {what}: {}", server.log());
        sleep(Duration::from_millis(10));
    }
    Ok(())
}
