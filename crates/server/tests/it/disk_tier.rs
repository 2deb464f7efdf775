//! A server with a directory on disk (`--tier-path`). Acknowledged changes must survive a kill, and
//! the responses of several connections must wait for the disk together.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, command, run_to_end};
use larder_testkit::{ServerUnderTest, Stream, Transport};
use tempfile::TempDir;

use crate::binary;

/// A directory for items.
struct Place(TempDir);

impl Place {
    fn new() -> Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("larder-tier-").tempdir()?))
    }

    fn options(&self) -> Result<Vec<String>> {
        let path = self.0.path().join("store");
        let path = path.to_str().context("a path in UTF-8")?;
        let options = ["--tier-path", path, "--tier-size", "256m", "--tier-mode", "store"];
        Ok(options.map(str::to_owned).to_vec())
    }

    fn start(&self, args: &[&str]) -> Result<ServerUnderTest> {
        let options = self.options()?;
        let options = options.iter().map(String::as_str);
        let args: Vec<&str> = options.chain(["-m", "8"]).chain(args.iter().copied()).collect();
        let server = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
        // The server listens before it has opened the directory.
        server.connect()?.ask(b"version\r\n", b"\r\n")?;
        Ok(server)
    }

    /// Starts a server that is expected to fail; returns its exit code and its message.
    fn refused(&self, args: &[&str]) -> Result<(Option<i32>, String)> {
        let mut larderd = command(&binary());
        larderd.args(self.options()?).arg("-s").arg(self.0.path().join("refused")).args(args);
        let Output { status, stderr, .. } = run_to_end(&mut larderd)?;
        Ok((status.code(), String::from_utf8_lossy(&stderr).into_owned()))
    }
}

fn value_of(number: u32) -> Vec<u8> {
    let bytes = if number.is_multiple_of(7) { 20_000 } else { number as usize % 3000 };
    format!("{number:08}").into_bytes().into_iter().cycle().take(8 + bytes).collect()
}

/// A client with its own keys. It keeps track of the possible values of each.
struct Client {
    name: u32,
    numbers: u32,
    /// The value that was acknowledged last, and all values that were sent since then.
    may_have: HashMap<u32, Vec<Option<u32>>>,
}

impl Client {
    /// Sets and deletes until the server is gone.
    fn work(&mut self, mut stream: Stream, is_over: &AtomicBool) {
        while !is_over.load(Relaxed) && self.step(&mut stream).is_ok() {}
    }

    fn step(&mut self, stream: &mut Stream) -> Result<()> {
        self.numbers += 1;
        let number = self.numbers;
        let key = number.wrapping_mul(2_654_435_761) % 60;
        let name = self.name;
        let (request, state) = match number % 5 {
            0 => (format!("delete {name}-{key}\r\n").into_bytes(), None),
            _ => {
                let value = value_of(number);
                let head = format!("set {name}-{key} 0 0 {}\r\n", value.len());
                ([head.as_bytes(), &value, b"\r\n"].concat(), Some(number))
            }
        };
        let states = self.may_have.entry(key).or_insert_with(|| vec![None]);
        states.push(state);
        let answer = stream.ask(&request, b"\r\n")?;
        ensure!(
            [&b"STORED\r\n"[..], b"DELETED\r\n", b"NOT_FOUND\r\n"].contains(&&answer[..]),
            "{}",
            String::from_utf8_lossy(&answer)
        );
        *states = vec![state];
        Ok(())
    }

    /// Checks the value of each key, which counts as acknowledged from now on.
    fn check(&mut self, stream: &mut Stream) -> Result<()> {
        for (key, states) in &mut self.may_have {
            let request = format!("get {}-{key}\r\n", self.name);
            let answer = stream.ask(request.as_bytes(), b"END\r\n")?;
            let is_of = |state: &Option<u32>| match state {
                None => answer == b"END\r\n",
                Some(number) => {
                    let value = [&value_of(*number)[..], b"\r\nEND\r\n"].concat();
                    answer.ends_with(&value) && answer.len() < value.len() + 40
                }
            };
            let found = states.iter().copied().find(is_of);
            let found = found.with_context(|| {
                let head = String::from_utf8_lossy(&answer[..answer.len().min(60)]).into_owned();
                format!("key {}-{key} has {head}, not one of {states:?}", self.name)
            })?;
            *states = vec![found];
        }
        Ok(())
    }
}

fn stat(stream: &mut Stream, name: &str) -> Result<u64> {
    let answer = stream.ask(b"stats larder\r\n", b"END\r\n")?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let row = text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    Ok(row.with_context(|| format!("{name} in {text}"))?.trim().parse()?)
}

