//! `larder warm`: copies items between running servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use larder_ring::Ring;
use larder_testkit::{Stream, Transport, server};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Fixture, larder};

const ARGS: &[&str] = &["-m", "64", "--followers", "4"];

fn servers(count: usize) -> Vec<Fixture> {
    (0..count).map(|_| Fixture::start_on(Transport::Tcp, ARGS)).collect()
}

fn list(servers: &[Fixture]) -> String {
    servers.iter().map(Fixture::address).collect::<Vec<_>>().join(",")
}

/// Returns the ring of servers, as clients compute it.
fn ring(servers: &[Fixture]) -> Ring {
    let names: Vec<_> = servers.iter().map(Fixture::address).collect();
    Ring::new(&names, &vec![1; names.len()])
}

fn ask(server: &Fixture, request: &[u8], end: &[u8]) -> String {
    let mut stream = server.server.connect().unwrap();
    String::from_utf8(stream.ask(request, end).unwrap()).unwrap()
}

fn value(server: &Fixture, key: &str) -> Option<String> {
    let response = ask(server, format!("get {key}\r\n").as_bytes(), b"END\r\n");
    let mut lines = response.lines();
    lines.next().filter(|line| line.starts_with("VALUE"))?;
    lines.next().map(str::to_owned)
}

fn set(server: &Fixture, key: &str, value: &str) {
    let request = format!("set {key} 5 3600 {}\r\n{value}\r\n", value.len());
    assert_eq!(ask(server, request.as_bytes(), b"\r\n"), "STORED\r\n");
}

/// Stores a key for each number at its owner.
fn fill(servers: &[Fixture], count: u32) {
    let ring = ring(servers);
    let mut streams: Vec<Stream> =
        servers.iter().map(|each| each.server.connect().unwrap()).collect();
    for number in 0..count {
        let key = format!("key:{number}");
        let request = format!("set {key} {number} 3600 5 noreply\r\nvalue\r\n");
        streams[ring.owner_of(key.as_bytes())].write_all(request.as_bytes()).unwrap();
    }
    for stream in &mut streams {
        stream.ask(b"mn\r\n", b"MN\r\n").unwrap();
    }
}

/// A `larder warm` that runs until a signal ends it.
struct Warm {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Warm {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_larder"))
            .arg("warm")
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr }
    }

    /// Waits until everything is copied.
    fn wait_until_copied(&mut self) {
        let mut line = String::new();
        while !line.contains("give the clients the new list") {
            line.clear();
            assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "ended early");
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it, and returns its exit code and the rest of its output.
    fn end(mut self) -> (i32, String) {
        self.signal(Signal::TERM);
        self.wait()
    }

    fn wait(&mut self) -> (i32, String) {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), rest)
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a condition holds.
#[track_caller]
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_server_that_joins_gets_exactly_its_keys() {
    let all = servers(4);
    fill(&all[..3], 8000);
    let ran = larder(
        b"",
        &["warm", "--from", &list(&all[..3]), "--self", &all[3].address(), "--hold", "0"],
    );
    assert_eq!(ran.exit_code, 0, "{ran:?}");
    let ring = ring(&all);
    let mut copied = 0;
    for number in 0..8000 {
        let key = format!("key:{number}");
        let found = ask(&all[3], format!("mg {key} v f t\r\n").as_bytes(), b"\r\n");
        if ring.owner_of(key.as_bytes()) == 3 {
            copied += 1;
            assert!(found.starts_with(&format!("VA 5 f{number} t35")), "{key}: {found}");
        } else {
            assert_eq!(found, "EN\r\n", "{key} belongs to another server");
        }
    }
    assert!((1200..2800).contains(&copied), "{copied}");
}

#[test]
fn a_server_that_leaves_gives_its_keys_to_the_others() {
    let all = servers(4);
    fill(&all, 4000);
    let (before, after) = (ring(&all), ring(&all[..3]));
    // Left from the time before the fourth server joined, and out of date since.
    let stale: Vec<String> = (0..4000)
        .map(|number| format!("key:{number}"))
        .filter(|key| before.owner_of(key.as_bytes()) == 3)
        .collect();
    for key in &stale {
        set(&all[after.owner_of(key.as_bytes())], key, "stale");
    }
    ask(&all[3], format!("delete {}\r\n", stale[0]).as_bytes(), b"\r\n");
    for target in &all[..3] {
        let (from, to) = (list(&all), list(&all[..3]));
        let ran = larder(
            b"",
            &["warm", "--from", &from, "--to", &to, "--self", &target.address(), "--hold", "0"],
        );
        assert_eq!(ran.exit_code, 0, "{ran:?}");
    }
    for (number, key) in stale.iter().enumerate() {
        let found = value(&all[after.owner_of(key.as_bytes())], key);
        assert_eq!(found.as_deref(), (number > 0).then_some("value"), "{key}");
    }
}

