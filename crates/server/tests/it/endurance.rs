//! A server runs for many minutes under clients that come and go, read slowly, watch and poll, with
//! an upgrade every minute. The resources of the kernel and the process must stay constant, and a
//! well-behaved client must never wait. `make verify ONLY=endurance MINUTES=30`.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, MemoryGroup, ServerUnderTest, Stopwatch, Stream};
use rustix::process::{Pid, kill_process};

use crate::binary;
use crate::tls_scene::{Files, ask, connect};

const SLOW_READERS: usize = 1000;
const UPGRADE_PERIOD: Duration = Duration::from_secs(60);
const DRAIN_SECS: u64 = 5;
const BYSTANDER_PATIENCE: Duration = Duration::from_millis(100);
/// In a full cgroup an allocation may wait until the kernel has written pages back.
const BYSTANDER_PATIENCE_IN_CGROUP: Duration = Duration::from_secs(1);

/// Resources of the serving process, and of the kernel as a whole.
#[derive(Clone, Copy, Debug)]
struct Held {
    sockets: u64,
    descriptors: u64,
    threads: u64,
    rss_kib: u64,
}

impl Held {
    /// Measures the process with this id.
    fn of(pid: Pid) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid()))?;
        let field = |name: &str| -> Result<u64> {
            let mut lines = status.lines().filter_map(|line| line.strip_prefix(name));
            let words = lines.next().with_context(|| format!("no {name} in {status}"))?;
            Ok(words.split_whitespace().next().context("no number")?.parse()?)
        };
        let sockstat = fs::read_to_string("/proc/net/sockstat")?;
        let used = sockstat.lines().find_map(|line| line.strip_prefix("sockets: used "));
        Ok(Self {
            sockets: used.context("no sockets in sockstat")?.trim().parse()?,
            descriptors: fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid()))?.count() as u64,
            threads: field("Threads:")?,
            rss_kib: field("VmRSS:")?,
        })
    }

    /// True if no resource has grown, except for short-lived variation.
    fn is_flat_since(&self, first: &Self) -> bool {
        let grown = |now: u64, then: u64, slack: u64| now > then + then / 10 + slack;
        !grown(self.sockets, first.sockets, 100)
            && !grown(self.descriptors, first.descriptors, 100)
            && !grown(self.threads, first.threads, 2)
            && !grown(self.rss_kib, first.rss_kib, 8 << 10)
    }
}

/// The server and its addresses.
struct Scene {
    tls: SocketAddr,
    plain: SocketAddr,
    files: Files,
    first: ServerUnderTest,
    /// Number of clients that fill the memory.
    fillers: usize,
    /// The longest wait that the bystander accepts.
    patience: Duration,
    stop: AtomicBool,
    /// Number of upgrades so far.
    upgrades: AtomicU64,
    handshakes: AtomicU64,
    read_bytes: AtomicU64,
    polls: AtomicU64,
}

