//! `larder bench` against a real larderd on this machine, each run for a second.
//!
//! The environment variable `LARDERD` names the server; without it the tests use the larderd of the
//! same build.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::fs;
use std::path::Path;

use clap::Parser;
use larder_loadgen::{Arguments, Outcome, run_to};
use larder_testkit::server::free_address;
use larder_testkit::{Address, ServerUnderTest, Transport, larderd_of_this_build};
use serde_json::Value;
use tempfile::TempDir;

/// The command line of `larder bench`.
#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    arguments: Arguments,
}

/// A larderd, and a folder for files of the test.
struct Scene {
    server: ServerUnderTest,
    folder: TempDir,
}

impl Scene {
    fn start(args: &[&str]) -> Self {
        Self::start_on(Transport::Unix, args)
    }

    fn start_on(transport: Transport, args: &[&str]) -> Self {
        let binary = larderd_of_this_build().unwrap();
        let server = ServerUnderTest::start(&binary, transport, args).unwrap();
        Self { server, folder: tempfile::tempdir().unwrap() }
    }

    fn address(&self) -> String {
        match self.server.address() {
            Address::Unix(path) => path.display().to_string(),
            Address::Tcp(address) => address.to_string(),
        }
    }

    /// Writes a file and returns its path.
    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }

    /// Runs `larder bench --server ADDR --seconds 1 ARGS`. Returns the output and the outcome.
    fn bench(&self, args: &[&str]) -> Result<(String, Outcome), String> {
        bench_at(&self.address(), args)
    }

    /// Runs a load, asserts that all values are right and all requests succeed, and returns its
    /// JSON.
    #[track_caller]
    fn sound(&self, args: &[&str]) -> Value {
        let ran = self.bench(&[args, &["--json"]].concat());
        let (text, outcome) = ran.unwrap_or_else(|error| panic!("{args:?}: {error}"));
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(outcome, Outcome::Done, "{args:?}: {text}");
        assert_eq!((&json["wrong_values"], &json["errors"]), (&0.into(), &serde_json::json!({})));
        json
    }

    /// Returns a statistic of the server.
    fn statistic(&self, name: &str) -> u64 {
        let mut stream = self.server.connect().unwrap();
        let answer = stream.ask(b"stats\r\n", b"END\r\n").unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let prefix = format!("STAT {name} ");
        let found = answer.lines().find_map(|line| line.strip_prefix(&prefix));
        found.unwrap_or_else(|| panic!("no {name} in {answer}")).parse().unwrap()
    }
}

fn bench_at(address: &str, args: &[&str]) -> Result<(String, Outcome), String> {
    let args = [&["bench", "--server", address, "--seconds=1"], args].concat();
    let parsed = CommandLine::try_parse_from(args).map_err(|error| error.to_string())?;
    let mut output = Vec::new();
    let outcome = run_to(&parsed.arguments, &mut output).map_err(|error| format!("{error:#}"))?;
    Ok((String::from_utf8(output).unwrap(), outcome))
}

/// Returns how many requests of the schedule have a response. A busy machine may leave some unsent.
#[track_caller]
fn answered(json: &Value, scheduled: u64) -> u64 {
    let (requests, schedule) = (count(json, "requests"), &json["schedule"]);
    assert_eq!(count(schedule, "scheduled"), scheduled, "{json}");
    assert_eq!(requests + count(schedule, "unsent"), scheduled, "{json}");
    assert!(requests > scheduled / 2, "the machine is too busy for this rate: {json}");
    requests
}

fn count(json: &Value, name: &str) -> u64 {
    json[name].as_u64().unwrap_or_else(|| panic!("{name} is not a number in {json}"))
}

