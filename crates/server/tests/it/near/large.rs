//! Values that a near cache passes on in parts: they are never whole in its memory, and hold up no
//! other client.

use std::io::{ErrorKind, Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_protocol::binary::{HEADER_BYTES, Header};
use larder_testkit::proxy::{Flow, Flows, Proxy};
use larder_testkit::server::Signal;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};

use super::{Chain, ask, await_state, binary_request, count, get, hit, set, start_near};
use crate::binary;

const MIB: usize = 1 << 20;

/// The options of servers for large values.
const LARGE: [&str; 4] = ["-m", "512", "-I", "128m"];

/// Returns a value in which no two places look alike.
fn value(bytes: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(bytes + 8);
    for number in 0..bytes.div_ceil(8) as u64 {
        value.extend_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
    value.truncate(bytes);
    value
}

fn large_set(stream: &mut Stream, key: &str, value: &[u8]) -> Result<()> {
    let head = format!("set {key} 0 0 {}\r\n", value.len());
    let answer = stream.ask(&[head.as_bytes(), value, b"\r\n"].concat(), b"\r\n")?;
    ensure!(answer == b"STORED\r\n", "{:?}", answer.escape_ascii().to_string());
    Ok(())
}

/// Asserts that a request is answered with the value between these lines.
fn assert_value(
    stream: &mut Stream,
    request: &str,
    head: &str,
    value: &[u8],
    end: &str,
) -> Result<()> {
    stream.write_all(request.as_bytes()).with_context(|| request.to_owned())?;
    let mut answer = vec![0; head.len() + value.len() + end.len()];
    stream.read_exact(&mut answer).with_context(|| request.to_owned())?;
    let (found, rest) = answer.split_at(head.len());
    assert_eq!(String::from_utf8_lossy(found), head, "{request}");
    assert!(&rest[..value.len()] == value, "{request}: another value");
    assert_eq!(String::from_utf8_lossy(&rest[value.len()..]), end, "{request}");
    Ok(())
}

/// Sends a request of the binary protocol, and returns the status and the body of the response.
fn ask_binary(stream: &mut Stream, request: &[u8]) -> Result<(u16, Vec<u8>)> {
    stream.write_all(request)?;
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header)?;
    let header = Header::read(&header);
    let mut body = vec![0; header.body_bytes as usize];
    stream.read_exact(&mut body)?;
    Ok((header.status, body))
}

#[test]
fn values_of_100_mib_pass_both_ways() -> Result<()> {
    let value = value(100 * MIB + 1);
    for (io, transport) in [("uring", Transport::Tcp), ("epoll", Transport::Unix)] {
        let io = format!("--io={io}");
        let near_args = [&LARGE[..], &[&io]].concat();
        let Ok(chain) = Chain::over(transport, &LARGE, &near_args) else { continue };
        let (mut origin, mut near) = chain.connect()?;
        large_set(&mut near, "k", &value)?;
        let head = format!("VALUE k 0 {}\r\n", value.len());
        assert_value(&mut origin, "get k\r\n", &head, &value, "\r\nEND\r\n")?;
        let idle_bytes = chain.near.rss_bytes()?;
        assert_value(&mut near, "get k\r\n", &head, &value, "\r\nEND\r\n")?;
        assert_value(&mut near, "gat 0 k\r\n", &head, &value, "\r\nEND\r\n")?;
        let head = format!("VA {} h1 f0\r\n", value.len());
        assert_value(&mut near, "mg k h f v\r\nmn\r\n", &head, &value, "\r\nMN\r\n")?;
        assert_value(&mut near, "mg k h f v q\r\nmn\r\n", &head, &value, "\r\nMN\r\n")?;
        let (_, body) = ask_binary(&mut chain.near.connect()?, &binary_request(0, b"", b"k", b""))?;
        assert!(body[..4] == [0; 4] && body[4..] == value, "{io}: another value by the binary get");
        let store = binary_request(1, &[0; 8], b"b", &value);
        let (status, _) = ask_binary(&mut chain.near.connect()?, &store)?;
        assert_eq!(status, 0, "{io}");
        let head = format!("VALUE b 0 {}\r\n", value.len());
        assert_value(&mut origin, "get b\r\n", &head, &value, "\r\nEND\r\n")?;
        let grown_mib = chain.near.rss_bytes()?.saturating_sub(idle_bytes) / MIB as u64;
        assert!(grown_mib < 150, "{io}: the near cache grew by {grown_mib} MiB");
    }
    Ok(())
}

