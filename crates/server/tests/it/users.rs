//! Users with rights, as clients and operators meet them: the file of `--users`.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use argon2::password_hash::PasswordHasher;
use argon2::{Algorithm, Argon2, Params, Version};
use larder_testkit::server::{Signal, command, free_address, run_to_end};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport, http};

use crate::binary;
use crate::tls_scene::{self, Encrypted, Files};

/// Returns an argon2id hash. `memory_kib` decides how long a verification takes.
pub(crate) fn hash(password: &str, memory_kib: u32) -> Result<String> {
    let params = Params::new(memory_kib, 1, 1, None).map_err(|error| anyhow::anyhow!("{error}"))?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = argon2.hash_password_with_salt(password.as_bytes(), b"larder's salt");
    Ok(hash.map_err(|error| anyhow::anyhow!("{error}"))?.to_string())
}

/// A users' file, deleted when it is dropped.
pub(crate) struct UsersFile(tempfile::NamedTempFile);

impl UsersFile {
    pub(crate) fn new(lines: &[String]) -> Result<Self> {
        let file = Self(tempfile::NamedTempFile::new()?);
        file.write(lines)?;
        Ok(file)
    }

    fn write(&self, lines: &[String]) -> Result<()> {
        Ok(fs::write(self.0.path(), format!("users = [\n{}\n]\n", lines.join(",\n")))?)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.path().to_str().expect("the path is UTF-8")
    }
}

pub(crate) fn user(name: &str, hash: &str, rest: &str) -> String {
    format!("  {{ name = \"{name}\", hash = \"{hash}\"{rest} }}")
}

/// Logs in by the text protocol, and returns the response.
pub(crate) fn log_in(stream: &mut Stream, name: &str, password: &str) -> Result<String> {
    let credentials = format!("{name} {password}");
    let request = format!("set auth 0 0 {}\r\n{credentials}\r\n", credentials.len());
    Ok(String::from_utf8(stream.ask(request.as_bytes(), b"\r\n")?)?)
}

pub(crate) fn ask(stream: &mut Stream, request: &str, end: &str) -> Result<String> {
    Ok(String::from_utf8(stream.ask(request.as_bytes(), end.as_bytes())?)?)
}

#[test]
fn a_client_logs_in_by_text_and_by_sasl_on_one_port() -> Result<()> {
    let file = UsersFile::new(&[
        user("shop", &hash("sesame", 19_456)?, ", rights = \"write\", prefixes = [\"shop:\"]"),
        user("ops", &hash("open", 64)?, ", rights = \"admin\""),
    ])?;
    let server =
        ServerUnderTest::start(&binary(), Transport::Tcp, &["--users", file.path(), "-vv"])?;
    let mut text = server.connect()?;
    ensure!(ask(&mut text, "get shop:1\r\n", "\r\n")? == "CLIENT_ERROR unauthenticated\r\n");
    ensure!(log_in(&mut text, "shop", "wrong")? == "CLIENT_ERROR authentication failure\r\n");
    ensure!(log_in(&mut text, "nobody", "sesame")? == "CLIENT_ERROR authentication failure\r\n");
    ensure!(log_in(&mut text, "shop", "sesame")? == "STORED\r\n");
    ensure!(ask(&mut text, "set shop:1 0 0 2\r\nab\r\n", "\r\n")? == "STORED\r\n");
    let refused = ask(&mut text, "set other 0 0 2\r\nab\r\n", "\r\n")?;
    ensure!(refused.starts_with("CLIENT_ERROR not permitted: the key"), "{refused}");

    let mut binary_stream = server.connect()?;
    let body = b"PLAIN\0shop\0sesame";
    let mut request = vec![0x80, 0x21, 0, 5, 0, 0, 0, 0, 0, 0, 0, body.len() as u8];
    request.resize(24, 0);
    request.extend_from_slice(body);
    let answer = binary_stream.ask(&request, b"Authenticated")?;
    ensure!(answer[6..8] == [0, 0], "{}", answer.escape_ascii());

    let mut ops = server.connect()?;
    ensure!(log_in(&mut ops, "ops", "open")? == "STORED\r\n");
    let list = ask(&mut ops, "stats users\r\n", "END\r\n")?;
    for line in [
        "STAT shop:rights write",
        "STAT shop:logins 2",
        "STAT shop:failed_logins 1",
        "STAT shop:not_permitted 1",
        "STAT shop:connections 2",
        "STAT ops:rights admin",
    ] {
        ensure!(list.contains(&format!("{line}\r\n")), "{line} is not in {list}");
    }
    let log = server.log();
    ensure!(!log.contains("sesame"), "a password is in the log: {log}");
    ensure!(log.contains("user shop, key other"), "the refusal is not logged: {log}");
    Ok(())
}

