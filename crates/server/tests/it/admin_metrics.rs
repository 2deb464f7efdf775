//! Larder's own metrics: a workload must change the expected ones, and a scrape must be short even
//! if the cache has many items.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::Address;
use larder_testkit::http::{get, wait_until_ready};
use larder_testkit::server::free_address;

use crate::binary;
use crate::tls_scene;
use crate::tls_scene::Encrypted;

const TOKEN: &str = "full-0123456789-0123456789-012345";

/// 4096-01-01, when the certificates of tests expire.
const EXPIRY: u64 = 67_090_118_400;

/// Returns the value of a series.
fn value(page: &str, series: &str) -> Result<f64> {
    let head = format!("{series} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&head));
    Ok(line.with_context(|| format!("no {series} in {page}"))?.parse()?)
}

#[test]
fn what_happens_at_the_door_is_counted() -> Result<()> {
    let (folder, admin) = (tempfile::tempdir()?, free_address()?);
    let (users, tokens) = (folder.path().join("users"), folder.path().join("tokens"));
    fs::write(&users, "app:secret\n")?;
    fs::write(&tokens, format!("full {TOKEN}\n"))?;
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600))?;
    let (users, tokens) = (users.display().to_string(), tokens.display().to_string());
    let listen = format!("--admin-listen={admin}");
    let token_file = format!("--admin-token-file={tokens}");
    let scene = Encrypted::start("", &["-t", "2", "-Y", &users, &listen, &token_file])?;
    let address = Address::Tcp(admin);
    wait_until_ready(&address)?;
    let before = get(&address, "/metrics", &[])?.body;

    // A failed handshake, then logins that fail, on connections whose handshake succeeds.
    let mut plain = TcpStream::connect(scene.address)?;
    plain.set_read_timeout(Some(Duration::from_secs(10)))?;
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
    let _ = plain.read_to_end(&mut Vec::new());
    let config = std::sync::Arc::new(scene.config());
    for _ in 0..3 {
        let socket = TcpStream::connect(scene.address)?;
        let connection = rustls::ClientConnection::new(config.clone(), "localhost".try_into()?)?;
        let mut client = rustls::StreamOwned::new(connection, socket);
        let login = b"set login 0 0 9\r\napp wrong\r\n";
        tls_scene::ask(&mut client, login, b"CLIENT_ERROR authentication failure\r\n")?;
    }
    for bad in ["x".repeat(40), TOKEN[1..].to_owned()] {
        let header = format!("Authorization: Bearer {bad}");
        assert_eq!(get(&address, "/api/v1/settings", &[&header])?.status, 401);
    }
    // A request without any token is not a failed attempt.
    assert_eq!(get(&address, "/api/v1/settings", &[])?.status, 401);

    let page = get(&address, "/metrics", &[])?.body;
    for (series, grown) in [
        ("larder_tls_handshakes_total", 3.0),
        ("larder_tls_handshake_failures_total", 1.0),
        ("larder_auth_failures_total", 3.0),
        ("larder_admin_auth_failures_total", 2.0),
    ] {
        let (before, after) = (value(&before, series)?, value(&page, series)?);
        ensure!(after - before == grown, "{series}: {before}, then {after}");
        ensure!(page.contains(&format!("# TYPE {series} counter")), "{series}: {page}");
    }
    ensure!(value(&page, "larder_certificate_expiry_seconds")? == EXPIRY as f64, "{page}");
    Ok(())
}

#[test]
fn workers_and_the_budget_are_seen_while_they_are_used() -> Result<()> {
    let admin = free_address()?;
    let listen = format!("--admin-listen={admin}");
    let binary = binary();
    let transport = larder_testkit::Transport::Tcp;
    let server = larder_testkit::ServerUnderTest::start(
        &binary,
        transport,
        &["-t", "2", "-m", "64", &listen],
    )?;
    let address = Address::Tcp(admin);
    wait_until_ready(&address)?;
    let mut stream = server.connect()?;
    // Only small values are copied into the output. For large values it refers to the cache's
    // memory.
    let value_bytes = vec![b'v'; 10_000];
    let set = [b"set k 0 0 10000\r\n", &value_bytes[..], b"\r\n"].concat();
    stream.ask(&set, b"STORED\r\n")?;
    stream.ask(b"set e 0 1 1\r\nv\r\nset f 0 0 1\r\nv\r\n", b"STORED\r\nSTORED\r\n")?;
    let page = get(&address, "/metrics", &[])?.body;
    ensure!(value(&page, "larder_output_budget_bytes")? == (64 << 20) as f64, "{page}");
    assert_eq!(value(&page, "larder_output_budget_used_bytes")?, 0.0);
    let busy = |page: &str| -> Result<f64> {
        let of = |number| {
            value(page, &format!("larder_worker_busy_seconds_total{{worker=\"{number}\"}}"))
        };
        Ok(of(0)? + of(1)?)
    };
    let before = busy(&page)?;

    // Clients that do not read occupy a part of the budget.
    let mut deaf = Vec::new();
    for _ in 0..4 {
        let mut stream = server.connect()?;
        stream.write_all(&b"get k\r\n".repeat(5000))?;
        deaf.push(stream);
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        stream.ask(&b"get a b c d e f g h\r\n".repeat(2000), b"END\r\n")?;
        stream.ask(b"mn\r\n", b"MN\r\n")?;
        let page = get(&address, "/metrics", &[])?.body;
        let used = value(&page, "larder_output_budget_used_bytes")?;
        ensure!(used <= (64 << 20) as f64, "{used} bytes are more than the budget");
        if busy(&page)? > before && used > 0.0 && value(&page, "larder_get_expired_total")? > 0.0 {
            break;
        }
        let (used, busy) = (used, busy(&page)?);
        ensure!(Instant::now() < deadline, "{used} bytes used, {busy} s busy, {before} before");
    }
    stream.ask(b"flush_all\r\n", b"OK\r\n")?;
    stream.ask(b"get f\r\n", b"END\r\n")?;
    let page = get(&address, "/metrics", &[])?.body;
    ensure!(value(&page, "larder_get_flushed_total")? >= 1.0, "{page}");
    ensure!(!page.contains("larder_certificate_expiry_seconds"), "without TLS: {page}");
    Ok(())
}
