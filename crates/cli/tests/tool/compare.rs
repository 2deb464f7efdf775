//! `larder bench compare`.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_testkit::server::{Signal, is_root};
use rustix::process::{Pid, kill_process};
use serde_json::Value;

use crate::{Ran, binary, larder};

/// Returns the command that starts the server under test with the listening options of `place`.
fn server(place: &str) -> String {
    let binary = binary();
    let user = if is_root() { " -u root" } else { "" };
    format!("{}{user} -t 1 -m 64 {place}", binary.display())
}

fn compare(servers: &[&str], options: &[&str]) -> Ran {
    larder(b"", &[&["bench", "compare"], options, servers].concat())
}

#[test]
fn two_copies_of_a_server_cost_about_the_same() {
    let (one, other) = (server("-s @SOCK"), server("-s @SOCK"));
    let servers = [&*format!("one={one}"), &format!("other={other}")];
    let options = ["--rounds=3", "--seconds=1", "--workloads=get:100:1,mix:0-500:8", "--json"];
    let ran = compare(&servers, &options);
    let json: Value = serde_json::from_slice(&ran.printed()).unwrap();
    assert_eq!(json["rounds"], 3);
    let rows = json["rows"].as_array().unwrap();
    let name = |row: &Value| (row["workload"].to_string(), row["server"].to_string());
    let names: Vec<_> = rows.iter().map(name).collect();
    let pair = |workload: &str, server: &str| (format!("{workload:?}"), format!("{server:?}"));
    let expected = ["get:100:1", "mix:0-500:8"]
        .map(|workload| [pair(workload, "one"), pair(workload, "other")])
        .concat();
    assert_eq!(names, expected);
    for row in rows {
        assert!((0.6..1.7).contains(&row["ratio"].as_f64().unwrap()), "{json}");
        assert!((50.0..100_000.0).contains(&row["cost_ns"].as_f64().unwrap()), "{json}");
        assert!((0.05..1.2).contains(&row["busy_share"].as_f64().unwrap()), "{json}");
        assert_eq!((&row["hit_ratio"], &row["sound"]), (&1.0.into(), &true.into()), "{json}");
    }
    assert_eq!(rows[0]["ratio"], 1.0);
}

#[test]
fn a_table_has_a_line_for_each_workload_and_server() {
    let servers = [&*format!("tcp={}", server("-l 127.0.0.1 -p @PORT"))];
    let options = ["--rounds=1", "--seconds=1", "--connections=4", "--workloads=set:10:1"];
    let shown = String::from_utf8(compare(&servers, &options).printed()).unwrap();
    let lines: Vec<Vec<&str>> = shown.lines().map(|l| l.split_whitespace().collect()).collect();
    // A busy machine adds a note.
    assert!((3..=4).contains(&lines.len()), "{shown}");
    assert_eq!((lines[0][0], lines[0].len() > 1), ("tcp:", true));
    assert_eq!((lines[1][2], lines[1][3]), ("ns/request", "ratio"));
    assert_eq!((lines[2][0], lines[2][1], lines[2][3]), ("set:10:1", "tcp", "1.00"));
}

#[test]
fn a_comparison_names_the_version_that_each_server_answers() {
    let memcached = larder_testkit::server::memcached().unwrap();
    let asked = Command::new(&memcached).arg("-V").output().unwrap();
    let expected = String::from_utf8(asked.stdout).unwrap();
    let expected = expected.trim().strip_prefix("memcached ").unwrap();
    let user = if is_root() { " -u root" } else { "" };
    let server = format!("a={}{user} -t 1 -s @SOCK", memcached.display());
    let options =
        ["--rounds=1", "--seconds=1", "--connections=4", "--workloads=get:10:1", "--json"];
    let json: Value = serde_json::from_slice(&compare(&[&server], &options).printed()).unwrap();
    assert_eq!(json["versions"], serde_json::json!([{"server": "a", "version": expected}]));
}

