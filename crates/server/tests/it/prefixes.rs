//! Statistics by key prefix, over HTTP and in the cache protocol, under loads of several tenants
//! whose items, gets and hits are known.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::UdpSocket;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::http;
use larder_testkit::server::free_address;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport, stat_rows};
use serde_json::Value;

use crate::binary;

fn prefixes(admin: &Address, query: &str) -> Result<Value> {
    let response = http::get(admin, &format!("/api/v1/prefixes{query}"), &[])?;
    ensure!(response.status == 200, "{response:?}");
    Ok(serde_json::from_str(&response.body)?)
}

/// Returns the rows of `stats prefixes`.
fn stats(stream: &mut Stream) -> Result<BTreeMap<String, String>> {
    stat_rows(stream, "prefixes")
}

/// Requests the report until `is_due` returns true for it.
fn wait_for(admin: &Address, query: &str, is_due: impl Fn(&Value) -> bool) -> Result<Value> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let report = prefixes(admin, query)?;
        if is_due(&report) {
            return Ok(report);
        }
        ensure!(Instant::now() < deadline, "{report}");
        sleep(Duration::from_millis(100));
    }
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or(u64::MAX)
}

/// Returns the row of a prefix.
fn row<'a>(report: &'a Value, prefix: &str) -> Result<&'a Value> {
    let rows = report["rows"].as_array().context("rows")?;
    let is_sought = |row: &&Value| row["prefix"] == prefix || row["prefix_base64"] == prefix;
    rows.iter().find(is_sought).with_context(|| format!("no row {prefix} in {report}"))
}

/// One client of the cache, with the keys of its tenant.
trait Tenant {
    /// Appends a store of key number `number` with a value of this length.
    fn store(&self, number: u32, value_bytes: usize, out: &mut Vec<u8>);

    /// Appends a get of key number `number`.
    fn get(&self, number: u32, out: &mut Vec<u8>);
}

/// Keys `shop:00000`, by the text protocol.
struct Shop;

impl Tenant for Shop {
    fn store(&self, number: u32, value_bytes: usize, out: &mut Vec<u8>) {
        let value = "v".repeat(value_bytes);
        out.extend(format!("set shop:{number:05} 0 0 {value_bytes} noreply\r\n").bytes());
        out.extend(format!("{value}\r\n").bytes());
    }

    fn get(&self, number: u32, out: &mut Vec<u8>) {
        out.extend(format!("get shop:{number:05}\r\n").bytes());
    }
}

/// Keys of 12 bytes `\xfe\n:000000000`, in base64, by meta commands.
struct Session;

impl Session {
    /// Three bytes are `\xfe\n:`, and nine digits follow: all of them fill groups of base64.
    fn key(number: u32) -> String {
        let digits = format!("{number:09}");
        "/go6".to_owned() + &base64(digits.as_bytes())
    }
}

impl Tenant for Session {
    fn store(&self, number: u32, value_bytes: usize, out: &mut Vec<u8>) {
        let value = "v".repeat(value_bytes);
        out.extend(format!("ms {} {value_bytes} b q\r\n{value}\r\n", Self::key(number)).bytes());
    }

    fn get(&self, number: u32, out: &mut Vec<u8>) {
        out.extend(format!("mg {} b v q\r\n", Self::key(number)).bytes());
    }
}

/// Keys `img:0000`, by the binary protocol.
struct Images;

impl Images {
    fn packet(opcode: u8, extras: &[u8], key: &str, value: &[u8], out: &mut Vec<u8>) {
        let body = extras.len() + key.len() + value.len();
        out.extend([0x80, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0]);
        out.extend((body as u32).to_be_bytes());
        out.extend([0; 12]);
        [extras, key.as_bytes(), value].into_iter().for_each(|part| out.extend(part));
    }
}

impl Tenant for Images {
    fn store(&self, number: u32, value_bytes: usize, out: &mut Vec<u8>) {
        Self::packet(SETQ, &[0; 8], &format!("img:{number:04}"), &vec![b'v'; value_bytes], out);
    }

