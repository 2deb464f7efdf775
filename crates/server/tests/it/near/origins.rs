//! Origins that are gone, hang, misbehave, or are no origins.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, ServerUnderTest, Transport};

use super::{Chain, ask, await_state, get, hit, set, shown, start_near, stat};
use crate::binary;

/// How an origin that is no server answers a line; `None` ends the connection.
type Answers = fn(&str, &mut TcpStream) -> Option<()>;

/// Starts an origin that answers each line by `answers`. Its threads end with the test process.
fn start_fake(answers: Answers) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    spawn(move || {
        for socket in listener.incoming().flatten() {
            spawn(move || serve(socket, answers));
        }
    });
    Ok(address)
}

fn serve(mut socket: TcpStream, answers: Answers) {
    let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(bytes @ 1..) = socket.read(&mut buffer) {
        input.extend_from_slice(&buffer[..bytes]);
        while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = input.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if answers(line.trim_end(), &mut socket).is_none() {
                return;
            }
        }
    }
}

/// Answers like an origin whose items are all `v`.
fn well(line: &str, socket: &mut TcpStream) -> Option<()> {
    let answer = match line.split(' ').next()? {
        "larder_follow" => format!("FOLLOW {:032x} 1 8 1\r\n", 5),
        "alive" => format!("H {}\r\n", line.strip_prefix("alive ")?),
        "larder_follower" => "OK\r\n".to_owned(),
        "larder_fetch" => "VA 1 f0 c1 t-1\r\nv\r\n".to_owned(),
        "get" => format!("VALUE {} 0 1\r\nv\r\nEND\r\n", line.strip_prefix("get ")?),
        _ => "ERROR\r\n".to_owned(),
    };
    socket.write_all(answer.as_bytes()).ok()
}

fn is_fetch(line: &str) -> bool {
    line.starts_with("larder_fetch") || line.starts_with("get ")
}

/// Whatever an origin answers, the client of the near cache receives a value or an error soon, and
/// the near cache continues to serve.
#[test]
fn an_origin_that_misbehaves_harms_only_its_own_items() -> Result<()> {
    let cases: [(&str, Answers); 10] = [
        ("the items of another key", |line, socket| match is_fetch(line) {
            true if line.starts_with("get ") => {
                socket.write_all(b"VALUE other 0 1\r\nx\r\nEND\r\n").ok()
            }
            true => socket.write_all(b"ST\r\n").ok(),
            false => well(line, socket),
        }),
        ("garbage for items", |line, socket| match is_fetch(line) {
            true => socket.write_all(b"\0\xff garbage\r\n").ok(),
            false => well(line, socket),
        }),
        ("a value without an end", |line, socket| match is_fetch(line) {
            true => socket.write_all(b"VA 100 f0 c1 t-1\r\nv\r\n").ok(),
            false => well(line, socket),
        }),
        ("half a line", |line, socket| match is_fetch(line) {
            true => socket.write_all(b"VA 1").ok(),
            false => well(line, socket),
        }),
        ("a length beyond all memory", |line, socket| match is_fetch(line) {
            true => socket.write_all(b"VA 18446744073709551615 f0 c1 t-1\r\n").ok(),
            false => well(line, socket),
        }),
        ("no answer", |line, socket| match is_fetch(line) {
            true => Some(()),
            false => well(line, socket),
        }),
        ("the end of the connection", |line, socket| match is_fetch(line) {
            true => None,
            false => well(line, socket),
        }),
        ("garbage on the stream", |line, socket| match line.starts_with("alive") {
            true => socket.write_all(b"X 1\r\n").ok(),
            false => well(line, socket),
        }),
        ("freshness for a line that was never sent", |line, socket| {
            match line.starts_with("alive") {
                true => socket.write_all(b"H 18446744073709551615\r\n").ok(),
                false => well(line, socket),
            }
        }),
        ("terms with no buckets", |line, socket| match line.starts_with("larder_follow ") {
            true => socket.write_all(b"FOLLOW 0 1 64 1\r\n").ok(),
            false => well(line, socket),
        }),
    ];
    for (what, answers) in cases {
        let origin = start_fake(answers)?;
        let near = start_near(&origin.to_string(), &["--origin-timeout=200ms"])?;
        let mut client = near.connect()?;
        for _ in 0..10 {
            let begin = Instant::now();
            let answer = ask(&mut client, "get k\r\n", "\r\n")?;
            let took = begin.elapsed();
            ensure!(took < Duration::from_secs(3), "{what}: {took:?}");
            let expected = ["SERVER_ERROR origin", "VALUE k 0 1"];
            let is_expected = expected.iter().any(|begin| answer.starts_with(begin));
            ensure!(is_expected, "{what}: {answer:?}");
            client = near.connect()?;
        }
        ensure!(ask(&mut client, "version\r\n", "\r\n")?.starts_with("VERSION"), "{what}");
        let bytes = near.rss_bytes()?;
        ensure!(bytes < 200 << 20, "{what}: {bytes} bytes resident");
    }
    Ok(())
}

