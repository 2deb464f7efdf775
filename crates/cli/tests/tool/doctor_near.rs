//! `larder doctor` on near caches and origins. `crates/cli/src/doctor/near.rs` tests the rules that
//! need more load than a test may produce.

use std::fmt::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_testkit::Transport;
use larder_testkit::server::Signal;

use crate::doctor::{OF_TESTS, assert_finds, examine_server, set};
use crate::{Fixture, Ran};

/// A near cache, and its origin.
struct Pair {
    origin: Fixture,
    near: Fixture,
}

impl Pair {
    /// Starts both, and waits until the origin reports changes.
    fn start(args: &[&str]) -> Self {
        let origin = Fixture::start_on(Transport::Unix, &["-m", "64", "--followers", "2"]);
        let near = start_near(&origin, args);
        let pair = Self { origin, near };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !pair.rows().contains("near_fresh 1\r\n") {
            assert!(Instant::now() < deadline, "{}", pair.rows());
            sleep(Duration::from_millis(10));
        }
        pair
    }

    fn rows(&self) -> String {
        stats(&self.near, "stats larder")
    }

    /// Waits until all connections that the near cache opens at its start are in use. An origin
    /// that hangs earlier is `near-unreachable`, because a connection to it fails.
    fn wait_for_links(&self) {
        // The stream of changes, two connections for fetches, two for commands, and `stats`.
        const CONNECTIONS: &str = "STAT curr_connections 6\r\n";
        let deadline = Instant::now() + Duration::from_secs(20);
        while !stats(&self.origin, "stats").contains(CONNECTIONS) {
            assert!(Instant::now() < deadline, "{}", stats(&self.origin, "stats"));
            sleep(Duration::from_millis(10));
        }
        // The near cache greets the origin on a connection before it uses it.
        sleep(Duration::from_millis(300));
    }

    /// Requests `keys` of the near cache, 100 keys at a time.
    fn get(&self, keys: impl Iterator<Item = usize>) {
        let mut stream = self.near.server.connect().unwrap();
        let keys: Vec<_> = keys.collect();
        for keys in keys.chunks(100) {
            let mut request = "get".to_owned();
            keys.iter().for_each(|key| write!(request, " key-{key}").unwrap());
            stream.ask((request + "\r\n").as_bytes(), b"END\r\n").unwrap();
        }
    }

    /// Stores items at the origin.
    fn store(&self, keys: usize, value_bytes: usize) {
        let mut stream = self.origin.server.connect().unwrap();
        (0..keys).for_each(|key| set(&mut stream, &format!("key-{key}"), value_bytes));
    }

    fn examine(&self, more: &[&str]) -> Ran {
        examine_server(&self.near.address(), &[&["--ignore", "no-huge-pages"], more].concat())
    }
}

fn stats(server: &Fixture, command: &str) -> String {
    let mut stream = server.server.connect().unwrap();
    let rows = stream.ask(format!("{command}\r\n").as_bytes(), b"END\r\n").unwrap();
    String::from_utf8(rows).unwrap()
}

fn start_near(origin: &Fixture, args: &[&str]) -> Fixture {
    let address = origin.address();
    Fixture::start_on(Transport::Unix, &[&["--origin", &address], args].concat())
}

/// Examines until there is a finding.
#[track_caller]
fn until_found(examine: impl Fn() -> Ran) -> Ran {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut ran = examine();
    while ran.exit_code == 0 && Instant::now() < deadline {
        sleep(Duration::from_millis(50));
        ran = examine();
    }
    ran
}

#[test]
fn a_near_cache_and_its_origin_have_no_finding() {
    let pair = Pair::start(&["-m", "64"]);
    pair.store(10, 100);
    pair.get(0..10);
    pair.get(0..10);
    assert!(pair.rows().contains("near_kept 10\r\n"), "{}", pair.rows());
    assert_eq!(pair.examine(&[]).printed(), b"nothing found\n", "copies are no items to lose");
    assert_eq!(examine_server(&pair.origin.address(), OF_TESTS).printed(), b"nothing found\n");
}