#[test]
fn a_full_cache_beside_its_source_sets_the_keys_that_it_misses() {
    let server = format!("a={}", server("-s @SOCK"));
    let options = ["--rounds=1", "--seconds=1", "--keys=200000", "--skew=1.0", "--json"];
    let workloads = "--workloads=get:1000:1,aside:1000:1";
    let ran = compare(&[&server], &[&options[..], &[workloads]].concat());
    let json: Value = serde_json::from_slice(&ran.printed()).unwrap();
    // Without sets, only the keys that were stored last are hits, and they are not popular.
    let [gets, aside] = [0, 1].map(|row| json["rows"][row]["hit_ratio"].as_f64().unwrap());
    assert!(aside > gets + 0.1 && aside < 1.0, "{json}");
}

#[test]
fn all_servers_get_the_same_load_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(path("cert.pem"), certified.cert.pem()).unwrap();
    fs::write(path("key.pem"), certified.signing_key.serialize_pem()).unwrap();
    let tls = format!("-Z -o ssl_chain_cert={},ssl_key={}", path("cert.pem"), path("key.pem"));
    let server = server(&format!("-l 127.0.0.1 -p @PORT {tls}"));
    let servers = [&*format!("one={server}"), &format!("other={server}")];
    let options = ["--rounds=1", "--seconds=1", "--workloads=mix:100:1", "--json"];
    let ran = compare(&servers, &[&options[..], &["--tls", "--rate=500"]].concat());
    let json: Value = serde_json::from_slice(&ran.printed()).unwrap();
    for row in json["rows"].as_array().unwrap() {
        assert!((450.0..550.0).contains(&row["requests_per_second"].as_f64().unwrap()), "{json}");
    }
    compare(&servers, &options).failed(2, "");
}

#[test]
fn every_start_of_a_server_finds_no_files_of_the_one_before() {
    let server = format!("sh -c 'mkdir \"$0\" && exec \"$@\"' @DIR {}", server("-s @SOCK"));
    let servers = [&*format!("one={server}"), &format!("other={server}")];
    let options = ["--rounds=2", "--seconds=1", "--connections=4", "--workloads=get:10:1"];
    compare(&servers, &options).printed();
}

#[test]
fn a_server_that_does_not_run_is_reported_with_its_output() {
    let complaint = "a=echo no such thing; : @SOCK";
    compare(&[complaint], &[]).failed(2, "a on get:100:1: the server ended with exit status: 0");
    compare(&[complaint], &[]).failed(2, "the server wrote: \"no such thing\"");
    compare(&["a=server"], &[]).failed(2, "the command has neither @SOCK");
    compare(&["a=x @SOCK", "a=y @SOCK"], &[]).failed(2, "two servers are named a");
    compare(&["a=x @SOCK"], &["--workloads=get:1"]).failed(2, "expected mode:bytes:pipeline");
    compare(&[], &[]).failed(2, "NAME=COMMAND");
}

/// Returns the child processes of a process.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let lists =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    let text: String = lists.collect();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// True if the process runs. A process that has ended remains as a zombie until its parent waits
/// for it.
fn runs(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_signal_that_ends_the_tool_ends_the_server_too() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_larder"))
            .args(["bench", "compare", "--seconds=60", &format!("a={}", server("-s @SOCK"))])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The server and its watchdog.
        wait_until("a server is started", || children(tool.id()).len() == 2);
        let started = children(tool.id());
        // Kills the tool in the middle of the measurement.
        sleep(Duration::from_millis(700));
        assert!(started.iter().all(|pid| runs(*pid)));
        kill_process(Pid::from_child(&tool), signal).unwrap();
        let expected = if signal == Signal::KILL { None } else { Some(2) };
        assert_eq!(tool.wait().unwrap().code(), expected, "{signal:?}");
        let are_gone = || !started.iter().any(|pid| runs(*pid));
        assert!(are_gone() || signal == Signal::KILL, "{signal:?}: the server still runs");
        wait_until("the server is ended", are_gone);
        let folder = std::env::temp_dir().join(format!("larder-compare-{}", tool.id()));
        wait_until("the folder is removed", || !folder.exists());
    }
}
