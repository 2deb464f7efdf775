//! Compares the page of `/metrics` with that of memcached_exporter, which scrapes the same server:
//! the same names, labels, types and values.
//!
//! Skipped without Go or without access to its module proxy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::http;
use larder_testkit::server::free_address;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};

use crate::killed::Killed;

const MODULE: &str = "github.com/prometheus/memcached_exporter";
const VERSION: &str = "v0.14.4";

/// Families of the exporter that the server omits, with the reasons.
const LEFT_OUT: &[(&str, &str)] = &[
    ("memcached_slab_chunks_per_page", PAGES),
    ("memcached_slab_current_pages", PAGES),
    ("memcached_slab_current_chunks", PAGES),
    ("memcached_slab_chunks_used", PAGES),
    ("memcached_slab_chunks_free", PAGES),
    ("memcached_slab_chunks_free_end", PAGES),
    ("memcached_slab_lru_hits_total", TOGETHER),
    ("memcached_slab_items_moves_to_cold", TOGETHER),
    ("memcached_slab_items_moves_to_warm", TOGETHER),
    ("memcached_slab_items_moves_within_lru", TOGETHER),
    ("memcached_exporter_build_info", OF_EXPORTER),
];
const PAGES: &str = "projected onto memcached's pages and chunks, which Larder does not have";
const TOGETHER: &str = "always 0 by size class: Larder counts it for all classes together";
const OF_EXPORTER: &str = "describes the exporter";

/// Families of the server that this version of the exporter does not have, with the reasons.
const ADDED: &[(&str, &str)] = &[("memcached_direct_reclaims_total", "the next version has it")];

/// Values that a scrape changes, or that change between two scrapes.
const MOVING: &[&str] = &[
    "memcached_connections_total",
    // The exporter requests several statistics, each of which ends a turn.
    "memcached_connections_yielded_total",
    "memcached_current_connections",
    "memcached_process_system_cpu_seconds_total",
    "memcached_process_user_cpu_seconds_total",
    "memcached_read_bytes_total",
    "memcached_time_seconds",
    "memcached_uptime_seconds",
    "memcached_written_bytes_total",
    "memcached_lru_crawler_items_checked_total",
    "memcached_slab_hot_age_seconds",
    "memcached_slab_items_age_seconds",
    "memcached_slab_warm_age_seconds",
];

/// Counters that the workload must have moved, so that a missing or exchanged row is noticed.
const MOVED: &[&str] = &[
    "memcached_commands_total{command=\"cas\",status=\"badval\"}",
    "memcached_commands_total{command=\"cas\",status=\"hit\"}",
    "memcached_commands_total{command=\"cas\",status=\"miss\"}",
    "memcached_commands_total{command=\"decr\",status=\"hit\"}",
    "memcached_commands_total{command=\"decr\",status=\"miss\"}",
    "memcached_commands_total{command=\"delete\",status=\"hit\"}",
    "memcached_commands_total{command=\"delete\",status=\"miss\"}",
    "memcached_commands_total{command=\"flush\",status=\"hit\"}",
    "memcached_commands_total{command=\"get\",status=\"hit\"}",
    "memcached_commands_total{command=\"get\",status=\"miss\"}",
    "memcached_commands_total{command=\"incr\",status=\"hit\"}",
    "memcached_commands_total{command=\"incr\",status=\"miss\"}",
    "memcached_commands_total{command=\"set\",status=\"hit\"}",
    "memcached_commands_total{command=\"touch\",status=\"hit\"}",
    "memcached_commands_total{command=\"touch\",status=\"miss\"}",
    "memcached_connections_rejected_total",
    "memcached_connections_yielded_total",
    "memcached_item_too_large_total",
    "memcached_items_evicted_total",
    "memcached_items_total",
    "memcached_lru_crawler_starts_total",
];

/// A page: the types by family, and the values by name and labels.
#[derive(Debug, Default)]
struct Page {
    kinds: BTreeMap<String, String>,
    values: BTreeMap<String, f64>,
}

impl Page {
    fn parse(text: &str) -> Result<Self> {
        let mut page = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').context("a type without a name")?;
                let before = page.kinds.insert(name.to_owned(), kind.to_owned());
                ensure!(before.is_none(), "{name} has two types");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').context(line.to_owned())?;
                let before = page.values.insert(sorted(series)?, value.parse()?);
                ensure!(before.is_none(), "{series} is there twice");
                let family = family(series);
                let is_ours = family.starts_with("memcached_");
                ensure!(!is_ours || page.kinds.contains_key(family), "{family} has no type");
            }
        }
        Ok(page)
    }

    /// Returns the families with memcached's prefix that are not in a list.
    fn families(&self, except: &[(&str, &str)]) -> BTreeSet<&str> {
        let names = self.kinds.keys().map(String::as_str);
        names
            .filter(|name| name.starts_with("memcached_"))
            .filter(|name| !except.iter().any(|(other, _)| other == name))
            .collect()
    }
}

