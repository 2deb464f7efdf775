//! A client of a server that accepts connections but does not reply, or closes them.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use larder::Client;

const TIMEOUT: Duration = Duration::from_millis(500);
const THREADS: u32 = 20;

#[test]
fn threads_wait_for_a_stopped_server_in_parallel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    // Replies to the first request like memcached, but not to later requests.
    let answers = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = [0; 64];
        assert!(socket.read(&mut request).unwrap() > 0);
        socket.write_all(b"ERROR\r\n").unwrap();
        (listener, socket)
    });
    let client = Client::connect_within(&path, TIMEOUT).unwrap();
    let stopped = answers.join().unwrap();
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| client.get("key").expect_err("the stopped server replied"));
        }
    });
    let waited = begun.elapsed();
    assert!(waited >= TIMEOUT, "{waited:?}");
    assert!(waited < TIMEOUT * THREADS / 3, "the threads waited one after another: {waited:?}");
    drop(stopped);
}

/// Accepts a connection, replies like a memcached that does not share its memory, and waits until
/// the client sends the command.
fn accept(listener: &UnixListener, command: &str) -> UnixStream {
    let (mut socket, _) = listener.accept().unwrap();
    wait_for(&mut socket, "\r\n");
    socket.write_all(b"ERROR\r\n").unwrap();
    wait_for(&mut socket, command);
    socket
}

fn wait_for(socket: &mut UnixStream, text: &str) {
    let (mut received, mut part) = (String::new(), [0; 64]);
    while !received.contains(text) {
        let bytes = socket.read(&mut part).unwrap();
        assert!(bytes > 0, "the client hung up after {received:?}");
        received.push_str(std::str::from_utf8(&part[..bytes]).unwrap());
    }
}

#[test]
fn a_read_is_repeated_if_a_new_connection_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || {
        // Closes the connection of `connect`, and one new connection, as a server does that is
        // about to end.
        drop(accept(&listener, "mg key"));
        drop(accept(&listener, "mg key"));
        let mut socket = accept(&listener, "mg key");
        socket.write_all(b"EN\r\n").unwrap();
        // On the same connection.
        wait_for(&mut socket, "ms key");
        listener
    });
    let client = Client::connect_within(&path, TIMEOUT).unwrap();
    assert_eq!(client.get("key").unwrap(), None);
    client.set("key", "value", None).expect_err("the set succeeded although the server hung up");
    let listener = server.join().unwrap();
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a set that may have been executed was sent again");
}
