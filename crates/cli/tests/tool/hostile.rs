//! Servers that are absent, speak another protocol, or send invalid replies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use crate::larder;

/// Accepts one connection and answers the first request with these bytes. Then it closes the
/// connection, or stays silent until the peer closes it.
fn serve_once(answer: &'static [u8], closes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream.write_all(answer).unwrap();
        if !closes {
            stream.read_to_end(&mut Vec::new()).ok();
        }
    });
    address
}

#[test]
fn without_a_server_the_error_names_the_command_that_starts_larderd() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ran = larder(b"", &["get", "k", "--server", &format!("127.0.0.1:{port}")]);
    ran.failed(2, &format!("cannot connect to 127.0.0.1:{port}: Connection refused"));
    ran.failed(2, &format!("is larderd running? start it with: larderd -p {port}\n"));
    let ran = larder(b"", &["ping", "--server", "unix:absent.sock"]);
    ran.failed(2, "start it with: larderd -s absent.sock\n");
    larder(b"", &["ping", "--server", ":1"]).failed(2, "expected host, host:port, [IPv6]:port");
}

#[test]
fn a_server_of_another_protocol_is_recognised() {
    let address = serve_once(b"HTTP/1.1 400 Bad Request\r\n\r\n", false).to_string();
    larder(b"", &["get", "k", "-s", &address])
        .failed(2, "does not answer in memcached's text protocol");
}

#[test]
fn a_connection_closed_before_the_answer_is_an_error() {
    for answer in [&b""[..], b"VALUE k 0 10\r\nhello"] {
        let address = serve_once(answer, true).to_string();
        larder(b"", &["get", "k", "-s", &address]).failed(2, "closed the connection before");
    }
}

#[test]
fn a_value_announced_larger_than_any_server_stores_is_refused_at_once() {
    let address = serve_once(b"VALUE k 0 4294967295\r\n", false).to_string();
    larder(b"", &["get", "k", "-s", &address]).failed(2, "announces an answer of 4294967319 bytes");
}

#[test]
fn a_reply_of_another_kind_is_an_error() {
    for (answer, subcommand) in [
        (&b"STORED\r\n"[..], &["get", "k"][..]),
        (b"END\r\n", &["set", "k", "v"]),
        (b"STORED\r\n", &["delete", "k"]),
        (b"END\r\n", &["ping"]),
    ] {
        let address = serve_once(answer, false).to_string();
        let ran = larder(b"", &[subcommand, &["-s", &address]].concat());
        ran.failed(2, "which does not answer this request");
    }
}

#[test]
fn statistics_of_another_form_are_an_error() {
    let address = serve_once(b"OK\r\n", false).to_string();
    larder(b"", &["stats", "-s", &address])
        .failed(2, "does not answer in memcached's text protocol");
}

#[test]
fn a_server_that_never_answers_is_an_error_after_five_seconds() {
    let address = serve_once(b"", false).to_string();
    let started = Instant::now();
    larder(b"", &["ping", "-s", &address]).failed(2, "no answer from 127.0.0.1");
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(5), "{waited:?}");
    assert!(waited < Duration::from_secs(8), "{waited:?}");
}

/// Accepts connections, and sends these bytes repeatedly on each, with a pause between them.
fn serve_without_end(answer: &'static [u8], pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                while stream.write_all(answer).is_ok() {
                    thread::sleep(pause);
                }
            });
        }
    });
    address
}

#[test]
fn a_server_that_trickles_does_not_hold_a_command_longer_than_its_timeout() {
    let pause = Duration::from_millis(100);
    for (answer, subcommand) in [
        (&b"STAT pid 1\r\n"[..], &["stats"][..]),
        (b"STAT pid 1\r\n", &["doctor"]),
        (b"key=a exp=-1 la=1 cas=1 fetch=no cls=1 size=1\r\n", &["export", "-"]),
    ] {
        let address = serve_without_end(answer, pause).to_string();
        let begun = Instant::now();
        let ran = larder(b"", &[subcommand, &["--server", &address, "--timeout", "1"]].concat());
        let took = begun.elapsed();
        ran.failed(2, "the command has not ended within 1 s");
        assert!(took < Duration::from_secs(5), "{subcommand:?} ends after {took:?}");
    }
}

#[test]
fn an_export_that_takes_too_long_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let answer = b"key=a exp=-1 la=1 cas=1 fetch=no cls=1 size=1\r\n";
    let address = serve_without_end(answer, Duration::from_millis(100)).to_string();
    let dump = folder.path().join("items.dump").display().to_string();
    larder(b"", &["export", "--server", &address, &dump, "--timeout", "1"]).failed(2, "within 1 s");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn statistics_without_an_end_are_an_error() {
    let answer: &[u8] = Vec::leak(b"STAT a 0123456789\r\n".repeat(4096));
    let address = serve_without_end(answer, Duration::ZERO).to_string();
    for subcommand in [&["stats", "-s", &address][..], &["doctor", "--server", &address]] {
        larder(b"", subcommand).failed(2, "sends more than 64 MiB of statistics");
    }
}
