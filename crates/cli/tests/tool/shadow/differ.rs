//! Differences of each kind.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::Duration;

use larder_testkit::{Address, Stream};

use super::{Ended, Shadow, larderd, memcached, shown};
use crate::start_server;

/// Starts a candidate that answers every request line with `answer`. A line that begins with `set`
/// is answered after its value.
fn stub(answer: &'static str) -> Address {
    use std::io::{BufRead, BufReader};
    let address = start_server(move |stream| {
        let mut requests = BufReader::new(stream.try_clone().unwrap()).lines();
        while let Some(Ok(line)) = requests.next() {
            if line.starts_with("set") {
                requests.next();
            }
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    Address::Tcp(address.parse().unwrap())
}

/// Sends requests through the tool.
fn asked(live: &Address, candidate: &Address, exchanges: &[(&str, &str)], args: &[&str]) -> Ended {
    let shadow = Shadow::start(live, candidate, args);
    let mut client = shadow.connect();
    for (request, answer) in exchanges {
        let found = client.ask(request.as_bytes(), answer.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&found), *answer);
    }
    sleep(Duration::from_millis(200));
    drop(client);
    shadow.stop()
}

const SET: (&str, &str) = ("set k 1 0 3\r\nabc\r\n", "STORED\r\n");
const GET: (&str, &str) = ("get k\r\n", "VALUE k 1 3\r\nabc\r\nEND\r\n");

/// The newest memcached accepts this request.
const DELETE_USAGE: &str =
    "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";

#[test]
fn differences_of_each_kind_are_found() {
    let live = larderd(&[]);
    live.connect().unwrap().ask(SET.0.as_bytes(), SET.1.as_bytes()).unwrap();
    for (answer, exchange, kind) in [
        ("VALUE k 1 3\r\nabd\r\nEND\r\n", GET, "value"),
        ("VALUE k 1 2\r\nab\r\nEND\r\n", GET, "value"),
        ("VALUE k 2 3\r\nabc\r\nEND\r\n", GET, "flags"),
        ("SERVER_ERROR out of memory\r\n", GET, "error_at_candidate"),
        ("NOT_STORED\r\n", SET, "status"),
        ("END\r\n", ("nonsense\r\n", "ERROR\r\n"), "malformed"),
        ("CLIENT_ERROR no\r\n", ("nonsense\r\n", "ERROR\r\n"), "error_text"),
        ("OK\r\n", ("nonsense\r\n", "ERROR\r\n"), "error_at_live"),
        ("NOT_FOUND\r\n", ("delete k 5\r\n", DELETE_USAGE), "error_at_live"),
        ("HD t5\r\n", ("mg k t\r\n", "HD t-1\r\n"), "ttl"),
        ("HD f1 s4\r\n", ("mg k f s\r\n", "HD f1 s3\r\n"), "value"),
        ("HTTP/1.1 400 Bad Request\r\n", GET, "malformed"),
        ("\u{16}\u{3}\u{1}\r\n", GET, "malformed"),
        ("STORED\r\n", GET, "malformed"),
    ] {
        let ended = asked(live.address(), &stub(answer), &[exchange], &[]);
        eprintln!("{kind}: {answer:?}");
        ended.differs(kind);
    }
}

#[test]
fn an_error_of_the_live_server_only_is_a_difference() {
    let (live, candidate) = (larderd(&["-I", "2k"]), larderd(&[]));
    let set = format!("set k 0 0 4000\r\n{}\r\n", "x".repeat(4000));
    let answer = "SERVER_ERROR object too large for cache\r\n";
    asked(live.address(), candidate.address(), &[(&set, answer)], &[]).differs("error_at_live");
}

#[test]
fn times_to_live_may_differ_by_the_tolerance() {
    let live = larderd(&[]);
    let ttl_of = |candidate: &'static str, args: &[&str]| {
        let request = b"set k 0 1000 1\r\nx\r\n";
        live.connect().unwrap().ask(request, b"STORED\r\n").unwrap();
        asked(live.address(), &stub(candidate), &[("mg k t\r\n", "")], args)
    };
    ttl_of("HD t998\r\n", &[]).agrees(1, &[]);
    ttl_of("HD t900\r\n", &["--ttl-tolerance", "50"]).differs("ttl");
    ttl_of("HD t900\r\n", &["--ttl-tolerance", "200"]).agrees(1, &[]);
}

/// A candidate with other contents: the same key has another value.
#[test]
fn a_value_that_was_stored_behind_the_back_of_the_tool_is_found() {
    let (live, candidate) = (memcached(&[]), larderd(&[]));
    let shadow = Shadow::start(live.address(), candidate.address(), &[]);
    let mut client = shadow.connect();
    client.ask(SET.0.as_bytes(), SET.1.as_bytes()).unwrap();
    sleep(Duration::from_millis(200));
    let mut direct = candidate.connect().unwrap();
    direct.ask(b"set k 1 0 3\r\nxyz\r\n", b"STORED\r\n").unwrap();
    client.ask(GET.0.as_bytes(), GET.1.as_bytes()).unwrap();
    drop(client);
    sleep(Duration::from_millis(200));
    let ended = shadow.stop();
    ended.differs("value");
    let sample = &ended.report["samples"][0];
    assert_eq!(sample["command"], "get");
    let key = sample["key"].as_str().unwrap();
    assert!(key.starts_with('#') && key.len() == 17, "a hash: {key}");
    assert!(!ended.report.to_string().contains("abc"), "no values: {}", ended.report);
}

#[test]
fn keys_are_shown_on_request_and_differences_are_captured_in_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("differences");
    let live = larderd(&[]);
    live.connect().unwrap().ask(SET.0.as_bytes(), SET.1.as_bytes()).unwrap();
    let args = ["--show-keys", "--capture", path.to_str().unwrap()];
    let candidate = stub("VALUE k 1 3\r\nabd\r\nEND\r\n");
    let ended = asked(live.address(), &candidate, &[GET], &args);
    ended.differs("value");
    assert_eq!(ended.report["samples"][0]["key"], "k");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let line = std::fs::read_to_string(&path).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap()["kind"], "value");
    let (live, candidate) = (shown(live.address()), shown(&candidate));
    let args = ["--listen", "./never", "--live", &live, "--candidate", &candidate];
    let (ended, stderr) = super::run(&[&args[..], &["--capture", path.to_str().unwrap()]].concat());
    assert_eq!(ended.exit_code, 2);
    assert!(stderr.contains("name a file that does not exist"), "{stderr}");
}

