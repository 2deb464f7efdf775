//! Candidates that are dead, slow, stopped or mad. Clients must not notice.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, ServerUnderTest, Transport};

use super::{Ended, Shadow, larderd};
use crate::{binary, start_server};

/// Runs clients through the tool while `disturb` runs. Each client checks all of its responses.
/// Returns the report and the number of requests.
fn under_load(shadow: Shadow, value_bytes: usize, disturb: impl FnOnce()) -> (Ended, u64) {
    let (is_over, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for client in 0..4 {
            let mut stream = shadow.connect();
            let (is_over, requests) = (&is_over, &requests);
            scope.spawn(move || {
                for round in 0_u64.. {
                    let key = format!("{client}:{}", round % 50);
                    let value = format!("{round:0value_bytes$}");
                    let set = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
                    assert_eq!(stream.ask(set.as_bytes(), b"\r\n").unwrap(), b"STORED\r\n");
                    let get = format!("get {key}\r\n");
                    let answer = stream.ask(get.as_bytes(), b"END\r\n").unwrap();
                    let expected = format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
                    assert!(answer == expected.as_bytes(), "{client}:{round}");
                    requests.fetch_add(2, Relaxed);
                    if is_over.load(Relaxed) {
                        break;
                    }
                }
            });
        }
        disturb();
        is_over.store(true, Relaxed);
    });
    sleep(Duration::from_millis(300));
    let ended = shadow.stop();
    ended.is_complete();
    (ended, requests.into_inner())
}

/// Starts a candidate that does `serve` with each connection.
fn mad(serve: impl Fn(std::net::TcpStream) + Clone + Send + 'static) -> Address {
    Address::Tcp(start_server(serve).parse().unwrap())
}

#[test]
fn a_dead_candidate_costs_comparisons_only() {
    let live = larderd(&[]);
    let dead = Address::Tcp(free_address().unwrap());
    let shadow = Shadow::start(live.address(), &dead, &[]);
    let (ended, requests) = under_load(shadow, 100, || sleep(Duration::from_millis(500)));
    assert_eq!(ended.count("not_compared/candidate_unreachable"), requests, "{}", ended.report);
    assert_eq!(ended.exit_code, 2, "{}", ended.report);
    // The pauses between attempts grow.
    assert!(ended.count("candidate/failures") < 30, "{}", ended.report);
}

#[test]
fn a_candidate_that_never_reads_fills_a_bounded_queue() {
    let live = larderd(&[]);
    let candidate = mad(|_stream| sleep(Duration::from_secs(60)));
    let args = ["--memory", "4m", "--patience", "60"];
    let shadow = Shadow::start(live.address(), &candidate, &args);
    let status = format!("/proc/{}/status", shadow.pid().as_raw_nonzero());
    let mut peak_kib = 0;
    let (ended, requests) = under_load(shadow, 50_000, || {
        sleep(Duration::from_secs(2));
        let status = std::fs::read_to_string(&status).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak_kib = peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
    });
    assert!(peak_kib < 100 << 10, "{peak_kib} KiB");
    assert!(ended.count("not_compared/candidate_too_slow") > 0, "{}", ended.report);
    assert_eq!(ended.count("not_compared/total"), ended.count("requests"), "{}", ended.report);
    // The queue before the comparer may also have been full for a while.
    assert!(ended.count("requests") <= requests, "{}", ended.report);
    assert_eq!(ended.exit_code, 2);
}