/// Asks for a value of 16 MiB, and receives only its beginning.
fn ask_and_stop(near: &ServerUnderTest, request: &str) -> Result<Stream> {
    let mut stream = near.connect()?;
    stream.limit_buffers(4096)?;
    stream.write_all(request.as_bytes())?;
    stream.read_exact(&mut [0; 10])?;
    Ok(stream)
}

/// 24 clients ask for 16 MiB each and stop to read. There are 16 connections for large values.
#[test]
fn clients_that_stop_reading_hold_up_no_others() -> Result<()> {
    let value = value(16 * MIB);
    let head = format!("VALUE k 0 {}\r\n", value.len());
    for request in ["get k\r\n", "gat 0 k\r\n"] {
        let chain = Chain::over(Transport::Tcp, &LARGE, &["-m", "64"])?;
        let (mut origin, mut near) = chain.connect()?;
        large_set(&mut origin, "k", &value)?;
        set(&mut origin, "small", "v")?;
        let idle_bytes = chain.near.rss_bytes()?;
        let mut stopped = Vec::new();
        for _ in 0..24 {
            stopped.push(ask_and_stop(&chain.near, request)?);
            sleep(Duration::from_millis(20));
            assert_eq!(get(&mut near, "small")?, hit("small", "v"));
            set(&mut near, "other", "v")?;
        }
        let grown_mib = chain.near.rss_bytes()?.saturating_sub(idle_bytes) / MIB as u64;
        assert!(grown_mib < 100, "24 stopped clients of {request:?} own {grown_mib} MiB");
        let begin = Instant::now();
        assert_value(&mut near, "get k\r\n", &head, &value, "\r\nEND\r\n")?;
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        drop(stopped);
        for _ in 0..20 {
            assert_value(&mut near, "get k\r\n", &head, &value, "\r\nEND\r\n")?;
        }
    }
    Ok(())
}

/// A slow client keeps its connection while no other request needs the one to the origin.
#[test]
fn a_slow_client_receives_all_of_a_large_value() -> Result<()> {
    let value = value(16 * MIB);
    let chain = Chain::over(Transport::Tcp, &LARGE, &[])?;
    large_set(&mut chain.origin.connect()?, "k", &value)?;
    let Address::Tcp(address) = *chain.near.address() else { bail!("no TCP address") };
    let proxy = Proxy::start(address)?;
    let to_client = Flow::Slow(8 * MIB as u64);
    proxy.set(&Flows { to_server: Flow::Pass, to_client });
    let mut slow = Stream::connect(&Address::Tcp(proxy.address()))?;
    let head = format!("VALUE k 0 {}\r\n", value.len());
    let begin = Instant::now();
    assert_value(&mut slow, "get k\r\n", &head, &value, "\r\nEND\r\n")?;
    assert!(begin.elapsed() > Duration::from_secs(1), "{:?}: not slow", begin.elapsed());
    Ok(())
}

/// A large value may take longer than an answer may: as long as it moves, it has time.
#[test]
fn a_large_value_has_time_on_a_slow_network() -> Result<()> {
    let origin_args = [&["--followers=4"], &LARGE[..]].concat();
    let origin = ServerUnderTest::start(&binary(), Transport::Tcp, &origin_args)?;
    let Address::Tcp(address) = *origin.address() else { bail!("no TCP address") };
    let proxy = Proxy::start(address)?;
    let near_args = [&["--origin-timeout=250ms"], &LARGE[..]].concat();
    let near = start_near(&proxy.address().to_string(), &near_args)?;
    await_state(&near, "copies")?;
    proxy.set(&Flows::both(Flow::Slow(8 * MIB as u64)));
    let (mut client, value) = (near.connect()?, value(16 * MIB));
    let begin = Instant::now();
    large_set(&mut client, "k", &value)?;
    let head = format!("VALUE k 0 {}\r\n", value.len());
    assert_value(&mut client, "get k\r\n", &head, &value, "\r\nEND\r\n")?;
    assert!(begin.elapsed() > Duration::from_secs(2), "{:?}: not slow", begin.elapsed());
    assert_eq!(count(&near, "near_unanswered")?, 0);
    Ok(())
}