/// Commands that concern one server are not sent to the candidate.
#[test]
fn shutdown_and_listings_reach_only_the_live_server() {
    let (mut live, mut candidate) = (larderd(&["-A"]), larderd(&["-A"]));
    let shadow = Shadow::start(live.address(), candidate.address(), &[]);
    let mut client = shadow.connect();
    client.ask(SET.0.as_bytes(), SET.1.as_bytes()).unwrap();
    client.ask(b"lru_crawler metadump all\r\n", b"END\r\n").unwrap();
    client.ask(b"cache_memlimit 64\r\n", b"\r\n").unwrap();
    client.ask(GET.0.as_bytes(), GET.1.as_bytes()).unwrap();
    let mut watcher: Stream = shadow.connect();
    watcher.ask(b"watch fetchers\r\n", b"OK\r\n").unwrap();
    client.write_all(b"shutdown\r\n").unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut client, &mut rest).unwrap();
    sleep(Duration::from_millis(300));
    assert!(!live.is_running().unwrap(), "the live server has stopped");
    assert!(candidate.is_running().unwrap(), "the candidate has not");
    let ended = shadow.stop();
    ended.is_complete();
    assert_eq!(ended.count("not_compared/not_sent"), 3, "{}", ended.report);
    assert_eq!(ended.count("identical"), 2, "{}", ended.report);
    assert_eq!(ended.count("connections_not_compared"), 1, "the watcher: {}", ended.report);
    assert_eq!(ended.exit_code, 0, "{}", ended.report);
}
