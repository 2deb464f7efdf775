//! Drain: `POST /api/v1/drain`, which takes a server out of service, and its undo. Connections end
//! between requests, and every executed request receives its response.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::http::{exchange, get, wait_until_ready};
use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};
use rustix::process::{Pid, kill_process};
use rustls::{ClientConnection, StreamOwned};

use crate::binary;
use crate::tls_scene;
use crate::tls_scene::Encrypted;

/// Both kinds of loop that a worker may have.
const LOOPS: [&str; 2] = ["--io=epoll", "--io=auto"];

/// A server with an admin listener.
struct Drained {
    server: ServerUnderTest,
    admin: Address,
}

impl Drained {
    fn start(args: &[&str]) -> Result<Self> {
        let admin = free_address()?;
        let option = format!("--admin-listen={admin}");
        let args = [&[option.as_str(), "-t", "2"], args].concat();
        let binary = binary();
        let server = ServerUnderTest::start(&binary, Transport::Tcp, &args)?;
        let admin = Address::Tcp(admin);
        wait_until_ready(&admin)?;
        Ok(Self { server, admin })
    }

    /// Sends a request that concerns the drain, and returns the state.
    fn ask(&self, method: &str) -> Result<(String, u64)> {
        let request = format!(
            "{method} /api/v1/drain HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        );
        let response = exchange(&self.admin, request.as_bytes())?;
        ensure!(response.status == 200, "{method}: {response:?}");
        let document: serde_json::Value = serde_json::from_str(&response.body)?;
        let state = document["state"].as_str().context("no state")?.to_owned();
        Ok((state, document["connections"].as_u64().context("no count")?))
    }

    fn ready(&self) -> Result<(u16, String)> {
        let response = get(&self.admin, "/ready", &[])?;
        Ok((response.status, response.body))
    }

    /// True if the metrics contain this line.
    fn metric(&self, line: &str) -> Result<bool> {
        Ok(get(&self.admin, "/metrics", &[])?.body.lines().any(|of| of == line))
    }

    /// Returns the value of a metric without labels.
    fn value_of(&self, metric: &str) -> Result<f64> {
        let page = get(&self.admin, "/metrics", &[])?.body;
        let of_metric = |line: &str| line.strip_prefix(metric)?.strip_prefix(' ')?.parse().ok();
        page.lines().find_map(of_metric).with_context(|| format!("no metric {metric}"))
    }

    /// Waits until all connections are closed.
    fn wait_until_drained(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(15);
        loop {
            let (state, connections) = self.ask("GET")?;
            if state == "drained" {
                ensure!(connections == 0, "drained with {connections} connections");
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{state} with {connections} connections");
            sleep(Duration::from_millis(20));
        }
    }
}

/// Reads to the end; fails if the connection is reset.
fn rest(stream: &mut Stream) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).context("the connection does not end in order")?;
    Ok(bytes)
}