/// A verification of a password takes tens of milliseconds. A password that was verified before
/// must not wait for it, whatever others try.
#[test]
fn a_flood_of_wrong_logins_delays_right_ones_little() -> Result<()> {
    let lines = [
        user("shop", &hash("sesame", 19_456)?, ", rights = \"read\""),
        user("fresh", &hash("open", 19_456)?, ", rights = \"read\""),
    ];
    let file = UsersFile::new(&lines)?;
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &["--users", file.path()])?;
    ensure!(log_in(&mut server.connect()?, "shop", "sesame")? == "STORED\r\n");
    let (is_over, failed) = (AtomicBool::new(false), AtomicUsize::new(0));
    scope(|scope| -> Result<()> {
        for number in 0..20 {
            let (server, is_over, failed) = (&server, &is_over, &failed);
            scope.spawn(move || -> Result<()> {
                let mut stream = server.connect()?;
                let name = if number % 2 == 0 { "shop" } else { "nobody" };
                for attempt in 0.. {
                    if is_over.load(Relaxed) {
                        break;
                    }
                    log_in(&mut stream, name, &format!("{number}-{attempt}"))?;
                    failed.fetch_add(1, Relaxed);
                }
                Ok(())
            });
        }
        let measured = (|| {
            sleep(Duration::from_millis(500));
            // The fastest of ten, because the machine may have other work.
            let mut remembered = Duration::MAX;
            for _ in 0..10 {
                let started = Instant::now();
                ensure!(log_in(&mut server.connect()?, "shop", "sesame")? == "STORED\r\n");
                remembered = remembered.min(started.elapsed());
            }
            let started = Instant::now();
            ensure!(log_in(&mut server.connect()?, "fresh", "open")? == "STORED\r\n");
            Ok((remembered, started.elapsed()))
        })();
        is_over.store(true, Relaxed);
        let (remembered, fresh) = measured?;
        let failed_count = failed.load(Relaxed);
        ensure!(failed_count > 0, "there was no flood");
        // Twenty connections wait, and each verification takes 20 ms and more.
        ensure!(remembered < Duration::from_millis(100), "remembered: {remembered:?}");
        ensure!(fresh < Duration::from_secs(4), "first login: {fresh:?}");
        Ok(())
    })
}

