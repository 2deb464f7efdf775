//! Requests over HTTP that change a running server: clear, the memory limit, and the log of both.
//! Also the state of a server that is still opening its memory file.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::http;
use larder_testkit::http::{Response, exchange, get};
use larder_testkit::server::{Signal, command, free_address};
use larder_testkit::{Address, ServerUnderTest, Stream};

use crate::binary;
use crate::killed::Killed;

fn start(args: &[&str]) -> Result<(ServerUnderTest, Address)> {
    http::start(&binary(), args)
}

fn send(admin: &Address, method: &str, path: &str, body: &str) -> Result<Response> {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    exchange(admin, request.as_bytes()).with_context(|| format!("{method} {path} {body}"))
}

fn value(stream: &mut Stream, command: &str, name: &str) -> Result<u64> {
    let text = stream.ask(format!("{command}\r\n").as_bytes(), b"END\r\n")?;
    let text = String::from_utf8(text)?;
    let head = format!("STAT {name} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&head)).context(head.clone())?;
    Ok(line.parse()?)
}

#[test]
fn clear_removes_all_items_as_flush_all_does() -> Result<()> {
    let (server, admin) = start(&[])?;
    let mut stream = server.connect()?;
    stream.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    let cleared = send(&admin, "POST", "/api/v1/clear", "")?;
    assert_eq!((cleared.status, cleared.body.as_str()), (200, "{\"status\":\"cleared\"}\n"));
    stream.ask(b"mg k v\r\n", b"EN\r\n").context("an item after the clear")?;
    assert_eq!(value(&mut stream, "stats", "cmd_flush")?, 1);
    stream.ask(b"set k 0 0 1\r\nw\r\n", b"STORED\r\n")?;
    stream.ask(b"mg k v\r\n", b"VA 1\r\nw\r\n").context("an item stored after the clear")?;
    assert_eq!(get(&admin, "/api/v1/clear", &[])?.status, 405);

    let (server, admin) = start(&["-F"])?;
    let mut stream = server.connect()?;
    stream.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    let refused = send(&admin, "POST", "/api/v1/clear", "")?;
    let words = "CLIENT_ERROR flush_all not allowed\n";
    assert_eq!((refused.status, refused.body.as_str()), (403, words));
    stream.ask(b"mg k v\r\n", b"VA 1\r\nv\r\n").context("-F keeps the items")?;
    Ok(())
}

#[test]
fn the_memory_limit_changes_as_by_cache_memlimit_with_its_errors() -> Result<()> {
    let (server, admin) = start(&["-m", "64"])?;
    let mut stream = server.connect()?;
    for megabytes in [32, 100] {
        let body = format!("{{\"megabytes\":{megabytes}}}");
        let changed = send(&admin, "POST", "/api/v1/memory-limit", &body)?;
        assert_eq!((changed.status, changed.body), (200, format!("{body}\n")));
        assert_eq!(value(&mut stream, "stats", "limit_maxbytes")?, megabytes << 20);
    }
    for (body, status, words) in [
        ("", 400, "not a JSON object"),
        ("{\"megabytes\":\"64\"}", 400, "expected a JSON object"),
        ("{\"megabytes\":-1}", 400, "expected a JSON object"),
        ("{\"megabytes\":64.5}", 400, "expected a JSON object"),
        ("{\"megabytes\":99999999999999999999}", 400, "expected a JSON object"),
        ("[64]", 400, "not a JSON object"),
        ("{\"megabytes\":7}", 400, "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"),
        ("{\"megabytes\":1000000001}", 400, "input value is megabytes not bytes"),
        (
            "{\"megabytes\":1000000}",
            409,
            "out of bounds or unable to adjust: the memory limit must be 8 to 1024 MiB",
        ),
        ("{\"megabytes\":1025}", 409, "1024 MiB is 16 times -m, which is 64"),
    ] {
        let refused = send(&admin, "POST", "/api/v1/memory-limit", body)?;
        ensure!(refused.status == status && refused.body.contains(words), "{body}: {refused:?}");
        assert_eq!(value(&mut stream, "stats", "limit_maxbytes")?, 100 << 20, "{body}");
    }
    let large = "x".repeat(70_000);
    assert_eq!(send(&admin, "POST", "/api/v1/memory-limit", &large)?.status, 413);
    // A body without an announced length is also limited.
    let chunks = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let request = format!(
        "POST /api/v1/memory-limit HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Transfer-Encoding: chunked\r\n\r\n{chunks}"
    );
    assert_eq!(exchange(&admin, request.as_bytes())?.status, 413);
    Ok(())
}

#[test]
fn writes_are_recorded_with_role_peer_and_path_and_floods_are_cut() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("admin.sock");
    let option = format!("--admin-listen={}", socket.display());
    let (server, admin) = start(&[&option])?;
    get(&admin, "/api/v1/drain", &[])?;
    send(&admin, "POST", "/metrics", "")?;
    ensure!(!server.log().contains("admin:"), "reads are recorded: {}", server.log());
    send(&admin, "POST", "/api/v1/clear", "")?;
    send(&Address::Unix(socket), "DELETE", "/api/v1/drain", "")?;
    let log = server.log();
    let line = "larderd: admin: POST /api/v1/clear by 127.0.0.1:";
    ensure!(log.contains(line) && log.contains(" as full: 200\n"), "{log}");
    let uid = rustix::process::getuid().as_raw();
    let line =
        format!("larderd: admin: DELETE /api/v1/drain by uid {uid} pid {}", std::process::id());
    ensure!(log.contains(&line), "{log}");

    for _ in 0..200 {
        send(&admin, "PUT", "/api/v1/cache/secret", "v")?;
        send(&admin, "DELETE", "/api/v1/drain", "")?;
    }
    let log = server.log();
    let of = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    let (keys, others) = (of("PUT /api/v1/cache/"), of("DELETE /api/v1/drain"));
    ensure!((1..=4).contains(&keys), "{keys} lines for 200 writes of a key");
    ensure!((2..=100).contains(&others), "{others} lines for 200 requests");
    Ok(())
}

