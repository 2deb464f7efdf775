//! `larder bench` on servers that lose connections.

use std::io::{Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, ServerUnderTest};

use crate::bench::json;
use crate::{Fixture, Ran, binary, larder, start_server};

/// Responds to `answers` get requests of each connection with misses, then closes it.
fn serve_few(answers: usize) -> String {
    start_server(move |mut stream| {
        let mut buffer = [0; 4096];
        for _ in 0..answers {
            if stream.read(&mut buffer).is_ok_and(|received| received > 0) {
                stream.write_all(b"END\r\n").ok();
            }
        }
    })
}

#[test]
fn a_lost_connection_is_reopened_and_its_request_is_an_error() {
    for load in [&[][..], &["--rate=2000"]] {
        let address = serve_few(50);
        let args = ["bench", "-s", &address, "--no-load", "--seconds=1", "--connections=3"];
        let ran = larder(b"", &[&args[..], load, &["--json"]].concat());
        assert_eq!(ran.exit_code, 1, "{ran:?}");
        let json = json(ran.stdout);
        let count = |name: &str| json[name].as_u64().unwrap();
        assert!(count("lost_connections") > 10, "{json}");
        assert_eq!(json["errors"]["connection closed"], json["lost_connections"], "{json}");
        let missing = count("lost_connections") - count("reopened_connections");
        assert_eq!(missing, count("failed_connections"), "{json}");
        assert!(missing < 3, "{json}");
        // Each lost connection has answered fifty requests.
        assert!(count("requests") >= (count("lost_connections") - 3) * 50, "{json}");
    }
}

#[test]
fn the_table_shows_lost_connections() {
    let address = serve_few(50);
    let args = ["bench", "-s", &address, "--no-load", "--seconds=1", "--connections=1"];
    let ran = larder(b"", &args);
    let shown = String::from_utf8(ran.stdout).unwrap();
    assert!(shown.contains("x connection closed\n"), "{shown}");
    let line = shown.lines().find(|line| line.starts_with("connections ")).unwrap();
    assert!(line.contains(" lost, "), "{shown}");
    assert!(line.ends_with(" reopened"), "{shown}");
}

#[test]
fn a_connection_that_is_never_answered_is_reopened_after_growing_pauses() {
    let address = serve_few(0);
    let args = ["bench", "-s", &address, "--no-load", "--seconds=2", "--connections=1", "--json"];
    let json = json(larder(b"", &args).stdout);
    let lost = json["lost_connections"].as_u64().unwrap();
    // Retries after 10, 20, 40 ms and so on.
    assert!((4..=12).contains(&lost), "{json}");
}

/// Runs a load and kills the server in the second second of the load. Restarts the server if
/// `is_started_again`.
fn bench_with_death(load: &[&str], is_started_again: bool) -> (Ran, Duration) {
    let address = Address::Tcp(free_address().unwrap());
    let start = || ServerUnderTest::start_at(&binary(), address.clone(), &["-m", "64"]).unwrap();
    let fixture = Fixture { server: start() };
    let place = fixture.address();
    let args = ["bench", "-s", &place, "--no-load", "--connections=8", "--threads=2", "--json"];
    let args = [&args[..], load].concat();
    std::thread::scope(|scope| {
        let began = Instant::now();
        let bench = scope.spawn(|| larder(b"", &args));
        sleep(Duration::from_millis(1000));
        drop(fixture);
        sleep(Duration::from_millis(300));
        let again = is_started_again.then(start);
        let ran = bench.join().unwrap();
        let took = began.elapsed();
        if let Some(server) = again {
            server.stop(Signal::TERM).unwrap();
        }
        (ran, took)
    })
}

#[test]
fn a_load_outlives_a_restart_of_the_server() {
    for load in [&["--seconds=4", "--rate=500"][..], &["--seconds=4", "--pipeline=4"]] {
        let (ran, _) = bench_with_death(load, true);
        assert_eq!(ran.exit_code, 1, "{ran:?}");
        let json = json(ran.stdout);
        let failed = (&json["failed_connections"], &json["wrong_values"]);
        assert_eq!(failed, (&0.into(), &0.into()), "{json}");
        assert_eq!(json["lost_connections"], json["reopened_connections"], "{json}");
        let seconds = json["per_second"].as_array().unwrap();
        let last = &seconds[3];
        assert_eq!(last["errors"], 0, "{json}");
        assert!(last["requests_per_second"].as_f64() > Some(400.0), "{json}");
        if load.contains(&"--rate=500") {
            let lost: u64 =
                json["errors"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
            let served = json["requests"].as_u64().unwrap();
            // An idle connection that is lost counts once, although it has no pending request.
            assert!(served <= 2000, "{json}");
            assert!(served + lost >= 2000, "{json}");
            // Requests that fell due during the restart have waited.
            assert!(json["longest_us"].as_f64() > Some(200_000.0), "{json}");
        }
    }
}

#[test]
fn a_load_ends_early_with_a_reason_if_the_server_does_not_come_back() {
    for load in
        [&["--seconds=60", "--rate=500", "--timeout=1"][..], &["--seconds=60", "--timeout=1"]]
    {
        let (ran, took) = bench_with_death(load, false);
        ran.failed(2, "Connection refused");
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert!(json(ran.stdout)["requests"].as_u64() > Some(100));
    }
}
