//! An admin listener with TLS: real clients, certificates that change, and peers that speak
//! something else.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use larder_testkit::http::exchange;
use larder_testkit::server::{Signal, command, free_address, run_to_end};
use larder_testkit::{Address, Stream};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::binary;
use crate::tls_scene::{Client, Encrypted, shown_name};

const GET: &[u8] = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn start(words: &str) -> Result<(Encrypted, SocketAddr)> {
    let admin = free_address()?;
    let scene = Encrypted::start(words, &[&format!("--admin-listen={admin},tls")])?;
    let config = Arc::new(scene.config());
    let deadline = Instant::now() + Duration::from_secs(20);
    // If certificates are required, a client without one only finds out that the server listens.
    let is_ready =
        || ask(admin, &config).is_ok_and(|(answer, _)| answer.starts_with("HTTP/1.1 200 "));
    while words.is_empty() && !is_ready() {
        ensure!(Instant::now() < deadline, "not ready: {}", scene.server.log());
        sleep(Duration::from_millis(10));
    }
    Ok((scene, admin))
}

/// Requests whether the server is ready, and returns the response and the connection.
fn ask(admin: SocketAddr, config: &Arc<ClientConfig>) -> Result<(String, Client)> {
    use std::io::{Read, Write};
    let socket = std::net::TcpStream::connect(admin)?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let connection = ClientConnection::new(Arc::clone(config), "localhost".try_into()?)?;
    let mut client = StreamOwned::new(connection, socket);
    client.write_all(GET)?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    Ok((answer, client))
}

#[test]
fn clients_with_tls_are_answered_and_others_are_refused() -> Result<()> {
    let (scene, admin) = start("")?;
    let config = Arc::new(scene.config());
    let (answer, _) = ask(admin, &config)?;
    ensure!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let other = Encrypted::start("", &[])?;
    let stranger = ask(admin, &Arc::new(other.config()));
    ensure!(stranger.is_err(), "a client of another authority trusts the server");

    let admin_address = Address::Tcp(admin);
    let plain = exchange(&admin_address, GET)?;
    ensure!(plain.status == 400 && plain.body.contains("https://"), "{plain:?}");
    let ca = scene.files.path("ca.pem").display().to_string();
    let url = |scheme: &str| format!("{scheme}://localhost:{}/ready", admin.port());
    for (args, expected) in [
        (vec!["-sS", "--cacert", &ca, &url("https")], "\"status\":\"ready\""),
        (vec!["-sS", &url("http")], "speaks TLS only"),
    ] {
        let Ok(output) = Command::new("curl").args(["-4"]).args(&args).output() else {
            larder_testkit::skip("curl is missing");
            break;
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(said.contains(expected), "{args:?}: {said} {error}");
    }
    // Neither garbage nor an incomplete handshake does any harm.
    for bytes in [&b"\x16\x03\x01\xff\xff"[..], b"\x16\x03\x01\0\x05hello", b"\0", b""] {
        let mut stream = Stream::connect(&admin_address)?;
        std::io::Write::write_all(&mut stream, bytes)?;
        // The server may have already refused and closed the connection.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
        ensure!(!answer.starts_with(b"HTTP/1.1 200"), "{bytes:?} is answered");
    }
    let (answer, _) = ask(admin, &config)?;
    ensure!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    ensure!(!scene.server.log().contains("panicked"), "{}", scene.server.log());
    Ok(())
}

#[test]
fn reloaded_certificates_are_shown() -> Result<()> {
    let (scene, admin) = start("")?;
    let config = Arc::new(scene.config());
    let names = ["first", "second"];
    assert_eq!(shown_name(&ask(admin, &config)?.1, &names), Some("first"));
    scene.files.write(&scene.files.authority.identity("second")?)?;
    scene.server.signal(Signal::HUP)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    // With a new configuration, because a resumed session shows the certificate of the first one.
    while shown_name(&ask(admin, &Arc::new(scene.config()))?.1, &names) != Some("second") {
        ensure!(Instant::now() < deadline, "the certificate stays: {}", scene.server.log());
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
fn client_certificates_are_required_as_on_the_wire() -> Result<()> {
    let (scene, admin) = start("ssl_verify_mode=2")?;
    let identity = scene.files.authority.identity("client")?;
    let known = Arc::new(scene.config_of(rustls::ALL_VERSIONS, Some(&identity))?);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = ask(admin, &known).map(|(answer, _)| answer);
        if answer.as_ref().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 OK\r\n")) {
            break;
        }
        ensure!(Instant::now() < deadline, "with a certificate: {answer:?}");
        sleep(Duration::from_millis(10));
    }
    let refused = ask(admin, &Arc::new(scene.config()));
    ensure!(refused.is_err(), "without a certificate");
    Ok(())
}

#[test]
fn tls_needs_certificates_and_ends_the_warning_of_tokens() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, format!("full {}\n", "t".repeat(40)))?;
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600))?;
    let admin = free_address()?;
    let listen = format!("--admin-listen={admin},tls");
    let output = run_to_end(command(&binary()).args(["-p", "0", "-s", "/nowhere/s", &listen]))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && said.contains("tls needs -Z"), "{said}");

    for (tls, warns) in [("", true), (",tls", false)] {
        let admin = free_address()?;
        let listen = format!("--admin-listen=0.0.0.0:{}{tls}", admin.port());
        let tokens = format!("--admin-token-file={}", tokens.display());
        let scene = Encrypted::start("", &[&listen, &tokens])?;
        // A listener that responds has already logged its warning.
        if warns {
            exchange(&Address::Tcp(admin), GET)?;
        } else {
            ask(admin, &Arc::new(scene.config()))?;
        }
        let log = scene.server.log();
        assert_eq!(log.contains("tokens cross the network in plain text"), warns, "{tls}: {log}");
    }
    Ok(())
}