/// Runs clients on a server, kills it while they work, and starts it again.
fn survive_kills(io: &str, rounds: u32) -> Result<()> {
    let place = Place::new()?;
    let args = ["--durability", "sync", io, "-t", "2"];
    let mut clients: Vec<Client> =
        (0..4).map(|name| Client { name, numbers: name, may_have: HashMap::new() }).collect();
    for round in 0..rounds {
        let server = place.start(&args)?;
        for client in &mut clients {
            client.check(&mut server.connect()?).with_context(|| server.log())?;
        }
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| -> Result<()> {
            for client in &mut clients {
                let stream = server.connect()?;
                let is_over = &is_over;
                scope.spawn(move || client.work(stream, is_over));
            }
            sleep(Duration::from_millis(150 + u64::from(round) * 37 % 200));
            server.signal(Signal::KILL)?;
            drop(server);
            is_over.store(true, Relaxed);
            Ok(())
        })?;
    }
    let server = place.start(&args)?;
    let mut stream = server.connect()?;
    clients.iter_mut().try_for_each(|client| client.check(&mut stream))?;
    let changes: u32 = clients.iter().map(|client| client.numbers).sum();
    ensure!(changes > 200, "only {changes} changes were made");
    Ok(())
}

#[test]
fn what_was_answered_survives_kills_with_epoll() -> Result<()> {
    survive_kills("--io=epoll", 6)
}

#[test]
fn what_was_answered_survives_kills_with_io_uring() -> Result<()> {
    survive_kills("--io=auto", 6)
}

#[test]
fn connections_share_the_syncs_of_the_disk_and_a_pipeline_costs_few() -> Result<()> {
    const CONNECTIONS: usize = 50;
    const ROUNDS: usize = 20;
    let place = Place::new()?;
    let server = place.start(&["--durability", "sync", "-t", "2"])?;
    let mut stream = server.connect()?;
    let pipeline: String = (0..500).map(|n| format!("set p{n} 0 0 1\r\n{}\r\n", n % 10)).collect();
    let before = stat(&mut stream, "tier_syncs")?;
    stream.write_all(pipeline.as_bytes())?;
    let mut answers = vec![0; 500 * b"STORED\r\n".len()];
    stream.read_exact(&mut answers)?;
    ensure!(answers == b"STORED\r\n".repeat(500), "a set of the pipeline failed");
    let syncs = stat(&mut stream, "tier_syncs")? - before;
    ensure!(syncs <= 60, "a pipeline of 500 sets cost {syncs} syncs");

    let before = stat(&mut stream, "tier_syncs")?;
    let mut streams = (0..CONNECTIONS).map(|_| server.connect()).collect::<Result<Vec<_>>>()?;
    for round in 0..ROUNDS {
        for (number, stream) in streams.iter_mut().enumerate() {
            write!(stream, "set c{number} 0 0 2\r\n{round:02}\r\n")?;
        }
        for stream in &mut streams {
            stream.ask(b"", b"STORED\r\n")?;
        }
    }
    let syncs = stat(&mut stream, "tier_syncs")? - before;
    let sets = CONNECTIONS * ROUNDS;
    ensure!(
        syncs * 2 <= sets as u64,
        "{sets} sets of {CONNECTIONS} connections cost {syncs} syncs"
    );
    Ok(())
}

