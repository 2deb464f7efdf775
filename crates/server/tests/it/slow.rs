//! Slow requests (`--log-slower-than`): the lines of the log, `stats slow` and `/api/v1/slow`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport, http, stat_rows};
use serde_json::Value;

use crate::binary;
use crate::logs::log_with;

/// Every request takes at least a microsecond.
const ALL: &[&str] = &["--log-format=json", "--log-slower-than=1us"];

fn start(args: &[&str]) -> Result<ServerUnderTest> {
    ServerUnderTest::start(&binary(), Transport::Tcp, &[ALL, args].concat())
}

/// Returns the slow requests of a log, the oldest first.
fn slow_lines(log: &str) -> Result<Vec<Value>> {
    let objects: serde_json::Result<Vec<Value>> = log.lines().map(serde_json::from_str).collect();
    let is_slow = |object: &Value| {
        object["message"].as_str().is_some_and(|of| of.starts_with("larderd: slow request: "))
    };
    Ok(objects.with_context(|| log.to_owned())?.into_iter().filter(is_slow).collect())
}

/// Waits for the slow request with this command; returns its line.
fn slow_line(server: &ServerUnderTest, command: &str) -> Result<Value> {
    let find =
        |log: &str| slow_lines(log).ok()?.into_iter().find(|object| object["command"] == command);
    let log = log_with(server, command, |log| find(log).is_some())?;
    find(&log).context("a line")
}

/// Returns the rows of `stats slow`.
fn stats(stream: &mut Stream) -> Result<BTreeMap<String, String>> {
    stat_rows(stream, "slow")
}

#[test]
fn a_slow_request_is_logged_with_its_command_key_size_time_and_peer() -> Result<()> {
    for io in ["uring", "epoll"] {
        let Ok(server) = start(&[&format!("--io={io}")]) else { continue };
        let mut stream = server.connect()?;
        let Stream::Tcp(tcp) = &stream else { bail!("a TCP connection") };
        let peer = tcp.local_addr()?.to_string();
        stream.ask(b"set key 0 0 5\r\nvalue\r\n", b"STORED\r\n")?;
        let set = slow_line(&server, "set")?;
        ensure!(set["key"] == "key" && set["bytes"] == 5 && set["peer"] == *peer, "{io}: {set}");
        ensure!(set["level"] == "warn" && set["requests"] == 1, "{io}: {set}");
        let duration_us = set["duration_us"].as_u64().context("a duration")?;
        let run_us = set["run_us"].as_u64().context("a duration")?;
        ensure!((1..60_000_000).contains(&duration_us) && run_us <= duration_us, "{io}: {set}");
        let connection = set["connection"].as_u64().context("a number")?;
        let message = set["message"].as_str().context("a message")?;
        ensure!(message.contains(&format!(", from <{connection} {peer}")), "{io}: {set}");
        stream.ask(b"mg key v t\r\n", b"value\r\n")?;
        let fetched = slow_line(&server, "mg")?;
        ensure!(fetched["bytes"] == "VA 5 t-1\r\nvalue\r\n".len(), "{io}: {fetched}");
        stream.ask(b"version\r\n", b"\r\n")?;
        ensure!(slow_line(&server, "version")?.get("key").is_none(), "{io}");
        stream.ask(b"get a b key\r\nmn\r\n", b"MN\r\n")?;
        ensure!(slow_line(&server, "get").is_ok_and(|get| get["requests"] == 4), "{io}");
        // A value that comes in parts.
        stream.write_all(b"append key 0 0 5\r\nab")?;
        sleep(Duration::from_millis(1500));
        stream.ask(b"cde\r\n", b"STORED\r\n")?;
        let append = slow_line(&server, "append")?;
        ensure!(append["key"] == "key" && append["bytes"] == 5, "{io}: {append}");
        ensure!(
            append["duration_us"].as_u64() < Some(1_500_000),
            "{io}: the client is slow: {append}"
        );
        stream.ask(b"stats items\r\n", b"END\r\n")?;
        let gathered = slow_line(&server, "stats")?;
        ensure!(gathered["bytes"].as_u64() > Some(50), "{io}: {gathered}");
    }
    Ok(())
}

