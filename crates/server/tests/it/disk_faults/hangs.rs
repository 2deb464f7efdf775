//! A disk that hangs must stop only the clients that need it.

use std::io::Write;
use std::net::UdpSocket;
use std::process::ExitStatus;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::http::Response;
use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};

use super::passing::Passing;
use super::{binary, http, line, options, start};

const VALUE: [u8; 10_000] = [b'v'; 10_000];

fn set(key: &str) -> Vec<u8> {
    [format!("set {key} 0 0 {}\r\n", VALUE.len()).as_bytes(), &VALUE, b"\r\n"].concat()
}

/// Stores more than fits into memory, then one item that memory keeps.
fn fill(stream: &mut Stream) -> Result<()> {
    for number in 0..1500 {
        let answer = stream.ask(&set(&format!("k{number}")), b"\r\n")?;
        ensure!(answer == b"STORED\r\n", "{}", String::from_utf8_lossy(&answer));
    }
    stream.ask(b"set hot 0 0 3\r\nhot\r\n", b"\r\n")?;
    sleep(Duration::from_millis(500));
    Ok(())
}

/// Returns the longest duration of several reads of an item in memory.
fn slowest_hit(stream: &mut Stream) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let begun = Instant::now();
        let answer = stream.ask(b"get hot\r\n", b"END\r\n")?;
        ensure!(answer.starts_with(b"VALUE hot"), "{}", String::from_utf8_lossy(&answer));
        slowest = slowest.max(begun.elapsed());
        sleep(Duration::from_millis(10));
    }
    Ok(slowest)
}

/// Checks that reads that hang block only the connection that requested them.
fn reads_hang(args: &[&str]) -> Result<()> {
    let disk = Passing::mount()?;
    let (server, _) = start(&disk.mounted(), args)?;
    let (mut asker, mut other) = (server.connect()?, server.connect()?);
    fill(&mut asker)?;
    disk.order("hang-read")?;
    asker.write_all(b"get k1 k2\r\n")?;
    sleep(Duration::from_millis(100));
    let slowest = slowest_hit(&mut other)?;
    ensure!(slowest < HIT_MAX, "a hit took {slowest:?} while another connection reads the disk");
    let stored = other.ask(b"set another 0 0 1\r\na\r\n", b"\r\n")?;
    ensure!(stored == b"STORED\r\n", "{}", String::from_utf8_lossy(&stored));
    disk.withdraw("hang-read")?;
    let answer = asker.ask(b"", b"END\r\n")?;
    let both = [b"VALUE k1 0 10000\r\n", &VALUE[..], b"\r\nVALUE k2 0 10000\r\n", &VALUE[..]];
    ensure!(answer == [&both.concat()[..], b"\r\nEND\r\n"].concat(), "{} bytes", answer.len());
    ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
    Ok(())
}

/// Checks that writes that hang block only changes, which fail before anything changes.
fn writes_hang(args: &[&str]) -> Result<()> {
    let disk = Passing::mount()?;
    let (server, _) = start(&disk.mounted(), args)?;
    let (mut writer, mut other) = (server.connect()?, server.connect()?);
    fill(&mut writer)?;
    disk.order("hang-write")?;
    disk.order("hang-sync")?;
    let mut refused = None;
    for number in 0..3000 {
        let answer = writer.ask(&set(&format!("w{number}")), b"\r\n")?;
        if answer != b"STORED\r\n" {
            refused = Some((number, answer));
            break;
        }
    }
    let (number, answer) = refused.context("no set is refused while the disk hangs")?;
    let expected = b"SERVER_ERROR the disk does not keep up; try again later\r\n";
    ensure!(answer == expected, "{}", String::from_utf8_lossy(&answer));
    writer.write_all(&set("waits"))?;
    let slowest = slowest_hit(&mut other)?;
    ensure!(slowest < HIT_MAX, "a hit took {slowest:?} while the set of another waits");
    let refused = other.ask(format!("get w{number}\r\n").as_bytes(), b"END\r\n")?;
    ensure!(refused == b"END\r\n", "the refused set is seen");
    disk.withdraw("hang-write")?;
    disk.withdraw("hang-sync")?;
    line(&mut writer)?;
    let stored = other.ask(b"set after 0 0 1\r\na\r\n", b"\r\n")?;
    ensure!(stored == b"STORED\r\n", "{}", String::from_utf8_lossy(&stored));
    ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
    Ok(())
}

#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make verify ONLY=tier runs it"]
fn reads_that_hang_hold_back_only_those_who_need_them() -> Result<()> {
    for io in ["uring", "epoll"] {
        let store = ["--io", io, "--tier-mode", "store", "--durability", "sync"];
        reads_hang(&store).with_context(|| format!("a store, {io}"))?;
        let cache = ["--io", io, "--tier-mode", "cache"];
        reads_hang(&cache).with_context(|| format!("a cache, {io}"))?;
    }
    Ok(())
}

