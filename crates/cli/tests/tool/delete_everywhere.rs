//! `larder delete --prefix --servers`: every server has removed the prefix, or the error names the
//! others.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_testkit::{ServerUnderTest, Transport};
use rustix::process::{Pid, Signal, kill_process};

use crate::secured::with_password;
use crate::{Fixture, Ran, larder, start_server};

/// Runs `larder delete --prefix a: --servers SERVERS ARGS`.
fn delete(servers: &[&str], args: &[&str]) -> Ran {
    larder(b"", &[&["delete", "--prefix", "a:", "--servers", &servers.join(",")], args].concat())
}

/// Starts a larderd that has this many items with the prefix `a:`, and the item `b`.
fn holding(items: usize, transport: Transport) -> Fixture {
    let fixture = Fixture::start_on(transport, &["-m", "64"]);
    let mut stream = fixture.server.connect().unwrap();
    for key in (0..items).map(|number| format!("a:{number}")).chain(["b".to_owned()]) {
        let request = format!("set {key} 0 0 5\r\nvalue\r\n");
        assert_eq!(stream.ask(request.as_bytes(), b"\r\n").unwrap(), b"STORED\r\n");
    }
    fixture
}

fn memcached() -> Fixture {
    let binary = larder_testkit::server::memcached().unwrap();
    Fixture { server: ServerUnderTest::start(&binary, Transport::Tcp, &[]).unwrap() }
}

/// Starts a server that answers the requests of a removal with these two functions.
fn answering(
    begin: impl Fn() -> &'static str + Clone + Send + 'static,
    progress: &'static str,
) -> String {
    start_server(move |stream: TcpStream| {
        let mut answers = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let answer = if line.starts_with("delete_prefix") { begin() } else { progress };
            answers.write_all(answer.as_bytes()).unwrap();
        }
    })
}

const RUNNING: &str = "STAT id 3\r\nSTAT state running\r\nSTAT removed 1200\r\nSTAT progress 0.420\
                       \r\nSTAT secs 1.000\r\nEND\r\n";
const DONE: &str = "STAT id 3\r\nSTAT state done\r\nSTAT removed 9\r\nSTAT progress 1.000\r\nSTAT \
                    secs 0.200\r\nEND\r\n";

#[test]
fn every_server_removes_the_prefix_and_has_a_line() {
    let [one, two, three] = [(2, Transport::Tcp), (1, Transport::Unix), (0, Transport::Tcp)]
        .map(|of| holding(of.0, of.1));
    let [first, second, third] = [&one, &two, &three].map(Fixture::address);
    let printed = String::from_utf8(delete(&[&first, &second, &third], &[]).printed()).unwrap();
    let lines: Vec<_> = printed.lines().collect();
    for (line, start) in lines.iter().zip([
        format!("{first}: 2 items removed, in "),
        format!("unix:{second}: 1 item removed, in "),
        format!("{third}: 0 items removed, in "),
    ]) {
        assert!(line.starts_with(&start), "{printed}");
    }
    assert_eq!(lines.len(), 3, "{printed}");
    for server in [&one, &two, &three] {
        server.larder("get", &["a:0"]).failed(1, "a:0");
        assert_eq!(server.larder("get", &["b"]).printed(), b"value");
    }
}

#[test]
fn a_server_that_has_not_removed_the_prefix_is_named_with_the_reason() {
    let [live, stopped, dead] = [3, 1, 1].map(|items| holding(items, Transport::Tcp));
    let other = memcached();
    let forbidding = Fixture::start_on(Transport::Tcp, &["-F"]);
    let [live_at, stopped_at, dead_at, other_at, forbidding_at] =
        [&live, &stopped, &dead, &other, &forbidding].map(Fixture::address);
    stopped.server.signal(Signal::STOP).unwrap();
    dead.server.stop(Signal::KILL).unwrap();

    let begun = Instant::now();
    let servers = [&*live_at, &stopped_at, &dead_at, &other_at, &forbidding_at];
    let ran = delete(&servers, &["--timeout", "2"]);
    let took = begun.elapsed();

    let printed = String::from_utf8(ran.stdout.clone()).unwrap();
    assert!(printed.starts_with(&format!("{live_at}: 3 items removed, in ")), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
    ran.failed(2, &format!("larder: {stopped_at}: no answer after 2 s: it is stopped"));
    ran.failed(2, &format!("larder: {dead_at}: cannot connect to {dead_at}: Connection refused"));
    ran.failed(2, &format!("larder: {other_at}: it does not know delete_prefix"));
    ran.failed(2, &format!("larder: {forbidding_at}: the server runs with -F"));
    let left = &servers[1..];
    let (named, again) = (left.join(", "), left.join(","));
    ran.failed(
        2,
        &format!(
            "larder: 4 of 5 servers have not removed the prefix \"a:\": {named}; removed by: \
             {live_at}; repeat the command with --servers {again}\n"
        ),
    );
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(5), "{took:?}");

    // The stopped server executes the removal when it continues, as its message says.
    stopped.server.signal(Signal::CONT).unwrap();
    delete(&[&live_at, &stopped_at], &[]).printed();
    stopped.larder("get", &["a:0"]).failed(1, "a:0");
}