#[test]
fn a_client_logs_in_and_out_ten_thousand_times() -> Result<()> {
    let file = UsersFile::new(&[user("shop", &hash("sesame", 19_456)?, ", rights = \"admin\"")])?;
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &["--users", file.path()])?;
    let rss_before = {
        log_in(&mut server.connect()?, "shop", "sesame")?;
        server.rss_bytes()?
    };
    let started = Instant::now();
    for _ in 0..10_000 {
        let mut stream = server.connect()?;
        ensure!(log_in(&mut stream, "shop", "sesame")? == "STORED\r\n");
    }
    ensure!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    let grown = server.rss_bytes()?.saturating_sub(rss_before);
    ensure!(grown < 16 << 20, "the server grew by {grown} bytes");
    let mut stream = server.connect()?;
    log_in(&mut stream, "shop", "sesame")?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !ask(&mut stream, "stats users\r\n", "END\r\n")?.contains("STAT shop:connections 1\r\n") {
        ensure!(Instant::now() < deadline, "closed connections are still counted");
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
fn a_changed_file_closes_connections_of_users_that_are_gone() -> Result<()> {
    let (old, new) = (hash("old", 64)?, hash("new", 64)?);
    let rights = ", rights = \"write\"";
    let file = UsersFile::new(&[user("a", &old, rights), user("b", &old, rights)])?;
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &["--users", file.path()])?;
    let [mut a, mut b] = [server.connect()?, server.connect()?];
    ensure!(
        log_in(&mut a, "a", "old")? == "STORED\r\n" && log_in(&mut b, "b", "old")? == "STORED\r\n"
    );
    file.write(&[user("a", &new, rights), user("b", &old, ", rights = \"read\"")])?;
    server.signal(Signal::HUP)?;
    wait_for_log(&server, "users reloaded: 2")?;
    let closed = a.ask(b"get k\r\n", b"END\r\n");
    ensure!(closed.as_ref().map_or(true, Vec::is_empty), "{closed:?}");
    ensure!(ask(&mut b, "get k\r\n", "END\r\n")? == "END\r\n", "b is still a user");
    let refused = ask(&mut b, "delete k\r\n", "\r\n")?;
    ensure!(refused.contains("lacks the right write"), "{refused}");

    // A half-written file changes nothing.
    fs::write(file.path(), "users = [\n  { name = \"c\" },\n")?;
    server.signal(Signal::HUP)?;
    wait_for_log(&server, "users not reloaded")?;
    ensure!(ask(&mut b, "get k\r\n", "END\r\n")? == "END\r\n");
    ensure!(log_in(&mut server.connect()?, "a", "new")? == "STORED\r\n");
    Ok(())
}

fn wait_for_log(server: &ServerUnderTest, words: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !server.log().contains(words) {
        ensure!(Instant::now() < deadline, "{words:?} is not in the log: {}", server.log());
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[test]
fn ten_thousand_users_and_a_reload_of_them() -> Result<()> {
    let hash = hash("sesame", 64)?;
    let lines = |rest: &str| -> Vec<String> {
        (0..10_000).map(|number| user(&format!("u{number}"), &hash, rest)).collect()
    };
    let file = UsersFile::new(&lines(", rights = \"read\""))?;
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &["--users", file.path()])?;
    let mut stream = server.connect()?;
    ensure!(log_in(&mut stream, "u9999", "sesame")? == "STORED\r\n");
    file.write(&lines(", rights = \"admin\", prefixes = [\"p\"]"))?;
    server.signal(Signal::HUP)?;
    wait_for_log(&server, "users reloaded: 10000")?;
    ensure!(ask(&mut stream, "set p 0 0 1\r\nx\r\n", "\r\n")? == "STORED\r\n");
    Ok(())
}

#[test]
fn a_token_of_the_file_opens_the_admin_listener_for_its_rights() -> Result<()> {
    let token = "0123456789-0123456789-0123456789";
    let line = format!(
        "  {{ name = \"shop\", token = \"{token}\", rights = \"write\", prefixes = [\"shop:\"] }}"
    );
    let file = UsersFile::new(&[line])?;
    fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let (server, admin) = http::start(&binary(), &["--users", file.path()])?;
    let bearer = format!("Authorization: Bearer {token}");
    let status = |path: &str, headers: &[&str]| -> Result<u16> {
        Ok(http::get(&admin, path, headers)?.status)
    };
    ensure!(status("/api/v1/cache/shop:1", &[&bearer])? == 404, "an own key");
    ensure!(status("/api/v1/cache/other", &[&bearer])? == 403, "a foreign key");
    ensure!(status("/api/v1/keys", &[&bearer])? == 403, "a list of all keys");
    ensure!(status("/api/v1/stats", &[&bearer])? == 200, "statistics");
    ensure!(status("/api/v1/cache/shop:1", &[])? == 401, "without a token");
    let put = format!(
        "PUT /api/v1/cache/shop:1 HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n\
         Connection: close\r\nContent-Length: 1\r\n\r\nx"
    );
    assert_eq!(http::exchange(&admin, put.as_bytes())?.status, 201);
    wait_for_log(&server, "larderd: admin: PUT /api/v1/cache/shop:1 by 127.0.0.1:")?;
    ensure!(server.log().contains(" user shop as full: 201\n"), "{}", server.log());
    let basic = "Authorization: Basic c2hvcDpzZXNhbWU=";
    ensure!(status("/api/v1/cache/shop:1", &[basic])? == 401, "Basic");
    Ok(())
}

/// Starts larderd with these arguments, which must fail. Returns the exit status and the message.
fn fails(args: &[&str]) -> Result<(i32, String)> {
    let output = run_to_end(command(&binary()).args(["-p", "0"]).args(args))?;
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status.code().context("an exit status")?, message))
}

