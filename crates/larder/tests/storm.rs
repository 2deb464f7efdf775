//! Many processes use one cache, and are killed, stopped and continued at random. No value is ever
//! wrong, no process waits for dead processes or waits long for stopped processes, and no memory is
//! lost.
//!
//! `LARDER_STORM_SECS` sets the duration (`make verify ONLY=storm`).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use larder::{Cache, Read, StoreError, StoreMode, StoreRequest};
use larder_region::{Access, Memory, NewFile, file};
use larder_testkit::memory_folder;
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

const WRITERS: usize = 8;
const PROCESSES: usize = 12;
const MEMORY_BYTES: u64 = 16 << 20;
const KEYS: u64 = 6000;
/// Number of keys that every process uses.
const HOT_KEYS: u64 = 20;
const COUNTERS: u64 = 16;
/// Longest duration of an operation, in milliseconds, regardless of the number of stopped
/// processes.
const OPERATION_MS_MAX: u64 = 4000;

fn random_of(state: &mut u64, bound: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % bound
}

fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1000 + now.tv_nsec() as u64 / 1_000_000
}

/// The reports of the processes to the watching process, in a shared file.
struct Board(Memory);

impl Board {
    fn open(path: &Path) -> Self {
        Self(Memory::shared(&file::open(path).unwrap(), 4096).unwrap())
    }

    fn is_over(&self) -> &AtomicU64 {
        self.0.word(0)
    }

    /// The time at which a process began its current operation; 0 while it does nothing that must
    /// end in time.
    fn since(&self, process: usize) -> &AtomicU64 {
        self.0.word(64 * (process + 1))
    }

    fn kind(&self, process: usize) -> &AtomicU64 {
        self.0.word(64 * (process + 1) + 8)
    }

    fn done(&self, process: usize) -> &AtomicU64 {
        self.0.word(64 * (process + 1) + 16)
    }

    fn refused(&self, process: usize) -> &AtomicU64 {
        self.0.word(64 * (process + 1) + 24)
    }
}

/// Returns a value that identifies its key and shows whether it is complete.
fn value_of(key: u64, seed: u64, bytes: usize) -> Vec<u8> {
    let mut value = [key.to_le_bytes(), seed.to_le_bytes()].concat();
    let mut state = key << 32 | seed | 1;
    while value.len() < bytes {
        value.extend_from_slice(&random_of(&mut state, u64::MAX).to_le_bytes());
    }
    value.truncate(bytes.max(16));
    value
}