/// Starts larderd without waiting for it.
fn spawn(admin: &str, args: &[&str]) -> Result<Killed> {
    let port = free_address()?.port().to_string();
    let child = command(&binary())
        .args(["-p", &port, "-l", "127.0.0.1", &format!("--admin-listen={admin}")])
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(Killed(child))
}

/// Repeatedly requests whether a server is ready until it is, and returns the reasons why it was
/// not.
fn reasons_until_ready(admin: &Address) -> Result<Vec<String>> {
    let (deadline, mut reasons) = (Instant::now() + Duration::from_secs(60), Vec::new());
    loop {
        ensure!(Instant::now() < deadline, "not ready: {reasons:?}");
        // Before the server listens, requests fail.
        let Ok(response) = get(admin, "/ready", &[]) else {
            sleep(Duration::from_millis(1));
            continue;
        };
        if response.status == 200 {
            return Ok(reasons);
        }
        ensure!(response.status == 503, "{response:?}");
        let document: serde_json::Value = serde_json::from_str(&response.body)?;
        reasons.push(document["reasons"][0].as_str().context("no reason")?.to_owned());
        let health = get(admin, "/health", &[])?;
        ensure!(health.status == 200, "recovering is alive: {health:?}");
        // Before the cache is open, nothing can be changed.
        let early = send(admin, "POST", "/api/v1/drain", "")?;
        ensure!([200, 503].contains(&early.status), "{early:?}");
        send(admin, "DELETE", "/api/v1/drain", "")?;
        for path in ["/api/v1/history", "/api/v1/item/aw"] {
            let early = get(admin, path, &[])?;
            ensure!([200, 404, 503].contains(&early.status), "{path}: {early:?}");
        }
    }
}

#[test]
fn a_server_that_makes_its_memory_file_says_how_far_it_is() -> Result<()> {
    let folder = match std::path::Path::new("/dev/shm").exists() {
        true => tempfile::Builder::new().prefix("larder-ready-").tempdir_in("/dev/shm")?,
        false => tempfile::tempdir()?,
    };
    let file = folder.path().join("memory").display().to_string();
    let args = ["-m", "1024", "-e", &file];
    let listen = free_address()?;
    let admin = Address::Tcp(listen);
    let server = spawn(&listen.to_string(), &args)?;
    let reasons = reasons_until_ready(&admin)?;
    let percents: Vec<u32> = reasons
        .iter()
        .filter_map(|reason| reason.strip_prefix("recovering ")?.strip_suffix(" %")?.parse().ok())
        .collect();
    ensure!(percents.iter().any(|percent| (1..100).contains(percent)), "{reasons:?}");
    ensure!(percents.is_sorted(), "the progress goes back: {reasons:?}");

    // Attaching to an existing file is so fast that progress cannot be measured.
    drop(server);
    let server = spawn(&listen.to_string(), &args)?;
    let reasons = reasons_until_ready(&admin)?;
    let is_known = |reason: &String| reason == "recovering";
    ensure!(reasons.iter().all(is_known), "after a kill: {reasons:?}");
    drop(server);
    Ok(())
}

#[test]
fn curl_speaks_to_a_path_and_a_port() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("admin.sock");
    let option = format!("--admin-listen={}", socket.display());
    let (server, admin) = start(&[&option])?;
    let Address::Tcp(port) = &admin else { bail!("no port") };
    let (socket, url) =
        (socket.display().to_string(), format!("http://{port}/api/v1/memory-limit"));
    let limit = ["-sS", "--json", "{\"megabytes\":32}", &url];
    for (args, expected) in [
        (
            &["-sS", "--unix-socket", &socket, "-X", "POST", "http://localhost/api/v1/clear"][..],
            "{\"status\":\"cleared\"}\n",
        ),
        (&limit[..], "{\"megabytes\":32}\n"),
    ] {
        let output = match Command::new("curl").args(args).output() {
            Ok(output) => output,
            Err(error) => {
                larder_testkit::skip(format!("curl: {error}"));
                return Ok(());
            }
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(said == expected, "{args:?}: {said:?} {}", String::from_utf8_lossy(&output.stderr));
    }
    ensure!(server.stop(Signal::TERM)?.success(), "it ends with an error");
    Ok(())
}