#[test]
fn items_that_memory_lacks_are_read_changed_and_counted() -> Result<()> {
    let place = Place::new()?;
    let server = place.start(&["--durability", "async"])?;
    let mut stream = server.connect()?;
    let value = "v".repeat(4000);
    // Four times the memory.
    for first in (0..8000).step_by(200) {
        let sets: String = (first..first + 200)
            .map(|n| format!("set key{n} {n} 0 4008 noreply\r\n{value}{n:08}\r\n"))
            .collect();
        stream.write_all(sets.as_bytes())?;
    }
    stream.ask(b"version\r\n", b"\r\n")?;
    for n in (0..8000).step_by(17) {
        let answer = stream.ask(format!("get key{n}\r\n").as_bytes(), b"END\r\n")?;
        let expected = format!("VALUE key{n} {n} 4008\r\n{value}{n:08}\r\nEND\r\n");
        ensure!(answer == expected.as_bytes(), "key{n}: {}", String::from_utf8_lossy(&answer));
    }
    for (request, answer) in [
        ("add key1 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("append key2 0 0 1\r\nX\r\n", "STORED\r\n"),
        ("touch key3 1000\r\n", "TOUCHED\r\n"),
        ("delete key4\r\n", "DELETED\r\n"),
        ("delete key4\r\n", "NOT_FOUND\r\n"),
        ("replace key5 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("incr key6 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ("md key7 I\r\n", "HD\r\n"),
    ] {
        let found = stream.ask(request.as_bytes(), b"\r\n")?;
        ensure!(found == answer.as_bytes(), "{request:?}: {}", String::from_utf8_lossy(&found));
    }
    let (items, reads) = (stat(&mut stream, "tier_items")?, stat(&mut stream, "tier_reads")?);
    ensure!(items == 7999 && reads > 300, "{items} items, {reads} reads");
    ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
    let server = place.start(&[])?;
    let mut stream = server.connect()?;
    let answer = stream.ask(b"mg key7 s f\r\n", b"\r\n")?;
    ensure!(answer == b"HD s4008 f7 X W\r\n", "{}", String::from_utf8_lossy(&answer));
    Ok(())
}

#[test]
fn a_full_log_refuses_stores_and_deletes_make_room() -> Result<()> {
    let place = Place::new()?;
    let server = place.start(&["--durability", "async"])?;
    let mut stream = server.connect()?;
    let value = "v".repeat(500_000);
    let store = |stream: &mut Stream, n: usize| -> Result<Vec<u8>> {
        let set = format!("set key{n} 0 0 {}\r\n{value}\r\n", value.len());
        Ok(stream.ask(set.as_bytes(), b"\r\n")?)
    };
    let mut stored = 0;
    let refusal = loop {
        let answer = store(&mut stream, stored)?;
        if answer != b"STORED\r\n" {
            break answer;
        }
        stored += 1;
        ensure!(stored < 600, "{stored} items of 500 kB in 256 MiB");
    };
    let words = String::from_utf8_lossy(&refusal).into_owned();
    ensure!(words == "SERVER_ERROR out of disk space storing object\r\n", "{words}");
    ensure!(stored > 250, "the log was full after {stored} items of 500 kB");
    let answer = stream.ask(b"get key0\r\n", b"END\r\n")?;
    ensure!(answer.len() > value.len(), "a full log keeps its items");
    for n in 0..stored / 2 {
        stream.ask(format!("delete key{n}\r\n").as_bytes(), b"DELETED\r\n")?;
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while store(&mut stream, 0)? != b"STORED\r\n" {
        ensure!(Instant::now() < deadline, "no room after half of the items were deleted");
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

#[test]
fn a_start_that_cannot_be_meant_is_refused_with_a_reason() -> Result<()> {
    let place = Place::new()?;
    drop(place.start(&[])?);
    let (code, words) = place.refused(&["--tier-size", "128m"])?;
    ensure!(code == Some(1) && words.contains("a directory can grow, not shrink"), "{words}");
    let server = place.start(&[])?;
    let (code, words) = place.refused(&[])?;
    ensure!(code == Some(1) && words.contains("another process uses this directory"), "{words}");
    drop(server);
    for (args, expected) in [
        (&["--durability", "sometimes"][..], "is not one of sync, interval=MS, async"),
        (&["-e", "/dev/shm/larder-none"], "a directory on disk keeps the items over a restart"),
        (&["-I", "8m", "-m", "64"], "are more than the 4189871 that --tier-path can keep"),
        (&["--tier-size", "1m"], "1048576 bytes are less than the 33554432 that a log needs"),
    ] {
        let other = Place::new()?;
        let (code, words) = other.refused(args)?;
        ensure!(code != Some(0) && words.contains(expected), "{args:?}: {code:?} {words}");
    }
    Ok(())
}

/// If the index of a directory needs more memory than `-m` leaves for it, the start logs that, and
/// the existing items are served.
#[test]
fn a_start_with_too_little_memory_for_its_index_says_so() -> Result<()> {
    const ITEMS: u32 = 250_000;
    let place = Place::new()?;
    let args = ["-t", "2", "--durability", "async"];
    let server = place.start(&[&args[..], &["-m", "64"]].concat())?;
    let mut stream = server.connect()?;
    for first in (0..ITEMS).step_by(5000) {
        let sets = (first..first + 5000).map(|n| format!("set i{n} 0 0 1 noreply\r\nx\r\n"));
        stream.ask(format!("{}mn\r\n", sets.collect::<String>()).as_bytes(), b"MN\r\n")?;
    }
    ensure!(stat(&mut stream, "tier_items")? == u64::from(ITEMS), "not all items are stored");
    ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
    let server = place.start(&[&args[..], &["-m", "2"]].concat())?;
    let mut stream = server.connect()?;
    let found = stream.ask(b"get i77\r\n", b"END\r\n")?;
    ensure!(found == b"VALUE i77 0 1\r\nx\r\nEND\r\n", "{}", String::from_utf8_lossy(&found));
    let log = server.log();
    ensure!(log.contains("its index takes") && log.contains("raise -m"), "{log}");
    let index_bytes = stat(&mut stream, "tier_index_bytes")?;
    let is_refused = (0..ITEMS).any(|n| {
        let answer = stream.ask(format!("set new{n} 0 0 1\r\nx\r\n").as_bytes(), b"\r\n");
        answer.is_ok_and(|answer| answer.starts_with(b"SERVER_ERROR"))
    });
    ensure!(is_refused, "the index takes as many items again");
    let grown = stat(&mut stream, "tier_index_bytes")? - index_bytes;
    ensure!(grown == 0, "the index has grown by {grown} bytes");
    Ok(())
}
