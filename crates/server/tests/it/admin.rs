//! The admin listener: roles, bad requests, floods, and its lifetime within that of the server.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::http::{exchange, get, wait_until_ready};
use larder_testkit::scene::Scene;
use larder_testkit::server::{Signal, command, free_address, run_to_end};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

use crate::binary;

const READ: &str = "read-0123456789-0123456789-012345";
const FULL: &str = "full-0123456789-0123456789-012345";

/// A folder with a token file.
struct Tokens {
    folder: TempDir,
}

impl Tokens {
    fn new() -> Result<Self> {
        let tokens = Self { folder: tempfile::tempdir()? };
        tokens.write(&format!("read {READ}\nfull {FULL}\n"), 0o600)?;
        Ok(tokens)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("tokens")
    }

    fn write(&self, text: &str, mode: u32) -> Result<()> {
        fs::write(self.path(), text)?;
        Ok(fs::set_permissions(self.path(), fs::Permissions::from_mode(mode))?)
    }

    fn option(&self) -> String {
        format!("--admin-token-file={}", self.path().display())
    }
}

/// Starts a server on one port with an admin listener on another.
fn start(listen: &str, args: &[&str]) -> Result<(ServerUnderTest, Address)> {
    let admin = free_address()?;
    let option = format!("--admin-listen={admin}{listen}");
    let args = [&[option.as_str()], args].concat();
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
    let admin = Address::Tcp(admin);
    wait_until_ready(&admin)?;
    Ok((server, admin))
}