/// Returns the series with its labels in order. No value here contains a comma or a brace.
fn sorted(series: &str) -> Result<String> {
    let Some((name, labels)) = series.split_once('{') else { return Ok(series.to_owned()) };
    let labels = labels.strip_suffix('}').context("labels without an end")?;
    let mut labels: Vec<_> = labels.split(',').collect();
    labels.sort_unstable();
    Ok(format!("{name}{{{}}}", labels.join(",")))
}

fn family(series: &str) -> &str {
    series.split_once('{').map_or(series, |(name, _)| name)
}

/// Builds the exporter; `None` with a message if that is impossible here.
fn exporter(folder: &Path) -> Result<Option<PathBuf>> {
    if Command::new("go").arg("version").output().is_err() {
        larder_testkit::skip(format!("Go, which builds {MODULE}, is missing"));
        return Ok(None);
    }
    let module = format!("module larder.test/exporter\n\ngo 1.21\n\nrequire {MODULE} {VERSION}\n");
    fs::write(folder.join("go.mod"), module)?;
    let path = folder.join("memcached_exporter");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&path)
        .arg(format!("{MODULE}/cmd/memcached_exporter"))
        .current_dir(folder)
        .env("GONOSUMDB", MODULE)
        .env("GOFLAGS", "-mod=mod -buildvcs=false")
        .output()?;
    let said = String::from_utf8_lossy(&built.stderr);
    if built.status.success() {
        return Ok(Some(path));
    }
    let unreachable = ["dial tcp", "no such host", "connection refused", "i/o timeout"];
    if unreachable.iter().any(|words| said.contains(words)) {
        larder_testkit::skip(format!("the module proxy of Go cannot be reached: {said}"));
        return Ok(None);
    }
    bail!("{MODULE} {VERSION} cannot be built: {said}")
}

/// Starts the exporter, and waits until it responds.
fn start_exporter(binary: &Path, server: &SocketAddr) -> Result<(Killed, Address)> {
    let address = free_address()?;
    let child = Command::new(binary)
        .arg(format!("--memcached.address={server}"))
        .arg(format!("--web.listen-address={address}"))
        .stderr(Stdio::null())
        .spawn()?;
    let (child, address) = (Killed(child), Address::Tcp(address));
    let deadline = Instant::now() + Duration::from_secs(20);
    while Stream::connect(&address).is_err() {
        ensure!(Instant::now() < deadline, "the exporter does not listen");
        sleep(Duration::from_millis(10));
    }
    Ok((child, address))
}

/// Runs a workload that moves the counters.
fn work(server: &ServerUnderTest) -> Result<()> {
    let mut stream = server.connect()?;
    stream.ask(b"set gone 0 0 1\r\nx\r\nflush_all\r\n", b"OK\r\n")?;
    // A flush applies to items of earlier seconds only.
    sleep(Duration::from_millis(1_100));
    for (request, end) in [
        (
            "set n 0 0 1\r\n5\r\nset t 0 100 1\r\nx\r\nadd a 7 0 5\r\nhello\r\n",
            "STORED\r\nSTORED\r\nSTORED\r\n",
        ),
        ("get n\r\nget gone\r\nget nothing\r\nincr n 3\r\n", "8\r\n"),
        ("decr n 2\r\nincr nothing 1\r\ndecr nothing 1\r\n", "6\r\nNOT_FOUND\r\nNOT_FOUND\r\n"),
        ("touch t 200\r\ntouch nothing 1\r\n", "TOUCHED\r\nNOT_FOUND\r\n"),
        ("gat 300 t\r\n", "END\r\n"),
        ("delete a\r\ndelete a\r\n", "DELETED\r\nNOT_FOUND\r\n"),
        ("cas n 0 0 1 999999\r\n1\r\ncas nothing 0 0 1 1\r\n1\r\n", "EXISTS\r\nNOT_FOUND\r\n"),
        ("ms c 1 E77\r\nx\r\nms c 1 C77\r\ny\r\n", "HD\r\nHD\r\n"),
    ] {
        stream.ask(request.as_bytes(), end.as_bytes()).with_context(|| request.to_owned())?;
    }
    let large = [b"set large 0 0 2000000\r\n".as_slice(), &[b'x'; 2_000_000], b"\r\n"].concat();
    stream.ask(&large, b"SERVER_ERROR object too large for cache\r\n")?;
    let mut stream = server.connect()?;
    stream.ask(b"lru_crawler crawl all\r\n", b"OK\r\n")?;
    // More than fits into memory, so that items are evicted. Each batch contains more than -R
    // commands.
    let value = "v".repeat(9_000);
    for batch in 0..100 {
        let mut sets = String::new();
        for number in 0..50 {
            let length = 9_000 - number * 150;
            let set = format!("set k{batch}:{number} 0 0 {length} noreply\r\n");
            sets += &format!("{set}{}\r\n", &value[..length]);
        }
        stream.write_all(sets.as_bytes())?;
        stream.ask(b"mn\r\n", b"MN\r\n")?;
    }
    Ok(())
}

