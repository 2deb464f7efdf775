//! `larder bench`.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, ServerUnderTest, Transport};
use rustix::process::{Pid, kill_process};
use serde_json::{Value, json};

use crate::{Fixture, binary, larder, start_server};

/// Returns the single printed line as JSON.
pub(crate) fn json(printed: Vec<u8>) -> Value {
    let text = String::from_utf8(printed).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    assert!(text.lines().count() == 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_mode_measures_and_finds_all_values_right() {
    let fixture = Fixture::start();
    for mode in ["get", "set", "mix"] {
        let args =
            ["--mode", mode, "--seconds=1", "--connections=4", "--threads=2", "--pipeline=8"];
        let shown = String::from_utf8(fixture.larder("bench", &args).printed()).unwrap();
        let hit_ratio =
            if mode == "set" { "hit ratio      -\n" } else { "hit ratio      1.0000\n" };
        assert!(shown.contains(hit_ratio), "{shown}");
        assert!(shown.contains("wrong values   0\n"), "{shown}");
    }
}

#[test]
fn every_dialect_and_transport_finds_all_values_right() {
    let unix = Fixture::start();
    let tcp = Fixture::start_on(Transport::Tcp, &["-m", "64"]);
    for fixture in [&unix, &tcp] {
        for dialect in ["text", "meta", "binary"] {
            let args = ["--dialect", dialect, "--mode=mix", "--seconds=1", "--connections=3"];
            let more = ["--pipeline=4", "--value-bytes=0-20000", "--skew=1.1", "--ttl=100"];
            let args = [&args[..], &more, &["--keys=300", "--json"]].concat();
            let json = json(fixture.larder("bench", &args).printed());
            assert_eq!((&json["hit_ratio"], &json["wrong_values"]), (&1.0.into(), &0.into()));
            assert!(json["requests"].as_u64() > Some(1000), "{json}");
            assert!(json["sets"].as_u64() > Some(50), "{json}");
        }
    }
}

#[test]
fn json_has_the_percentiles_and_a_row_for_each_second() {
    let args = ["--seconds=2", "--connections=2", "--keys=100", "--value-bytes=0", "--json"];
    let json = json(Fixture::start().larder("bench", &args).printed());
    assert_eq!((&json["mode"], &json["value_bytes"]), (&"get".into(), &0.into()));
    assert_eq!((&json["errors"], &json["schedule"]), (&json!({}), &Value::Null));
    let percentiles = json["percentiles_us"].as_array().unwrap();
    let latencies: Vec<f64> = percentiles.iter().map(|pair| pair[1].as_f64().unwrap()).collect();
    assert!(latencies.len() > 10, "{percentiles:?}");
    assert!(latencies.is_sorted(), "{percentiles:?}");
    let seconds: Vec<&Value> = json["per_second"].as_array().unwrap().iter().collect();
    assert_eq!(seconds.len(), 2);
    for (number, second) in seconds.iter().enumerate() {
        assert_eq!(second["second"], number);
        assert!(second["requests_per_second"].as_f64() > Some(100.0), "{second}");
        assert!(second["p50_us"].as_f64() <= second["p99_us"].as_f64(), "{second}");
    }
}

#[test]
fn a_multiget_requests_many_keys_at_once() {
    let args = ["--seconds=1", "--connections=2", "--multiget=7", "--json"];
    let json = json(Fixture::start().larder("bench", &args).printed());
    let count = |name: &str| json[name].as_u64().unwrap();
    assert_eq!((count("gets"), count("hits")), (count("requests") * 7, count("requests") * 7));
}

#[test]
fn an_open_loop_sends_every_request_of_its_schedule() {
    let fixture = Fixture::start();
    for rate in ["100", "2000"] {
        let args = ["--rate", rate, "--seconds=2", "--threads=2", "--mode=mix", "--json"];
        let json = json(fixture.larder("bench", &args).printed());
        let expected = rate.parse::<u64>().unwrap() * 2;
        assert_eq!(json["requests"], expected, "{json}");
        assert_eq!(json["schedule"]["scheduled"], expected, "{json}");
        assert_eq!(json["schedule"]["unsent"], 0, "{json}");
        // Two seconds, and the time of the last answer.
        let seconds = json["seconds"].as_f64().unwrap();
        assert!((2.0..2.5).contains(&seconds), "{json}");
    }
}

/// Stops a server for a while in the middle of a run of two seconds.
fn bench_with_stall(args: &[&str]) -> Value {
    let fixture = Fixture::start();
    let pid = Pid::from_raw(fixture.server.pid() as i32).unwrap();
    let args = [args, &["--seconds=2", "--connections=8", "--json"]].concat();
    std::thread::scope(|scope| {
        let bench = scope.spawn(|| fixture.larder("bench", &args));
        sleep(Duration::from_millis(1000));
        kill_process(pid, Signal::STOP).unwrap();
        sleep(Duration::from_millis(300));
        kill_process(pid, Signal::CONT).unwrap();
        json(bench.join().unwrap().printed())
    })
}

#[test]
fn a_stall_shows_in_the_percentiles_of_an_open_loop_and_hardly_in_a_closed_one() {
    let open = bench_with_stall(&["--rate=1000"]);
    // 300 of 2000 requests fell due while the server was stopped. They waited up to 300 ms, and one
    // hundredth of all requests waited 280 ms or more.
    let p99_us = open["p99_us"].as_f64().unwrap();
    assert!((200_000.0..600_000.0).contains(&p99_us), "{open}");
    assert_eq!(open["requests"], 2000, "{open}");
    // A busy machine delays more of them.
    let late = open["schedule"]["late_for_connections"].as_u64().unwrap();
    assert!(late >= 200, "{open}");
    // A missing response blocks further requests, so that the stall affects one request on each
    // connection.
    let closed = bench_with_stall(&[]);
    assert!(closed["p99_us"].as_f64().unwrap() < p99_us / 2.0, "{closed}");
    assert!(closed["longest_us"].as_f64() > Some(250_000.0), "{closed}");
}

#[test]
fn missed_keys_are_set_with_fill_only() {
    let fixture = Fixture::start();
    let args = ["--seconds=1", "--connections=2", "--keys=100", "--no-load", "--json"];
    let empty = json(fixture.larder("bench", &args).printed());
    assert_eq!((&empty["hits"], &empty["sets"]), (&0.into(), &0.into()));
    let args = [&args[..], &["--fill"]].concat();
    let filled = json(fixture.larder("bench", &args).printed());
    assert!(filled["sets"].as_u64() >= Some(100), "{filled}");
    assert!(filled["hit_ratio"].as_f64() > Some(0.9), "{filled}");
}

#[test]
fn a_trace_is_played_with_its_keys_sizes_and_misses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.zst");
    // Key 0 has 80 bytes, then 280; key 1 is requested twice as often.
    let lines = "0,100\n1,50\n1\n0,300,0,1\n0\n1\n1\n";
    std::fs::write(&path, zstd::encode_all(lines.as_bytes(), 1).unwrap()).unwrap();
    let trace = path.display().to_string();
    let args = ["--trace", &trace, "--rate=700", "--seconds=1", "--connections=1", "--json"];
    let fixture = Fixture::start();
    let json = json(fixture.larder("bench", &args).printed());
    assert_eq!((&json["mode"], &json["requests"]), (&"trace".into(), &700.into()), "{json}");
    // A seventh of the requests are sets, and two more fill the first misses.
    let sets = json["sets"].as_u64().unwrap();
    assert!((100..=103).contains(&sets), "{json}");
    assert_eq!(json["hits"].as_u64().unwrap() + 2, json["gets"].as_u64().unwrap(), "{json}");
    assert_eq!((&json["keys"], &json["value_bytes"]), (&2.into(), &Value::Null));
    let stored = fixture.larder("get", &["bench:00000000000000"]).printed();
    assert!([80, 280].contains(&stored.len()), "{}", stored.len());
}

#[test]
fn values_have_the_sizes_of_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.zst");
    std::fs::write(&path, zstd::encode_all(&b"0,100\n1,50\n0,300,0,1\n"[..], 1).unwrap()).unwrap();
    let sizes = path.display().to_string();
    let fixture = Fixture::start();
    let args = ["--sizes-of", &sizes, "--keys=5", "--seconds=1", "--connections=2", "--json"];
    let json = json(fixture.larder("bench", &args).printed());
    assert_eq!((&json["hit_ratio"], &json["wrong_values"]), (&1.0.into(), &0.into()));
    for (key, value_bytes) in [("0", 80), ("1", 30), ("2", 80), ("3", 30)] {
        let key = format!("bench:0000000000000{key}");
        assert_eq!(fixture.larder("get", &[&key]).printed().len(), value_bytes, "{key}");
    }
}