#[test]
fn an_origin_that_is_gone_costs_no_waiting_and_is_found_again() -> Result<()> {
    let address = Address::Tcp(free_address()?);
    let args = ["--followers=4"];
    let origin = ServerUnderTest::start_at(&binary(), address.clone(), &args)?;
    let near = start_near(&shown(&address), &["--near-max-stale=500ms"])?;
    await_state(&near, "copies")?;
    let mut client = near.connect()?;
    set(&mut client, "k", "v")?;
    assert_eq!(get(&mut client, "k")?, hit("k", "v"));
    origin.stop(Signal::KILL)?;
    await_state(&near, "unreachable")?;
    for request in ["get k\r\n", "set k 0 0 1\r\nx\r\n", "incr k 1\r\n"] {
        let begin = Instant::now();
        let answer = ask(&mut client, request, "\r\n")?;
        assert_eq!(answer, "SERVER_ERROR origin unreachable\r\n");
        ensure!(begin.elapsed() < Duration::from_millis(200), "{:?}", begin.elapsed());
    }
    let _origin = ServerUnderTest::start_at(&binary(), address, &args)?;
    await_state(&near, "copies")?;
    assert_eq!(get(&mut client, "k")?, "END\r\n", "the item of the origin that ended");
    Ok(())
}

/// While the origin is stopped, copies are used for as long as they may be stale, and not longer.
#[test]
fn an_origin_that_hangs_makes_copies_expire() -> Result<()> {
    let chain = Chain::start(&["--near-max-stale=1s"])?;
    let mut client = chain.near.connect()?;
    set(&mut client, "k", "v")?;
    assert_eq!(get(&mut client, "k")?, hit("k", "v"));
    chain.origin.signal(Signal::STOP)?;
    let begin = Instant::now();
    let answer = loop {
        let answer = ask(&mut client, "get k\r\nmn\r\n", "MN\r\n")?;
        if answer != format!("{}MN\r\n", hit("k", "v")) {
            break answer;
        }
        ensure!(begin.elapsed() < Duration::from_secs(3), "copies are used for too long");
    };
    let took = begin.elapsed();
    // The system still accepts connections for the process.
    await_state(&chain.near, "unreachable")?;
    ensure!(chain.near.log().contains("does not answer"), "{}", chain.near.log());
    chain.origin.signal(Signal::CONT)?;
    assert_eq!(answer, "SERVER_ERROR origin did not answer\r\nMN\r\n");
    ensure!(took < Duration::from_millis(1600), "copies and one timeout took {took:?}");
    await_state(&chain.near, "copies")?;
    assert_eq!(get(&mut client, "k")?, hit("k", "v"));
    Ok(())
}