#[test]
fn a_server_that_hangs_is_named_after_five_seconds_however_long_the_limit_is() {
    let hung = start_server(|mut stream| {
        stream.read_to_end(&mut Vec::new()).ok();
    });
    let begun = Instant::now();
    let ran = delete(&[&hung], &[]);
    let took = begun.elapsed();
    ran.failed(2, &format!("no answer from {hung} within 5 s"));
    ran.failed(2, "the server may still execute the removal");
    ran.failed(2, "1 of 1 server has not removed the prefix \"a:\"");
    ran.failed(2, "removed by: no server");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_busy_server_is_asked_again_until_the_limit() {
    let refusals = Arc::new(AtomicU32::new(0));
    let begin = move || match refusals.fetch_add(1, Relaxed) {
        0..3 => "SERVER_ERROR busy\r\n",
        _ => "OK 3\r\n",
    };
    let soon = answering(begin, DONE);
    let always = answering(|| "SERVER_ERROR busy\r\n", "END\r\n");
    let ran = delete(&[&soon, &always], &["--timeout", "1"]);
    assert_eq!(
        String::from_utf8_lossy(&ran.stdout),
        format!("{soon}: 9 items removed, in 0.2 s\n")
    );
    ran.failed(2, &format!("larder: {always}: busy with another removal after 1 s"));
}

/// The server shows only the last removal. If another client has begun one since, the end of the
/// tool's own removal is not known, and the tool repeats it.
#[test]
fn a_removal_whose_end_is_not_shown_is_repeated() {
    let count = Arc::new(AtomicU32::new(1));
    let begin = move || match count.fetch_add(1, Relaxed) {
        1 => "OK 2\r\n",
        _ => "OK 3\r\n",
    };
    let printed = delete(&[&answering(begin, DONE)], &[]).printed();
    assert!(String::from_utf8_lossy(&printed).contains(": 9 items removed, in 0.2 s"));
}

#[test]
fn ends_that_are_not_done_are_named() {
    for (progress, reason) in [
        ("END\r\n", "the server shows no removal"),
        ("STAT id 1\r\nSTAT removed 0\r\nSTAT progress 0\r\nSTAT secs 0\r\nEND\r\n", "restarted"),
        ("STAT id x\r\nEND\r\n", "a removal whose id is x"),
        ("SERVER_ERROR out\r\n", "cannot read the progress of the removal: the server answered"),
        (
            "STAT id 3\r\nSTAT state cancelled\r\nSTAT removed 1\r\nSTAT progress 0.1\r\nSTAT secs \
             0\r\nEND\r\n",
            "the stop of the server, cancelled it after 1 item",
        ),
    ] {
        delete(&[&answering(|| "OK 3\r\n", progress)], &[]).failed(2, reason);
    }
}

#[test]
fn the_origins_of_a_near_cache_must_be_given() {
    let origin = holding(2, Transport::Tcp);
    let near = Fixture::start_on(Transport::Tcp, &["--origin", &origin.address()]);
    let ran = delete(&[&near.address()], &["--timeout", "5"]);
    ran.failed(2, "near cache");
    ran.failed(2, "give the origins");
    delete(&[&origin.address()], &[]).printed();
}

#[test]
fn an_interrupt_prints_the_state_of_each_server() {
    let done = holding(1, Transport::Tcp).address();
    let live = holding(1, Transport::Tcp);
    let running = answering(|| "OK 3\r\n", RUNNING);
    let busy = answering(|| "SERVER_ERROR busy\r\n", "END\r\n");
    let servers = [&*live.address(), &running, &busy, &done].join(",");
    let mut tool = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["delete", "--prefix", "a:", "--servers", &servers])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while live.larder("get", &["a:0"]).exit_code == 0 {
        assert!(Instant::now() < deadline, "the prefix is not removed");
    }
    // The other servers receive their requests within this time.
    sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&tool), Signal::INT).unwrap();
    let mut said = String::new();
    tool.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(tool.wait().unwrap().code(), Some(2), "{said}");
    assert!(
        said.contains(&format!(
            "larder: {running}: the removal 3 was at 42 % at the interrupt, with 1200 items \
             removed: it continues"
        )),
        "{said}"
    );
    let expected = format!("larder: {busy}: busy with another removal at the interrupt");
    assert!(said.contains(&expected), "{said}");
    assert!(said.contains(&format!("larder: {done}: cannot connect to")), "{said}");
    assert!(said.contains(&format!("removed by: {}; repeat", live.address())), "{said}");
}