    fn get(&self, number: u32, out: &mut Vec<u8>) {
        Self::packet(GETQ, &[], &format!("img:{number:04}"), b"", out);
    }
}

const GETQ: u8 = 0x09;
const SETQ: u8 = 0x11;
const NOOP: u8 = 0x0a;

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    assert_eq!(bytes.len() % 3, 0, "whole groups");
    let bits = |group: &[u8]| group.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte));
    let digits =
        |group| (0..4).map(move |at| char::from(DIGITS[bits(group) >> (18 - 6 * at) & 63]));
    bytes.chunks(3).flat_map(digits).collect()
}

/// A tenant's load: its items, and its gets, of which the first keys are hits.
struct Load {
    items: u32,
    value_bytes: usize,
    gets: u32,
    /// Keys requested in turn. Those from `items` on are misses.
    keys: u32,
}

impl Load {
    fn hits(&self) -> u64 {
        u64::from(self.gets / self.keys * self.items)
    }

    fn play(&self, stream: &mut Stream, tenant: &dyn Tenant, is_binary: bool) -> Result<()> {
        let mut request = Vec::new();
        let mut flush = |request: &mut Vec<u8>| -> Result<()> {
            if is_binary {
                Images::packet(NOOP, &[], "", b"", request);
                stream.ask(request, &[&[0x81, NOOP][..], &[0; 22]].concat())?;
            } else {
                request.extend(b"mn\r\n");
                stream.ask(request, b"MN\r\n")?;
            }
            request.clear();
            Ok(())
        };
        for number in 0..self.items {
            tenant.store(number, self.value_bytes, &mut request);
        }
        flush(&mut request)?;
        for number in 0..self.gets {
            tenant.get(number % self.keys, &mut request);
            if number % 500 == 499 {
                flush(&mut request)?;
            }
        }
        flush(&mut request)
    }
}

const SHOP: Load = Load { items: 400, value_bytes: 100, gets: 120_000, keys: 500 };
const SESSION: Load = Load { items: 300, value_bytes: 40, gets: 60_000, keys: 600 };
const IMAGES: Load = Load { items: 200, value_bytes: 1000, gets: 60_000, keys: 200 };

#[test]
fn three_tenants_have_their_items_bytes_gets_and_hits() -> Result<()> {
    let (server, admin) = http::start(&binary(), &["-t", "2"])?;
    let tenants: [(&str, &dyn Tenant, &Load, u64); 3] = [
        ("shop", &Shop, &SHOP, 10),
        ("/go=", &Session, &SESSION, 12),
        ("img", &Images, &IMAGES, 8),
    ];
    for (name, tenant, load, _) in tenants {
        load.play(&mut server.connect()?, tenant, name == "img")?;
    }
    let mut stream = server.connect()?;
    stream.ask(b"set plain 0 0 2\r\nok\r\n", b"STORED\r\n")?;
    let gets = |report: &Value| {
        let rows = report["rows"].as_array().map_or(&[][..], |rows| rows);
        rows.iter().map(|row| number(row, "gets")).sum::<u64>()
    };
    // Within six standard deviations of 240,000 gets, of which one in 8 to 128 is sampled.
    let is_due = |report: &Value| gets(report) > 200_000 && number(&report["none"], "items") == 1;
    let report = wait_for(&admin, "", is_due)?;
    ensure!(report["census"]["share"] == 1.0 && report["delimiter"] == ":", "{report}");
    for (name, _, load, key_bytes) in tenants {
        let row = row(&report, name)?;
        // memcached counts 48 bytes, 8 for the cas token and 3 for the ends of key and value.
        let item_bytes = 59 + key_bytes + load.value_bytes as u64;
        assert_eq!(number(row, "items"), u64::from(load.items), "{row}");
        assert_eq!(number(row, "bytes"), u64::from(load.items) * item_bytes, "{row}");
        assert_eq!((number(row, "items_error"), number(row, "bytes_error")), (0, 0), "{row}");
        for (counted, truth) in [("gets", u64::from(load.gets)), ("hits", load.hits())] {
            let error = number(row, &format!("{counted}_error"));
            ensure!(error > 0 && error < truth / 4, "{counted} of {row}");
            // An error covers three standard deviations, which one row in 400 exceeds.
            let found = number(row, counted);
            ensure!(found.abs_diff(truth) <= 2 * error, "{counted}: {truth}, not {row}");
        }
    }
    let first = &report["rows"][0];
    ensure!(first["prefix"] == "img", "the prefix with the most bytes comes first: {report}");

    let rows = stats(&mut stream)?;
    assert_eq!((&rows["1:prefix"][..], &rows["1:items"][..]), ("img", "200"));
    assert_eq!(&rows["3:prefix"], "%FE%0A");
    assert_eq!((&rows["none:items"][..], &rows["other:items"][..]), ("1", "0"));
    assert_eq!((&rows["prefixes"][..], &rows["census_share"][..]), ("3", "1.000"));

    // A removal and a reset are visible in one of the next reports.
    stream.ask(b"delete_prefix shop:\r\n", b"\r\n")?;
    stream.ask(b"stats reset\r\n", b"RESET\r\n")?;
    let report = wait_for(&admin, "", |report| row(report, "shop").is_err())?;
    assert_eq!(number(row(&report, "img")?, "items"), 200, "{report}");
    Ok(())
}