#[test]
fn changes_at_the_source_reach_the_target_until_the_end() {
    let all = servers(2);
    for number in 0..1000 {
        set(&all[0], &format!("key:{number}"), "first");
    }
    let (from, to) = (all[0].address(), all[1].address());
    let mut warm = Warm::start(&["--from", &from, "--to", &to, "--self", &to]);
    warm.wait_until_copied();
    assert_eq!(value(&all[1], "key:1").as_deref(), Some("first"));
    set(&all[0], "key:1", "second");
    ask(&all[0], b"delete key:2\r\n", b"\r\n");
    ask(&all[0], b"touch key:3 1\r\n", b"\r\n");
    set(&all[0], "new", "first");
    wait_for("the second value", || value(&all[1], "key:1").as_deref() == Some("second"));
    wait_for("the delete", || value(&all[1], "key:2").is_none());
    wait_for("a new key", || value(&all[1], "new").is_some());
    wait_for("the shorter life", || value(&all[1], "key:3").is_none());
    // At the end every earlier change is handled.
    for number in 100..900 {
        set(&all[0], &format!("key:{number}"), "last");
    }
    let (code, rest) = warm.end();
    assert_eq!(code, 0, "{rest}");
    for number in 100..900 {
        let found = value(&all[1], &format!("key:{number}"));
        assert_ne!(found.as_deref(), Some("first"), "key:{number}");
    }
    set(&all[0], "key:1", "after the end");
    assert_eq!(value(&all[1], "key:1").as_deref(), Some("second"));
}

#[test]
fn a_flush_of_the_source_empties_the_target() {
    let all = servers(2);
    for number in 0..1000 {
        set(&all[0], &format!("key:{number}"), "first");
    }
    let (from, to) = (all[0].address(), all[1].address());
    let mut warm = Warm::start(&["--from", &from, "--to", &to, "--self", &to]);
    warm.wait_until_copied();
    set(&all[1], "own", "kept");
    ask(&all[0], b"flush_all\r\n", b"\r\n");
    wait_for("the flush", || value(&all[1], "key:7").is_none());
    assert_eq!(warm.end().0, 0);
    assert_eq!(value(&all[1], "own").as_deref(), Some("kept"));
}

#[test]
fn what_clients_store_at_the_target_is_kept() {
    let all = servers(2);
    for number in 0..500 {
        set(&all[0], &format!("key:{number}"), "old");
    }
    let (from, to) = (all[0].address(), all[1].address());
    let mut warm = Warm::start(&["--from", &from, "--to", &to, "--self", &to]);
    warm.wait_until_copied();
    set(&all[1], "key:1", "new");
    ask(&all[1], b"delete key:2\r\n", b"\r\n");
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(warm.end().0, 0);
    assert_eq!(value(&all[1], "key:1").as_deref(), Some("new"));
    assert_eq!(value(&all[1], "key:2"), None);
    assert_eq!(value(&all[1], "key:3").as_deref(), Some("old"));
}

#[test]
fn a_copy_that_ends_early_leaves_nothing() {
    for signal in [Signal::KILL, Signal::TERM, Signal::STOP] {
        let all = servers(2);
        fill(&all[..1], 20_000);
        let (from, to) = (all[0].address(), all[1].address());
        let args = ["--from", &from, "--to", &to, "--self", &to, "--rate", "2000"];
        let mut warm = Warm::start(&args);
        wait_for("the first copies", || {
            let stats = ask(&all[1], b"stats\r\n", b"END\r\n");
            !stats.contains("STAT curr_items 0\r\n")
        });
        warm.signal(signal);
        wait_for("the removal", || {
            ask(&all[1], b"stats\r\n", b"END\r\n").contains("STAT curr_items 0\r\n")
        });
        if signal == Signal::TERM {
            let (code, rest) = warm.wait();
            assert_eq!(code, 2, "{rest}");
            assert!(rest.contains("interrupted before everything was copied"), "{rest}");
        }
    }
}