#[test]
fn a_start_with_a_bad_file_or_a_contradiction_fails_with_the_reason() -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    let path = file.path().to_str().context("a path")?;
    for (text, words) in [
        ("", "missing field `users`"),
        ("users = [", "line 1"),
        ("users = [ { name = \"a\", right = \"read\" } ]", "unknown field `right`"),
        ("users = [ { name = \"a\", rights = \"root\" } ]", "rights are read, write or admin"),
    ] {
        fs::write(path, text)?;
        let (code, message) = fails(&["--users", path])?;
        ensure!(code == 64 && message.contains("option --users: users of"), "{code} {message}");
        ensure!(message.contains(words), "{words:?}: {message}");
    }
    let (code, message) = fails(&["--users", "/nonexistent/users"])?;
    ensure!(code == 64 && message.contains("No such file"), "{code} {message}");
    fs::write(path, "users = [ { name = \"a\" } ]")?;
    ensure!(Path::new(path).exists());
    for (args, words) in [
        (&["--users", path, "-Y", path][..], "it cannot be combined with"),
        (&["--users", path, "-S"], "it cannot be combined with"),
        (&["--users", path, "-U", "11211"], "it cannot be combined with UDP: use -U 0"),
    ] {
        let (code, message) = fails(args)?;
        ensure!(code != 0 && message.contains(words), "{args:?}: {code} {message}");
    }
    Ok(())
}

/// Connects to a unix socket of a server that has just started. Its TCP sockets listen first.
pub(crate) fn connect_soon(path: &Path) -> Result<Stream> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match Stream::connect(&Address::Unix(path.to_owned())) {
            Err(_) if Instant::now() < deadline => sleep(Duration::from_millis(5)),
            connected => return Ok(connected?),
        }
    }
}

/// Each word of a listener limits or opens only its own clients.
#[test]
fn a_readonly_listener_refuses_changes_and_noauth_needs_no_login() -> Result<()> {
    let file = UsersFile::new(&[user("shop", &hash("sesame", 64)?, ", rights = \"admin\"")])?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let list = format!(
        "unix[noauth]:{},unix[readonly]:{},unix[noauth,readonly]:{}",
        path("open").display(),
        path("limited").display(),
        path("both").display()
    );
    let args = ["-l", &list, "--users", file.path()];
    let _server = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
    let connect = |name: &str| connect_soon(&path(name));

    let mut open = connect("open")?;
    ensure!(ask(&mut open, "set k 0 0 1\r\nx\r\n", "\r\n")? == "STORED\r\n");

    let mut limited = connect("limited")?;
    ensure!(ask(&mut limited, "get k\r\n", "\r\n")? == "CLIENT_ERROR unauthenticated\r\n");
    ensure!(log_in(&mut limited, "shop", "sesame")? == "STORED\r\n");
    ensure!(ask(&mut limited, "get k\r\n", "END\r\n")?.contains("VALUE k"));
    let refused = ask(&mut limited, "delete k\r\n", "\r\n")?;
    ensure!(refused == "CLIENT_ERROR not permitted: the listener is read-only\r\n", "{refused}");

    let mut both = connect("both")?;
    ensure!(ask(&mut both, "get k\r\n", "END\r\n")?.contains("VALUE k"));
    for change in ["delete k", "flush_all", "touch k 9", "gat 9 k", "mg k T9", "verbosity 1"] {
        let refused = ask(&mut both, &format!("{change}\r\n"), "\r\n")?;
        ensure!(refused.contains("the listener is read-only"), "{change}: {refused}");
    }
    Ok(())
}