#[test]
fn idle_connections_end_after_the_grace_and_new_ones_after_their_answer() -> Result<()> {
    for io in LOOPS {
        let udp = free_address()?.port();
        let drained = Drained::start(&[io, "--drain-grace=1", "-U", &udp.to_string()])?;
        assert_eq!(drained.ask("GET")?.0, "serving");
        ensure!(drained.metric("larder_ready 1")?, "a server that serves is ready");
        let silence = drained.value_of("larder_worker_silence_seconds")?;
        ensure!(silence < 0.5, "its workers have been silent for {silence} s");
        let mut idle = drained.server.connect()?;
        idle.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
        let mut silent = drained.server.connect()?;

        let began = Instant::now();
        assert_eq!(drained.ask("POST")?.0, "draining");
        let (status, body) = drained.ready()?;
        ensure!(status == 503 && body.contains("[\"draining\"]"), "{status} {body}");
        assert_eq!(get(&drained.admin, "/health", &[])?.status, 200);
        ensure!(drained.metric("larder_ready 0")?, "a drained server is not ready");
        idle.ask(b"get k\r\n", b"END\r\n").context("a request within the grace")?;
        ensure!(began.elapsed() < Duration::from_secs(1), "too slow to judge");
        ensure!(rest(&mut idle)?.is_empty(), "{io}: bytes without a request");
        let waited = began.elapsed();
        ensure!(
            waited >= Duration::from_secs(1),
            "{io}: closed after {waited:?}, within the grace"
        );
        ensure!(waited < Duration::from_secs(3), "{io}: an idle connection stays {waited:?}");
        // The connection has not sent its first request, so it has some time for that.
        silent.ask(b"get k\r\n", b"END\r\n").context("the first request")?;
        ensure!(rest(&mut silent)?.is_empty(), "{io}: bytes without a request");
        drop((idle, silent));
        drained.wait_until_drained()?;

        let mut new = drained.server.connect().context("a new connection")?;
        new.ask(b"get k\r\n", b"END\r\n").context("a request of a new connection")?;
        ensure!(rest(&mut new)?.is_empty(), "{io}: bytes without a request");
        let began = Instant::now();
        let mut mute = drained.server.connect()?;
        ensure!(rest(&mut mute)?.is_empty(), "{io}: bytes without a request");
        let waited = began.elapsed();
        ensure!(waited < Duration::from_secs(4), "{io}: a silent connection stays {waited:?}");

        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        socket.send_to(b"\0\x01\0\0\0\x01\0\0get k\r\n", ("127.0.0.1", udp))?;
        let mut answer = [0; 100];
        let bytes = socket.recv(&mut answer).context("no answer by UDP")?;
        assert_eq!(&answer[8..bytes], b"VALUE k 0 1\r\nv\r\nEND\r\n");

        assert_eq!(drained.ask("DELETE")?.0, "serving");
        assert_eq!(drained.ready()?.0, 200);
        let mut back = drained.server.connect()?;
        back.ask(b"get k\r\n", b"END\r\n")?;
        sleep(Duration::from_millis(2500));
        back.ask(b"get k\r\n", b"END\r\n").context("after the undo")?;
    }
    Ok(())
}

#[test]
fn an_undo_within_the_grace_leaves_all_connections_open() -> Result<()> {
    let drained = Drained::start(&["--drain-grace=1"])?;
    let mut streams = (0..50).map(|_| drained.server.connect()).collect::<Result<Vec<_>>>()?;
    for stream in &mut streams {
        stream.ask(b"mn\r\n", b"MN\r\n")?;
    }
    assert_eq!(drained.ask("POST")?, ("draining".to_owned(), 50));
    sleep(Duration::from_millis(500));
    assert_eq!(drained.ask("DELETE")?, ("serving".to_owned(), 50));
    sleep(Duration::from_millis(2000));
    for stream in &mut streams {
        stream.ask(b"mn\r\n", b"MN\r\n").context("after the undo")?;
    }
    // A second drain has a separate grace period.
    assert_eq!(drained.ask("POST")?.0, "draining");
    sleep(Duration::from_millis(400));
    assert_eq!(drained.ask("POST")?.0, "draining", "a repeated request does not start it again");
    for stream in &mut streams {
        stream.ask(b"mn\r\n", b"MN\r\n").context("within the second grace")?;
    }
    let began = Instant::now();
    for stream in &mut streams {
        ensure!(rest(stream)?.is_empty(), "bytes without a request");
    }
    ensure!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    Ok(())
}

/// How a client sends its increments.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// Without a pause, regardless of responses.
    Flood,
    /// In parts that end in the middle of a line.
    Parts,
    /// Several at a time, with a short pause.
    Bursts,
}

const PACES: [Pace; 4] = [Pace::Flood, Pace::Parts, Pace::Bursts, Pace::Bursts];

/// Sends increments until the connection fails, and returns the number of responses.
fn count_answers(stream: &mut Stream, key: &str, pace: Pace) -> Result<u64> {
    let line = format!("incr {key} 1\r\n");
    let mut writer = stream.try_clone()?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let many = line.repeat(64);
            let (part, pause) = match pace {
                Pace::Flood => (many.len(), 0),
                Pace::Parts => (line.len() + 5, 100),
                Pace::Bursts => (many.len(), 2000),
            };
            for bytes in many.as_bytes().repeat(part).chunks(part).cycle() {
                if is_over.load(Relaxed) || writer.write_all(bytes).is_err() {
                    return;
                }
                if pause > 0 {
                    sleep(Duration::from_micros(pause));
                }
            }
        });
        let answers = rest(stream);
        is_over.store(true, Relaxed);
        sender.join().expect("no panic");
        let answers = answers?;
        ensure!(answers.ends_with(b"\n") || answers.is_empty(), "an answer is cut");
        Ok(answers.iter().filter(|byte| **byte == b'\n').count() as u64)
    })
}

