//! Hot keys, the keys with the most commands or bytes, over HTTP and in the cache protocol: what is
//! shown, and to whom.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::http;
use larder_testkit::server::free_address;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport, stat_rows};
use serde_json::Value;

use crate::binary;

fn start(args: &[&str]) -> Result<(ServerUnderTest, Address)> {
    http::start(&binary(), args)
}

fn hot(admin: &Address, query: &str) -> Result<Value> {
    let response = http::get(admin, &format!("/api/v1/hot{query}"), &[])?;
    ensure!(response.status == 200, "{response:?}");
    Ok(serde_json::from_str(&response.body)?)
}

/// Returns the rows of `stats hotkeys`.
fn stats(stream: &mut Stream) -> Result<BTreeMap<String, String>> {
    stat_rows(stream, "hotkeys")
}

/// Repeatedly requests the first key 8 times, the second 4 times and the third twice.
fn load(stream: &mut Stream, keys: [&[u8]; 3]) -> Result<()> {
    let mut request = Vec::new();
    for round in 0..2000 {
        for (key, count) in keys.iter().zip([8, 4, 2]) {
            for _ in 0..count {
                request.extend_from_slice(&[b"get ", *key, b"\r\n"].concat());
            }
        }
        if round % 100 == 99 {
            request.extend_from_slice(b"mn\r\n");
            stream.ask(&request, b"MN\r\n")?;
            request.clear();
        }
    }
    Ok(())
}

const KEYS: [&[u8]; 3] = [b"\xff\xfe<k>", b"<img/src=x/onerror=alert(1)>", b"plain:1"];

#[test]
fn the_keys_are_shown_in_order_with_their_error_whatever_bytes_they_have() -> Result<()> {
    let (server, admin) = start(&["-t", "1"])?;
    let mut stream = server.connect()?;
    let value = "v".repeat(10_000);
    stream.ask(format!("set plain:1 0 0 10000\r\n{value}\r\n").as_bytes(), b"STORED\r\n")?;
    let deadline = Instant::now() + Duration::from_secs(20);
    let body = loop {
        load(&mut stream, KEYS)?;
        let body = hot(&admin, "?limit=3")?;
        if body["sampled"].as_u64() > Some(4000) {
            break body;
        }
        ensure!(Instant::now() < deadline, "too few samples: {body}");
    };
    let by_rate = body["by_rate"].as_array().context("rows")?;
    ensure!(by_rate.len() == 3, "{body}");
    ensure!(by_rate[0]["key_base64"] == "//48az4=" && by_rate[0]["key"].is_null(), "{body}");
    ensure!(by_rate[1]["key"] == "<img/src=x/onerror=alert(1)>", "{body}");
    ensure!(by_rate[2]["key"] == "plain:1", "{body}");
    let number = |row: &Value, name: &str| row[name].as_f64().context(name.to_owned());
    let rates = [0, 1, 2].map(|row| number(&by_rate[row], "per_sec").unwrap_or(0.0));
    for pair in rates.windows(2) {
        let ratio = pair[0] / pair[1];
        ensure!((1.5..2.7).contains(&ratio), "each is twice the next: {rates:?}");
    }
    for row in by_rate {
        let (rate, error) = (number(row, "per_sec")?, number(row, "error_per_sec")?);
        ensure!(error > 0.0 && error < rate, "{row}");
    }
    // A hit of 10,000 bytes outweighs four misses.
    ensure!(body["by_bytes"][0]["key"] == "plain:1", "{body}");
    ensure!(number(&body["by_bytes"][0], "error_bytes_per_sec")? > 0.0, "{body}");

    let rows = stats(&mut stream)?;
    assert_eq!(rows["rate:1:key"], "%FF%FE%3Ck%3E");
    assert_eq!(rows["rate:2:key"], "%3Cimg%2Fsrc%3Dx%2Fonerror%3Dalert%281%29%3E");
    assert_eq!(rows["bytes:1:key"], "plain%3A1");
    for name in ["window_secs", "sampled", "lost", "rate:1:per_sec", "rate:1:error_per_sec"] {
        rows.get(name).with_context(|| format!("no row {name}"))?.parse::<f64>()?;
    }
    let page = http::get(&admin, "/metrics", &[])?.body;
    ensure!(page.contains("\nlarder_hot_keys_sampled_total "), "{page}");
    ensure!(!page.contains("plain:1"), "keys are never labels");
    Ok(())
}

#[test]
fn without_an_admin_listener_the_first_request_begins_the_sampling() -> Result<()> {
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &["-t", "1"])?;
    let mut stream = server.connect()?;
    load(&mut stream, KEYS)?;
    assert_eq!(stats(&mut stream)?["sampled"], "0");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !stats(&mut stream)?.contains_key("rate:3:key") {
        load(&mut stream, KEYS)?;
        ensure!(Instant::now() < deadline, "nothing is sampled: {:?}", stats(&mut stream)?);
    }
    Ok(())
}