/// Runs lookups and sets in a protocol, and compares its counts with the counts of the server.
#[track_caller]
fn check_dialect(dialect: &str) {
    let scene = Scene::start(&["-m", "64"]);
    let args = ["--dialect", dialect, "--mode=mix", "--connections=3", "--pipeline=4"];
    let more = ["--value-bytes=0-3000", "--keys=200", "--rate=2000", "--skew=1.1"];
    let json = scene.sound(&[&args[..], &more].concat());
    let requests = answered(&json, 2000);
    assert_eq!(json["hit_ratio"], 1.0, "{json}");
    let (gets, sets) = (count(&json, "gets"), count(&json, "sets"));
    assert_eq!(gets + sets, requests, "{json}");
    let share = gets as f64 / requests as f64;
    assert!((0.85..0.95).contains(&share), "nine of ten requests are gets: {json}");
    assert_eq!(scene.statistic("get_hits"), gets, "{dialect}");
    assert_eq!(scene.statistic("cmd_set"), sets + 200, "{dialect}: with those stored ahead");
    assert_eq!(scene.statistic("curr_items"), 200, "{dialect}");
}

#[test]
fn the_text_protocol_finds_all_values_right_and_agrees_with_the_server() {
    check_dialect("text");
}

#[test]
fn the_meta_protocol_finds_all_values_right_and_agrees_with_the_server() {
    check_dialect("meta");
}

#[test]
fn the_binary_protocol_finds_all_values_right_and_agrees_with_the_server() {
    check_dialect("binary");
}

#[test]
fn an_open_loop_keeps_its_rate_over_all_threads() {
    let scene = Scene::start_on(Transport::Tcp, &["-m", "64"]);
    let args = ["--rate=1000", "--threads=3", "--connections=9", "--keys=10"];
    let json = scene.sound(&args);
    let requests = answered(&json, 1000);
    let rate = json["requests_per_second"].as_f64().unwrap();
    assert!((300.0..=1001.0).contains(&rate), "{json}");
    assert_eq!(scene.statistic("cmd_get"), requests);
}

#[test]
fn a_closed_loop_waits_for_each_answer() {
    let scene = Scene::start(&["-m", "64"]);
    let json = scene.sound(&["--connections=2", "--keys=10"]);
    assert!(count(&json, "requests") > 100, "{json}");
    assert_eq!(json["schedule"], Value::Null);
    assert_eq!(scene.statistic("get_hits"), count(&json, "hits"));
    let latencies: Vec<f64> = ["p50_us", "p90_us", "p99_us", "longest_us"]
        .map(|name| json[name].as_f64().unwrap())
        .into();
    assert!(latencies.is_sorted() && latencies[0] > 0.0, "{json}");
}

#[test]
fn a_multiget_asks_for_its_keys_in_one_request() {
    let scene = Scene::start(&["-m", "64"]);
    let json = scene.sound(&["--multiget=7", "--rate=200", "--keys=50"]);
    assert_eq!(count(&json, "gets"), answered(&json, 200) * 7, "{json}");
    assert_eq!(scene.statistic("get_hits"), count(&json, "hits"));
}

#[test]
fn keys_that_were_not_stored_are_misses() {
    let scene = Scene::start(&["-m", "64"]);
    let json = scene.sound(&["--no-load", "--rate=500", "--keys=20", "--connections=1"]);
    assert_eq!((count(&json, "hits"), count(&json, "gets")), (0, answered(&json, 500)), "{json}");
}

#[test]
fn a_missed_key_is_filled_once() {
    let scene = Scene::start(&["-m", "64"]);
    let json = scene.sound(&["--no-load", "--fill", "--rate=500", "--keys=20", "--connections=1"]);
    assert_eq!(count(&json, "sets"), 20, "each key is set once: {json}");
    assert_eq!(count(&json, "hits"), answered(&json, 500) - 2 * 20, "{json}");
    assert_eq!(scene.statistic("curr_items"), 20);
}

#[test]
fn the_ttl_is_stored_with_the_items() {
    let scene = Scene::start(&["-m", "64"]);
    scene.sound(&["--ttl=1000", "--rate=100", "--keys=5"]);
    let mut stream = scene.server.connect().unwrap();
    let answer = stream.ask(b"mg bench:00000000000003 t\r\n", b"\r\n").unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let ttl = answer.trim_end().strip_prefix("HD t").and_then(|secs| secs.parse::<u32>().ok());
    assert!(ttl.is_some_and(|secs| (900..=1000).contains(&secs)), "{answer}");
}