#[test]
fn a_source_that_hangs_or_dies_ends_the_copy() {
    for signal in [Signal::STOP, Signal::KILL] {
        let all = servers(3);
        fill(&all[..2], 2000);
        let (from, to) = (list(&all[..2]), all[2].address());
        let mut warm = Warm::start(&["--from", &from, "--self", &to]);
        warm.wait_until_copied();
        kill_process(all[0].server.process_id(), signal).unwrap();
        let (code, rest) = warm.wait();
        assert_eq!(code, 2, "{rest}");
        assert!(rest.contains(&all[0].address()) && rest.contains("has failed"), "{rest}");
        wait_for("the removal", || {
            ask(&all[2], b"stats\r\n", b"END\r\n").contains("STAT curr_items 0\r\n")
        });
    }
}

/// A neighbour that answers with something else ends the copy, and needs no memory of the tool.
#[test]
fn a_source_that_lies_ends_the_copy() {
    let target = Fixture::start_on(Transport::Tcp, ARGS);
    for (stream, fetch) in [
        (&b"garbage\r\n"[..], &b""[..]),
        (b"FOLLOW 00000000000000000000000000000001 1 99 1\r\n", b""),
        (b"FOLLOW 00000000000000000000000000000001 1 20 1\r\n", b"no\r\n"),
        (b"FOLLOW 00000000000000000000000000000001 1 20 1\r\nC 1\r\nC 2\r\nX\r\n", b"OK\r\n"),
        (b"FOLLOW 00000000000000000000000000000001 1 20 1\r\nH 99\r\n", b"OK\r\n"),
        (
            b"FOLLOW 00000000000000000000000000000001 1 20 1\r\nH 1\r\nH 2\r\n",
            b"OK\r\nVA 4294967295 f0 c1 t-1\r\n",
        ),
        (
            b"FOLLOW 00000000000000000000000000000001 1 20 1\r\nH 1\r\nH 2\r\n",
            b"OK\r\nVA 5 f0 c1 t-1\r\nlonger than five\r\n",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let liar = listener.local_addr().unwrap().to_string();
        let (stream, fetch) = (stream.to_vec(), fetch.to_vec());
        let serve = thread::spawn(move || lie(&listener, &stream, &fetch));
        let to = target.address();
        let ran =
            larder(b"", &["warm", "--from", &liar, "--to", &to, "--self", &to, "--hold", "0"]);
        assert_eq!(ran.exit_code, 2, "{ran:?}");
        assert!(ran.stderr.contains(&liar), "{}", ran.stderr);
        drop(serve);
        wait_for("the removal", || {
            ask(&target, b"stats\r\n", b"END\r\n").contains("STAT curr_items 0\r\n")
        });
    }
}

/// Answers the stream, the fetches, the statistics and the list of keys of one copy.
fn lie(listener: &TcpListener, stream: &[u8], fetch: &[u8]) {
    for connection in listener.incoming().take(4) {
        let mut connection = connection.unwrap();
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        let mut line = String::new();
        if reader.read_line(&mut line).is_err() {
            continue;
        }
        let answer = match line.split(' ').next().unwrap_or_default() {
            "larder_follow" => stream,
            "larder_follower" => fetch,
            "lru_crawler" => b"OK\r\nkey=k exp=-1 la=1 cas=1 fetch=no cls=1 size=60\r\nEND\r\n",
            _ => b"END\r\n",
        };
        // Fails if the tool has given up.
        let _ = connection.write_all(answer);
        thread::spawn(move || {
            let mut rest = Vec::new();
            let _ = reader.read_to_end(&mut rest);
            drop(connection);
        });
    }
}

/// The standby of a store follows every change, and keeps its items when the store is lost.
#[test]
fn a_standby_has_what_the_store_has() {
    let folder = tempfile::tempdir().unwrap();
    let store = |name: &str| {
        let path = format!("--tier-path={}", folder.path().join(name).display());
        let tier = [&*path, "--tier-size=64m", "--tier-mode=store"];
        Fixture::start_on(Transport::Tcp, &[ARGS, &tier].concat())
    };
    let (live, spare) = (store("live"), store("spare"));
    for number in 0..500 {
        set(&live, &format!("key:{number}"), "first");
    }
    set(&spare, "other", "left from before");
    let (from, to) = (live.address(), spare.address());
    let mut warm = Warm::start(&["--standby", "--from", &from, "--self", &to]);
    let mut line = String::new();
    while !line.contains("the standby is kept up to date") {
        line.clear();
        assert_ne!(warm.stderr.read_line(&mut line).unwrap(), 0, "ended early");
    }
    assert_eq!(value(&spare, "other"), None);
    set(&live, "key:1", "second");
    set(&live, "new", "first");
    ask(&live, b"delete key:2\r\n", b"\r\n");
    wait_for("the second value", || value(&spare, "key:1").as_deref() == Some("second"));
    wait_for("the delete", || value(&spare, "key:2").is_none());
    wait_for("the new key", || value(&spare, "new").is_some());
    // The end includes every item that was stored before it.
    for number in 0..300 {
        set(&live, &format!("late:{number}"), "first");
    }
    assert_eq!(warm.end().0, 0);
    assert_eq!(value(&spare, "late:299").as_deref(), Some("first"));
    let mut warm = Warm::start(&["--standby", "--from", &from, "--self", &to]);
    line.clear();
    while !line.contains("the standby is kept up to date") {
        line.clear();
        assert_ne!(warm.stderr.read_line(&mut line).unwrap(), 0, "ended early");
    }
    kill_process(live.server.process_id(), Signal::KILL).unwrap();
    let (code, rest) = warm.wait();
    assert_eq!(code, 2, "{rest}");
    assert!(rest.contains("the standby keeps its items"), "{rest}");
    assert_eq!(value(&spare, "key:3").as_deref(), Some("first"));
    for (from, expected) in [("a,b", "the items of one server"), (&*to, "is the server of --from")]
    {
        larder(b"", &["warm", "--standby", "--from", from, "--self", &to]).failed(2, expected);
    }
}

#[test]
fn wrong_lists_and_servers_are_explained() {
    let all = servers(1);
    let unfollowed = Fixture::start_on(Transport::Tcp, &["-m", "64"]);
    let address = all[0].address();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers");
    std::fs::write(&file, "a:1\nb:2 # the second\n").unwrap();
    let file = format!("@{}", file.display());
    for (from, to, target, expected) in [
        (&*address, Some(&*address), "127.0.0.1:1", "is not in the list after the change"),
        ("a,b", None, "b", "give the list after the change with --to"),
        (&file, Some(&file), "c:3", "is not in the list after the change (a:1, b:2)"),
        ("a,a", None, "b", "in the list twice"),
        (&unfollowed.address(), None, &address, "start it with --followers 1 or more"),
        ("127.0.0.1:1", None, &address, "cannot connect to 127.0.0.1:1"),
        (&address, Some(&address), &address, "names no other server than --self"),
    ] {
        let mut args = vec!["warm", "--from", from, "--self", target];
        args.extend(to.iter().flat_map(|to| ["--to", to]));
        larder(b"", &args).failed(2, expected);
    }
    let memcached = server::memcached().unwrap();
    let old = Fixture {
        server: larder_testkit::ServerUnderTest::start(&memcached, Transport::Tcp, &["-m", "64"])
            .unwrap(),
    };
    larder(b"", &["warm", "--from", &address, "--self", &old.address()])
        .failed(2, "does not know larder_warm");
}

/// Keys that the text protocol cannot contain, empty and large values, and items that expire soon.
#[test]
fn items_of_all_kinds_are_copied() {
    let all = servers(2);
    let mut stream = all[0].server.connect().unwrap();
    let large = "x".repeat(900_000);
    // A longer number than that of 30 days is a Unix time.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let in_a_year = format!("T{}", now + 31_536_000);
    for (key, value, ttl) in [
        ("YSBiAA== b", "binary", "T0"),
        ("empty", "", "T100"),
        ("large", &*large, "T100"),
        ("year", "v", &*in_a_year),
        ("soon", "v", "T1"),
    ] {
        let (key, flag) = key.split_once(' ').unwrap_or((key, ""));
        let request = format!("ms {key} {} {ttl} {flag}\r\n{value}\r\n", value.len());
        assert_eq!(stream.ask(request.as_bytes(), b"\r\n").unwrap(), b"HD\r\n", "{key}");
    }
    let (from, to) = (all[0].address(), all[1].address());
    let ran = larder(b"", &["warm", "--from", &from, "--to", &to, "--self", &to, "--hold", "0"]);
    assert_eq!(ran.exit_code, 0, "{ran:?}");
    let found = |request: &str| ask(&all[1], request.as_bytes(), b"\r\n");
    assert_eq!(found("mg YSBiAA== b s\r\n"), "HD s6\r\n");
    assert_eq!(found("mg empty s\r\n"), "HD s0\r\n");
    assert_eq!(found("mg large s\r\n"), "HD s900000\r\n");
    let year = found("mg year t\r\n");
    let secs: u32 = year.trim().strip_prefix("HD t").unwrap().parse().unwrap();
    assert!((31_535_900..=31_536_000).contains(&secs), "{secs}");
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(found("mg soon\r\n"), "EN\r\n");
}
