//! The subcommands that use larderd's admin listener.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_testkit::{ServerUnderTest, Transport};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{Fixture, Ran, binary, larder, start_server};

/// A larderd with an admin listener on a Unix socket.
pub(crate) struct Managed {
    pub(crate) fixture: Fixture,
    pub(crate) admin: String,
    pub(crate) folder: TempDir,
}

impl Managed {
    /// Starts a larderd with these options.
    pub(crate) fn start(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let admin = folder.path().join("admin.sock").display().to_string();
        Self::start_at(admin, folder, args)
    }

    /// Starts a larderd whose admin listener has this address.
    pub(crate) fn start_at(admin: String, folder: TempDir, args: &[&str]) -> Self {
        let args = [&["-m", "64", "--admin-listen", &admin], args].concat();
        let server = ServerUnderTest::start(&binary(), Transport::Unix, &args).unwrap();
        let managed = Self { fixture: Fixture { server }, admin, folder };
        // The admin listener answers before the cache is open.
        while managed.larder(&["keys", "--limit", "1"]).stderr.contains("recovering") {
            sleep(Duration::from_millis(10));
        }
        managed
    }

    /// Runs `larder ARGS --server ADDR` with the address of the admin listener.
    pub(crate) fn larder(&self, args: &[&str]) -> Ran {
        larder(b"", &[args, &["--server", &self.admin]].concat())
    }

    /// Stores items under keys with arbitrary bytes.
    pub(crate) fn store(&self, keys: &[&[u8]]) {
        let mut stream = self.fixture.server.connect().unwrap();
        for key in keys {
            let mut base64 = Vec::new();
            larder_protocol::base64::encode(&mut base64, key);
            let request = [b"ms ", &base64[..], b" 5 b\r\nvalue\r\n"].concat();
            assert_eq!(stream.ask(&request, b"\r\n").unwrap(), b"HD\r\n");
        }
    }
}

fn text(printed: Vec<u8>) -> String {
    String::from_utf8(printed).unwrap()
}

#[test]
fn a_connection_is_closed_by_its_number() {
    let managed = Managed::start(&[]);
    let mut victim = managed.fixture.server.connect().unwrap();
    victim.ask(b"larder_name victim\r\n", b"OK\r\n").unwrap();
    let conns = text(managed.fixture.larder("stats", &["conns", "--raw"]).printed());
    let named = conns.lines().find(|line| line.ends_with(":name victim")).unwrap();
    let number = named.strip_prefix("STAT ").unwrap().split(':').next().unwrap();
    assert_eq!(text(managed.larder(&["kill", number]).printed()), "closed 1 connection\n");
    assert_eq!(victim.read(&mut [0]).unwrap(), 0, "the connection is open");
    let none = managed.larder(&["kill", "missing"]);
    assert_eq!((none.exit_code, text(none.stdout)), (1, "closed 0 connections\n".to_owned()));
}

#[test]
fn a_drain_waits_for_connections_and_can_be_undone() {
    let managed = Managed::start(&["--drain-grace", "0"]);
    let mut busy = managed.fixture.server.connect().unwrap();
    // The server waits four seconds for the rest of a request.
    busy.write_all(b"get half").unwrap();
    managed
        .larder(&["drain", "--wait", "1"])
        .failed(1, "still draining after 1 s: 1 connection is open");
    let serving = text(managed.larder(&["drain", "--undo"]).printed());
    assert!(serving.starts_with("serving, "), "{serving}");
    let began = Instant::now();
    let draining = text(managed.larder(&["drain"]).printed());
    assert!(draining.starts_with("draining, "), "{draining}");
    let drained = text(managed.larder(&["drain", "--wait", "10"]).printed());
    assert_eq!(drained, "drained, 0 connections are open\n", "after {:?}", began.elapsed());
    managed.larder(&["drain", "--undo"]).printed();
    assert!(managed.larder(&["drain", "--undo", "--wait", "1"]).exit_code == 2);
    managed.fixture.larder("ping", &[]).printed();
}

#[test]
fn another_drain_command_ends_the_wait() {
    let managed = Managed::start(&[]);
    let mut waiting = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["drain", "--wait", "20", "--server", &managed.admin])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&managed, "POST /api/v1/drain");
    managed.larder(&["drain", "--undo"]).printed();
    let mut said = String::new();
    waiting.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("another command undid the drain"), "{said}");
}