#[test]
fn a_key_of_any_bytes_is_one_line_of_text_and_of_json() -> Result<()> {
    // The key in base64, which the meta protocol allows.
    let request = b"mg Igobzpsx/w== v b\r\n";
    let key = b"\"\n\x1b\xce\x9b\x31\xff";
    let server = start(&[])?;
    server.connect()?.ask(request, b"EN\r\n")?;
    let line = slow_line(&server, "mg")?;
    ensure!(line["key_base64"] == "Igobzpsx/w==" && line.get("key").is_none(), "{line}");
    let shown = format!(" for mg {}, which ran ", key.escape_ascii());
    ensure!(line["message"].as_str().is_some_and(|of| of.contains(&shown)), "{line}");
    let args = ["--log-slower-than=1us"];
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &args)?;
    server.connect()?.ask(request, b"EN\r\n")?;
    let log = log_with(&server, "the request", |log| log.contains(&shown))?;
    ensure!(log.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{log:?}");
    ensure!(log.lines().any(|line| line.contains(&shown) && line.contains(" unix")), "{log}");
    Ok(())
}

#[test]
fn a_request_that_waits_for_durability_is_slow_and_others_are_not() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("tier");
    let path = path.to_str().context("a path")?;
    // A sync of a file takes longer than this on any disk, and a get of an item in memory less.
    let tier = ["--tier-mode=store", "--tier-size=64m", "--durability=sync", "--tier-path", path];
    let args = [&["--log-format=json", "--log-slower-than=1us"][..], &tier].concat();
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
    let mut stream = server.connect()?;
    stream.ask(b"set key 0 0 5\r\nvalue\r\n", b"STORED\r\n")?;
    let set = slow_line(&server, "set")?;
    // The store itself is fast. It then waits for the disk.
    let us = |name: &str| set[name].as_u64().unwrap_or(0);
    ensure!(us("duration_us") > us("run_us"), "{set}");
    Ok(())
}