#[test]
fn stored_items_have_the_ttl() {
    let fixture = Fixture::start();
    for (dialect, key) in [("text", 0), ("meta", 1), ("binary", 2)] {
        let keys = (key + 1).to_string();
        let args = ["--mode=set", "--ttl=4", "--seconds=1", "--connections=1"];
        let more = ["--keys", &keys, "--dialect", dialect];
        fixture.larder("bench", &[args, more].concat()).printed();
        let key = format!("bench:0000000000000{key}");
        let get = || fixture.larder("get", &[&key]).exit_code;
        assert_eq!(get(), 0, "{dialect}");
        sleep(Duration::from_millis(5500));
        assert_eq!(get(), 1, "{dialect}");
    }
}

#[test]
fn values_that_another_client_changed_are_counted_as_wrong() {
    let fixture = Fixture::start();
    let meddle = || fixture.larder("set", &["bench:00000000000000", "x"]).printed();
    std::thread::scope(|scope| {
        let bench = scope
            .spawn(|| fixture.larder("bench", &["--seconds=2", "--keys=1", "--connections=1"]));
        sleep(Duration::from_millis(1000));
        meddle();
        let ran = bench.join().unwrap();
        assert_eq!(ran.exit_code, 1, "{ran:?}");
    });
}

/// Responds to every request of each connection with these bytes.
fn serve(answer: &'static [u8]) -> String {
    start_server(move |mut stream| {
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).is_ok_and(|received| received > 0) {
            stream.write_all(answer).ok();
        }
    })
}