fn assert_is_of(key: u64, value: &[u8]) {
    let word =
        |at: usize| value.get(at..at + 8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    assert_eq!(word(0), Some(key), "value of another key, of {} bytes", value.len());
    let expected = value_of(key, word(8).unwrap(), value.len());
    let wrong = value.iter().zip(&expected).position(|(is, must)| is != must);
    assert_eq!(wrong, None, "value of {} bytes, first wrong word", value.len());
}

/// One process of the storm.
struct Player {
    cache: Cache,
    board: Board,
    process: usize,
    random: u64,
}

impl Player {
    fn play(&mut self) {
        while self.board.is_over().load(Relaxed) == 0 {
            let is_writer = self.process < WRITERS;
            let kind = match random_of(&mut self.random, 100) {
                _ if !is_writer => 0,
                chance => chance,
            };
            let keys = if random_of(&mut self.random, 3) == 0 { HOT_KEYS } else { KEYS };
            let key = random_of(&mut self.random, keys);
            self.board.kind(self.process).store(kind, Relaxed);
            self.board.since(self.process).store(now_ms(), SeqCst);
            let outcome = self.operate(kind, key);
            self.board.since(self.process).store(0, SeqCst);
            self.board.done(self.process).fetch_add(1, Relaxed);
            match outcome {
                Ok(()) => {}
                Err(StoreError::Stuck(_) | StoreError::NoMemory) => {
                    self.board.refused(self.process).fetch_add(1, Relaxed);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        random_of(&mut self.random, bound)
    }

    fn operate(&mut self, kind: u64, key: u64) -> Result<(), StoreError> {
        let name = format!("key {key}");
        let seed = self.below(1 << 30);
        match kind {
            0..30 => self.read(key, &name),
            30..60 => {
                let bytes = 16 + self.below(2000) as usize;
                self.cache.set(&name, value_of(key, seed, bytes), None).map(drop)
            }
            60..66 => {
                let bytes = 10_000 + self.below(60_000) as usize;
                self.cache.set(&name, value_of(key, seed, bytes), None).map(drop)
            }
            66..70 => self.upload(key, &name, seed),
            70..78 => self.cache.delete(&name).map(drop),
            78..84 => {
                let ttl = Some(Duration::from_secs(1 + seed % 8));
                self.cache.touch(&name, ttl).map(drop)
            }
            84..90 => {
                let counter = format!("counter {}", key % COUNTERS);
                let add = StoreRequest::new(counter.as_bytes(), StoreMode::Add);
                self.cache.store(&add, b"1")?;
                match self.cache.increment(&counter, 1) {
                    Err(larder::CountError::Store(error)) => Err(error),
                    Err(error) => panic!("{counter}: {error}"),
                    Ok(_) => Ok(()),
                }
            }
            90..94 => {
                let add = StoreRequest::new(name.as_bytes(), StoreMode::Replace);
                self.cache.store(&add, &value_of(key, seed, 300)).map(drop)
            }
            94..98 => self.grow(key),
            _ => {
                self.cache.maintain();
                Ok(())
            }
        }
    }

    /// Appends a word to a text that all processes extend.
    fn grow(&mut self, key: u64) -> Result<(), StoreError> {
        let name = format!("text {}", key % COUNTERS);
        let mode = if key.is_multiple_of(3) { StoreMode::Set } else { StoreMode::Append };
        self.cache.store(&StoreRequest::new(name.as_bytes(), mode), b"a word, ")?;
        if let Some(text) = self.cache.get(&name) {
            assert!(text.chunks(8).all(|word| word == b"a word, "), "{:?}", text.len());
        }
        Ok(())
    }

    fn upload(&mut self, key: u64, name: &str, seed: u64) -> Result<(), StoreError> {
        let value = value_of(key, seed, 10_000 + seed as usize % 100_000);
        let mut upload = self.cache.upload(name.as_bytes(), value.len())?;
        for part in value.chunks(9000) {
            upload.push(part)?;
        }
        if seed.is_multiple_of(4) {
            return Ok(());
        }
        upload.store(&StoreRequest::new(name.as_bytes(), StoreMode::Set)).map(drop)
    }

    fn read(&mut self, key: u64, name: &str) -> Result<(), StoreError> {
        let mut value = Vec::new();
        match self.cache.read(name.as_bytes(), &mut value, |_, _| ()) {
            Read::Hit(_) => assert_is_of(key, &value),
            Read::Large(_, mut large) => loop {
                match large.take_piece() {
                    Ok(Some(piece)) => value.extend_from_slice(&piece),
                    Ok(None) => break assert_is_of(key, &value),
                    Err(_) => break,
                }
            },
            Read::Miss(_) | Read::Failed(_) => {}
        }
        Ok(())
    }
}

const PLACE: &str = "LARDER_STORM_PLACE";
const PROCESS: &str = "LARDER_STORM_PROCESS";
const SEED: &str = "LARDER_STORM_SEED";

/// The entry point of the storm's child processes. Does nothing when it runs as a test.
#[test]
fn a_process_of_the_storm() {
    let (Some(place), Ok(process)) = (std::env::var_os(PLACE), std::env::var(PROCESS)) else {
        return;
    };
    let place = PathBuf::from(place);
    let process: usize = process.parse().unwrap();
    let random = std::env::var(SEED).unwrap().parse::<u64>().unwrap() | 1;
    let cache = loop {
        match Cache::builder()
            .memory_bytes(MEMORY_BYTES)
            .cas(true)
            .shared(place.join("cache"))
            .open()
        {
            Ok(cache) => break cache,
            // Another process was stopped while it opened the file.
            Err(larder::OpenError::Shared(larder::SharedError::Busy { .. })) => {}
            Err(error) => panic!("{error}"),
        }
    };
    Player { cache, board: Board::open(&place.join("board")), process, random }.play();
}

/// The watching process's state of a process of the storm.
struct Watched {
    child: Child,
    /// The time at which the process will be continued; `None` while it runs.
    stopped_until: Option<u64>,
    /// The time since which the process runs.
    runs_since: u64,
}

impl Watched {
    fn start(place: &Path, process: usize, seed: u64) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["a_process_of_the_storm", "--exact", "--nocapture", "--test-threads=1"])
            .env(PLACE, place)
            .env(PROCESS, process.to_string())
            .env(SEED, seed.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, stopped_until: None, runs_since: now_ms() }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    fn go_on(&mut self) {
        self.signal(Signal::SIGCONT);
        self.stopped_until = None;
        self.runs_since = now_ms();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Storm {
    place: tempfile::TempDir,
    board: Board,
    processes: Vec<Watched>,
    random: u64,
    kills: u64,
    stops: u64,
    slowest_ms: u64,
}

impl Storm {
    fn begin(seed: u64) -> Self {
        let place = memory_folder();
        let path = place.path().join("board");
        NewFile::create(&path, 4096, &Access::default()).unwrap().publish().unwrap();
        let board = Board::open(&path);
        let mut random = seed | 1;
        let processes = (0..PROCESSES)
            .map(|process| Watched::start(place.path(), process, random_of(&mut random, 1 << 60)))
            .collect();
        Self { place, board, processes, random, kills: 0, stops: 0, slowest_ms: 0 }
    }

    fn rage(&mut self) {
        let process = random_of(&mut self.random, PROCESSES as u64) as usize;
        let seed = random_of(&mut self.random, 1 << 60);
        match random_of(&mut self.random, 4) {
            0 => {
                self.processes[process].kill();
                self.board.since(process).store(0, SeqCst);
                self.processes[process] = Watched::start(self.place.path(), process, seed);
                self.kills += 1;
            }
            1 if self.processes[process].stopped_until.is_none() => {
                self.processes[process].signal(Signal::SIGSTOP);
                let long = seed.is_multiple_of(4);
                let ms = if long { 3500 } else { 5 + seed % 200 };
                self.processes[process].stopped_until = Some(now_ms() + ms);
                self.stops += 1;
            }
            _ => {}
        }
    }

    fn watch(&mut self) {
        let now = now_ms();
        for (number, process) in self.processes.iter_mut().enumerate() {
            if process.stopped_until.is_some_and(|until| until <= now) {
                process.go_on();
            }
            if let Some(status) = process.child.try_wait().unwrap() {
                panic!("process {number} ended with {status}; see its output above");
            }
            let since = self.board.since(number).load(SeqCst);
            if process.stopped_until.is_some() || since == 0 {
                continue;
            }
            let ms = now.saturating_sub(since.max(process.runs_since));
            self.slowest_ms = self.slowest_ms.max(ms);
            let kind = self.board.kind(number).load(Relaxed);
            assert!(ms < OPERATION_MS_MAX, "process {number} has spent {ms} ms in {kind}");
        }
    }

    /// Lets all remaining processes end normally.
    fn end(&mut self) {
        self.board.is_over().store(1, SeqCst);
        for process in &mut self.processes {
            process.go_on();
        }
        let last = Instant::now();
        for process in &mut self.processes {
            let status = loop {
                match process.child.try_wait().unwrap() {
                    Some(status) => break status,
                    None => sleep(Duration::from_millis(5)),
                }
                assert!(last.elapsed() < Duration::from_secs(20), "a process did not end");
            };
            assert!(status.success(), "{status}");
        }
    }
}

#[test]
fn a_cache_outlives_its_processes() {
    let secs = std::env::var("LARDER_STORM_SECS").ok().and_then(|secs| secs.parse().ok());
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_nanos() as u64)
    });
    println!("{SEED}={seed}");
    let mut storm = Storm::begin(seed);
    let end = Instant::now() + Duration::from_secs(secs.unwrap_or(20));
    while Instant::now() < end {
        sleep(Duration::from_millis(4));
        storm.watch();
        storm.rage();
    }
    storm.end();
    let all = |word: &dyn Fn(usize) -> u64| (0..PROCESSES).map(word).sum::<u64>();
    let done = all(&|process| storm.board.done(process).load(Relaxed));
    let refused = all(&|process| storm.board.refused(process).load(Relaxed));
    let Storm { kills, stops, slowest_ms, .. } = storm;
    println!(
        "{done} operations, {refused} refused, {kills} killed, {stops} stopped, the slowest took {slowest_ms} ms"
    );
    assert!(done > 10_000, "too calm");
    assert!(refused < done / 100, "too calm");
    assert!(kills > 100, "too calm");
    assert!(stops > 100, "too calm");
    check_what_is_left(&storm.place.path().join("cache"));
}

fn check_what_is_left(path: &Path) {
    let cache = Cache::open_shared(path).unwrap();
    cache.validate().unwrap();
    println!("{:?}", cache.report());
    for key in 0..KEYS {
        if let Some(value) = cache.get(format!("key {key}")) {
            assert_is_of(key, &value);
        }
    }
    let names: Vec<Vec<u8>> = cache.keys().collect();
    for name in names {
        cache.delete(&name).unwrap();
    }
    // Expired items are not among the keys. Each call of `maintain` frees some segments, and
    // recounts some.
    for _ in 0..64 {
        cache.maintain();
    }
    cache.clear();
    for _ in 0..64 {
        cache.maintain();
    }
    cache.validate().unwrap();
    let report = cache.report();
    assert_eq!((report.items, report.live_bytes, report.segments_pinned), (0, 0, 0), "{report:?}");
    let rest = report.segments_index + report.segments_ghost + report.segments_items;
    assert_eq!(report.segments_free + rest, report.segments, "{report:?}");
    assert!(
        report.segments_items <= 16,
        "more segments are in use than appenders hold: {report:?}"
    );
}