/// Runs clients that each increment a counter, in every pace, until their connections end. Calls
/// `end` in the meantime, and returns the number of responses of each client.
fn increment(server: &ServerUnderTest, end: impl FnOnce() -> Result<()>) -> Result<Vec<u64>> {
    let mut setup = server.connect()?;
    for number in 0..PACES.len() {
        setup.ask(format!("set c{number} 0 0 1\r\n0\r\n").as_bytes(), b"STORED\r\n")?;
    }
    drop(setup);
    thread::scope(|scope| -> Result<Vec<u64>> {
        let clients: Vec<_> = PACES
            .iter()
            .enumerate()
            .map(|(number, pace)| {
                let stream = server.connect();
                scope.spawn(move || {
                    count_answers(&mut stream?, &format!("c{number}"), *pace)
                        .with_context(|| format!("{pace:?}"))
                })
            })
            .collect();
        end()?;
        clients.into_iter().map(|client| client.join().expect("no panic")).collect()
    })
}

/// Checks that exactly as many increments were executed as were answered.
fn check_counters(server: &ServerUnderTest, answered: &[u64], what: &str) -> Result<()> {
    let mut stream = server.connect()?;
    for (number, (answers, pace)) in answered.iter().zip(PACES).enumerate() {
        let value = stream.ask(format!("get c{number}\r\n").as_bytes(), b"END\r\n")?;
        let value = String::from_utf8_lossy(&value).into_owned();
        let executed = value.split("\r\n").nth(1).context("no counter")?.trim();
        ensure!(*answers > 100, "{what} {pace:?}: only {answers} answers");
        ensure!(
            executed == answers.to_string(),
            "{what} {pace:?}: {executed} executed, {answers} answered"
        );
    }
    Ok(())
}

#[test]
fn every_executed_request_is_answered() -> Result<()> {
    for io in LOOPS {
        let drained = Drained::start(&[io, "--drain-grace=0"])?;
        for round in 0..3 {
            let answered = increment(&drained.server, || {
                sleep(Duration::from_millis(200 + 37 * round));
                drained.ask("POST")?;
                Ok(())
            })?;
            drained.wait_until_drained()?;
            drained.ask("DELETE")?;
            check_counters(&drained.server, &answered, io)?;
        }
    }
    Ok(())
}

/// The process in the pid file, which is killed at the end of a test.
struct Successor(PathBuf);