#[test]
fn a_trace_is_played_with_its_sizes_and_its_sets() {
    let scene = Scene::start(&["-m", "64"]);
    // The trace has a set. The first get of each key misses, and another set follows it.
    let lines = "0,120\n1,1020\n0,120,0,1\n1\n";
    let trace = scene.file("trace.zst", zstd::encode_all(lines.as_bytes(), 1).unwrap());
    let json = scene.sound(&["--trace", &trace, "--rate=400", "--connections=1"]);
    assert_eq!((&json["mode"], &json["keys"]), (&"trace".into(), &2.into()), "{json}");
    assert_eq!(count(&json, "gets") + count(&json, "sets"), answered(&json, 400), "{json}");
    assert_eq!(count(&json, "gets") - count(&json, "hits"), 2, "{json}");
    let mut stream = scene.server.connect().unwrap();
    for (key, bytes) in [(0, 100), (1, 1000)] {
        let answer = stream.ask(format!("mg bench:{key:014} s\r\n").as_bytes(), b"\r\n").unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HD s{bytes}\r\n"));
    }
}

#[test]
fn datagrams_get_what_was_stored_by_tcp() {
    let port = free_address().unwrap().port().to_string();
    let binary = larderd_of_this_build().unwrap();
    let address = Address::Tcp(format!("127.0.0.1:{port}").parse().unwrap());
    let server = ServerUnderTest::start_at(&binary, address, &["-m", "64", "-U", &port]).unwrap();
    let scene = Scene { server, folder: tempfile::tempdir().unwrap() };
    // The answer to one of these has several datagrams.
    let args = ["--udp", "--rate=100", "--connections=2", "--multiget=4", "--value-bytes=900"];
    let json = scene.sound(&args);
    assert_eq!(count(&json, "hits"), answered(&json, 100) * 4, "{json}");
}

/// A larderd with TLS and a login, and the files of a client.
struct Secured {
    scene: Scene,
    /// The certificate of the server, which is its own authority.
    chain: String,
    users: String,
    password: String,
}

impl Secured {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let chain = file("chain", &params.self_signed(&key).unwrap().pem());
        let key = file("key", &key.serialize_pem());
        let (users, password) = (file("users", "bench:secret\n"), file("password", "secret\n"));
        let words = format!("ssl_chain_cert={chain},ssl_key={key}");
        let args = ["-Z", "-o", &words, "-Y", &users];
        let server = Scene::start_on(Transport::Tcp, &args).server;
        Self { scene: Scene { server, folder }, chain, users, password }
    }

    /// Runs lookups and sets with these TLS options and a login.
    #[track_caller]
    fn check(&self, tls: &[&str]) {
        let login = ["--user=bench", "--password-file", &self.password];
        let load = ["--mode=mix", "--rate=300", "--keys=20", "--value-bytes=5000"];
        let json = self.scene.sound(&[tls, &login, &load].concat());
        assert!(answered(&json, 300) > 0, "{json}");
    }
}

#[test]
fn a_load_checks_the_certificate_and_logs_in_on_every_connection() {
    let secured = Secured::start();
    secured.check(&["--tls", "--tls-ca", &secured.chain]);
}

#[test]
fn a_load_takes_any_certificate_if_it_is_told_to() {
    Secured::start().check(&["--tls", "--insecure"]);
}

#[test]
fn a_missing_or_wrong_login_or_certificate_is_explained() {
    let secured = Secured::start();
    let (chain, password) = (&secured.chain, &secured.password);
    let wrong = secured.scene.file("wrong", "other\n");
    for (args, words) in [
        (&["--user=bench", "--password-file", password][..], "the server speaks TLS"),
        (&["--tls", "--tls-ca", chain, "--keys=1"], "CLIENT_ERROR"),
        (
            &["--tls", "--tls-ca", chain, "--user=bench", "--password-file", &wrong],
            "refuses the login of \"bench\"",
        ),
        (&["--tls", "--tls-ca", &secured.users], "there is no certificate in this file"),
    ] {
        let refused = secured.scene.bench(args).unwrap_err();
        assert!(refused.contains(words), "{args:?} fails by {refused:?}, not by {words:?}");
        assert!(!refused.contains("secret"), "{refused}");
    }
}