/// While another process has the memory file of the origin open, it reports no changes.
#[test]
fn nothing_is_copied_from_a_server_that_reports_no_changes_at_the_moment() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("cache");
    let file = path.display().to_string();
    let args = ["--followers=4", "-e", &file];
    let origin = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
    // Once the server has answered, it has made the file.
    let mut direct = origin.connect()?;
    set(&mut direct, "k", "first")?;
    let other = larder::Cache::open_shared(&path)?;
    let near = start_near(&shown(origin.address()), &[])?;
    await_state(&near, "passes").with_context(|| origin.log())?;
    let mut client = near.connect()?;
    for value in ["a", "b"] {
        set(&mut direct, "k", value)?;
        assert_eq!(get(&mut client, "k")?, hit("k", value));
    }
    ensure!(near.log().contains("another process uses the cache"), "{}", near.log());
    drop(other);
    await_state(&near, "copies")
}

#[test]
fn a_near_cache_is_no_origin() -> Result<()> {
    let chain = Chain::start(&[])?;
    let second = start_near(&shown(chain.near.address()), &[])?;
    await_state(&second, "unreachable")?;
    let answer = ask(&mut second.connect()?, "get k\r\n", "\r\n")?;
    assert_eq!(answer, "SERVER_ERROR origin unreachable\r\n");
    ensure!(second.log().contains("it is a near cache"), "{}", second.log());
    Ok(())
}

#[test]
fn a_near_cache_of_itself_passes_nothing() -> Result<()> {
    let address = free_address()?;
    let origin = format!("--origin={address}");
    let near = ServerUnderTest::start_at(&binary(), Address::Tcp(address), &[&origin])?;
    await_state(&near, "unreachable")?;
    let answer = ask(&mut near.connect()?, "set k 0 0 1\r\nx\r\n", "\r\n")?;
    assert_eq!(answer, "SERVER_ERROR origin unreachable\r\n");
    assert_eq!(stat(&near, "near_passed")?, "1");
    Ok(())
}

/// A client that sends a large value slowly, and one that reads a large value slowly, hold up no
/// other client.
#[test]
fn large_values_hold_up_nobody() -> Result<()> {
    let chain =
        Chain::over(Transport::Tcp, &["-I", "32m", "-m", "256"], &["-I", "32m", "-m", "256"])?;
    let mut client = chain.near.connect()?;
    let value = "v".repeat(20 << 20);
    set(&mut client, "large", &value)?;
    let mut uploader = chain.near.connect()?;
    uploader.write_all(b"set slow 0 0 20000000\r\n")?;
    uploader.write_all(&value.as_bytes()[..10 << 20])?;
    let mut reader = chain.near.connect()?;
    reader.write_all(b"get large\r\n")?;
    for n in 0..50 {
        let begin = Instant::now();
        set(&mut client, "small", &n.to_string())?;
        assert_eq!(get(&mut client, "small")?, hit("small", &n.to_string()));
        ensure!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
        sleep(Duration::from_millis(2));
    }
    let answer = reader.ask(b"", b"END\r\n")?;
    ensure!(answer.len() > value.len(), "{} bytes", answer.len());
    Ok(())
}

#[test]
fn an_origin_needs_options_that_fit() -> Result<()> {
    use larder_testkit::server::{command, run_to_end};
    for (args, expected) in [
        (&["--origin=nowhere"][..], "host:port"),
        (&["--origin=localhost:1", "-e", "/tmp/none/x"], "cannot be combined with --origin"),
        (&["--origin=localhost:1", "-U", "1"], "cannot be combined with --origin"),
        (&["--origin=localhost:1", "--followers=1"], "cannot be combined with --origin"),
        (&["--origin=localhost:1", "-C"], "cannot be combined with --origin"),
        (&["--origin=localhost:1", "--origin-timeout=3s"], "--near-max-stale"),
        (&["--origin=localhost:1", "--near-max-stale=10ms"], "100ms to 60s"),
        (&["--origin=tls:localhost:1"], "--origin-ca"),
        (&["--origin=localhost:1", "--origin-ca=/none"], "tls:"),
    ] {
        let output = run_to_end(command(&binary()).args(args))?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && error.contains(expected), "{args:?}: {error}");
    }
    Ok(())
}
