//! Clients of real sockets while the cache is not open.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_options::{Options, Protocol};

use super::Opening;
use crate::net::inbox::NewConnection;
use crate::net::sockets::Socket;
use crate::net::terms::ListenerTerms;
use crate::process::supervisor::Supervisor;
use crate::server::progress::Progress;

const REFUSED: &str = "SERVER_ERROR recovering (43 %)\r\n";

/// A cache that is being opened, the address for its clients, and how long their requests wait.
struct Scene {
    opening: Opening,
    address: SocketAddr,
    wait: Duration,
}

impl Scene {
    fn begin() -> Self {
        let map = [("tier_path", "/nowhere"), ("tier_size", "1g"), ("tier_mode", "store")];
        let (options, _) = Options::from_map(map).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let terms = ListenerTerms::plain(Protocol::Auto);
        let socket = Socket::tcp(listener.into(), address, terms);
        let progress = Progress::default();
        progress.note(43, 100);
        let wait = options.disk_tier.as_ref().unwrap().wait;
        let supervisor = Supervisor::default();
        let opening = Opening::begin(&options, &[socket], &progress, &supervisor).unwrap();
        Self { opening, address, wait }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// Opens the cache. Returns the connections that a worker receives.
    fn end(self) -> Receiver<NewConnection> {
        let (sender, accepted) = channel();
        self.opening.end(Box::new(move |guest| sender.send(guest).unwrap()));
        accepted
    }
}

/// Returns the next connection of a worker.
fn next(accepted: &Receiver<NewConnection>) -> TcpStream {
    let NewConnection { socket, .. } = accepted.recv_timeout(Duration::from_secs(10)).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false).unwrap();
    stream
}

fn send(stream: &mut TcpStream, words: &str) {
    stream.write_all(words.as_bytes()).unwrap();
}

/// Reads exactly as many bytes as `words` has, and compares them.
fn expect(stream: &mut TcpStream, words: &str) {
    let mut bytes = vec![0; words.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), words);
}

#[test]
fn version_is_answered_at_once_and_a_get_is_refused_after_its_wait() {
    let scene = Scene::begin();
    let (mut probe, mut user) = (scene.connect(), scene.connect());
    let began = Instant::now();
    send(&mut user, "get a b\r\nversion\r\n");
    send(&mut probe, "version\r\n");
    expect(&mut probe, "VERSION ");
    assert!(began.elapsed() < scene.wait, "a probe waits for no other client");
    expect(&mut user, REFUSED);
    let waited = began.elapsed();
    assert!(waited >= scene.wait && waited < scene.wait * 4, "{waited:?}");
    expect(&mut user, "VERSION ");
    scene.end();
}

#[test]
fn a_worker_gets_the_bytes_that_were_not_answered() {
    let scene = Scene::begin();
    let (mut idle, mut user, mut part) = (scene.connect(), scene.connect(), scene.connect());
    send(&mut idle, "mn\r\n");
    expect(&mut idle, "MN\r\n");
    send(&mut user, "mn\r\nget a\r\n");
    expect(&mut user, "MN\r\n");
    send(&mut part, "mn\r\nset a 0 0 ");
    expect(&mut part, "MN\r\n");
    let accepted = scene.end();
    send(&mut idle, "get idle\r\n");
    send(&mut part, "1\r\nx\r\n");
    let expected = ["get idle\r\n", "get a\r\n", "set a 0 0 1\r\nx\r\n"];
    let mut found: Vec<String> = expected.iter().map(|_| read_some(&accepted)).collect();
    found.sort_by_key(|words| expected.iter().position(|expected| words == expected));
    assert_eq!(found, expected);
}

/// Reads the input of a worker's next connection, up to its last line.
fn read_some(accepted: &Receiver<NewConnection>) -> String {
    let mut stream = next(accepted);
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut words = Vec::new();
    // The read ends with the timeout.
    let _ = stream.read_to_end(&mut words);
    String::from_utf8(words).unwrap()
}

#[test]
fn a_refused_value_that_is_still_arriving_is_handed_over_behind_its_end() {
    let scene = Scene::begin();
    let mut user = scene.connect();
    send(&mut user, "set a 0 0 10\r\nhello");
    sleep(scene.wait + Duration::from_millis(300));
    let accepted = scene.end();
    assert!(accepted.recv_timeout(Duration::from_millis(300)).is_err(), "it is in the middle");
    send(&mut user, "world\r\nget a\r\n");
    expect(&mut user, REFUSED);
    let mut worker = next(&accepted);
    expect(&mut worker, "get a\r\n");
}

#[test]
fn a_cache_that_opens_quickly_is_not_seen_to_open() {
    let scene = Scene::begin();
    let mut user = scene.connect();
    send(&mut user, "version\r\n");
    let accepted = scene.end();
    user.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert!(user.read(&mut [0; 8]).is_err(), "the connection waits in the kernel");
    assert!(accepted.try_recv().is_err(), "the listener accepts it");
}