#[test]
fn invalid_answers_of_a_server_are_reported() {
    let hit = b"VALUE bench:00000000000000 0 100\r\n\
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
        \r\nEND\r\n";
    let bench = |answer, more: &[&str]| {
        let address = serve(answer);
        let args = ["bench", "-s", &address, "--no-load", "--seconds=1", "--connections=1"];
        larder(b"", &[&args[..], &["--keys=1", "--json"], more].concat())
    };
    let ran = bench(hit, &[]);
    assert_eq!(ran.exit_code, 1, "{ran:?}");
    let counted = json(ran.stdout);
    assert_eq!(counted["wrong_values"], counted["requests"], "{counted}");
    let ran = bench(b"SERVER_ERROR no\r\n", &[]);
    assert_eq!(ran.exit_code, 1, "{ran:?}");
    let counted = json(ran.stdout);
    assert!(counted["errors"]["SERVER_ERROR no"].as_u64() > Some(10), "{counted}");
    assert_eq!(counted["requests"], 0);
    bench(b"STORED\r\n", &[]).failed(2, "answered with a reply of another kind");
    bench(b"END\r\nEND\r\n", &[]).failed(2, "answered a request that was never sent");
    bench(b"VALUE k 0 1\r\nx\r\nEND\r\n", &[]).failed(2, "answered with another key's item");
    bench(b"VALUE k 0 4294967295\r\n", &[]).failed(2, "announces an answer of 4294967319 bytes");
    bench(b"HTTP/1.1 200 OK\r\n", &[]).failed(2, "does not answer in memcached's text protocol");
    bench(b"END\r\n", &["--dialect=binary"])
        .failed(2, "does not answer in memcached's binary protocol");
    bench(b"", &["--timeout=1"]).failed(2, "no answer within 1 s");
}

#[test]
fn a_load_over_tls_checks_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(path("cert.pem"), certified.cert.pem()).unwrap();
    std::fs::write(path("key.pem"), certified.signing_key.serialize_pem()).unwrap();
    let words = format!("ssl_chain_cert={},ssl_key={}", path("cert.pem"), path("key.pem"));
    let fixture = Fixture::start_on(Transport::Tcp, &["-Z", "-o", &words]);
    let bench = |more: &[&str]| {
        let args = ["--tls", "--seconds=1", "--connections=3", "--mode=mix", "--json"];
        // Over TLS, memcached does not read all large requests that arrive together.
        let args = [&args[..], &["--value-bytes=0-50000", "--keys=300"]].concat();
        fixture.larder("bench", &[&args, more].concat())
    };
    let ca = path("cert.pem");
    let counted = json(bench(&["--tls-ca", &ca, "--tls-name=localhost"]).printed());
    assert_eq!((&counted["hit_ratio"], &counted["wrong_values"]), (&1.0.into(), &0.into()));
    bench(&["--tls-ca", &ca, "--tls-name=elsewhere"])
        .failed(2, "the server's certificate is for localhost, not for elsewhere");
    let ran = bench(&["--insecure"]);
    ran.failed(0, "warning: --insecure accepts any certificate");
}

#[test]
fn the_html_page_is_self_contained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html").display().to_string();
    let args = ["--seconds=2", "--rate=500", "--html", &path];
    Fixture::start().larder("bench", &args).printed();
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    assert!(page.ends_with("</html>\n"), "{page}");
    assert_eq!(page.matches("<svg ").count(), 3, "{page}");
    assert_eq!(page.matches("</svg>").count(), 3, "{page}");
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
    for reference in ["http:", "https:", "url(", "@import", "src=", "href=", "NaN", "inf "] {
        assert!(!elsewhere.contains(reference), "{reference} in {page}");
    }
    assert!(page.contains("<th>requests</th><td>1000</td>"), "{page}");
}