#[test]
fn the_latest_are_listed_and_all_are_counted() -> Result<()> {
    let (server, admin) = http::start(&binary(), ALL)?;
    let mut stream = server.connect()?;
    stream.ask(b"set a%1b 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    // A get of one key may take less than a microsecond.
    let request = [&b"get"[..], &b" a%1b".repeat(50), b"\r\n"].concat();
    for _ in 0..200 {
        stream.ask(&request, b"END\r\n")?;
    }
    let rows = stats(&mut stream)?;
    ensure!(rows["slower_than_us"] == "1", "{rows:?}");
    ensure!(rows["slow_requests"].parse::<u64>()? >= 201, "{}", rows["slow_requests"]);
    ensure!(rows["1:command"] == "get" && rows["128:key"] == "a%251b", "{rows:?}");
    ensure!(rows["1:at"].ends_with('Z') && !rows.contains_key("129:at"), "{rows:?}");
    let response = http::get(&admin, "/api/v1/slow", &[])?;
    let document: Value = serde_json::from_str(&response.body)?;
    ensure!(document["slower_than_us"] == 1, "{document}");
    let latest = document["latest"].as_array().context("a list")?;
    ensure!(latest.len() == 128 && latest[0]["command"] == "stats", "{document}");
    ensure!(latest[1]["key"] == "a%1b", "{document}");
    // Only the first ten of a second are logged.
    ensure!(slow_lines(&server.log())?.len() < 150, "{}", server.log());
    log_with(&server, "a number", |log| log.contains("more lines like this were suppressed"))?;
    let metrics = http::get(&admin, "/metrics", &[])?;
    ensure!(metrics.body.contains("slow_requests"), "{}", metrics.body);
    Ok(())
}

#[test]
fn clients_get_no_keys_with_x_and_no_list_over_udp() -> Result<()> {
    let (server, admin) = http::start(&binary(), &[ALL, &["-X"]].concat())?;
    let mut stream = server.connect()?;
    stream.ask(b"get key\r\n", b"END\r\n")?;
    let rows = stats(&mut stream)?;
    ensure!(rows["1:command"] == "get" && !rows.contains_key("1:key"), "{rows:?}");
    let response = http::get(&admin, "/api/v1/slow", &[])?;
    ensure!(response.body.contains("\"get\"") && !response.body.contains("key\":"), "{response:?}");
    // The operator reads the log.
    ensure!(slow_line(&server, "get")?["key"] == "key", "{}", server.log());

    let Address::Tcp(address) = server.address() else { bail!("a TCP address") };
    let udp_port = address.port().to_string();
    let address = *address;
    drop(server);
    let args = [ALL, &["-U", &udp_port]].concat();
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.connect(address)?;
    let ask = |request: &[u8]| -> Result<String> {
        socket.send(&[b"\0\x01\0\0\0\x01\0\0", request].concat())?;
        let mut received = [0; 2000];
        let bytes = socket.recv(&mut received)?;
        Ok(String::from_utf8(received[8..bytes].to_vec())?)
    };
    ensure!(ask(b"stats slow\r\n")? == "CLIENT_ERROR stats slow not allowed\r\n", "over UDP");
    ensure!(ask(b"get udp-key\r\n")? == "END\r\n", "a get");
    let get = slow_line(&server, "get")?;
    let peer = format!("udp {}", socket.local_addr()?);
    ensure!(get["key"] == "udp-key" && get["peer"] == peer, "{get}");
    Ok(())
}

#[test]
fn no_password_is_logged() -> Result<()> {
    let users = tempfile::NamedTempFile::new()?;
    fs::write(users.path(), "user:secret\n")?;
    let server = start(&["-Y", users.path().to_str().context("a path")?])?;
    let mut stream = server.connect()?;
    let wrong = b"set login 0 0 12\r\nuser Secret2\r\n";
    stream.ask(wrong, b"\r\n")?;
    stream.write_all(b"set login 0 0 11\r\nuser se")?;
    sleep(Duration::from_millis(50));
    stream.ask(b"cret\r\n", b"STORED\r\n")?;
    stream.ask(b"get key\r\n", b"END\r\n")?;
    slow_line(&server, "get")?;
    let log = server.log().to_lowercase();
    ensure!(!log.contains("secret") && !log.contains("cret\\r"), "{log}");
    stream.write_all(b"stats slow\r\n")?;
    let mut shown = String::new();
    let mut reader = BufReader::new(stream.try_clone()?);
    while !shown.ends_with("END\r\n") {
        reader.read_line(&mut shown)?;
    }
    ensure!(!shown.to_lowercase().contains("secret"), "{shown}");
    Ok(())
}

#[test]
fn nothing_is_slow_unless_that_is_asked_for() -> Result<()> {
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &[])?;
    let mut stream = server.connect()?;
    stream.ask(b"get key\r\n", b"END\r\n")?;
    let rows = stats(&mut stream)?;
    let rows: Vec<_> = rows.iter().map(|(name, value)| (&**name, &**value)).collect();
    ensure!(rows == [("slow_requests", "0"), ("slower_than_us", "off")], "{rows:?}");
    ensure!(!server.log().contains("slow"), "{}", server.log());
    Ok(())
}

#[test]
fn the_time_of_a_client_that_does_not_read_does_not_count() -> Result<()> {
    for io in ["uring", "epoll"] {
        let limit = "--log-slower-than=1s";
        let args = ["--log-format=json", limit, "-t", "1", "--io", io];
        let Ok(server) = ServerUnderTest::start(&binary(), Transport::Tcp, &args) else { continue };
        let mut stream = server.connect()?;
        let value = vec![b'v'; 900_000];
        let store = [b"set big 0 0 900000\r\n", &value[..], b"\r\n"].concat();
        stream.ask(&store, b"STORED\r\n")?;
        let count = 30;
        stream.write_all(&b"get big\r\n".repeat(count))?;
        stream.write_all(b"mn\r\n")?;
        // The output fills the buffers of the socket, and the later requests wait for the reader.
        sleep(Duration::from_millis(2500));
        let (mut received, mut tail) = ([0; 65536], Vec::new());
        let deadline = Instant::now() + Duration::from_secs(30);
        while !tail.ends_with(b"MN\r\n") {
            ensure!(Instant::now() < deadline, "{io}: no end");
            let bytes = stream.read(&mut received)?;
            ensure!(bytes > 0, "{io}: the end");
            tail = [&tail[tail.len().min(4)..], &received[bytes.saturating_sub(8)..bytes]].concat();
        }
        let rows = stats(&mut stream)?;
        ensure!(rows["slow_requests"] == "0", "{io}: {rows:?} {}", server.log());
    }
    Ok(())
}