/// Waits until the server's log contains the text.
#[track_caller]
fn wait_for(managed: &Managed, words: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !managed.fixture.server.log().contains(words) {
        assert!(Instant::now() < deadline, "no {words:?} in {}", managed.fixture.server.log());
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn keys_are_listed_escaped() {
    let managed = Managed::start(&[]);
    managed.store(&[b"h:\x1b]0;title\x07", b"h:a\nb", b"h:\xff\xc3\xbc", b"h:a\\b c", b"other"]);
    let listed = text(managed.larder(&["keys", "--prefix", "h:"]).printed());
    let mut keys: Vec<_> = listed.lines().collect();
    keys.sort_unstable();
    let row = |key: &str| format!("         5   forever       0 s  {key}");
    let expected = [r"h:\x1b]0;title\x07", r"h:\xff\xc3\xbc", r"h:a\\b\x20c", r"h:a\x0ab"].map(row);
    assert_eq!(keys, expected);

    let limited = managed.larder(&["keys", "--limit", "2"]);
    assert_eq!(text(limited.stdout.clone()).lines().count(), 2, "{limited:?}");
    limited.failed(0, "there may be more keys");
    let none = managed.larder(&["keys", "--prefix", "none"]);
    assert_eq!(none.printed(), b"");
}

#[test]
fn more_keys_than_a_page_has_are_listed_once() {
    let managed = Managed::start(&[]);
    let keys: Vec<_> = (0..2500).map(|key| format!("key:{key:04}")).collect();
    managed.store(&keys.iter().map(String::as_bytes).collect::<Vec<_>>());
    let listed = text(managed.larder(&["keys", "--limit", "9999"]).printed());
    let mut listed: Vec<_> =
        listed.lines().map(|line| line.rsplit(' ').next().unwrap_or_default()).collect();
    listed.sort_unstable();
    assert_eq!(listed, keys);
}

#[test]
fn a_prefix_is_removed_and_other_items_stay() {
    let managed = Managed::start(&[]);
    managed.store(&[b"a:1", b"a:2", b"\xff1", b"b"]);
    let removed = text(managed.larder(&["delete", "--prefix", "a:"]).printed());
    assert!(removed.starts_with("2 items removed, in "), "{removed}");
    managed.fixture.larder("get", &["a:1"]).failed(1, "a:1");
    let bytes = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
    let bytes: &std::ffi::OsStr = bytes;
    let ran = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["delete", "--server", &managed.admin, "--prefix"])
        .arg(bytes)
        .output()
        .unwrap();
    assert!(ran.stdout.starts_with(b"1 item removed"), "{ran:?}");
    assert_eq!(managed.fixture.larder("get", &["b"]).printed(), b"value");
    managed.larder(&["delete", "--prefix", ""]).failed(2, "the prefix is empty");
    managed.larder(&["delete", "--prefix", "a", "b"]).failed(2, "cannot be used with");
    let with = |option| larder(b"", &["delete", "b", option, &managed.admin]);
    with("--admin").failed(2, "--admin requires --prefix");
    with("--token-file").failed(2, "--token-file requires --prefix");
}

#[test]
fn an_interrupt_cancels_the_removal_on_the_server() {
    const ITEMS: usize = 800_000;
    let managed = Managed::start(&["-m", "256"]);
    let mut stream = managed.fixture.server.connect().unwrap();
    for first in (0..ITEMS).step_by(10_000) {
        let set = |key| format!("ms u:{key} 0 q\r\n\r\n");
        let requests: String = (first..first + 10_000).map(set).collect();
        stream.ask((requests + "mn\r\n").as_bytes(), b"MN\r\n").unwrap();
    }
    let mut removing = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["delete", "--prefix", "u:", "--server", &managed.admin])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&managed, "POST /api/v1/delete-prefix");
    kill_process(Pid::from_child(&removing), Signal::INT).unwrap();
    let mut said = String::new();
    removing.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(removing.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.starts_with("larder: cancelled: "), "{said}");
    assert!(managed.fixture.server.log().contains("DELETE /api/v1/delete-prefix/1"));
    let left = managed.larder(&["keys", "--prefix", "u:", "--limit", "1"]);
    assert_eq!(text(left.stdout).lines().count(), 1, "the removal went on to its end: {said}");
}

#[test]
fn a_refusal_names_the_remedy() {
    let managed = Managed::start(&["-X", "-F"]);
    managed.larder(&["keys"]).failed(2, "the server runs with -X");
    managed.larder(&["delete", "--prefix", "a"]).failed(2, "the server runs with -F");
    let path = managed.folder.path().join("none").display().to_string();
    let none = larder(b"", &["drain", "--server", &path]);
    none.failed(2, &format!("is larderd running with --admin-listen {path}?"));
    let cache = larder(b"", &["drain", "--server", &managed.fixture.address()]);
    cache.failed(2, "is this the address of --admin-listen?");
    let other = start_server(|mut stream| {
        let mut request = [0; 1000];
        assert!(stream.read(&mut request).unwrap() > 0);
        stream.write_all(b"ERROR\r\nERROR\r\n").unwrap();
    });
    larder(b"", &["drain", "--server", &other]).failed(2, "does not answer in HTTP");
}

