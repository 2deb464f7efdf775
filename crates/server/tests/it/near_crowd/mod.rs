//! Thousands of connections use one near cache for many minutes, while its origin is upgraded every
//! minute. Every read is judged, clients receive only the errors of docs/near-cache.md, and memory
//! and descriptors of both servers stay bounded. `make verify ONLY=near-endurance
//! NEAR_ENDURANCE_SECS=60`.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod judge;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::random::Random;
use larder_testkit::{Address, ServerUnderTest, Stream};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};

use crate::near::{await_state, count, start_near};
use crate::near_history::cluster::Server;
use judge::{Floor, Key, number_in, value};

const CONNECTIONS: usize = 10_000;
/// Threads of clients of the near cache.
const THREADS: usize = 4;
/// How many connections of a thread have a request under way.
const BATCH: usize = 64;
const KEYS: usize = 3000;
const STALE_MAX: Duration = Duration::from_secs(2);
const UPGRADE_PERIOD: Duration = Duration::from_secs(60);
const NEAR_MIB: u64 = 32;
/// `-m` of an [`Server`].
const ORIGIN_MIB: u64 = 256;
/// Code, stacks, the table of interest, and memory that the allocator keeps.
const CONSTANT_MIB: u64 = 48;
/// What a connection may hold.
const CONNECTION_BYTES: u64 = 8 * 1024;

/// What clients of a near cache may receive while its origin is upgraded.
const ERRORS: [&str; 2] =
    ["SERVER_ERROR origin unreachable\r\n", "SERVER_ERROR origin did not answer\r\n"];

/// What the threads share.
struct Run {
    origin: Server,
    near: ServerUnderTest,
    keys: Vec<Key>,
    stop: AtomicBool,
    reads: AtomicU64,
    writes: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
    /// The longest wait for the answers of a batch, in milliseconds.
    longest_ms: AtomicU64,
}

/// A request under way.
struct Sent {
    connection: usize,
    key: usize,
    /// What a read must return at least, or the number that is written.
    what: What,
}

enum What {
    Read(Floor),
    Write(u64),
}

/// Memory and descriptors of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    rss_mib: u64,
    descriptors: u64,
}

impl Held {
    fn of(pid: Pid) -> Result<Self> {
        let pid = pid.as_raw_pid();
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let kib = field("VmRSS:").and_then(|line| line.trim().strip_suffix(" kB"));
        let rss_mib = kib.context("the process has ended")?.parse::<u64>()? / 1024;
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
        Ok(Self { rss_mib, descriptors })
    }

    fn max(self, other: Self) -> Self {
        Self {
            rss_mib: self.rss_mib.max(other.rss_mib),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }
}

impl Run {
    fn start() -> Result<Self> {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
        let origin = Server::origin(true)?;
        let near_mib = NEAR_MIB.to_string();
        let near = start_near(&origin.address.to_string(), &["-c", "12000", "-m", &near_mib])?;
        await_state(&near, "copies")?;
        let run = Self {
            origin,
            near,
            keys: (0..KEYS).map(|_| Key::default()).collect(),
            stop: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            errors: Mutex::default(),
            longest_ms: AtomicU64::new(0),
        };
        let (mut random, mut direct) = (Random::with_seed(1), run.direct()?);
        for key in 0..KEYS {
            ensure!(run.write(&mut direct, key, &mut random)?, "the first write of key {key}");
        }
        Ok(run)
    }

