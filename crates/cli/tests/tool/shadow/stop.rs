//! Addresses, limits and the end of a run.

use std::io::{Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, Transport};
use rustix::process::kill_process;

use super::{Shadow, larderd, run, shown};
use crate::{Fixture, start_server};

#[test]
fn the_tool_refuses_to_start_without_a_live_server_or_an_address() {
    let server = larderd(&[]);
    let address = shown(server.address());
    let nobody = free_address().unwrap().to_string();
    let listen = free_address().unwrap().to_string();
    let (ended, stderr) = run(&["--listen", &listen, "--live", &nobody, "--candidate", &address]);
    assert_eq!(ended.exit_code, 2);
    assert!(stderr.contains("cannot connect to"), "{stderr}");
    let taken = std::net::TcpListener::bind(&listen).unwrap();
    let args = ["--listen", &listen, "--live", &address, "--candidate", &address];
    let (ended, stderr) = run(&args);
    assert_eq!(ended.exit_code, 2);
    assert!(stderr.contains("choose another address with --listen"), "{stderr}");
    drop(taken);
    let (ended, stderr) = run(&["--candidate", &address]);
    assert_eq!(ended.exit_code, 2);
    assert!(stderr.contains("--listen"), "{stderr}");
}

#[test]
fn a_run_ends_after_its_seconds_and_reports_when_nothing_could_be_compared() {
    let live = Fixture::start_on(Transport::Tcp, &["-m", "64"]);
    let dead = Address::Tcp(free_address().unwrap());
    let (ended, _) = {
        let shadow = Shadow::start(live.server.address(), &dead, &["--seconds", "1"]);
        let mut client = shadow.connect();
        client.ask(b"get k\r\n", b"END\r\n").unwrap();
        drop(client);
        let begun = Instant::now();
        let mut shadow = shadow;
        while shadow.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            sleep(Duration::from_millis(10));
        }
        let stdout = std::io::read_to_string(shadow.child.stdout.take().unwrap()).unwrap();
        let exit_code = shadow.child.wait().unwrap().code().unwrap();
        (super::Ended { report: serde_json::from_str(&stdout).unwrap(), exit_code }, ())
    };
    ended.is_complete();
    assert_eq!(ended.count("not_compared/candidate_unreachable"), 1, "{}", ended.report);
    assert_eq!(ended.exit_code, 2, "nothing was compared");
}

/// A live server that answers after a while.
#[test]
fn a_response_that_is_outstanding_at_the_end_still_arrives() {
    let live = start_server(|mut stream| {
        let mut buffer = [0; 1000];
        while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {
            sleep(Duration::from_millis(700));
            let _ = stream.write_all(b"END\r\n");
        }
    });
    let candidate = larderd(&[]);
    let live = Address::Tcp(live.parse().unwrap());
    let shadow = Shadow::start(&live, candidate.address(), &[]);
    let mut client = shadow.connect();
    client.write_all(b"get k\r\n").unwrap();
    sleep(Duration::from_millis(100));
    let asking = std::thread::spawn(move || client.ask(b"", b"END\r\n").unwrap());
    let ended = shadow.stop();
    assert_eq!(asking.join().unwrap(), b"END\r\n");
    ended.agrees(1, &[]);
    assert_eq!(ended.count("live/connections_cut"), 0);
}

#[test]
fn a_second_signal_ends_the_tool_immediately() {
    let live = start_server(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let candidate = larderd(&[]);
    let live = Address::Tcp(live.parse().unwrap());
    let mut shadow = Shadow::start(&live, candidate.address(), &[]);
    let mut client = shadow.connect();
    client.write_all(b"get k\r\n").unwrap();
    sleep(Duration::from_millis(200));
    kill_process(shadow.pid(), Signal::INT).unwrap();
    sleep(Duration::from_millis(300));
    assert!(shadow.child.try_wait().unwrap().is_none(), "a response is outstanding");
    let begun = Instant::now();
    kill_process(shadow.pid(), Signal::INT).unwrap();
    assert_eq!(shadow.child.wait().unwrap().code(), Some(2));
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn clients_beyond_the_limit_wait_for_one_that_leaves() {
    let (live, candidate) = (larderd(&[]), larderd(&[]));
    let shadow = Shadow::start(live.address(), candidate.address(), &["--connections", "2"]);
    let (mut first, mut second) = (shadow.connect(), shadow.connect());
    first.ask(b"mn\r\n", b"MN\r\n").unwrap();
    second.ask(b"mn\r\n", b"MN\r\n").unwrap();
    let mut third = shadow.connect();
    third.write_all(b"mn\r\n").unwrap();
    third.set_timeout(Duration::from_millis(300)).unwrap();
    assert!(third.read(&mut [0; 9]).is_err(), "it waits");
    drop(first);
    third.set_timeout(Duration::from_secs(30)).unwrap();
    third.ask(b"", b"MN\r\n").unwrap();
}
