//! The histograms of `/metrics`: what they count, and that they show a pause of a worker.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use larder_testkit::http;
use larder_testkit::server::{Signal, free_address, larderd};
use larder_testkit::{Address, ServerUnderTest, Transport};

const REQUESTS: &str = "larder_request_duration_seconds";
const LOOPS: &str = "larder_loop_duration_seconds";

struct Scene {
    server: ServerUnderTest,
    admin: Address,
}

/// A histogram of the page: the bounds with their counts, the sum and the count.
#[derive(Clone, Debug, PartialEq)]
struct Histogram {
    buckets: Vec<(f64, u64)>,
    sum: f64,
    count: u64,
}

impl Scene {
    fn start() -> Result<Self> {
        let admin = free_address()?;
        let option = format!("--admin-listen={admin}");
        let binary = larderd(env!("CARGO_BIN_EXE_larderd"));
        let server = ServerUnderTest::start(&binary, Transport::Unix, &[&option, "-t", "1"])?;
        let admin = Address::Tcp(admin);
        http::wait_until_ready(&admin)?;
        Ok(Self { server, admin })
    }

    fn histogram(&self, family: &str, command: Option<&str>) -> Result<Histogram> {
        let page = http::get(&self.admin, "/metrics", &[])?.body;
        ensure!(page.contains(&format!("# TYPE {family} histogram\n")), "{family} has no type");
        Histogram::parse(&page, family, command)
    }
}

impl Histogram {
    /// Reads the lines of a histogram, and checks the rules of Prometheus.
    fn parse(page: &str, family: &str, command: Option<&str>) -> Result<Self> {
        let label = command.map(|command| format!("command=\"{command}\""));
        let alone = label.as_ref().map_or_else(String::new, |label| format!("{{{label}}}"));
        let start = format!("{family}_bucket{{");
        let before = label.map_or_else(String::new, |label| format!("{label},"));
        let mut buckets = Vec::new();
        for line in page.lines().filter_map(|line| line.strip_prefix(&start)) {
            let Some(rest) = line.strip_prefix(&format!("{before}le=\"")) else { continue };
            let (bound, count) = rest.split_once("\"} ").with_context(|| line.to_owned())?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse()? };
            buckets.push((bound, count.parse()?));
        }
        let number = |name: &str| -> Result<&str> {
            let start = format!("{family}_{name}{alone} ");
            page.lines().find_map(|line| line.strip_prefix(&start)).with_context(|| start.clone())
        };
        let histogram =
            Self { buckets, sum: number("sum")?.parse()?, count: number("count")?.parse()? };
        let buckets = &histogram.buckets;
        ensure!(buckets.len() == 22, "{} buckets and not 22: {buckets:?}", buckets.len());
        let ascend = |pair: &[(f64, u64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        ensure!(buckets.windows(2).all(ascend), "bounds and counts must ascend: {buckets:?}");
        ensure!((buckets[0].0, buckets[20].0) == (1e-6, 1.048_576), "{buckets:?}");
        ensure!(buckets[21] == (f64::INFINITY, histogram.count), "{histogram:?}");
        Ok(histogram)
    }

    /// Returns how many durations are above 16 ms, the last bound below 20 ms.
    fn above_16_ms(&self) -> u64 {
        let below = self.buckets.iter().rev().find(|(bound, _)| *bound < 0.02);
        self.count - below.map_or(0, |(_, count)| *count)
    }
}

#[test]
fn one_batch_in_sixteen_is_timed_and_every_turn_of_the_loop() -> Result<()> {
    let scene = Scene::start()?;
    let mut stream = scene.server.connect()?;
    for _ in 0..1600 {
        stream.ask(b"get k\r\n", b"END\r\n")?;
    }
    // Two commands in one batch. The first one decides the kind.
    for _ in 0..800 {
        stream.ask(b"set k 0 0 1\r\nv\r\nget k\r\n", b"END\r\n")?;
    }
    for _ in 0..480 {
        stream.ask(b"delete x\r\n", b"NOT_FOUND\r\n")?;
    }
    for (command, batches) in [("get", 1600), ("set", 800), ("other", 480)] {
        let histogram = scene.histogram(REQUESTS, Some(command))?;
        let expected = batches / 16;
        // The server times one batch in each block of 16. A block may contain batches of two kinds,
        // so the count of a kind is not exact.
        ensure!(
            histogram.count.abs_diff(expected) <= 2,
            "{command}: {} of {batches} batches are timed, not about {expected}",
            histogram.count
        );
        ensure!(histogram.sum > 0.0 && histogram.sum < 60.0, "{command}: {histogram:?}");
    }
    let loops = scene.histogram(LOOPS, None)?;
    ensure!(loops.count >= 2880, "a turn for each batch at least: {loops:?}");
    Ok(())
}

/// Sends batches of misses without pause, so that the worker is nearly always in a turn.
fn load(scene: &Scene, is_over: &Arc<AtomicBool>) -> Result<thread::JoinHandle<Result<()>>> {
    let mut stream = scene.server.connect()?;
    let is_over = Arc::clone(is_over);
    let list: String = (0..100).map(|number| format!(" absent-{number}")).collect();
    let request = format!("get{list}\r\n").repeat(40);
    Ok(thread::spawn(move || {
        let mut response = [0; 5 * 40];
        while !is_over.load(Relaxed) {
            stream.write_all(request.as_bytes())?;
            stream.read_exact(&mut response)?;
        }
        Ok(())
    }))
}

#[test]
fn a_pause_of_a_worker_shows_in_both_histograms() -> Result<()> {
    const PAUSES: u64 = 60;
    let scene = Scene::start()?;
    let is_over = Arc::new(AtomicBool::new(false));
    let clients = (0..3).map(|_| load(&scene, &is_over)).collect::<Result<Vec<_>>>()?;
    sleep(Duration::from_millis(100));
    let counts = || -> Result<(u64, u64)> {
        let requests = scene.histogram(REQUESTS, Some("get"))?.above_16_ms();
        Ok((requests, scene.histogram(LOOPS, None)?.above_16_ms()))
    };
    let before = counts()?;
    for _ in 0..PAUSES {
        scene.server.signal(Signal::STOP)?;
        sleep(Duration::from_millis(25));
        scene.server.signal(Signal::CONT)?;
        sleep(Duration::from_millis(10));
    }
    let after = counts()?;
    is_over.store(true, Relaxed);
    for client in clients {
        client.join().expect("a client does not panic")?;
    }
    let (requests, loops) = (after.0 - before.0, after.1 - before.1);
    ensure!(loops >= PAUSES / 4, "{loops} of {PAUSES} pauses show in the time of the loop");
    ensure!(requests >= 1, "no pause shows in the time of requests, {loops} in that of the loop");
    Ok(())
}