impl Drop for Successor {
    fn drop(&mut self) {
        let pid = fs::read_to_string(&self.0).ok().and_then(|pid| pid.trim().parse().ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // Fails if the process has already exited.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
fn every_executed_request_is_answered_when_an_upgrade_ends_the_old_process() -> Result<()> {
    for io in LOOPS {
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        let _successor = Successor(folder.path().join("pid"));
        let (pid_file, memory_file) = (path("pid"), path("memory"));
        let args = [io, "-P", &pid_file, "-e", &memory_file, "--upgrade-drain=0"];
        let mut drained = Drained::start(&args)?;
        let answered = increment(&drained.server, || {
            sleep(Duration::from_millis(200));
            drained.server.signal(Signal::USR2)
        })?;
        check_counters(&drained.server, &answered, io)?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while drained.server.is_running()? {
            ensure!(Instant::now() < deadline, "the old process stays: {}", drained.server.log());
            sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

#[test]
fn a_request_that_has_begun_may_end_within_a_limit() -> Result<()> {
    for io in LOOPS {
        let drained = Drained::start(&[io, "--drain-grace=0"])?;
        let begun = |bytes: &[u8]| -> Result<Stream> {
            let mut stream = drained.server.connect()?;
            stream.ask(b"mn\r\n", b"MN\r\n")?;
            stream.write_all(bytes)?;
            Ok(stream)
        };
        let mut line = begun(b"mg a")?;
        let mut value = begun(b"set a 0 0 10\r\n01234")?;
        let mut large = begun(b"set b 0 0 500000\r\n0123456789")?;
        let (mut no_line, mut no_value) = (begun(b"get ")?, begun(b"set c 0 0 10\r\n01")?);
        // The server has received it after this time.
        sleep(Duration::from_millis(200));
        let began = Instant::now();
        drained.ask("POST")?;
        sleep(Duration::from_millis(1500));
        value.ask(b"56789\r\n", b"STORED\r\n").context("the rest of a value")?;
        line.ask(b" v\r\n", b"VA 10\r\n0123456789\r\n").context("the rest of a line")?;
        large.write_all(&[b'x'; 499_990])?;
        large.ask(b"\r\n", b"STORED\r\n").context("the rest of a large value")?;
        for stream in [&mut line, &mut value, &mut large] {
            ensure!(rest(stream)?.is_empty(), "{io}: bytes without a request");
        }
        for stream in [&mut no_line, &mut no_value] {
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            ensure!(bytes.is_empty(), "{io}: {}", bytes.escape_ascii());
            let waited = began.elapsed();
            let expected = Duration::from_secs(3)..Duration::from_secs(8);
            ensure!(expected.contains(&waited), "{io}: ended after {waited:?}");
        }
        drained.wait_until_drained()?;
        drained.ask("DELETE")?;
        let mut stream = drained.server.connect()?;
        stream.ask(b"mg c v\r\n", b"EN\r\n").context("a value that did not arrive")?;
    }
    Ok(())
}

#[test]
fn connections_with_tls_end_between_requests() -> Result<()> {
    for io in LOOPS {
        let admin = free_address()?;
        let option = format!("--admin-listen={admin}");
        let Encrypted { files, server, address } =
            Encrypted::start("", &[io, "--drain-grace=1", &option])?;
        let config = Arc::new(files.config());
        let drained = Drained { server, admin: Address::Tcp(admin) };
        wait_until_ready(&drained.admin)?;
        let mut idle = tls_scene::connect(address, &config)?;
        tls_scene::ask(&mut idle, b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
        drained.ask("POST")?;
        tls_scene::ask(&mut idle, b"get k\r\n", b"END\r\n").context("within the grace")?;
        let mut bytes = Vec::new();
        idle.read_to_end(&mut bytes).context("an end without close_notify")?;
        ensure!(bytes.is_empty(), "{io}: bytes without a request");
        drop(idle);
        drained.wait_until_drained()?;
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let connection = ClientConnection::new(Arc::clone(&config), "localhost".try_into()?)?;
        let mut new = StreamOwned::new(connection, socket);
        tls_scene::ask(&mut new, b"get k\r\n", b"END\r\n").context("a new connection")?;
        new.read_to_end(&mut bytes).context("an end without close_notify")?;
    }
    Ok(())
}

#[test]
fn a_stop_is_obeyed_while_connections_are_closed() -> Result<()> {
    for signal in [Signal::TERM, Signal::USR1] {
        let drained = Drained::start(&["--drain-grace=0"])?;
        let mut stream = drained.server.connect()?;
        stream.ask(b"mn\r\n", b"MN\r\n")?;
        stream.write_all(b"get ")?;
        drained.ask("POST")?;
        sleep(Duration::from_millis(300));
        let began = Instant::now();
        ensure!(drained.server.stop(signal)?.success(), "{signal:?} fails");
        ensure!(began.elapsed() < Duration::from_secs(8), "{signal:?}: {:?}", began.elapsed());
    }
    Ok(())
}

#[test]
fn a_successor_serves_although_the_server_was_drained() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pid_file = folder.path().join("pid");
    let _successor = Successor(pid_file.clone());
    let drained = Drained::start(&["--drain-grace=0", "-P", &pid_file.display().to_string()])?;
    let mut old = drained.server.connect()?;
    old.ask(b"mn\r\n", b"MN\r\n")?;
    drained.ask("POST")?;
    ensure!(rest(&mut old)?.is_empty(), "bytes without a request");
    drained.server.signal(Signal::USR2)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while drained.ready()?.0 != 200 {
        ensure!(Instant::now() < deadline, "no successor is ready: {}", drained.server.log());
        sleep(Duration::from_millis(20));
    }
    assert_eq!(drained.ask("GET")?.0, "serving");
    let mut new = drained.server.connect()?;
    new.ask(b"mn\r\n", b"MN\r\n").context("a connection to the successor")?;
    Ok(())
}
