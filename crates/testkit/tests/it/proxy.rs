//! The proxy delays, swallows, slows, replaces and cuts, as its flows demand.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use larder_testkit::proxy::{Flow, Flows, Proxy};

/// Starts a server that sends back what it receives, and a proxy to it.
fn echo() -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut reader = stream.try_clone().unwrap();
                // Ends with an error if the proxy cuts the link.
                let _ = std::io::copy(&mut reader, &mut stream);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    proxy
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Sends bytes and returns as many received ones, and the time until the last of them.
fn ask(stream: &mut TcpStream, bytes: &[u8]) -> (Vec<u8>, Duration) {
    let begun = Instant::now();
    stream.write_all(bytes).unwrap();
    let mut answer = vec![0; bytes.len()];
    stream.read_exact(&mut answer).unwrap();
    (answer, begun.elapsed())
}

#[test]
fn bytes_pass_and_a_closed_direction_stays_closed() {
    let proxy = echo();
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, b"hello").0, b"hello");
    assert_eq!(proxy.links()[0].bytes(), 10);
    let much = vec![b'x'; 20 << 20];
    let writer = thread::spawn({
        let (mut stream, much) = (stream.try_clone().unwrap(), much.clone());
        move || {
            stream.write_all(&much).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        }
    });
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    writer.join().unwrap();
    assert!(answer == much, "{} bytes", answer.len());
    assert_eq!(proxy.accepted(), 1);
}

#[test]
fn delayed_bytes_arrive_late_and_in_order() {
    let proxy = echo();
    let mut stream = connect(&proxy);
    let delay = Duration::from_millis(300);
    proxy.set(&Flows { to_server: Flow::Delay(delay), to_client: Flow::Pass });
    let (answer, took) = ask(&mut stream, b"late");
    assert_eq!(answer, b"late");
    assert!(took >= delay, "{took:?}");
    // Pieces do not wait for each other.
    let begun = Instant::now();
    for _ in 0..4 {
        stream.write_all(b"x").unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    proxy.set(&Flows::default());
    stream.write_all(b"y").unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"xxxxy");
    let took = begun.elapsed();
    assert!(took >= delay && took < 4 * delay, "{took:?}");
}

#[test]
fn a_swallowed_request_has_no_answer() {
    let proxy = echo();
    proxy.set(&Flows::never_answers());
    let mut stream = connect(&proxy);
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    stream.write_all(b"lost").unwrap();
    let error = stream.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(proxy.accepted(), 1);
}

#[test]
fn a_link_with_missing_bytes_is_cut_before_others_pass() {
    let proxy = echo();
    let mut stream = connect(&proxy);
    ask(&mut stream, b"there");
    proxy.set(&Flows::never_answers());
    stream.write_all(b"lost").unwrap();
    while proxy.links().iter().any(|link| link.bytes() < 18) {
        thread::sleep(Duration::from_millis(1));
    }
    proxy.set(&Flows::default());
    // Fails if the link is cut.
    let _ = stream.write_all(b"next");
    let answer = stream.read(&mut [0; 8]).unwrap_or(0);
    assert_eq!(answer, 0, "a client takes the answer to `next` for that to `lost`");
    assert!(proxy.links().is_empty());
}

#[test]
fn a_slow_answer_takes_its_time() {
    let proxy = echo();
    proxy.set(&Flows { to_server: Flow::Pass, to_client: Flow::Slow(1000) });
    let (answer, took) = ask(&mut connect(&proxy), &[b'z'; 500]);
    assert_eq!(answer, [b'z'; 500]);
    assert!(took >= Duration::from_millis(490), "{took:?}");
}

#[test]
fn garbage_replaces_the_answer() {
    let proxy = echo();
    proxy.set(&Flows { to_server: Flow::Pass, to_client: Flow::Garbage(b"#!%\0".to_vec()) });
    assert_eq!(ask(&mut connect(&proxy), b"abcd").0, b"#!%\0");
}

#[test]
fn a_cut_ends_all_links_and_refused_clients_none() {
    let proxy = echo();
    let mut stream = connect(&proxy);
    ask(&mut stream, b"there");
    proxy.cut();
    // The connection may be reset.
    assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0);
    assert!(proxy.links().is_empty());
    proxy.refuse(true);
    assert_eq!(connect(&proxy).read(&mut [0; 8]).unwrap_or(0), 0);
    proxy.refuse(false);
    assert_eq!(ask(&mut connect(&proxy), b"again").0, b"again");
}