    fn direct(&self) -> Result<Stream> {
        Ok(Stream::connect(&Address::Tcp(self.origin.address))?)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Writes a key on a connection to the origin. Returns false if the answer was lost.
    fn write(&self, direct: &mut Stream, key: usize, random: &mut Random) -> Result<bool> {
        let Some(number) = self.keys[key].next() else { return Ok(true) };
        let request = set(key, &value(key, number, random)) + "mn\r\n";
        match direct.ask(request.as_bytes(), b"MN\r\n") {
            Ok(answer) => {
                ensure!(answer == b"STORED\r\nMN\r\n", "{}", answer.escape_ascii());
                self.keys[key].note_stored(number, false);
                self.writes.fetch_add(1, Relaxed);
                Ok(true)
            }
            Err(_) => {
                self.keys[key].note_lost();
                Ok(false)
            }
        }
    }

    /// Writes its keys at the origin, where the near cache does not see it.
    fn write_at_origin(&self) -> Result<()> {
        let (mut random, mut direct) = (Random::with_seed(77), self.direct()?);
        while !self.is_over() {
            let key = own_key(&mut random, THREADS);
            if !self.write(&mut direct, key, &mut random)? {
                // The process that has served it has ended.
                direct = self.direct()?;
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Reads and writes on many connections to the near cache.
    fn use_near(&self, thread: usize) -> Result<()> {
        let mut random = Random::with_seed(thread as u64 + 1);
        let open = |_| self.near.connect();
        let mut connections: Vec<Stream> =
            (0..CONNECTIONS / THREADS).map(open).collect::<Result<_>>()?;
        let mut next = 0;
        while !self.is_over() {
            let began = Instant::now();
            let mut written = Vec::new();
            let mut batch = Vec::new();
            for _ in 0..BATCH {
                next = (next + 1) % connections.len();
                let (sent, request) = self.request(thread, next, began, &mut written, &mut random);
                connections[next].write_all(request.as_bytes())?;
                batch.push(sent);
            }
            for sent in batch {
                let answer = connections[sent.connection].ask(b"", b"MN\r\n")?;
                let answer = String::from_utf8(answer)?;
                self.judge(&sent, answer.strip_suffix("MN\r\n").context("no end")?)?;
            }
            self.longest_ms.fetch_max(began.elapsed().as_millis() as u64, Relaxed);
        }
        Ok(())
    }

    /// Returns a request for a connection: mostly reads. A write is followed by a read of its key.
    /// A batch writes a key at most once.
    fn request(
        &self,
        thread: usize,
        connection: usize,
        began: Instant,
        written: &mut Vec<usize>,
        random: &mut Random,
    ) -> (Sent, String) {
        let own = own_key(random, thread);
        if random.below(100) < 3
            && !written.contains(&own)
            && let Some(number) = self.keys[own].next()
        {
            written.push(own);
            let sent = Sent { connection, key: own, what: What::Write(number) };
            let value = value(own, number, random);
            return (sent, format!("{}get k{own}\r\nmn\r\n", set(own, &value)));
        }
        // Small numbers are read more often.
        let key = (random.below(KEYS as u64) * random.below(KEYS as u64) / KEYS as u64) as usize;
        let what = What::Read(self.keys[key].floor(began, STALE_MAX));
        (Sent { connection, key, what }, format!("get k{key}\r\nmn\r\n"))
    }

    /// Judges an answer of the near cache.
    fn judge(&self, sent: &Sent, answer: &str) -> Result<()> {
        let (key, name) = (&self.keys[sent.key], sent.key);
        let number = match sent.what {
            What::Read(floor) => return self.judge_read(name, floor, answer),
            What::Write(number) => number,
        };
        let written = answer.split_inclusive("\r\n").next().unwrap_or_default();
        let read = answer.strip_prefix(written).unwrap_or_default();
        if self.is_error(written) {
            key.note_lost();
            return self.judge_read(name, Floor(0), read);
        }
        ensure!(written == "STORED\r\n", "a write of k{name} is answered {answer:?}");
        key.note_stored(number, true);
        self.writes.fetch_add(1, Relaxed);
        self.judge_read(name, Floor(number), read)
    }

    /// Judges the answer to a get.
    fn judge_read(&self, key: usize, floor: Floor, answer: &str) -> Result<()> {
        if self.is_error(answer) {
            return Ok(());
        }
        let found = answer.strip_suffix("\r\nEND\r\n").and_then(|item| item.split_once("\r\n"));
        let (_, value) = found.with_context(|| format!("k{key}: {answer:?}"))?;
        let number = number_in(key, value)?;
        self.reads.fetch_add(1, Relaxed);
        self.keys[key].judge(number, floor).with_context(|| format!("a read of k{key}"))
    }

    /// True for an error that clients may receive, which is counted.
    fn is_error(&self, answer: &str) -> bool {
        let is_error = ERRORS.contains(&answer);
        if is_error {
            *self.errors.lock().unwrap().entry(answer.trim_end().to_owned()).or_default() += 1;
        }
        is_error
    }

    /// Upgrades the origin until the time is up, and measures both servers.
    fn supervise(&self, secs: u64) -> Result<()> {
        let (began, period) = (Instant::now(), UPGRADE_PERIOD.min(Duration::from_secs(secs / 3)));
        let (end, mut upgrades) = (began + Duration::from_secs(secs), 0);
        let (mut near, mut origin, mut early) = (Held::default(), Held::default(), Held::default());
        while Instant::now() < end && !self.is_over() {
            sleep(Duration::from_secs(1));
            let of_near = Held::of(self.near.process_id())?;
            near = near.max(of_near);
            // The memory grows until all pages are used.
            if began.elapsed() < Duration::from_secs(secs) * 2 / 3 {
                early = near;
            }
            // No process has this id in the middle of an upgrade.
            if let Ok(held) = self.origin.pid_file.pid().and_then(Held::of) {
                origin = origin.max(held);
            }
            if began.elapsed() > period * (upgrades + 1) {
                self.origin.upgrade()?;
                upgrades += 1;
            }
        }
        self.stop.store(true, Relaxed);
        self.summary(upgrades, near, origin, early)?;
        ensure!(upgrades > 0, "no upgrade in {secs} s");
        self.require_bounds(near, origin, early)
    }

    fn require_bounds(&self, near: Held, origin: Held, early: Held) -> Result<()> {
        let of_connections = (CONNECTIONS as u64 * CONNECTION_BYTES) >> 20;
        let near_max = NEAR_MIB + CONSTANT_MIB + of_connections;
        ensure!(near.rss_mib <= near_max, "the near cache uses more than {near_max} MiB");
        let grown_max = early.rss_mib + early.rss_mib / 10 + 8;
        ensure!(near.rss_mib <= grown_max, "its memory grows: {grown_max} MiB would be constant");
        ensure!(near.descriptors <= CONNECTIONS as u64 + 300, "descriptors of the near cache");
        let origin_max = ORIGIN_MIB + CONSTANT_MIB;
        ensure!(origin.rss_mib <= origin_max, "the origin uses more than {origin_max} MiB");
        ensure!(origin.descriptors <= 400, "descriptors of the origin");
        ensure!(count(&self.near, "near_kept")? > KEYS as u64, "hardly anything was copied");
        Ok(())
    }

    fn summary(&self, upgrades: u32, near: Held, origin: Held, early: Held) -> Result<()> {
        let stats = self.near.connect()?.ask(b"stats\r\n", b"END\r\n")?;
        let stats = String::from_utf8(stats)?;
        let hits = stats.lines().find_map(|row| row.strip_prefix("STAT get_hits "));
        println!(
            "{CONNECTIONS} connections, {upgrades} upgrades: {} reads and {} writes, {} hits of \
             copies, {} streams lost, {} ms the longest wait of a batch",
            self.reads.load(Relaxed),
            self.writes.load(Relaxed),
            hits.unwrap_or("?"),
            count(&self.near, "near_streams_lost")?,
            self.longest_ms.load(Relaxed)
        );
        println!("near cache: {near:?}, after two thirds of the time {early:?}");
        println!("origin: {origin:?}");
        println!("errors: {:?}", self.errors.lock().unwrap());
        Ok(())
    }
}

/// Returns a key that only this thread writes. Small numbers are chosen more often.
fn own_key(random: &mut Random, thread: usize) -> usize {
    let group = (KEYS / (THREADS + 1)) as u64;
    let number = random.below(group) * random.below(group) / group;
    number as usize * (THREADS + 1) + thread
}

fn set(key: usize, value: &str) -> String {
    format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len())
}

fn secs() -> Result<u64> {
    let secs = std::env::var("LARDER_NEAR_ENDURANCE_SECS").unwrap_or_else(|_| "180".to_owned());
    secs.parse().context("LARDER_NEAR_ENDURANCE_SECS is a number")
}

#[test]
#[ignore = "takes minutes: make verify ONLY=near-endurance"]
fn thousands_of_connections_read_nothing_older_than_promised() -> Result<()> {
    let (run, secs) = (Run::start()?, secs()?);
    // The first error of a thread ends the others.
    let until_end = |ended: Result<()>| {
        if ended.is_err() {
            run.stop.store(true, Relaxed);
        }
        ended
    };
    let (run, until_end) = (&run, &until_end);
    scope(|scope| {
        let mut threads = vec![scope.spawn(move || until_end(run.supervise(secs)))];
        threads.push(scope.spawn(move || until_end(run.write_at_origin())));
        for thread in 0..THREADS {
            threads.push(scope.spawn(move || until_end(run.use_near(thread))));
        }
        let ended: Vec<Result<()>> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
            .collect();
        ended.into_iter().rev().collect::<Result<()>>()
    })
}