/// Connects until the server refuses, so that it has counted refusals.
fn be_refused(server: &ServerUnderTest) -> Result<()> {
    let mut open = Vec::new();
    for _ in 0..60 {
        open.push(server.connect()?);
    }
    // The last connection is refused once all earlier ones are accepted.
    let mut refusal = String::new();
    let last = open.last_mut().context("no connection")?;
    last.read_to_string(&mut refusal).with_context(|| {
        let stats = open[0].ask(b"stats\r\n", b"END\r\n").map(String::from_utf8);
        format!("the last of 60 connections stays open: {stats:?} {}", server.log())
    })?;
    ensure!(refusal.contains("Too many open connections"), "{refusal:?}");
    drop(open);
    let mut stream = server.connect()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    // While the others close, this connection may also be refused.
    while stream.ask(b"version\r\n", b"\r\n").is_err() {
        ensure!(Instant::now() < deadline, "the server accepts no connection");
        sleep(Duration::from_millis(20));
        stream = server.connect()?;
    }
    Ok(())
}

/// The counters that a disk tier of mode cache must also have moved.
const MOVED_ON_DISK: &[&str] = &[
    "memcached_extstore_bytes_limit",
    "memcached_extstore_bytes_used",
    "memcached_extstore_bytes_written_total",
    "memcached_extstore_objects_used",
    "memcached_extstore_objects_written_total",
    "memcached_extstore_pages_allocated_total",
    "memcached_extstore_pages_free",
    "memcached_extstore_pages_used",
];

#[test]
fn names_labels_types_and_values_are_the_exporters() -> Result<()> {
    compare_pages(&[], MOVED)
}

#[test]
fn those_of_extstore_are_the_exporters_too() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let option = format!("ext_path={}:64m", folder.path().join("file").display());
    compare_pages(&["-o", &option], &[MOVED, MOVED_ON_DISK].concat())
}

/// Compares the page of a server with that of the exporter, after a workload that must have moved
/// these series.
fn compare_pages(args: &[&str], moved: &[&str]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let Some(binary) = exporter(folder.path())? else { return Ok(()) };
    let admin = free_address()?;
    let option = format!("--admin-listen={admin}");
    let larderd = crate::binary();
    let server = ServerUnderTest::start(
        &larderd,
        Transport::Tcp,
        &[&["-m", "16", "-c", "40", "-t", "1", &option], args].concat(),
    )?;
    let Address::Tcp(address) = server.address() else { bail!("no port") };
    let (_exporter, theirs) = start_exporter(&binary, address)?;
    http::wait_until_ready(&Address::Tcp(admin))?;
    work(&server)?;
    be_refused(&server)?;
    // HTTP/1.0 has no chunks.
    let request = b"GET /metrics HTTP/1.0\r\n\r\n";
    let theirs_at = || Page::parse(&http::exchange(&theirs, request)?.body);
    let ours_at = || Page::parse(&http::get(&Address::Tcp(admin), "/metrics", &[])?.body);
    // A census is valid for a second, and the maintainer settles.
    sleep(Duration::from_millis(1_500));
    let (theirs, ours) = (theirs_at()?, ours_at()?);

    let (left_out, added) = (theirs.families(LEFT_OUT), ours.families(ADDED));
    ensure!(left_out == added, "families differ: theirs {left_out:?}, ours {added:?}");
    for (name, why) in LEFT_OUT {
        ensure!(
            theirs.kinds.contains_key(*name),
            "{name}: the exporter has no such family ({why})"
        );
        ensure!(
            !ours.kinds.contains_key(*name),
            "{name}: the server has it, but is to leave it out"
        );
    }
    for (name, why) in ADDED {
        ensure!(!theirs.kinds.contains_key(*name), "{name}: the exporter has it, so why: {why}?");
    }
    for name in left_out {
        let (theirs, ours) = (&theirs.kinds[name], &ours.kinds[name]);
        ensure!(theirs == ours, "{name}: {theirs} for the exporter, {ours} for the server");
    }
    compare(&theirs, &ours)?;
    for series in moved {
        let value = ours.values.get(*series).copied();
        ensure!(value > Some(0.0), "{series} is {value:?}: the workload does not move it");
    }
    Ok(())
}

/// Checks that both pages have the same series with the same values.
fn compare(theirs: &Page, ours: &Page) -> Result<()> {
    let is_compared = |series: &str, except: &[(&str, &str)]| {
        let family = family(series);
        family.starts_with("memcached_") && !except.iter().any(|(name, _)| *name == family)
    };
    let mut differences = Vec::new();
    for (series, value) in theirs.values.iter().filter(|(of, _)| is_compared(of, LEFT_OUT)) {
        match ours.values.get(series) {
            None => differences.push(format!("{series} is missing")),
            Some(_) if MOVING.contains(&family(series)) => {}
            Some(own) if own == value => {}
            Some(own) => differences.push(format!("{series}: theirs {value}, ours {own}")),
        }
    }
    for series in ours.values.keys().filter(|of| is_compared(of, ADDED)) {
        // The server also shows this family for classes without items, because alerts divide by it.
        let is_early = family(series) == "memcached_slab_items_outofmemory_total";
        if !theirs.values.contains_key(series) && !is_early {
            differences.push(format!("{series} is not the exporter's"));
        }
    }
    ensure!(differences.is_empty(), "{differences:#?}");
    Ok(())
}