/// Returns the role of a request according to the server, or the status if it is refused.
fn role(address: &Address, headers: &[&str]) -> Result<String> {
    let response = get(address, "/api/v1/role", headers)?;
    if response.status != 200 {
        return Ok(response.status.to_string());
    }
    let role = response.body.strip_prefix("{\"role\":\"").context("a role")?;
    Ok(role.trim_end_matches("\"}\n").to_owned())
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[test]
fn loopback_beside_an_open_wire_needs_no_token() -> Result<()> {
    let (_server, admin) = start("", &[])?;
    assert_eq!(role(&admin, &[])?, "full");
    let settings = get(&admin, "/api/v1/settings", &[])?;
    ensure!(settings.body.contains("\"maxconns\":\"1024\""), "{settings:?}");
    assert_eq!(settings.headers["x-content-type-options"], "nosniff");
    assert_eq!(settings.headers["cache-control"], "no-store");
    assert_eq!(get(&admin, "/nothing", &[])?.status, 404);
    for path in ["/health", "/healthz", "/ready", "/readyz", "/metrics"] {
        assert_eq!(get(&admin, path, &[])?.status, 200, "{path}");
    }
    Ok(())
}

#[test]
fn a_wire_with_passwords_makes_tokens_necessary_except_on_a_path() -> Result<()> {
    let tokens = Tokens::new()?;
    let users = tokens.folder.path().join("users");
    fs::write(&users, "a:b\n")?;
    let path = |name: &str| tokens.folder.path().join(name);
    let (plain, wide) = (path("plain.sock"), path("wide.sock"));
    let probes = free_address()?;
    let (users, token_file) = (users.display().to_string(), tokens.option());
    let more = format!(
        "--admin-listen={};{},role=read,mode=660;{probes},role=probe",
        plain.display(),
        wide.display()
    );
    let (_server, admin) = start("", &["-Y", &users, &token_file, &more])?;

    assert_eq!(role(&admin, &[])?, "probe");
    let refused = get(&admin, "/api/v1/settings", &[])?;
    assert_eq!((refused.status, refused.headers["www-authenticate"].as_str()), (401, "Bearer"));
    assert_eq!(get(&admin, "/nothing", &[])?.status, 401, "an unknown path reveals nothing");
    assert_eq!(get(&admin, "/metrics", &[])?.status, 200);
    assert_eq!(role(&admin, &[&bearer(READ)])?, "read");
    assert_eq!(get(&admin, "/api/v1/settings", &[&bearer(READ)])?.status, 200);
    assert_eq!(get(&admin, "/nothing", &[&bearer(READ)])?.status, 403);
    assert_eq!(get(&admin, "/nothing", &[&bearer(FULL)])?.status, 404);
    assert_eq!(role(&admin, &[&bearer(FULL)])?, "full");
    for bad in [&bearer(&FULL[1..]), "Authorization: Basic YTpi", &format!("Cookie: {FULL}")] {
        let given = get(&admin, "/api/v1/settings", &[bad])?;
        assert_eq!(given.status, 401, "{bad}");
    }
    let in_url = format!("/api/v1/settings?token={FULL}");
    assert_eq!(get(&admin, &in_url, &[])?.status, 401, "a token in a URL does not count");

    let probes = Address::Tcp(probes);
    assert_eq!(role(&probes, &[&bearer(FULL)])?, "probe", "the listener's role is the most");
    assert_eq!(get(&probes, "/api/v1/settings", &[&bearer(FULL)])?.status, 403);
    assert_eq!(role(&Address::Unix(plain.clone()), &[])?, "full");
    assert_eq!(role(&Address::Unix(wide.clone()), &[])?, "read");
    let mode = |path: &Path| fs::metadata(path).map(|found| found.permissions().mode() & 0o777);
    assert_eq!((mode(&plain)?, mode(&wide)?), (0o600, 0o660));
    Ok(())
}

#[test]
fn a_unix_socket_alone_is_no_open_wire() -> Result<()> {
    let admin = free_address()?;
    let option = format!("--admin-listen={admin}");
    let _server = ServerUnderTest::start(&binary(), Transport::Unix, &[&option])?;
    assert_eq!(role(&Address::Tcp(admin), &[])?, "probe");
    Ok(())
}

#[test]
fn foreign_hosts_and_origins_reach_only_the_probes() -> Result<()> {
    let tokens = Tokens::new()?;
    let (_server, admin) = start("", &[&tokens.option(), "--admin-host=cache.example"])?;
    let token = bearer(READ);
    assert_eq!(role(&admin, &["Host: evil.example"])?, "403");
    assert_eq!(role(&admin, &["Host: evil.example", &token])?, "read");
    assert_eq!(role(&admin, &["Host: cache.example:9150"])?, "full");
    assert_eq!(role(&admin, &["Origin: http://evil.example"])?, "403");
    assert_eq!(role(&admin, &["Origin: http://evil.example", &token])?, "403");
    let own = ["Host: cache.example:9150", "Origin: http://cache.example:9150"];
    assert_eq!(role(&admin, &own)?, "full");
    let other_port = ["Host: cache.example:9150", "Origin: http://cache.example:3000"];
    assert_eq!(role(&admin, &other_port)?, "403");
    for path in ["/health", "/ready", "/metrics"] {
        let foreign = get(&admin, path, &["Host: 10.1.2.3:9150", "Origin: http://evil.example"])?;
        assert_eq!(foreign.status, 200, "{path}");
    }
    Ok(())
}

#[test]
fn sighup_reads_the_tokens_again() -> Result<()> {
    let tokens = Tokens::new()?;
    let (server, admin) = start("", &[&tokens.option()])?;
    let wait_for = |words: &str| {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !server.log().contains(words) {
            ensure!(Instant::now() < deadline, "not logged: {words}: {}", server.log());
            sleep(Duration::from_millis(5));
        }
        Ok(())
    };
    let new = FULL.replace("full", "news");
    tokens.write(&format!("read {new}\n"), 0o604)?;
    server.signal(Signal::HUP)?;
    wait_for("admin tokens not reloaded, the previous ones stay in effect")?;
    wait_for("others can read or change it: chmod 600 ")?;
    assert_eq!(role(&admin, &[&bearer(FULL)])?, "full");
    tokens.write(&format!("read {new}\n"), 0o640)?;
    server.signal(Signal::HUP)?;
    wait_for("larderd: SIGHUP: admin tokens reloaded: 1 of ")?;
    assert_eq!(role(&admin, &[&bearer(FULL)])?, "401");
    assert_eq!(role(&admin, &[&bearer(&new)])?, "read");
    let log = server.log();
    ensure!(![READ, FULL, &new].iter().any(|token| log.contains(*token)), "{log}");
    Ok(())
}

#[test]
fn a_listener_that_cannot_be_used_ends_the_start_with_a_reason() -> Result<()> {
    let tokens = Tokens::new()?;
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let taken = format!("--admin-listen={}", taken.local_addr()?);
    let file = tokens.option();
    let free = format!("--admin-listen={}", free_address()?);
    let good = format!("read {READ}\n");
    for (text, mode, args, words) in [
        (&good, 0o600, vec![taken.as_str()], "address already in use"),
        (&good, 0o600, vec!["--admin-listen=/nowhere/admin.sock"], "/nowhere/admin.sock: No such"),
        (&good, 0o600, vec!["--admin-listen=127.0.0.1:1,role=admin"], "probe, read or full"),
        (&good, 0o604, vec![&free, &file], "others can read or change it"),
        (&"full too-short\n".to_owned(), 0o600, vec![&free, &file], "less than 32 characters"),
        (&String::new(), 0o600, vec![&free, &file], "the file has no tokens"),
    ] {
        tokens.write(text, mode)?;
        let port = free_address()?.port().to_string();
        let output = run_to_end(command(&binary()).args(["-p", &port]).args(&args))?;
        let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
        ensure!(
            !output.status.success() && said.contains(&words.to_lowercase()),
            "{args:?}: {said}"
        );
    }
    let output = run_to_end(command(&binary()).args(["-p", "0", "-s", "/nowhere/s", &file]))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(said.contains("it has no effect without --admin-listen"), "{said}");
    Ok(())
}

#[test]
fn bad_requests_are_refused_and_slow_ones_end() -> Result<()> {
    let (server, admin) = start("", &[])?;
    // The slow request first: it waits while the others are refused.
    let mut slow = Stream::connect(&admin)?;
    slow.set_timeout(Duration::from_secs(30))?;
    slow.write_all(b"GET /health HTTP/1.1\r\nHost: localho")?;
    let began = Instant::now();

    let long = "x".repeat(20_000);
    for (request, statuses) in [
        ("nonsense\r\n\r\n".to_owned(), &[400][..]),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), &[400, 505]),
        (format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"), &[431, 414]),
        (format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n"), &[431]),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(100)), &[431]),
        ("POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".to_owned(), &[405]),
        ("PUT /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n".to_owned(), &[413]),
        (
            "GET /health HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_owned(),
            &[400],
        ),
    ] {
        let request = request.replace("HTTP/1.1\r\n", "HTTP/1.1\r\nConnection: close\r\n");
        let shown = &request[..request.len().min(60)];
        let response = exchange(&admin, request.as_bytes()).with_context(|| shown.to_owned())?;
        ensure!(statuses.contains(&response.status), "{shown:?}: {response:?}");
    }
    let mut received = Vec::new();
    let _ = slow.read_to_end(&mut received);
    let waited = began.elapsed();
    ensure!(waited < Duration::from_secs(20), "a header that does not end held for {waited:?}");
    ensure!(waited > Duration::from_secs(5), "ended after {waited:?}");
    assert_eq!(get(&admin, "/health", &[])?.status, 200);
    ensure!(!server.log().contains("panicked"), "{}", server.log());
    Ok(())
}

#[test]
fn a_thousand_idle_connections_do_no_harm() -> Result<()> {
    let admin = free_address()?;
    let scene = Scene::start(&binary(), &[&format!("--admin-listen={admin}")])?;
    let admin = Address::Tcp(admin);
    wait_until_ready(&admin)?;
    let mut idle = Vec::new();
    for number in 0..1_000 {
        let mut stream = Stream::connect(&admin)?;
        if number % 2 == 0 {
            stream.write_all(b"GET /health HTTP/1.1\r\n")?;
        }
        idle.push(stream);
    }
    for path in ["/health", "/ready", "/metrics"] {
        let began = Instant::now();
        assert_eq!(get(&admin, path, &[])?.status, 200);
        let waited = began.elapsed();
        ensure!(waited < Duration::from_secs(3), "{path} took {waited:?} while connections idle");
    }
    let descriptors = scene.server.descriptor_count()?;
    ensure!(descriptors < 200, "the server has {descriptors} descriptors open");
    scene.has_grown_at_most(16 << 20)?;
    drop(idle);
    scene.end()
}

#[test]
fn a_scrape_works_while_the_workers_are_saturated() -> Result<()> {
    let (server, admin) = start("", &["-t", "2"])?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let loads: Vec<_> = (0..4).map(|_| scope.spawn(|| load(&server, &is_over))).collect();
        let scraped = scrape_under_load(&admin);
        is_over.store(true, Relaxed);
        for load in loads {
            load.join().expect("a client does not panic")?;
        }
        scraped
    })
}