#[test]
fn each_server_has_the_login_of_the_options() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users").display().to_string();
    std::fs::write(&users, "ops:sesame\n").unwrap();
    let [one, two] = [(); 2].map(|()| Fixture::start_on(Transport::Tcp, &["-Y", &users]));
    let servers = [one.address(), two.address()].join(",");
    let args = ["delete", "--prefix", "a:", "--user", "ops", "--servers", &servers];
    let printed = String::from_utf8(with_password("sesame", &args).printed()).unwrap();
    assert_eq!(printed.matches(": 0 items removed, in ").count(), 2, "{printed}");
    with_password("wrong", &args).failed(2, "2 of 2 servers have not removed the prefix");
    larder(b"", &["delete", "--prefix", "a:", "--servers", &servers])
        .failed(2, "the server requires a login (-Y)");
}

#[test]
fn a_prefix_may_have_any_bytes() {
    let server = Fixture::start_on(Transport::Tcp, &["-m", "64"]);
    let mut stream = server.server.connect().unwrap();
    // The keys "a b1" and "a c", which the text protocol takes in base64.
    for key in ["YSBiMQ==", "YSBj"] {
        let request = format!("ms {key} 1 b\r\nv\r\n");
        assert_eq!(stream.ask(request.as_bytes(), b"\r\n").unwrap(), b"HD\r\n");
    }
    let ran = larder(b"", &["delete", "--prefix", "a b", "--servers", &server.address()]);
    let printed = String::from_utf8(ran.printed()).unwrap();
    assert!(printed.contains(": 1 item removed, in "), "{printed}");
}

#[test]
fn unusable_arguments_are_refused_before_a_server_is_asked() {
    let server = holding(1, Transport::Tcp);
    let address = server.address();
    let twice = [&*address, &address].join(",");
    let long = "a".repeat(251);
    for (args, words) in [
        (&["--prefix", "", "--servers", &address][..], "the prefix is empty"),
        (&["--prefix", &long, "--servers", &address], "the prefix has 251 bytes, expected 250"),
        (&["--prefix", "a:", "--servers", &twice], "twice: name each server once"),
        (&["--prefix", "a:", "--servers", "a,,b"], "expected host, host:port"),
        (&["k", "--servers", &address], "--servers requires --prefix"),
        (&["--prefix", "a:", "--servers", &address, "-s", "x:1"], "cannot be used with"),
        (&["--prefix", "a:", "--servers", &address, "--admin", "x:1"], "--admin has no effect"),
        (&["--prefix", "a:", "--servers", &address, "--token-file", "f"], "has no effect"),
        (&["--prefix", "a:", "--servers", "./s", "--tls"], "--tls-ca FILE"),
        (&["--prefix", "a:", "--timeout", "5"], "--servers <ADDR,...>"),
        (&["--prefix", "a:", "--servers", &address, "--timeout", "0"], "expected a whole number"),
    ] {
        larder(b"", &[&["delete"], args].concat()).failed(2, words);
    }
    assert_eq!(server.larder("get", &["a:0"]).printed(), b"value");
}