/// A client cannot tell an error from the rest of a value, so its connection is closed.
#[test]
fn a_value_that_the_origin_does_not_finish_ends_the_connection() -> Result<()> {
    let value = value(64 * MIB);
    for signal in [Signal::KILL, Signal::STOP] {
        let chain = Chain::over(Transport::Tcp, &LARGE, &["--origin-timeout=500ms"])?;
        large_set(&mut chain.origin.connect()?, "k", &value)?;
        let mut stopped = chain.near.connect()?;
        stopped.write_all(b"get k\r\n")?;
        stopped.read_exact(&mut [0; 10])?;
        chain.origin.signal(signal)?;
        let (mut received, begin) = (0, Instant::now());
        let mut buffer = vec![0; MIB];
        loop {
            match stopped.read(&mut buffer) {
                Ok(0) => break,
                Ok(bytes) => received += bytes,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => return Err(error.into()),
            }
        }
        assert!(received < value.len(), "{signal:?}: all was received");
        assert!(begin.elapsed() < Duration::from_secs(5), "{signal:?}: {:?}", begin.elapsed());
        let answer = ask(&mut chain.near.connect()?, "get other\r\n", "\r\n")?;
        ensure!(answer.starts_with("SERVER_ERROR origin"), "{signal:?}: {answer:?}");
        chain.origin.signal(Signal::CONT).ok();
    }
    Ok(())
}

/// 60 clients leave within a value of 16 MiB that they receive, and 60 within one that they send.
fn leave_within_values(chain: &Chain, value: &[u8]) -> Result<u64> {
    for number in 0..60 {
        drop(ask_and_stop(&chain.near, "get k\r\n")?);
        let mut leaving = chain.near.connect()?;
        leaving.write_all(format!("set k 0 0 {}\r\n", value.len()).as_bytes())?;
        leaving.write_all(&value[..number * 100_000])?;
    }
    let head = format!("VALUE k 0 {}\r\n", value.len());
    assert_value(&mut chain.near.connect()?, "get k\r\n", &head, value, "\r\nEND\r\n")?;
    chain.near.rss_bytes()
}

/// The allocator keeps what the first clients have used, and the next ones use it again.
#[test]
fn clients_that_leave_within_a_large_value_cost_no_memory() -> Result<()> {
    let value = value(16 * MIB);
    let chain = Chain::over(Transport::Tcp, &LARGE, &LARGE)?;
    large_set(&mut chain.origin.connect()?, "k", &value)?;
    let first_bytes = leave_within_values(&chain, &value)?;
    for _ in 0..4 {
        let grown_mib = leave_within_values(&chain, &value)?.saturating_sub(first_bytes) >> 20;
        assert!(grown_mib < 100, "the near cache grew by {grown_mib} MiB");
    }
    Ok(())
}

/// The clients send at once, so their requests share two connections to the origin. The last one
/// reads its answer, and the others do not.
#[test]
fn a_request_behind_a_value_that_is_not_read_ends() -> Result<()> {
    let value = value(16 * MIB);
    let chain = Chain::over(Transport::Tcp, &LARGE, &[])?;
    large_set(&mut chain.origin.connect()?, "k", &value)?;
    let mut streams = (0..12).map(|_| chain.near.connect()).collect::<Result<Vec<_>>>()?;
    for stream in &mut streams {
        stream.write_all(b"gat 0 k\r\n")?;
    }
    let mut last = streams.pop().context("no stream")?;
    let begin = Instant::now();
    let (mut answer, mut buffer) = (Vec::new(), vec![0; MIB]);
    while !answer.ends_with(b"END\r\n") && !answer.starts_with(b"SERVER_ERROR") {
        let bytes = last.read(&mut buffer)?;
        ensure!(bytes > 0, "closed after {} bytes", answer.len());
        answer.extend_from_slice(&buffer[..bytes]);
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    Ok(())
}