#[test]
fn a_connection_is_named_and_closed() -> Result<()> {
    let file = UsersFile::new(&[
        user("shop", &hash("sesame", 64)?, ", rights = \"write\""),
        user("ops", &hash("open", 64)?, ", rights = \"admin\""),
    ])?;
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &["--users", file.path()])?;
    let [mut first, mut second, mut ops] =
        [server.connect()?, server.connect()?, server.connect()?];
    for (stream, name, password) in
        [(&mut first, "shop", "sesame"), (&mut second, "shop", "sesame"), (&mut ops, "ops", "open")]
    {
        ensure!(log_in(stream, name, password)? == "STORED\r\n");
    }
    ensure!(ask(&mut first, "larder_name web-1\r\n", "\r\n")? == "OK\r\n");
    let conns = ask(&mut ops, "stats conns\r\n", "END\r\n")?;
    let named = conns.lines().find(|line| line.ends_with(":name web-1")).context("a name")?;
    let number = named.trim_start_matches("STAT ").split(':').next().context("a number")?;
    ensure!(conns.contains(&format!("STAT {number}:user shop\r\n")), "{conns}");
    let refused = ask(&mut second, &format!("larder_kill {number}\r\n"), "\r\n")?;
    ensure!(refused.contains("lacks the right admin"), "{refused}");
    ensure!(ask(&mut ops, &format!("larder_kill {number}\r\n"), "\r\n")? == "OK\r\n");
    ensure!(is_closed(&mut first), "the named connection is open");
    ensure!(ask(&mut second, "mn\r\n", "\r\n")? == "MN\r\n", "the other one is closed");
    ensure!(ask(&mut ops, "larder_kill user shop\r\n", "\r\n")? == "OK\r\n");
    ensure!(is_closed(&mut second), "a connection of the user is open");
    ensure!(ask(&mut ops, "larder_kill 4000000000\r\n", "\r\n")? == "NOT_FOUND\r\n");
    for bad in ["larder_kill", "larder_kill x", "larder_kill user", "larder_name a b"] {
        let refused = ask(&mut ops, &format!("{bad}\r\n"), "\r\n")?;
        ensure!(refused == "CLIENT_ERROR bad command line format\r\n", "{bad}: {refused}");
    }
    Ok(())
}

/// True once the server has closed the connection.
fn is_closed(stream: &mut Stream) -> bool {
    stream.set_timeout(Duration::from_secs(10)).is_ok()
        && matches!(std::io::Read::read(stream, &mut [0]), Ok(0))
}

/// A client with a certificate needs no login: the name in the certificate is its user.
#[test]
fn a_certificate_names_its_user() -> Result<()> {
    let file = UsersFile::new(&[
        "  { name = \"web\", rights = \"write\", prefixes = [\"web:\"] }".to_owned(),
        user("ops", &hash("open", 64)?, ", rights = \"admin\""),
    ])?;
    let files = Files::new()?;
    let web = files.authority.identity("web")?;
    let unknown = files.authority.identity("unknown")?;
    let scene = Encrypted::start_with(files, "ssl_verify_mode=1", &["--users", file.path()])?;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = |identity| -> Result<_> {
            Ok(std::sync::Arc::new(scene.config_of(&[version], Some(identity))?))
        };
        let config_of_web = config(&web)?;
        // The second client resumes the session of the first one.
        for _ in 0..2 {
            let mut client = scene.connect(&config_of_web)?;
            let stored = tls_scene::ask(&mut client, b"set web:1 0 0 1\r\nx\r\n", b"\r\n")?;
            ensure!(stored == b"STORED\r\n", "{}", stored.escape_ascii());
            let refused = tls_scene::ask(&mut client, b"get other\r\n", b"\r\n")?;
            ensure!(refused.starts_with(b"CLIENT_ERROR not permitted"), "{version:?}");
        }
        let refused = scene.connect(&config(&unknown)?);
        ensure!(refused.is_err(), "a certificate without a user is admitted");
    }
    Ok(())
}