#[test]
fn twenty_thousand_prefixes_take_bounded_memory_and_add_up() -> Result<()> {
    let (server, admin) = http::start(&binary(), &["-t", "1"])?;
    wait_for(&admin, "", |report| !report["census"].is_null())?;
    let mut stream = server.connect()?;
    let before = server.rss_bytes()?;
    let mut request = Vec::new();
    let long = "p".repeat(80);
    for number in 0..20_000 {
        request.extend(format!("set {long}{number}:k 0 0 1 noreply\r\nv\r\n").bytes());
        request.extend(format!("get {long}{number}:absent\r\n").bytes());
    }
    for number in 0..1000 {
        request.extend(format!("set heavy:{number} 0 0 1 noreply\r\nv\r\n").bytes());
    }
    for part in request.chunks(64 << 10) {
        stream.write_all(part)?;
    }
    stream.ask(b"mn\r\n", b"MN\r\n")?;
    let sum = |report: &Value, name: &str| {
        let rows = report["rows"].as_array().map_or(&[][..], |rows| rows);
        rows.iter().chain([&report["other"]]).map(|row| number(row, name)).sum::<u64>()
    };
    let all = "?limit=10000";
    let report = wait_for(&admin, all, |report| sum(report, "items") == 21_000)?;
    assert_eq!(number(&report, "prefixes"), 10_000);
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(10_000));
    let heavy = row(&report, "heavy")?;
    let (items, error) = (number(heavy, "items"), number(heavy, "items_error"));
    ensure!(items <= 1000 && items + error >= 1000, "{heavy}");
    // The rows that are not listed count as others.
    let short = prefixes(&admin, "?limit=1")?;
    ensure!(sum(&short, "items") == 21_000 && number(&short["other"], "items") >= 19_000);
    assert_eq!(stats(&mut stream)?.len(), 6 + 16 + 10_000 * 9);
    let grown = server.rss_bytes()?.saturating_sub(before);
    // The items take 4 MiB.
    ensure!(grown < 64 << 20, "{} MiB", grown >> 20);
    Ok(())
}

#[test]
fn the_delimiter_is_an_option() -> Result<()> {
    for (args, expected) in [
        (&["-D", "/"][..], "a:b"),
        (&["--prefix-delimiter", "-"], "a:b/c"),
        (&["-D", "/", "--prefix-delimiter=-"], "a:b/c"),
        (&[], "a"),
    ] {
        let (server, admin) = http::start(&binary(), args)?;
        server.connect()?.ask(b"set a:b/c-d 0 0 1\r\nv\r\n", b"STORED\r\n")?;
        let report = wait_for(&admin, "", |report| number(report, "prefixes") == 1)?;
        ensure!(report["rows"][0]["prefix"] == expected, "{args:?}: {report}");
    }
    Ok(())
}

