//! Peers of the admin listener that misbehave: they do not read, they send half a body, and they
//! request paths that other servers would shorten or decode to different paths.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::http::{exchange, get, wait_until_ready};
use larder_testkit::scene::Scene;
use larder_testkit::server::free_address;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};

use crate::binary;

fn start(suffix: &str, args: &[&str]) -> Result<(ServerUnderTest, Address)> {
    let admin = free_address()?;
    let option = format!("--admin-listen={admin}{suffix}");
    let args = [&[option.as_str()], args].concat();
    let binary = binary();
    let server = ServerUnderTest::start(&binary, Transport::Tcp, &args)?;
    let admin = Address::Tcp(admin);
    wait_until_ready(&admin)?;
    Ok((server, admin))
}

#[test]
fn a_peer_that_does_not_read_holds_little_and_delays_no_other() -> Result<()> {
    let admin = free_address()?;
    let scene = Scene::start(&binary(), &[&format!("--admin-listen={admin}")])?;
    let admin = Address::Tcp(admin);
    wait_until_ready(&admin)?;
    let mut deaf = Vec::new();
    for _ in 0..8 {
        let mut stream = Stream::connect(&admin)?;
        stream.set_timeout(Duration::from_millis(300))?;
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
        // Until the server accepts no more.
        for _ in 0..200 {
            if stream.write_all(&request).is_err() {
                break;
            }
        }
        deaf.push(stream);
    }
    for path in ["/health", "/ready", "/metrics"] {
        let began = Instant::now();
        assert_eq!(get(&admin, path, &[])?.status, 200);
        let waited = began.elapsed();
        ensure!(waited < Duration::from_secs(3), "{path} took {waited:?} while peers do not read");
    }
    scene.has_grown_at_most(16 << 20)?;
    drop(deaf);
    scene.end()
}