/// Sends as many requests as the server can handle, until it is over.
fn load(server: &ServerUnderTest, is_over: &AtomicBool) -> Result<()> {
    let batch = [b"get a b c d e f g h\r\n".repeat(50), b"mn\r\n".to_vec()].concat();
    let mut stream = server.connect()?;
    while !is_over.load(Relaxed) {
        stream.ask(&batch, b"MN\r\n")?;
    }
    Ok(())
}

fn scrape_under_load(admin: &Address) -> Result<()> {
    // Longer than the interval between two questions for heartbeats.
    let until = Instant::now() + Duration::from_secs(9);
    // The clients have begun after this time.
    sleep(Duration::from_millis(300));
    let mut last = 0;
    while Instant::now() < until {
        let page = get(admin, "/metrics", &[])?;
        ensure!(page.status == 200, "{page:?}");
        let gets = "memcached_commands_total{command=\"get\",status=\"miss\"} ";
        let gets = page.body.lines().find_map(|line| line.strip_prefix(gets));
        let gets: u64 = gets.context("a counter of gets")?.parse()?;
        ensure!(gets > last, "the counter stays at {gets} under load");
        last = gets;
        let health = get(admin, "/health", &[])?;
        ensure!(health.status == 200, "{health:?}");
        // Allows some time for machines with other load.
        let silent = ["0}", "1}", "2}"].map(|secs| format!("\"silent_secs\":{secs}"));
        ensure!(silent.iter().any(|words| health.body.contains(words)), "{health:?}");
        sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// Idle workers answer, and a worker that does not turn its loop is noticed. After 30 s the status
/// is 503, which a unit test checks.
#[test]
fn a_stuck_worker_is_silent_and_idle_ones_are_not() -> Result<()> {
    let (server, admin) = start("", &["-t", "2"])?;
    let silence = || -> Result<u32> {
        let health = get(&admin, "/health", &[])?;
        ensure!(health.status == 200, "{health:?}");
        let secs = health.body.split_once("\"silent_secs\":").context("no silence")?.1;
        Ok(secs.trim_end_matches("}\n").parse()?)
    };
    // Longer than the interval between two questions.
    sleep(Duration::from_secs(8));
    ensure!(silence()? <= 1, "idle workers are silent for {} s", silence()?);
    let worker = thread_of(&server, "worker 1")?;
    ptrace::seize(worker, ptrace::Options::empty())?;
    ptrace::interrupt(worker)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while silence()? < 3 {
        ensure!(Instant::now() < deadline, "a worker that is stopped is not noticed");
        sleep(Duration::from_millis(100));
    }
    waitpid(worker, Some(WaitPidFlag::__WALL))?;
    ptrace::detach(worker, None)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while silence()? > 0 {
        ensure!(Instant::now() < deadline, "a worker that continues stays silent");
        sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Returns the thread with this name.
fn thread_of(server: &ServerUnderTest, name: &str) -> Result<nix::unistd::Pid> {
    for thread in fs::read_dir(format!("/proc/{}/task", server.pid()))? {
        let thread = thread?;
        if fs::read_to_string(thread.path().join("comm"))?.trim() == name {
            let number = thread.file_name().to_string_lossy().parse()?;
            return Ok(nix::unistd::Pid::from_raw(number));
        }
    }
    bail!("no thread {name:?}")
}

#[test]
fn a_connection_serves_many_requests_and_ends_when_it_idles() -> Result<()> {
    let (_server, admin) = start("", &[])?;
    let mut stream = Stream::connect(&admin)?;
    for _ in 0..100 {
        let request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.ask(request, b"\"silent_secs\":0}\n")?;
    }
    let began = Instant::now();
    stream.set_timeout(Duration::from_secs(30))?;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    let waited = began.elapsed();
    ensure!(waited < Duration::from_secs(20), "an idle connection stays for {waited:?}");
    ensure!(rest.is_empty(), "{}", rest.escape_ascii());
    Ok(())
}

#[test]
fn it_works_without_privileges() -> Result<()> {
    let tokens = Tokens::new()?;
    let (server, admin) = start("", &["-o", "drop_privileges", "-vv", &tokens.option()])?;
    for _ in 0..200 {
        assert_eq!(get(&admin, "/health", &[])?.status, 200);
    }
    let page = get(&admin, "/metrics", &[])?.body;
    for name in ["memcached_up 1", "process_open_fds ", "process_start_time_seconds "] {
        ensure!(page.contains(name), "{name} is missing: {page}");
    }
    tokens.write(&format!("full {READ}\n"), 0o600)?;
    server.signal(Signal::HUP)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while role(&admin, &[&bearer(READ)])? != "full" {
        ensure!(Instant::now() < deadline, "tokens are not read again: {}", server.log());
        sleep(Duration::from_millis(10));
    }
    ensure!(server.stop(Signal::TERM)?.success(), "it ends with an error");
    Ok(())
}

#[test]
fn an_upgrade_fails_no_probe() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (pid_file, socket) = (folder.path().join("pid"), folder.path().join("admin.sock"));
    let (pid_file, socket) = (pid_file.display().to_string(), socket);
    let path = format!("--admin-listen={}", socket.display());
    let (mut server, admin) = start("", &["-P", &pid_file, &path])?;
    let addresses = [admin, Address::Unix(socket)];
    let started = |address| -> Result<String> {
        let page = get(address, "/metrics", &[])?.body;
        let line = page.lines().find(|line| line.starts_with("process_start_time_seconds "));
        Ok(line.context("a start time")?.to_owned())
    };
    let before = started(&addresses[0])?;
    // The start time has a resolution of 10 ms.
    sleep(Duration::from_millis(50));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let probes: Vec<_> = addresses
            .iter()
            .map(|address| {
                scope.spawn(|| -> Result<u32> {
                    let mut count = 0;
                    while !is_over.load(Relaxed) {
                        let response = get(address, "/ready", &[])
                            .with_context(|| format!("after {count} probes"))?;
                        ensure!(response.status == 200, "after {count} probes: {response:?}");
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        let asked = server.signal(Signal::USR2);
        let deadline = Instant::now() + Duration::from_secs(20);
        while asked.is_ok() && server.is_running().unwrap_or(false) && Instant::now() < deadline {
            sleep(Duration::from_millis(10));
        }
        sleep(Duration::from_millis(300));
        is_over.store(true, Relaxed);
        asked?;
        for probe in probes {
            let count = probe.join().expect("a probe does not panic")?;
            ensure!(count > 10, "only {count} probes");
        }
        Ok(())
    })
    .with_context(|| server.log())?;
    let after = addresses.iter().map(started).collect::<Result<Vec<_>>>();
    let successor = fs::read_to_string(&pid_file)?.trim().parse()?;
    kill_process(Pid::from_raw(successor).context("a pid")?, Signal::KILL)?;
    for after in after? {
        ensure!(after != before, "the old process still answers: {}", server.log());
    }
    ensure!(!server.is_running()?, "the old process still runs: {}", server.log());
    Ok(())
}