#[test]
fn prefixes_are_shown_to_no_one_who_may_not_list_keys() -> Result<()> {
    let (server, admin) = http::start(&binary(), &["-X", "--prefix-metrics"])?;
    let response = http::get(&admin, "/api/v1/prefixes", &[])?;
    ensure!(response.status == 403 && response.body.contains("-X"), "{response:?}");
    let mut stream = server.connect()?;
    stream.ask(b"stats prefixes\r\n", b"CLIENT_ERROR stats prefixes not allowed\r\n")?;
    let page = http::get(&admin, "/metrics", &[])?.body;
    ensure!(!page.contains("larder_prefix_"), "{page}");

    let (probes, address) = (free_address()?, free_address()?);
    let port = address.port().to_string();
    let option = format!("--admin-listen={probes},role=probe");
    let args = [&option, "-U", &port];
    let _server = ServerUnderTest::start_at(&binary(), Address::Tcp(address), &args)?;
    let probes = Address::Tcp(probes);
    http::wait_until_ready(&probes)?;
    assert_eq!(http::get(&probes, "/api/v1/prefixes", &[])?.status, 403);
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.send(b"\x00\x01\x00\x00\x00\x01\x00\x00stats prefixes\r\n")?;
    let mut answer = [0; 1500];
    let bytes = socket.recv(&mut answer)?;
    assert_eq!(&answer[8..bytes], b"CLIENT_ERROR stats prefixes not allowed\r\n");
    Ok(())
}

#[test]
fn a_limit_is_from_one_to_ten_thousand() -> Result<()> {
    let (_server, admin) = http::start(&binary(), &[])?;
    for limit in ["0", "10001", "x", "-1", ""] {
        let response = http::get(&admin, &format!("/api/v1/prefixes?limit={limit}"), &[])?;
        ensure!(response.status == 400 && response.body.contains("1 to 10000"), "{response:?}");
    }
    Ok(())
}

#[test]
fn metrics_have_the_fifty_largest_prefixes_if_an_option_allows_it() -> Result<()> {
    for option in ["--prefix-metrics", "--verbose"] {
        let (server, admin) = http::start(&binary(), &[option])?;
        let mut stream = server.connect()?;
        for prefix in 0..60 {
            let value = "v".repeat(100 * (prefix + 1));
            let request = format!("set \"{prefix}:k 0 0 {}\r\n{value}\r\n", value.len());
            stream.ask(request.as_bytes(), b"STORED\r\n")?;
        }
        let page = || Ok::<_, anyhow::Error>(http::get(&admin, "/metrics", &[])?.body);
        let is_on = option == "--prefix-metrics";
        wait_for(&admin, "", |report| number(report, "prefixes") == 60)?;
        // The report may be newer than the one that contains all prefixes.
        let page = page()?;
        for family in ["items", "bytes", "gets_total", "hits_total"] {
            let of_family = format!("larder_prefix_{family}{{");
            let count = page.lines().filter(|line| line.starts_with(&of_family)).count();
            assert_eq!(count, if is_on { 52 } else { 0 }, "{family}: {page}");
        }
        if is_on {
            ensure!(page.contains("larder_prefix_items{prefix=\"%2259\"} 1\n"), "{page}");
            ensure!(page.contains("larder_prefix_items{prefix=\"(other)\"} 10\n"), "{page}");
            ensure!(page.contains("larder_prefix_items{prefix=\"(none)\"} 0\n"), "{page}");
        }
    }
    Ok(())
}

#[test]
fn without_an_admin_listener_the_first_request_begins_the_census() -> Result<()> {
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &["-t", "1"])?;
    let mut stream = server.connect()?;
    stream.ask(b"set a:b 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    assert_eq!(stats(&mut stream)?["prefixes"], "0");
    let deadline = Instant::now() + Duration::from_secs(20);
    while stats(&mut stream)?["prefixes"] != "1" {
        ensure!(Instant::now() < deadline, "no census: {:?}", stats(&mut stream)?);
        sleep(Duration::from_millis(50));
    }
    Ok(())
}