#[test]
fn the_report_is_text_or_json_and_also_a_page() {
    let scene = Scene::start(&["-m", "64"]);
    let path = scene.folder.path().join("report.html");
    let html = format!("--html={}", path.display());
    let (text, outcome) = scene.bench(&["--rate=300", "--keys=10", &html]).unwrap();
    assert_eq!(outcome, Outcome::Done, "{text}");
    for row in
        ["requests       ", "scheduled      300\n", "hit ratio      1.0000\n", "wrong values   0\n"]
    {
        assert!(text.contains(row), "{text:?} lacks {row:?}");
    }
    let page = fs::read_to_string(&path).unwrap();
    assert!(page.contains("<tr><th>scheduled</th><td>300</td></tr>"), "{page}");
    let refused = scene.bench(&["--html=/nowhere/report.html"]).unwrap_err();
    assert!(refused.starts_with("cannot write /nowhere/report.html: "), "{refused}");
}

#[test]
fn a_server_that_stores_no_key_ends_the_run_before_it_is_measured() {
    let scene = Scene::start(&["-m", "64", "-I", "1k"]);
    let refused = scene.bench(&["--value-bytes=5000", "--keys=30"]).unwrap_err();
    let words = "the server did not store 30 keys and answered: SERVER_ERROR object too large";
    assert!(refused.contains(words), "{refused:?} lacks {words:?}");
    let args = ["--mode=set", "--value-bytes=5000", "--rate=50", "--json"];
    let (text, outcome) = scene.bench(&args).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((outcome, &json["requests"]), (Outcome::Missed, &0.into()), "{text}");
    let refused = count(&json["errors"], "SERVER_ERROR object too large for cache");
    assert_eq!(refused + count(&json["schedule"], "unsent"), 50, "{text}");
}

#[test]
fn a_value_that_another_client_has_stored_is_wrong() {
    let scene = Scene::start(&["-m", "64"]);
    let mut stream = scene.server.connect().unwrap();
    let set = format!("set bench:00000000000002 0 0 100\r\n{}\r\n", "x".repeat(100));
    assert_eq!(stream.ask(set.as_bytes(), b"\r\n").unwrap(), b"STORED\r\n");
    let args = ["--no-load", "--keys=4", "--rate=400", "--json"];
    let (text, outcome) = scene.bench(&args).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outcome, Outcome::Missed, "{text}");
    assert_eq!(count(&json, "wrong_values"), count(&json, "hits"), "{text}");
    let share = count(&json, "hits") as f64 / answered(&json, 400) as f64;
    assert!((0.15..0.35).contains(&share), "one of four keys has an item: {text}");
}

#[test]
fn a_wrong_address_is_an_error_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let missing = bench_at(&path.display().to_string(), &[]).unwrap_err();
    for part in ["bench at unix:", "cannot connect to unix:", "larderd -s "] {
        assert!(missing.contains(part), "{missing:?} lacks {part:?}");
    }
    assert!(!Path::new(&path).exists());
}

#[test]
fn two_servers_are_compared_by_their_processor_time() {
    let larderd = larderd_of_this_build().unwrap().display().to_string();
    let larderd = larderd.replace('\'', "'\\''");
    let command = |name: &str| format!("{name}='{larderd}' -u \"$(id -un)\" -t 1 -m 64 -s @SOCK");
    let (one, other) = (command("one"), command("other"));
    let args = ["bench", "compare", "--rounds=1", "--seconds=1", "--connections=2", "--json"];
    let more = ["--rate=500", "--keys=50", "--workloads=mix:100:1", &one, &other];
    let parsed = CommandLine::try_parse_from([&args[..], &more].concat()).unwrap();
    let mut output = Vec::new();
    let outcome = run_to(&parsed.arguments, &mut output).map_err(|error| format!("{error:#}"));
    let json: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(outcome, Ok(Outcome::Done), "{json}");
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["server"]).collect::<Vec<_>>(), ["one", "other"]);
    assert_eq!(rows[0]["ratio"], 1.0, "the first is compared with itself: {json}");
    for row in rows {
        let cost_ns = row["cost_ns"].as_f64().unwrap();
        assert!((500.0..5e6).contains(&cost_ns), "{row}");
        assert_eq!((&row["sound"], &row["hit_ratio"]), (&true.into(), &1.0.into()), "{row}");
    }
    assert!(json["versions"][0]["version"].as_str().unwrap().starts_with("larder "), "{json}");
}