#[test]
fn without_a_terminal_no_progress_is_shown_and_a_signal_ends_a_run_early() {
    let fixture = Fixture::start();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["bench", "--seconds=60", "--rate=1000", "--json", "-s", &fixture.address()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    sleep(Duration::from_millis(1500));
    kill_process(Pid::from_child(&bench), Signal::INT).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(0));
    let Output { stdout, stderr, .. } = bench.wait_with_output().unwrap();
    assert_eq!(stderr, b"");
    let json = json(stdout);
    assert_eq!(json["stopped"], true);
    let requests = json["requests"].as_u64().unwrap();
    assert!((500..2000).contains(&requests), "{json}");
    // The rest of the schedule was never due after the signal.
    assert!(json["schedule"]["unsent"].as_u64() < Some(20), "{json}");
}

/// Starts a server that listens for UDP on the same port.
fn start_with_udp() -> Fixture {
    let address = free_address().unwrap();
    let port = address.port().to_string();
    let address = Address::Tcp(address);
    let server = ServerUnderTest::start_at(&binary(), address, &["-m", "64", "-U", &port]);
    Fixture { server: server.unwrap() }
}

#[test]
fn gets_by_udp_find_all_values_right_even_in_many_datagrams() {
    let fixture = start_with_udp();
    for more in [&["--value-bytes=0-20000"][..], &["--multiget=9"], &["--rate=500"]] {
        let args = ["--udp", "--seconds=1", "--connections=4", "--keys=200", "--json"];
        let json = json(fixture.larder("bench", &[&args, more].concat()).printed());
        assert_eq!((&json["hit_ratio"], &json["wrong_values"]), (&1.0.into(), &0.into()));
        assert!(json["requests"].as_u64() >= Some(500), "{json}");
    }
}

#[test]
fn lost_datagrams_are_errors_and_the_run_continues() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        // Responds to every second request of a socket with a miss.
        for number in 0_u32.. {
            let mut buffer = [0; 1500];
            let (received, peer) =
                larder_testkit::uninterrupted(|| socket.recv_from(&mut buffer)).unwrap();
            assert!(received > 8);
            let answer = [&buffer[..8], b"END\r\n"].concat();
            if number.is_multiple_of(2) {
                socket.send_to(&answer, peer).unwrap();
            }
        }
    });
    let args = ["bench", "--udp", "-s", &address, "--no-load", "--seconds=3", "--timeout=1"];
    let ran = larder(b"", &[&args[..], &["--connections=1", "--json"]].concat());
    assert_eq!(ran.exit_code, 1, "{ran:?}");
    let json = json(ran.stdout);
    let lost = json["errors"]["no answer to a datagram"].as_u64().unwrap();
    assert!((2..=4).contains(&lost), "{json}");
    assert!((2..=5).contains(&json["requests"].as_u64().unwrap()), "{json}");
}

#[test]
fn contradictory_options_are_refused() {
    for (options, said) in [
        (&["--get-share=0.5"][..], "--get-share needs --mode mix"),
        (&["--multiget=2", "--dialect=binary"], "--multiget needs --dialect text"),
        (&["--multiget=2", "--mode=set"], "--multiget needs gets"),
        (&["--fill", "--mode=set"], "--fill needs gets"),
        (&["--no-load", "--mode=set"], "--no-load has no effect"),
        (&["--trace=x", "--keys=5"], "--keys excludes --trace"),
        (&["--trace=x", "--skew=1"], "--skew excludes --trace"),
        (&["--sizes-of=x", "--value-bytes=5"], "give one of them"),
        (&["--trace=nowhere.zst"], "cannot read the trace nowhere.zst"),
        (&["--insecure"], "--insecure needs --tls"),
        (&["--tls"], "--tls needs --tls-ca FILE"),
        (&["--tls", "--insecure", "--tls-name=x"], "checks no certificate"),
        (&["--tls", "--tls-ca=x", "-s", "./x"], "needs --tls-name"),
        (&["--rate=0.1", "--seconds=1"], "less than one request"),
        (&["--html=/nowhere/report.html"], "cannot write /nowhere/report.html"),
        (&["--udp", "--mode=mix"], "--udp supports only gets"),
        (&["--udp", "--fill"], "--udp supports only gets"),
        (&["--udp", "--pipeline=2"], "--udp sends one request at a time"),
        (&["--udp", "-s", "./x"], "--udp needs a host and a port"),
    ] {
        larder(b"", &[&["bench"], options].concat()).failed(2, said);
    }
}

#[test]
fn options_out_of_bounds_are_refused() {
    for (option, said) in [
        ("--get-share=1.5", "expected a number from 0 to 1"),
        ("--threads=0", "expected a whole number from 1 to 1024"),
        ("--value-bytes=1048577", "expected a number of bytes from 0 to 1048576"),
        ("--value-bytes=9-5", "the minimum 9 exceeds the maximum 5"),
        ("--rate=0", "expected requests per second"),
        ("--skew=-1", "expected a number from 0 to 10"),
        ("--mode=scan", "possible values: get, set, mix"),
    ] {
        larder(b"", &["bench", option]).failed(2, said);
    }
}