#[test]
fn a_token_gives_the_role_that_a_listener_asks_for() {
    const TOKEN: &str = "0123456789-0123456789-0123456789";
    let folder = tempfile::tempdir().unwrap();
    let [tokens, token] = ["tokens", "token"].map(|name| folder.path().join(name));
    std::fs::write(&tokens, format!("read {TOKEN}\n")).unwrap();
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&tokens, mode).unwrap();
    let address = larder_testkit::server::free_address().unwrap().to_string();
    let listen = format!("{address},role=read");
    let tokens = tokens.display().to_string();
    // On a server with a login, a request without a token has only the role `probe`.
    let users = folder.path().join("users");
    std::fs::write(&users, "user:password\n").unwrap();
    let users = users.display().to_string();
    let args = ["-Y", &users, "--admin-listen", &listen, "--admin-token-file", &tokens];
    let _managed = Managed::start(&args);

    larder(b"", &["keys", "--server", &address]).failed(2, "must have the role read");
    let token = token.display().to_string();
    let with = |what: &str| larder(b"", &[what, "--server", &address, "--token-file", &token]);
    with("keys").printed();
    with("drain").failed(2, "it needs the role full");
    let by_environment = Command::new(env!("CARGO_BIN_EXE_larder"))
        .arg("keys")
        .envs([("LARDER_ADMIN", address.as_str()), ("LARDER_TOKEN", TOKEN)])
        .output()
        .unwrap();
    assert!(by_environment.status.success(), "{by_environment:?}");
}

/// Starts a server that responds to each request with the status and the document.
fn answering(status: &'static str, document: &'static str) -> String {
    start_server(move |mut stream| {
        let mut request = [0; 4096];
        let received = stream.read(&mut request).unwrap();
        let is_of = |path: &[u8]| request[..received].starts_with(path);
        assert!(is_of(b"GET /api/v1/hot?limit=") || is_of(b"GET /api/v1/prefixes?limit="));
        let bytes = document.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {bytes}\r\n\r\n");
        stream.write_all((head + document).as_bytes()).unwrap();
    })
}

#[test]
fn hot_keys_are_shown_with_their_error_and_escaped() {
    let address = answering(
        "200 OK",
        r#"{"window_secs":14.4,"sampled":52000,"by_rate":[
            {"key":"a\u001b]0;x\u0007\n","per_sec":12345.6,"error_per_sec":7.25,
            "bytes_per_sec":4096},
            {"key_base64":"/wA=","per_sec":1,"error_per_sec":0,"bytes_per_sec":0}],
            "by_bytes":[{"key":"big","per_sec":2,"error_per_sec":0,
            "bytes_per_sec":3145728,"error_bytes_per_sec":1024}]}"#,
    );
    let shown = text(larder(b"", &["hot", "--server", &address]).printed());
    let expected = "\
52.0 k sampled requests of about the last 14 s

requests/s          ±      bytes/s  key
    12.3 k        7.2      4.0 KiB  a\\x1b]0;x\\x07\\x0a
         1          0          0 B  \\xff\\x00

     bytes/s            ±  key
     3.0 MiB      1.0 KiB  big
";
    assert_eq!(shown, expected);
}

#[test]
fn a_server_without_hot_keys_is_named() {
    let address = answering("404 Not Found", "");
    larder(b"", &["hot", "--server", &address]).failed(2, "reports no hot keys");
    let address = answering("403 Forbidden", "hot keys are disabled: the server runs with -X\n");
    larder(b"", &["hot", "--server", &address]).failed(2, "the server runs with -X");
    let address = answering("200 OK", "[1");
    larder(b"", &["hot", "--server", &address]).failed(2, "its response is not JSON");
    let address = answering("200 OK", r#"{"by_rate":[{}]}"#);
    larder(b"", &["hot", "--server", &address]).failed(2, "no number");
}

#[test]
fn prefixes_are_shown_with_their_error_and_escaped() {
    let address = answering(
        "200 OK",
        r#"{"census":{"age_secs":2.0,"share":1.0},"counted_secs":60.0,"rows":[
            {"prefix":"a\u001b]0;x","items":7,"bytes":2048,"gets":1000,"gets_error":95,
            "hits":900,"hits_error":90},
            {"prefix_base64":"/wA=","items":1,"bytes":60,"gets":0,"gets_error":0,"hits":0}],
            "none":{"items":0,"bytes":0,"gets":0,"gets_error":0,"hits":0},
            "other":{"items":3,"bytes":300,"gets":8,"gets_error":24,"hits":4}}"#,
    );
    let shown = text(larder(b"", &["prefixes", "--server", &address]).printed());
    let expected = "\
census of 100 % of the items 2 s ago; gets of the last 60 s

       bytes      items       gets        ±   hits  prefix
     2.0 KiB          7       1000       95 90.0 %  a\\x1b]0;x
        60 B          1          0        0      -  \\xff\\x00
         0 B          0          0        0      -  (none)
       300 B          3          8       24 50.0 %  (other)
";
    assert_eq!(shown, expected);
}

#[test]
fn prefixes_of_a_server_are_shown_unless_it_forbids_it() {
    let managed = Managed::start(&[]);
    managed.store(&[b"a:b"]);
    let shown = text(managed.larder(&["prefixes"]).printed());
    assert!(shown.lines().any(|line| line.contains(" 1 ") && line.ends_with("  a")), "{shown}");
    Managed::start(&["-X"]).larder(&["prefixes"]).failed(2, "-X");
}