#[test]
fn an_origin_that_is_gone_or_silent_is_found() {
    let pair = Pair::start(&["-m", "64", "--near-max-stale=3s", "--origin-timeout=100ms"]);
    pair.wait_for_links();
    pair.origin.server.signal(Signal::STOP).unwrap();
    let states = ["--ignore=near-late", "--ignore=near-passes", "--ignore=near-unreachable"];
    let late = until_found(|| pair.examine(&["--ignore=near-silent"]));
    assert_finds(&late, "near-late", &["--near-max-stale", "hangs"]);
    let mut stream = pair.near.server.connect().unwrap();
    for key in 0..12 {
        stream.ask(format!("get k{key}\r\n").as_bytes(), b"\r\n").unwrap();
    }
    assert_finds(&pair.examine(&states), "near-silent", &["within --origin-timeout"]);
    let Pair { origin, near } = pair;
    origin.server.signal(Signal::CONT).unwrap();
    origin.server.stop(Signal::KILL).unwrap();
    let gone = || examine_server(&near.address(), &[OF_TESTS, &["--ignore=near-silent"]].concat());
    let is_gone = |ran: &Ran| ran.stdout.starts_with(b"near-unreachable");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_gone(&gone()) && Instant::now() < deadline {
        sleep(Duration::from_millis(50));
    }
    assert_finds(
        &gone(),
        "near-unreachable",
        &["every request for its keys fails", "Start the origin"],
    );
}

#[test]
fn an_origin_that_reports_no_changes_is_found() {
    let origin = Fixture::start_on(Transport::Unix, &["-m", "64"]);
    let near = start_near(&origin, &["-m", "64"]);
    let ran = until_found(|| examine_server(&near.address(), OF_TESTS));
    assert_finds(&ran, "near-timed", &["--near-ttl", "start it with --followers"]);
}

#[test]
fn one_of_several_origins_that_is_gone_and_a_bad_file_of_weights_are_found() {
    let origins = [(); 2].map(|()| Fixture::start_on(Transport::Unix, &["--followers=2"]));
    let list = origins.each_ref().map(Fixture::address).join(",");
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("weights");
    let line = format!("{} 1\n", list.split(',').next().unwrap());
    std::fs::write(&weights, line).unwrap();
    let weights_arg = format!("--origin-weights={}", weights.display());
    let near = Fixture::start_on(Transport::Unix, &["--origin", &list, &weights_arg]);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !examine_server(&near.address(), OF_TESTS).stdout.starts_with(b"nothing") {
        assert!(Instant::now() < deadline, "the near cache does not connect");
        sleep(Duration::from_millis(50));
    }
    let [_first, second] = origins;
    second.server.stop(Signal::KILL).unwrap();
    let ran = until_found(|| examine_server(&near.address(), OF_TESTS));
    assert_finds(&ran, "near-unreachable", &["an origin (1 of 2) cannot be reached"]);
    std::fs::write(&weights, "localhost:1 5\n").unwrap();
    near.server.signal(Signal::HUP).unwrap();
    let ignored = [OF_TESTS, &["--ignore=near-unreachable"]].concat();
    let ran = until_found(|| examine_server(&near.address(), &ignored));
    assert_finds(&ran, "near-weights", &["could not be used", "Correct the file"]);
}

#[test]
fn a_list_of_servers_that_cannot_be_read_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("servers");
    std::fs::write(&path, "localhost:1\n").unwrap();
    let option = format!("--cluster-file={}", path.display());
    let fixture = Fixture::start_on(Transport::Unix, &["-m", "64", &option]);
    let healthy = examine_server(&fixture.address(), OF_TESTS);
    assert!(healthy.stdout.starts_with(b"nothing"), "{healthy:?}");
    std::fs::write(&path, "localhost:").unwrap();
    fixture.server.signal(Signal::HUP).unwrap();
    let ran = until_found(|| examine_server(&fixture.address(), OF_TESTS));
    assert_finds(&ran, "servers-stale", &["an older list, of 1 server", "Correct the file"]);
}

#[test]
fn full_lists_of_keys_are_found() {
    let pair = Pair::start(&["-m", "4"]);
    pair.store(16_000, 1);
    pair.get(0..16_000);
    let words = ["of a quarter of -m", "Raise -m, now 4 MiB"];
    assert_finds(&pair.examine(&[]), "near-keys-full", &words);
}

#[test]
fn copies_that_are_dropped_all_the_time_are_found() {
    let pair = Pair::start(&["-m", "64"]);
    let mut stream = pair.origin.server.connect().unwrap();
    let mut ran = pair.examine(&[]);
    for _ in 0..50 {
        if ran.exit_code != 0 {
            break;
        }
        stream.ask(b"flush_all\r\n", b"OK\r\n").unwrap();
        sleep(Duration::from_millis(50));
        ran = pair.examine(&[]);
    }
    assert_finds(&ran, "near-flushed", &["flush_all", "5 times in 0 min"]);
}