#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make verify ONLY=tier runs it"]
fn writes_that_hang_hold_back_only_changes() -> Result<()> {
    for io in ["uring", "epoll"] {
        let args = ["--io", io, "--tier-mode", "store", "--durability", "async"];
        writes_hang(&args).with_context(|| format!("a store, {io}"))?;
    }
    Ok(())
}

/// A server with UDP on a disk, and an item `k1` that is only on disk.
struct Scene {
    disk: Passing,
    server: ServerUnderTest,
    admin: Address,
    udp: UdpSocket,
}

impl Scene {
    fn start(args: &[&str]) -> Result<Self> {
        let (disk, address) = (Passing::mount()?, free_address()?);
        let port = address.port().to_string();
        let (stop, udp) = (STOP_SECS.to_string(), ["-U", &port, "-l", "127.0.0.1"]);
        let args = [&udp[..], &["--tier-stop-secs", &stop], args].concat();
        let (server, admin) = start(&disk.mounted(), &args)?;
        fill(&mut server.connect()?)?;
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        udp.connect(address)?;
        udp.set_read_timeout(Some(Duration::from_secs(3)))?;
        Ok(Self { disk, server, admin, udp })
    }

    /// Sends a request by UDP, without waiting for its response.
    fn send(&self, number: u8, request: &str) -> Result<()> {
        let head = [0, number, 0, 0, 0, 1, 0, 0];
        self.udp.send(&[&head, request.as_bytes()].concat())?;
        Ok(())
    }

    /// Returns the beginning of the next response by UDP, and the number of its request.
    fn answer(&self) -> Result<(u8, String)> {
        let mut datagram = [0; 1500];
        let length = self.udp.recv(&mut datagram).context("no answer by UDP")?;
        let text = String::from_utf8_lossy(&datagram[8..length]);
        Ok((datagram[1], text.lines().next().unwrap_or_default().to_owned()))
    }

    /// Sends a request by HTTP in another thread.
    fn begin(&self, request: String) -> JoinHandle<Result<Response>> {
        let admin = self.admin.clone();
        thread::spawn(move || http::exchange(&admin, request.as_bytes()))
    }