/// Each page of keys is longer than a megabyte. Most of it does not fit into its socket.
#[test]
fn pages_of_keys_that_no_peer_reads_take_a_bounded_memory() -> Result<()> {
    let place = tempfile::tempdir()?;
    let path = place.path().join("admin");
    let option = format!("--admin-listen={}", path.display());
    let binary = binary();
    let server = ServerUnderTest::start(&binary, Transport::Tcp, &[&option, "-m", "64"])?;
    let admin = Address::Unix(path);
    wait_until_ready(&admin)?;
    let mut client = server.connect()?;
    for number in 0..2000 {
        // In JSON each of these characters occupies six bytes.
        let key = format!("{number:04}{}", "\x01".repeat(246));
        client.ask(format!("set {key} 0 0 1\r\nx\r\n").as_bytes(), b"STORED\r\n")?;
    }
    let page = get(&admin, "/api/v1/keys?limit=1000", &[])?;
    ensure!(page.status == 200 && page.bytes.len() > 1_000_000, "{} bytes", page.bytes.len());
    let before = server.rss_bytes()?;
    let mut deaf = Vec::new();
    for _ in 0..120 {
        let mut stream = Stream::connect(&admin)?;
        stream.write_all(b"GET /api/v1/keys?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        deaf.push(stream);
    }
    let until = Instant::now() + Duration::from_secs(3);
    let mut most = 0;
    while Instant::now() < until {
        most = most.max(server.rss_bytes()?.saturating_sub(before));
        for path in ["/health", "/ready", "/metrics"] {
            assert_eq!(get(&admin, path, &[])?.status, 200, "{path} while pages are not read");
        }
    }
    ensure!(most < 20 << 20, "the unread pages take {most} bytes");
    drop(deaf);
    Ok(())
}

#[test]
fn a_body_that_does_not_arrive_is_waited_for_no_longer_than_its_limit() -> Result<()> {
    let (_server, admin) = start("", &[])?;
    let mut stream = Stream::connect(&admin)?;
    stream.set_timeout(Duration::from_secs(30))?;
    let began = Instant::now();
    stream.write_all(
        b"POST /api/v1/memory-limit HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
          Content-Length: 20\r\n\r\n{\"mega",
    )?;
    // Other peers are served in the meantime.
    assert_eq!(get(&admin, "/ready", &[])?.status, 200);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let waited = began.elapsed();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    ensure!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let expected = Duration::from_secs(9)..Duration::from_secs(20);
    ensure!(expected.contains(&waited), "answered after {waited:?}");
    Ok(())
}

/// Paths that other servers would shorten, decode or truncate.
fn odd_paths() -> Vec<String> {
    let long = "k".repeat(251);
    let mut paths: Vec<String> = [
        "/metrics/../api/v1/settings",
        "/health/%2e%2e/api/v1/settings",
        "/api/v1/role/../settings",
        "/api/v1/settings%00",
        "/api/v1/settings%00/health",
        "/api/v1/settings/",
        "/api/v1/./settings",
        "//api/v1/settings",
        "/api/v1//settings",
        "/API/V1/SETTINGS",
        "/api/v1/%73ettings",
        "/api/v1/cache/..",
        "/api/v1/cache/../settings",
        "/api/v1/cache/%00",
        "/api/v1/cache/%",
        "/api/v1/cache/%zz",
        "/../../../../etc/passwd",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.push(format!("/api/v1/cache/{long}"));
    paths.push(format!("/api/v1/cache/{}", "%6b".repeat(251)));
    paths
}

#[test]
fn odd_paths_are_no_way_around_a_role() -> Result<()> {
    // Without a token this listener serves only the probes.
    let (server, probes) = start(",role=probe", &[])?;
    for path in odd_paths() {
        for method in ["GET", "PUT", "POST", "DELETE"] {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                 Content-Length: 0\r\n\r\n"
            );
            let response = exchange(&probes, request.as_bytes())
                .with_context(|| format!("{method} {path}"))?;
            ensure!(response.status == 403, "{method} {path}: {response:?}");
            ensure!(!response.body.contains("maxconns"), "{method} {path}: {response:?}");
        }
    }
    ensure!(!server.log().contains("panicked"), "{}", server.log());

    let (server, full) = start("", &[])?;
    for path in odd_paths() {
        let response = get(&full, &path, &[]).with_context(|| path.clone())?;
        ensure!((400..500).contains(&response.status), "{path}: {response:?}");
    }
    // A NUL, a space or a control character is not allowed in a path.
    for path in ["/a\0b", "/a b", "/a\x01", "/\u{e4}"] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let response = exchange(&full, request.as_bytes())?;
        ensure!((400..500).contains(&response.status), "{path:?}: {response:?}");
    }
    assert_eq!(get(&full, "/health", &[])?.status, 200);
    ensure!(!server.log().contains("panicked"), "{}", server.log());
    Ok(())
}

/// A client should send `%23` instead of `#`. If it sends `#`, the server must treat it like `%23`.
#[test]
fn a_number_sign_in_a_path_is_a_part_of_it() -> Result<()> {
    let (_server, admin) = start("", &[])?;
    let ask = |method: &str, path: &str, body: &str| -> Result<(u16, String)> {
        let head = format!("{method} /api/v1/cache/{path} HTTP/1.1\r\nHost: localhost\r\n");
        let rest = format!("Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let response = exchange(&admin, (head + &rest).as_bytes())?;
        Ok((response.status, response.body))
    };
    assert_eq!(ask("PUT", "user", "a user # of all")?.0, 201);
    assert_eq!(ask("PUT", "user#1", "the first")?.0, 201);
    assert_eq!(ask("GET", "user", "")?, (200, "a user # of all".to_owned()));
    assert_eq!(ask("GET", "user%231", "")?, (200, "the first".to_owned()));
    assert_eq!(ask("GET", "user#1", "")?, (200, "the first".to_owned()));
    assert_eq!(ask("DELETE", "user#2", "")?.0, 404);
    assert_eq!(ask("DELETE", "user#1", "")?.0, 200);
    assert_eq!(ask("GET", "user", "")?.0, 200);
    Ok(())
}