#[test]
fn a_candidate_that_reads_and_never_answers_is_given_up_after_the_patience() {
    let live = larderd(&[]);
    let candidate = mad(|mut stream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let shadow = Shadow::start(live.address(), &candidate, &["--patience", "1"]);
    let (ended, _) = under_load(shadow, 10, || sleep(Duration::from_millis(2500)));
    assert!(ended.count("not_compared/candidate_too_slow") > 0, "{}", ended.report);
    assert_eq!(ended.count("compared"), 0, "{}", ended.report);
}

#[test]
fn a_candidate_that_closes_in_the_middle_of_responses_is_reconnected() {
    let live = larderd(&[]);
    let candidate = mad(|mut stream| {
        let mut buffer = [0; 4096];
        for _ in 0..3 {
            let _ = stream.read(&mut buffer);
            let _ = stream.write_all(b"STOR");
        }
    });
    let shadow = Shadow::start(live.address(), &candidate, &[]);
    let (ended, _) = under_load(shadow, 10, || sleep(Duration::from_millis(1500)));
    assert!(ended.count("candidate/connects") > 4, "{}", ended.report);
    assert_eq!(ended.count("identical"), 0, "{}", ended.report);
}

#[test]
fn garbage_of_the_candidate_is_a_difference_and_clients_do_not_see_it() {
    let live = larderd(&[]);
    let candidate = mad(|mut stream| {
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {
            let _ = stream.write_all(b"\x80\xff\x00 VALUE 99999999999999999999\n\n\r\n");
        }
    });
    let shadow = Shadow::start(live.address(), &candidate, &[]);
    let (ended, _) = under_load(shadow, 10, || sleep(Duration::from_secs(1)));
    assert!(ended.count("differences/malformed") > 0, "{}", ended.report);
    assert_eq!(ended.count("differences/malformed"), ended.count("differences/total"));
    assert_eq!(ended.exit_code, 1);
}

#[test]
fn no_request_is_lost_while_the_candidate_is_stopped_killed_and_restarted() {
    let live = larderd(&[]);
    let address = Address::Tcp(free_address().unwrap());
    let start = || ServerUnderTest::start_at(&binary(), address.clone(), &["-m", "64"]).unwrap();
    let candidate = start();
    let shadow = Shadow::start(live.address(), &address, &["--patience", "1"]);
    let (ended, requests) = under_load(shadow, 100, || {
        sleep(Duration::from_millis(500));
        pause(&candidate);
        sleep(Duration::from_millis(2500));
        candidate.signal(Signal::CONT).unwrap();
        sleep(Duration::from_millis(1500));
        drop(candidate);
        sleep(Duration::from_millis(700));
        let restarted = start();
        sleep(Duration::from_secs(4));
        drop(restarted);
    });
    assert_eq!(ended.count("requests"), requests, "{}", ended.report);
    assert_eq!(ended.count("differences/total"), 0, "{}", ended.report);
    assert!(ended.count("not_compared/candidate_too_slow") > 0, "{}", ended.report);
    assert!(ended.count("not_compared/candidate_unreachable") > 0, "{}", ended.report);
    assert!(ended.count("identical") > 100, "{}", ended.report);
    assert_eq!(ended.exit_code, 0, "{}", ended.report);
}

/// Stops a server and waits until all of its threads have stopped.
fn pause(server: &ServerUnderTest) {
    server.signal(Signal::STOP).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        status.contains("\nState:\tT")
    };
    let tasks = format!("/proc/{}/task", server.pid());
    while !std::fs::read_dir(&tasks).unwrap().all(is_stopped) {
        assert!(Instant::now() < deadline, "still runs after SIGSTOP");
        sleep(Duration::from_millis(1));
    }
}

/// Requests during a stop of the candidate are lost there. Their keys must not appear as
/// differences afterwards.
#[test]
fn items_that_the_candidate_missed_are_explained() {
    let (live, candidate) = (larderd(&[]), larderd(&[]));
    let shadow = Shadow::start(live.address(), candidate.address(), &["--patience", "1"]);
    let mut client = shadow.connect();
    client.ask(b"set k 0 0 1\r\n1\r\n", b"STORED\r\n").unwrap();
    sleep(Duration::from_millis(200));
    pause(&candidate);
    client.ask(b"set k 0 0 1\r\n2\r\n", b"STORED\r\n").unwrap();
    sleep(Duration::from_millis(1500));
    client.ask(b"set other 0 0 1\r\n2\r\n", b"STORED\r\n").unwrap();
    // A closed connection takes its requests along, if the candidate has not read them.
    candidate.signal(Signal::CONT).unwrap();
    let mut direct = candidate.connect().unwrap();
    direct.ask(b"set k 0 0 1\r\n1\r\n", b"STORED\r\n").unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut stored = Vec::new();
    while stored.is_empty() || !stored.starts_with(b"VALUE") {
        assert!(Instant::now() < deadline, "the candidate gets no requests");
        client.ask(b"set probe 0 0 1\r\n1\r\n", b"STORED\r\n").unwrap();
        sleep(Duration::from_millis(100));
        stored = direct.ask(b"get probe\r\n", b"END\r\n").unwrap();
    }
    client.ask(b"get k\r\n", b"END\r\n").unwrap();
    drop(client);
    sleep(Duration::from_millis(300));
    let ended = shadow.stop();
    ended.is_complete();
    assert_eq!(ended.count("differences/total"), 0, "{}", ended.report);
    assert_eq!(ended.count("explained/diverged"), 1, "{}", ended.report);
}

#[test]
fn connections_that_are_not_memcached_are_forwarded_and_counted() {
    let live = mad(|mut stream| {
        let mut buffer = [0; 4096];
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            let _ = stream.write_all(&buffer[..bytes]);
        }
    });
    let candidate = ServerUnderTest::start(&binary(), Transport::Tcp, &["-m", "64"]).unwrap();
    let shadow = Shadow::start(&live, candidate.address(), &[]);
    let hello = [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], &[7; 500], b"end"].concat();
    let requests = [&hello[..], b"GET / HTTP/1.1\r\n\r\nend", &[0; 3000], b"\x80\xff\x00end"];
    for request in requests {
        let mut client = shadow.connect();
        let end = &request[request.len() - 3..];
        client.write_all(request).unwrap();
        let mut echo = vec![0; request.len()];
        client.read_exact(&mut echo).unwrap();
        assert_eq!((echo == request, echo.ends_with(end)), (true, true));
    }
    sleep(Duration::from_millis(200));
    let ended = shadow.stop();
    assert!(ended.count("connections_not_compared") >= 2, "{}", ended.report);
    assert_eq!(ended.count("differences/total"), 0, "{}", ended.report);
}