#[test]
fn keys_are_shown_to_no_one_who_may_not_list_them() -> Result<()> {
    let (server, admin) = start(&["-X"])?;
    let response = http::get(&admin, "/api/v1/hot", &[])?;
    ensure!(response.status == 403 && response.body.contains("-X"), "{response:?}");
    server.connect()?.ask(b"stats hotkeys\r\n", b"CLIENT_ERROR stats hotkeys not allowed\r\n")?;

    let probes = free_address()?;
    let address = free_address()?;
    let port = address.port().to_string();
    let option = format!("--admin-listen={probes},role=probe");
    let args = [&option, "-U", &port];
    let _server = ServerUnderTest::start_at(&binary(), Address::Tcp(address), &args)?;
    let probes = Address::Tcp(probes);
    http::wait_until_ready(&probes)?;
    assert_eq!(http::get(&probes, "/api/v1/hot", &[])?.status, 403, "a probe reads no keys");
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.send(b"\x00\x01\x00\x00\x00\x01\x00\x00stats hotkeys\r\n")?;
    let mut answer = [0; 1500];
    let bytes = socket.recv(&mut answer)?;
    assert_eq!(&answer[8..bytes], b"CLIENT_ERROR stats hotkeys not allowed\r\n");
    Ok(())
}

#[test]
fn a_limit_that_cannot_be_is_refused() -> Result<()> {
    let (_server, admin) = start(&[])?;
    for limit in ["0", "101", "x", "-1", "99999999999999999999", ""] {
        let response = http::get(&admin, &format!("/api/v1/hot?limit={limit}"), &[])?;
        ensure!(response.status == 400 && response.body.contains("1 to 100"), "{response:?}");
    }
    hot(&admin, "?limit=100&other=1")?;
    Ok(())
}

/// A load generator that ends with the test.
struct Bench(Child);

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The number of a key of `larder bench`, the most frequent first.
fn number(row: &Value) -> Result<u32> {
    let key = row["key"].as_str().context("a key")?;
    Ok(key.trim_start_matches(|c: char| !c.is_ascii_digit()).parse()?)
}

/// Needs release builds and two processors: `make verify ONLY=hot-keys`.
#[test]
#[ignore = "loads two processors for a minute: make verify ONLY=hot-keys runs it"]
fn a_zipf_load_shows_its_hottest_keys() -> Result<()> {
    let tool = std::env::var_os("LARDER").context("LARDER=target/release/larder")?;
    let (server, admin) = start(&["-t", "1", "-m", "1024"])?;
    let Address::Tcp(address) = server.address() else { bail!("a port") };
    let mut bench = Command::new(Path::new(&tool));
    bench.args(["bench", "--server", &address.to_string(), "--mode", "get", "--skew", "0.99"]);
    bench.args(["--keys", "1000000", "--multiget", "16", "--seconds", "75"]);
    let bench = Bench(bench.stdout(Stdio::null()).spawn().context("larder bench")?);
    // The load generator first stores all keys once.
    let gets = |stream: &mut Stream| -> Result<u64> {
        stream.write_all(b"stats\r\n")?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut found = None;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            found = line.strip_prefix("STAT cmd_get ").map(str::to_owned).or(found);
            if line == "END\r\n" {
                return Ok(found.context("cmd_get")?.trim_end().parse()?);
            }
        }
    };
    let mut stream = server.connect()?;
    while gets(&mut stream)? == 0 {
        sleep(Duration::from_millis(50));
    }
    let (started, before) = (Instant::now(), gets(&mut stream)?);
    for (secs, is_exact) in [(10, false), (60, true)] {
        sleep(Duration::from_secs(secs).saturating_sub(started.elapsed()));
        let body = hot(&admin, "?limit=12")?;
        let rate = (gets(&mut stream)? - before) as f64 / started.elapsed().as_secs_f64();
        println!("after {secs} s, {rate:.0} gets/s: {body}");
        ensure!(rate >= 400_000.0, "the load is too small: {rate:.0} gets/s");
        let rows = body["by_rate"].as_array().context("rows")?;
        let mut first = rows.iter().map(number).collect::<Result<Vec<_>>>()?;
        for key in 0..10 {
            ensure!(first.contains(&key), "after {secs} s key {key} is missing: {first:?}");
        }
        for (place, one) in first.iter().enumerate() {
            for other in &first[place + 1..] {
                let ratio = (f64::from(one + 1) / f64::from(other + 1)).powf(0.99);
                ensure!(ratio <= 1.3, "after {secs} s {one} is before {other}: {first:?}");
            }
        }
        first.truncate(10);
        first.sort_unstable();
        ensure!(!is_exact || first == (0..10).collect::<Vec<_>>(), "after {secs} s: {first:?}");
    }
    drop(bench);
    Ok(())
}