/// A browser presents a certificate for any page that asks it to, so a page gains nothing by one.
#[test]
fn a_certificate_is_a_user_of_the_admin_listener_but_not_for_a_page() -> Result<()> {
    let file = UsersFile::new(&[
        "  { name = \"web\", rights = \"read\", prefixes = [\"web:\"] }".to_owned()
    ])?;
    let files = Files::new()?;
    let web = files.authority.identity("web")?;
    let admin = free_address()?;
    let listen = format!("mtls:{admin}");
    let args = ["--users", file.path(), "--admin-listen", &listen];
    let scene = Encrypted::start_with(files, "", &args)?;
    let config = std::sync::Arc::new(scene.config_of(rustls::ALL_VERSIONS, Some(&web))?);
    let status = |path: &str, headers: &str| -> Result<String> {
        let socket = std::net::TcpStream::connect(admin)?;
        let connection =
            rustls::ClientConnection::new(std::sync::Arc::clone(&config), "localhost".try_into()?)?;
        let mut stream = rustls::StreamOwned::new(connection, socket);
        let host = format!("Host: localhost:{}\r\nConnection: close\r\n", admin.port());
        let request = format!("GET {path} HTTP/1.1\r\n{host}{headers}\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes())?;
        let mut answer = Vec::new();
        // The server may end the connection without the alert of TLS.
        let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
        Ok(String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or_default().to_owned())
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while status("/ready", "").map_or(true, |status| status != "200") {
        ensure!(Instant::now() < deadline, "{}", scene.server.log());
        sleep(Duration::from_millis(20));
    }
    let of_page = format!("Origin: https://localhost:{}\r\n", admin.port());
    ensure!(status("/api/v1/cache/web:1", "")? == "404", "an own key");
    ensure!(status("/api/v1/cache/other", "")? == "401", "a foreign key");
    ensure!(status("/api/v1/cache/web:1", &of_page)? == "401", "a page");
    ensure!(status("/api/v1/cache/web:1", "Authorization: Bearer x\r\n")? == "401", "a bad token");
    Ok(())
}

#[test]
fn metrics_have_the_fifty_users_with_the_most_refusals_if_an_option_allows_it() -> Result<()> {
    let hash = hash("sesame", 64)?;
    let of_number = |number: usize| user(&format!("u{number}"), &hash, ", rights = \"read\"");
    let mut lines: Vec<String> = (0..60).map(of_number).collect();
    lines.push(user("slow\\\"one", &hash, ", rights = \"read\", rate = 1"));
    let file = UsersFile::new(&lines)?;
    for option in ["--user-metrics", "--verbose"] {
        let (server, admin) = http::start(&binary(), &["--users", file.path(), option])?;
        for number in 1..60 {
            let mut stream = server.connect()?;
            ensure!(log_in(&mut stream, &format!("u{number}"), "sesame")? == "STORED\r\n");
            let refused = "delete k\r\n".repeat(number) + "mn\r\n";
            ask(&mut stream, &refused, "MN\r\n")?;
        }
        let mut stream = server.connect()?;
        log_in(&mut stream, "slow\"one", "wrong")?;
        log_in(&mut stream, "slow\"one", "sesame")?;
        for _ in 0..90 {
            ask(&mut stream, "get k\r\n", "\r\n")?;
        }
        let page = http::get(&admin, "/metrics", &[])?.body;
        let is_on = option == "--user-metrics";
        for family in ["not_permitted", "rate_limited", "failed_logins"] {
            let of_family = format!("larder_user_{family}_total{{");
            let count = page.lines().filter(|line| line.starts_with(&of_family)).count();
            assert_eq!(count, if is_on { 50 } else { 0 }, "{family}: {page}");
        }
        if is_on {
            let not_permitted = |user: &str, count: &str| {
                format!("larder_user_not_permitted_total{{user=\"{user}\"}} {count}")
            };
            ensure!(page.contains(&(not_permitted("u59", "59") + "\n")), "{page}");
            ensure!(!page.contains(&not_permitted("u10", "")), "{page}");
            let failed = "larder_user_failed_logins_total{user=\"slow\\\"one\"} 1\n";
            ensure!(page.contains(failed), "{page}");
        }
    }
    Ok(())
}