    fn begin_get(&self, key: &str) -> JoinHandle<Result<Response>> {
        self.begin(format!(
            "GET /api/v1/cache/{key} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ))
    }

    /// Checks that requests that do not need the disk are answered immediately, on every route.
    fn ensure_served(&self, during: &str) -> Result<()> {
        for path in ["/health", "/ready", "/metrics"] {
            let begun = Instant::now();
            let status = http::get(&self.admin, path, &[])?.status;
            let took = begun.elapsed();
            ensure!(status == 200 && took < HTTP_MAX, "{path} {during}: {status} after {took:?}");
        }
        let slowest = slowest_hit(&mut self.server.connect()?)?;
        ensure!(slowest < HIT_MAX, "a hit by TCP {during} took {slowest:?}");
        self.send(0, "get hot\r\n")?;
        let answer = self.answer().with_context(|| format!("a hit by UDP {during}"))?;
        ensure!(answer == (0, "VALUE hot 0 3".to_owned()), "a hit by UDP {during}: {answer:?}");
        Ok(())
    }
}

/// Stops a server while its disk hangs. The disk responds once the server has left its address,
/// because the kernel keeps a process that waits for a file system until then. Returns the exit
/// status.
fn stop_while_hanging(
    server: ServerUnderTest,
    disk: &Passing,
    orders: &[&str],
) -> Result<(ExitStatus, String)> {
    let begun = Instant::now();
    server.signal(Signal::TERM)?;
    while server.connect().is_ok() && begun.elapsed() < STOP_MAX {
        sleep(Duration::from_millis(20));
    }
    let took = begun.elapsed();
    // The log is written first; the process calls exit right after that.
    sleep(Duration::from_millis(200));
    let log = server.log();
    for order in orders {
        disk.withdraw(order)?;
    }
    let status = server.stop(Signal::TERM)?;
    ensure!(took < STOP_MAX, "a stop takes {took:?}: {log}");
    Ok((status, log))
}

fn reads_of_outsiders_hang(args: &[&str]) -> Result<()> {
    let scene = Scene::start(args)?;
    scene.disk.order("hang-read")?;
    // More requests than threads can wait for.
    let gets: Vec<_> = (1..=12).map(|number| scene.begin_get(&format!("k{number}"))).collect();
    for number in 1..=3 {
        scene.send(number, &format!("get k{number}0\r\n"))?;
    }
    sleep(Duration::from_millis(300));
    scene.ensure_served("while reads of HTTP and UDP hang")?;
    for get in gets {
        let response = get.join().expect("the thread does not panic")?;
        ensure!(response.status == 503, "a get that hangs: {} {}", response.status, response.body);
        ensure!(response.body.contains("the disk"), "a get that hangs: {}", response.body);
    }
    scene.disk.withdraw("hang-read")?;
    let response = scene.begin_get("k20").join().expect("the thread does not panic")?;
    ensure!(response.status == 200 && response.bytes == VALUE, "{}", response.status);
    // The requests that waited are also answered.
    let mut answers: Vec<_> = (0..8 * 3).filter_map(|_| scene.answer().ok()).collect();
    answers.retain(|(_, line)| line.starts_with("VALUE k"));
    ensure!(answers.len() == 3, "answers by UDP after the disk has hung: {answers:?}");
    scene.disk.order("hang-read")?;
    let removal = "{\"prefix\":\"k\"}";
    let length = removal.len();
    let begun = scene.begin(format!(
        "POST /api/v1/delete-prefix HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{removal}"
    ));
    begun.join().expect("the thread does not panic")?;
    sleep(Duration::from_millis(300));
    scene.ensure_served("while a removal by prefix hangs")?;
    drop(scene.begin_get("k20"));
    stop_while_hanging(scene.server, &scene.disk, &["hang-read"])?;
    Ok(())
}

fn writes_of_outsiders_hang(args: &[&str]) -> Result<()> {
    let scene = Scene::start(args)?;
    scene.disk.order("hang-sync")?;
    scene.disk.order("hang-write")?;
    let put = "PUT /api/v1/cache/new HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
               Content-Length: 1\r\n\r\nx";
    let puts: Vec<_> = (0..3).map(|_| scene.begin(put.to_owned())).collect();
    scene.send(1, "set u 0 0 1\r\nx\r\n")?;
    sleep(Duration::from_millis(300));
    scene.ensure_served("while writes of HTTP and UDP hang")?;
    for put in puts {
        let response = put.join().expect("the thread does not panic")?;
        ensure!(response.status == 503, "a put that hangs: {} {}", response.status, response.body);
    }
    let orders = ["hang-sync", "hang-write"];
    let (status, log) = stop_while_hanging(scene.server, &scene.disk, &orders)?;
    ensure!(status.code() == Some(1), "a stop that loses changes: {status}");
    ensure!(log.contains("bytes of changes are not on the disk"), "{log}");
    Ok(())
}

#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make verify ONLY=tier runs it"]
fn reads_of_http_and_udp_that_hang_hold_back_no_other() -> Result<()> {
    for io in ["uring", "epoll"] {
        for mode in ["store", "cache"] {
            let args = ["--io", io, "--tier-mode", mode];
            reads_of_outsiders_hang(&args).with_context(|| format!("a {mode}, {io}"))?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make verify ONLY=tier runs it"]
fn writes_of_http_and_udp_that_hang_hold_back_no_other() -> Result<()> {
    for io in ["uring", "epoll"] {
        let args = ["--io", io, "--tier-mode", "store", "--durability", "sync"];
        writes_of_outsiders_hang(&args).with_context(|| format!("a store, {io}"))?;
    }
    Ok(())
}

/// A stop ends the server even if the disk hangs while it starts.
#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make verify ONLY=tier runs it"]
fn a_start_that_hangs_can_be_stopped() -> Result<()> {
    for kind in ["hang-read", "hang-write", "hang-sync"] {
        let disk = Passing::mount()?;
        let stop = STOP_SECS.to_string();
        let args = ["--tier-mode", "store", "--tier-stop-secs", &stop];
        let (server, _) = start(&disk.mounted(), &args)?;
        fill(&mut server.connect()?)?;
        ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
        disk.order(kind)?;
        let args = options(&disk.mounted(), &args)?;
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let server = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
        sleep(Duration::from_millis(500));
        stop_while_hanging(server, &disk, &[kind])
            .with_context(|| format!("{kind} while the server starts"))?;
    }
    Ok(())
}

/// `--tier-stop-secs` of these tests.
const STOP_SECS: u64 = 2;

/// The time after which such a server must have ended, even on a busy machine.
const STOP_MAX: Duration = Duration::from_secs(STOP_SECS + 2 + 1);

/// Longer than a request of the admin listener takes on a busy machine, shorter than a wait for the
/// disk.
const HTTP_MAX: Duration = Duration::from_secs(2);

/// Longer than any hit takes on a busy machine, shorter than a wait for the disk.
const HIT_MAX: Duration = Duration::from_millis(200);
