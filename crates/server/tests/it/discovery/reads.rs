//! Who may read the list, and from which servers.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use larder_testkit::server::free_address;
use larder_testkit::{ServerUnderTest, Stream, Transport};
use tempfile::TempDir;

use super::{KEY, ask, list, list_on, row};
use crate::binary;
use crate::users::{UsersFile, hash, log_in, user};

const NODES: &str = "a.example||1 b.example||1";

/// Returns a folder with a file of servers, and the option with its path.
fn file() -> Result<(TempDir, String)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("servers");
    fs::write(&path, "version=7\na.example:1\nb.example:1\n")?;
    Ok((folder, format!("--cluster-file={}", path.display())))
}

#[test]
fn every_user_may_read_the_list_after_its_login() -> Result<()> {
    let (_folder, option) = file()?;
    let hash = hash("secret", 8)?;
    let users = UsersFile::new(&[
        user("shop", &hash, ", rights = \"read\", prefixes = [\"shop:\"]"),
        user("none", &hash, ""),
        user("all", &hash, ", rights = \"read\""),
    ])?;
    let args = [&option, "--users", users.path()];
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
    let mut stream = server.connect()?;
    for line in ["config get cluster", &format!("get {KEY}")] {
        let refused = ask(&mut stream, line, "\r\n")?;
        ensure!(refused == "CLIENT_ERROR unauthenticated\r\n", "{line}: {refused}");
    }
    for name in ["shop", "none"] {
        let mut stream = server.connect()?;
        log_in(&mut stream, name, "secret")?;
        let config = ask(&mut stream, "config get cluster", "END\r\n")?;
        ensure!(config.contains(NODES), "{name}: {config}");
        // The key is judged like any other.
        let item = ask(&mut stream, &format!("get {KEY}"), "\r\n")?;
        ensure!(item.starts_with("CLIENT_ERROR"), "{name}: {item}");
    }
    let mut stream = server.connect()?;
    log_in(&mut stream, "all", "secret")?;
    ensure!(list_on(&mut stream)?.nodes == NODES);
    Ok(())
}

/// A near cache answers even if its origin does not exist, and passes nothing on.
#[test]
fn a_near_cache_answers_by_itself() -> Result<()> {
    let (_folder, option) = file()?;
    let origin = format!("--origin={}", free_address()?);
    let args = [&*option, &origin, "--origin-timeout=100ms", "-t", "1"];
    let near = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
    ensure!(list(&near)?.nodes == NODES, "{}", near.log());
    let mut stream = near.connect()?;
    for line in [format!("gat 10 {KEY}"), format!("mg {KEY} v"), format!("gets {KEY}")] {
        let end = if line.starts_with("mg") { "\n\r\n" } else { "END\r\n" };
        let response = ask(&mut stream, &line, end)?;
        ensure!(response.contains(NODES), "{line}: {response}");
    }
    let other = ask(&mut stream, "get other", "\r\n")?;
    ensure!(other.starts_with("SERVER_ERROR origin"), "{other}");
    Ok(())
}

#[test]
fn a_datagram_reads_the_list_and_reads_are_counted() -> Result<()> {
    let (_folder, option) = file()?;
    let address = free_address()?;
    let port = address.port().to_string();
    let args = ["-U", &*port, "-l", "127.0.0.1", &option, "-t", "1"];
    let tcp = larder_testkit::Address::Tcp(address);
    let server = ServerUnderTest::start_at(&binary(), tcp, &args)?;
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.send_to(b"\0\x01\0\0\0\x01\0\0config get cluster\r\n", address)?;
    let mut buffer = [0; 1500];
    let bytes = socket.recv(&mut buffer)?;
    let response = String::from_utf8_lossy(&buffer[8..bytes]).into_owned();
    ensure!(response == format!("CONFIG cluster 0 28\r\n7\n{NODES}\n\r\nEND\r\n"), "{response:?}");
    let before = row(&server, "cluster_requests")?;
    list(&server)?;
    ensure!(row(&server, "cluster_requests")? == before + 3);
    Ok(())
}

#[test]
fn the_longest_list_fits_into_a_response() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("servers");
    let servers: Vec<_> =
        (0..1024).map(|number| format!("cache-{number}.example.internal")).collect();
    fs::write(&path, servers.join("\n") + "\n")?;
    let option = format!("--cluster-file={}", path.display());
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &[&option, "-t", "1"])?;
    let received = list(&server)?;
    ensure!(received.nodes.split(' ').count() == 1024);
    // Many requests in one piece, whose responses do not fit into the output of one turn.
    let mut stream: Stream = server.connect()?;
    let requests = "config get cluster\r\n".repeat(50) + "mn\r\n";
    let responses = stream.ask(requests.as_bytes(), b"MN\r\n")?;
    let one = responses.len() / 50;
    ensure!(responses[..one] == responses[one..2 * one], "the responses differ");
    Ok(())
}