impl Drop for Scene {
    /// Kills the last successor. The first process has a separate guard.
    fn drop(&mut self) {
        if let Ok(pid) = self.pid() {
            // Fails if the process has already exited.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Scene {
    fn start(larderd: &Path, memory: &str) -> Result<Self> {
        let (tls, plain, files) = (free_address()?, free_address()?, Files::new()?);
        let path = files.path("larderd");
        symlink(larderd, &path)?;
        let (pid, listen) = (files.path("pid").display().to_string(), format!("notls:{plain}"));
        let drain = format!("--upgrade-drain={DRAIN_SECS}");
        let options = files.args("");
        let mut args =
            vec!["-t", "2", "-m", memory, "-c", "4096", "-P", &pid, "-l", &listen, &drain];
        args.extend(options.iter().map(String::as_str));
        let first = ServerUnderTest::start_at(&path, Address::Tcp(tls), &args)?;
        let scene = Self {
            tls,
            plain,
            files,
            first,
            fillers: 0,
            patience: BYSTANDER_PATIENCE,
            stop: AtomicBool::new(false),
            upgrades: AtomicU64::new(0),
            handshakes: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            polls: AtomicU64::new(0),
        };
        while scene.pid().is_err() {
            sleep(Duration::from_millis(5));
        }
        Ok(scene)
    }

    fn pid(&self) -> Result<Pid> {
        let pid = fs::read_to_string(self.files.path("pid"))?.trim().parse()?;
        Pid::from_raw(pid).context("0 is not a process id")
    }

    fn is_over(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Upgrades the server, and waits until the old process has exited.
    fn upgrade(&self) -> Result<()> {
        let old = self.pid()?;
        kill_process(old, Signal::USR2)?;
        let deadline = Instant::now() + Duration::from_secs(20 + DRAIN_SECS);
        let has_ended = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", old.as_raw_pid()));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        while self.pid().is_ok_and(|pid| pid == old) || !has_ended() {
            ensure!(Instant::now() < deadline, "no upgrade: {}", self.first.log());
            sleep(Duration::from_millis(20));
        }
        self.upgrades.fetch_add(1, Relaxed);
        Ok(())
    }

    fn plain_stream(&self) -> std::io::Result<Stream> {
        Stream::connect(&Address::Tcp(self.plain))
    }

    /// Opens and closes TLS connections at a fixed rate, half of them without a close notification.
    fn come_and_go(&self) -> Result<()> {
        let config = Arc::new(self.files.config());
        while !self.is_over() {
            let number = self.handshakes.fetch_add(1, Relaxed);
            // A server that is about to exit may close the connection; only the remaining ones
            // count.
            if let Ok(mut client) = connect(self.tls, &config) {
                let _ = ask(&mut client, b"get k\r\n", b"END\r\n");
                if number.is_multiple_of(2) {
                    client.conn.send_close_notify();
                    let _ = client.flush();
                }
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Connections that request five megabytes each and read a little of it once a second. They
    /// reconnect after an upgrade, because the data in their sockets would last for minutes.
    fn read_slowly(&self) -> Result<()> {
        let request = [&b"get"[..], &b" k".repeat(5000), b"\r\n"].concat();
        let open = || -> std::io::Result<TcpStream> {
            let mut stream = TcpStream::connect(self.plain)?;
            stream.write_all(&request)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        let mut readers: Vec<Option<TcpStream>> = (0..SLOW_READERS).map(|_| None).collect();
        let (mut part, mut upgrades) = ([0; 4096], 0);
        while !self.is_over() {
            let begun = Instant::now();
            let before = std::mem::replace(&mut upgrades, self.upgrades.load(Relaxed));
            if before != upgrades {
                readers.fill_with(|| None);
            }
            for reader in &mut readers {
                let is_there = match reader {
                    None => false,
                    Some(stream) => match stream.read(&mut part) {
                        Ok(0) => false,
                        Ok(bytes) => {
                            self.read_bytes.fetch_add(bytes as u64, Relaxed);
                            true
                        }
                        Err(error) => error.kind() == ErrorKind::WouldBlock,
                    },
                };
                if !is_there {
                    *reader = open().ok();
                }
            }
            sleep(Duration::from_secs(1).saturating_sub(begun.elapsed()));
        }
        Ok(())
    }

    /// Stores new values of 10,000 bytes, which soon evict each other.
    fn fill(&self) -> Result<()> {
        let (mut stream, value) = (self.plain_stream()?, "v".repeat(10_000));
        for number in 0_u64.. {
            if self.is_over() {
                break;
            }
            let set = format!("set filler{number} 0 0 {} noreply\r\n{value}\r\n", value.len());
            if stream.write_all(set.as_bytes()).is_err() {
                stream = self.plain_stream()?;
            }
            if number.is_multiple_of(1000) {
                sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Requests all kinds of statistics repeatedly.
    fn poll(&self) -> Result<()> {
        let mut stream = self.plain_stream()?;
        for request in ["stats", "stats items", "stats slabs", "stats conns"].iter().cycle() {
            if self.is_over() {
                break;
            }
            if stream.ask(format!("{request}\r\n").as_bytes(), b"END\r\n").is_err() {
                stream = self.plain_stream()?;
            }
            self.polls.fetch_add(1, Relaxed);
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Watches everything. Every other watcher does not read.
    fn watch(&self, reads: bool) -> Result<()> {
        while !self.is_over() {
            let mut stream = TcpStream::connect(self.plain)?;
            stream.write_all(b"watch fetchers mutations connevents evictions\r\n")?;
            stream.set_read_timeout(Some(Duration::from_millis(500)))?;
            let until = Instant::now() + Duration::from_secs(20);
            let mut part = [0; 64 << 10];
            while Instant::now() < until && !self.is_over() {
                match if reads { stream.read(&mut part) } else { Err(ErrorKind::WouldBlock.into()) }
                {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        sleep(Duration::from_millis(100));
                    }
                    Err(_) => break,
                }
            }
        }
        Ok(())
    }

    /// A well-behaved client. Returns its longest wait for a response, and how often it had to
    /// reconnect. Subtracts the time in which other processes occupied the processors.
    fn stand_by(&self) -> Result<(Duration, u64)> {
        let (mut stream, mut longest, mut reconnected) = (self.plain_stream()?, Duration::ZERO, 0);
        let started = Instant::now();
        let requests = [
            (&b"set bystander 0 0 2\r\nok\r\n"[..], &b"STORED\r\n"[..]),
            (b"get bystander\r\n", b"END\r\n"),
        ];
        let mut pid = self.pid()?;
        for (request, answer) in requests.iter().cycle() {
            if self.is_over() {
                break;
            }
            // The old process of an upgrade has no pid file any more.
            pid = self.pid().unwrap_or(pid);
            let stopwatch = Stopwatch::start(pid);
            if stream.ask(request, answer).is_err() {
                // The old process has exited, which closes its remaining connections.
                stream = self.plain_stream()?;
                reconnected += 1;
            }
            let waited = stopwatch.elapsed();
            if waited > self.patience {
                let upgrades = self.upgrades.load(Relaxed);
                println!(
                    "after {:?} and {upgrades} upgrades the bystander waited for {waited:?}",
                    started.elapsed()
                );
            }
            longest = longest.max(waited);
            sleep(Duration::from_millis(3));
        }
        Ok((longest, reconnected))
    }
}

/// Returns the minutes that the environment requests.
fn minutes() -> Result<u32> {
    let minutes = std::env::var("LARDER_MINUTES").unwrap_or_else(|_| "3".to_owned());
    minutes.parse().context("LARDER_MINUTES is a number")
}

#[test]
#[ignore = "takes minutes: make verify ONLY=endurance"]
fn resources_stay_constant_and_no_bystander_waits() -> Result<()> {
    endure(&Scene::start(&binary(), "256")?, minutes()?)
}

/// While the old process of an upgrade drains, two processes share the cgroup.
#[test]
#[ignore = "takes minutes: make verify ONLY=endurance"]
fn the_kernel_never_kills_a_server_with_80_percent_of_a_small_cgroup() -> Result<()> {
    let Some(group) = MemoryGroup::new(&binary(), "endurance", 256) else { return Ok(()) };
    let endured = Scene::start(&group.larderd()?, "80%").and_then(|mut scene| {
        scene.fillers = 2;
        scene.patience = BYSTANDER_PATIENCE_IN_CGROUP;
        endure(&scene, minutes()?)
    });
    println!("peak: {} MiB of 256, {} killed", group.peak()?, group.killed()?);
    assert_eq!(group.killed()?, 0, "the kernel has killed a process: {endured:?}");
    endured
}

/// Runs all kinds of clients for some minutes.
fn endure(scene: &Scene, minutes: u32) -> Result<()> {
    let set = [&b"set k 0 0 1000\r\n"[..], &[b'v'; 1000], b"\r\n"].concat();
    let prepare = || scene.plain_stream()?.ask(&set, b"STORED\r\n");
    prepare()?;
    thread::scope(|scope| {
        let clients = [
            scope.spawn(|| scene.come_and_go()),
            scope.spawn(|| scene.read_slowly()),
            scope.spawn(|| scene.poll()),
            scope.spawn(|| scene.poll()),
            scope.spawn(|| scene.watch(true)),
            scope.spawn(|| scene.watch(false)),
        ];
        let fillers: Vec<_> = (0..scene.fillers).map(|_| scope.spawn(|| scene.fill())).collect();
        let bystander = scope.spawn(|| scene.stand_by());
        let observed = observe(scene, minutes, || prepare().map(drop));
        scene.stop.store(true, Relaxed);
        for client in clients.into_iter().chain(fillers) {
            client.join().expect("no client panics")?;
        }
        let (longest, reconnected) = bystander.join().expect("the bystander does not panic")?;
        let [handshakes, read_bytes, polls] =
            [&scene.handshakes, &scene.read_bytes, &scene.polls].map(|count| count.load(Relaxed));
        println!("{handshakes} handshakes, {} MiB read slowly, {polls} polls", read_bytes >> 20);
        println!("bystander: {longest:?} at most, connected anew {reconnected} times");
        observed?;
        ensure!(longest <= scene.patience, "the bystander waited for {longest:?}");
        Ok(())
    })
}

/// Upgrades every minute, and measures before each upgrade.
fn observe(scene: &Scene, minutes: u32, prepare: impl Fn() -> std::io::Result<()>) -> Result<()> {
    let mut first = None;
    for minute in 1..=minutes {
        sleep(UPGRADE_PERIOD);
        let held = Held::of(scene.pid()?)?;
        println!("minute {minute}: {held:?}");
        // Not before the second minute: the process before the first upgrade was not started by an
        // upgrade, so its numbers differ from those of all later processes.
        if minute >= 2 {
            let first = *first.get_or_insert(held);
            ensure!(held.is_flat_since(&first), "minute {minute}: {held:?}, not {first:?}");
        }
        scene.upgrade()?;
        // The new process begins with an empty cache.
        prepare()?;
        ensure!(Path::new(&scene.files.path("pid")).exists(), "there is no pid file");
    }
    Ok(())
}
