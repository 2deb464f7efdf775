//! A worker and its peers, over socket pairs.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use larder_options::{Options, Protocol};
use larder_protocol::Topics;
use larder_stats::Counter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

use super::*;
use crate::net::inbox::{NewConnection, Transport};
use crate::net::terms::ListenerTerms;

/// A running worker.
struct RunningWorker {
    server: Arc<Server>,
    inbox: Arc<Inbox>,
    thread: JoinHandle<()>,
}

/// Runs a test with every poller that the kernel allows.
fn with_each_loop(test: impl Fn(&'static str)) {
    test("epoll");
    match Poller::new(Io::Uring) {
        Ok(_) => test("uring"),
        Err(error) => larder_testkit::skip(format!("io_uring cannot be used here: {error}")),
    }
}

impl RunningWorker {
    fn with(io: &str, options: &[(&str, &str)]) -> Self {
        let options = options.iter().copied().chain([("io", io)]);
        let (options, _) = Options::from_map(options).unwrap();
        let server = Arc::new(Server::new(options).unwrap());
        let inbox = Arc::new(Inbox::new().unwrap());
        let worker = Worker::new(&server, 0, Arc::clone(&inbox)).unwrap();
        Self { server, inbox, thread: thread::spawn(|| worker.run()) }
    }

    fn connect(&self) -> UnixStream {
        connect(&self.inbox)
    }

    fn stop(self, manner: Manner) -> Arc<Server> {
        self.server.life.stop.request(manner);
        self.inbox.waker().wake();
        self.thread.join().unwrap();
        self.server
    }
}

/// Creates a worker that only the test drives.
fn idle() -> (Arc<Server>, Arc<Inbox>, Worker) {
    idle_with("epoll")
}

fn idle_with(io: &str) -> (Arc<Server>, Arc<Inbox>, Worker) {
    let (options, _) = Options::from_map([("memory_limit", "8"), ("io", io)]).unwrap();
    let server = Arc::new(Server::new(options).unwrap());
    let inbox = Arc::new(Inbox::new().unwrap());
    let mut worker = Worker::new(&server, 0, Arc::clone(&inbox)).unwrap();
    worker.poller.enable().unwrap();
    (server, inbox, worker)
}

/// Connects a peer to the worker of the inbox.
fn connect(inbox: &Inbox) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    put(inbox, theirs, Transport::Unix);
    ours
}

fn put(inbox: &Inbox, socket: impl Into<OwnedFd>, transport: Transport) {
    inbox.put(NewConnection {
        socket: socket.into(),
        transport,
        terms: ListenerTerms::plain(Protocol::Auto),
    });
}

/// True if a peer could read something now.
fn has_more(mut peer: &UnixStream) -> bool {
    peer.set_nonblocking(true).unwrap();
    let read = peer.read(&mut [0]);
    peer.set_nonblocking(false).unwrap();
    read.is_ok()
}

fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the condition never became true");
}

fn answer(peer: &mut UnixStream, request: &str, bytes: usize) -> String {
    peer.write_all(request.as_bytes()).unwrap();
    let mut answer = vec![0; bytes];
    peer.read_exact(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn requests_of_many_connections_that_come_together_are_all_answered() {
    with_each_loop(|io| {
        let working = RunningWorker::with(io, &[]);
        let mut peers: Vec<UnixStream> = (0..100).map(|_| working.connect()).collect();
        for (peer, number) in peers.iter_mut().zip(100..) {
            let request = format!("set {number} 0 0 3\r\n{number}\r\nget {number}\r\n");
            peer.write_all(request.as_bytes()).unwrap();
        }
        for (peer, number) in peers.iter_mut().zip(100..) {
            let expected = format!("STORED\r\nVALUE {number} 0 3\r\n{number}\r\nEND\r\n");
            assert_eq!(answer(peer, "", expected.len()), expected);
        }
        assert_eq!(working.stop(Manner::Now).counter(Counter::CmdGet), 100);
    });
}

#[test]
fn a_request_and_the_end_of_input_that_come_together_are_both_seen() {
    with_each_loop(|io| {
        let working = RunningWorker::with(io, &[]);
        let mut peer = working.connect();
        peer.write_all(b"version\r\n").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let mut answers = String::new();
        peer.read_to_string(&mut answers).unwrap();
        assert_eq!(answers, "VERSION 1.6.45\r\n");
    });
}

#[test]
fn input_and_output_beyond_every_buffer_arrive_whole() {
    with_each_loop(|io| {
        let working = RunningWorker::with(io, &[]);
        let mut peer = working.connect();
        let value = "0123456789".repeat(100_000);
        let stored = answer(&mut peer, &format!("set k 0 0 1000000\r\n{value}\r\n"), 8);
        assert_eq!(stored, "STORED\r\n");
        let expected = format!("VALUE k 0 1000000\r\n{value}\r\n").repeat(5) + "END\r\n";
        assert!(answer(&mut peer, "get k k k k k\r\n", expected.len()) == expected);
        let misses = answer(&mut peer, &"get missing\r\n".repeat(50_000), 250_000);
        assert!(misses == "END\r\n".repeat(50_000));
    });
}

#[test]
fn commands_beyond_a_turns_are_counted_as_yields() {
    with_each_loop(|io| {
        let working = RunningWorker::with(io, &[("max_reqs_per_event", "1")]);
        let mut peer = working.connect();
        answer(&mut peer, &"set k 0 0 1\r\n1\r\n".repeat(6), 48);
        assert_eq!(working.stop(Manner::Now).counter(Counter::ConnectionYields), 5);
    });
}

#[test]
fn a_connection_that_is_gone_leaves_nothing_in_the_statistics() {
    with_each_loop(|io| {
        let working = RunningWorker::with(io, &[]);
        let mut peer = working.connect();
        peer.write_all(&[b"get ", &[b'k'; 200][..], b" "].concat().repeat(100)).unwrap();
        peer.shutdown(Shutdown::Both).unwrap();
        let mut other = working.connect();
        answer(&mut other, "version\r\n", 16);
        let server = working.stop(Manner::Now);
        assert_eq!(server.counter(Counter::ReadBufferBytes), 0);
    });
}

#[test]
fn an_answer_that_was_stuck_is_held_no_more_when_it_is_read() {
    with_each_loop(|io| {
        let working = RunningWorker::with(io, &[]);
        let mut peer = working.connect();
        let value = "x".repeat(60_000);
        answer(&mut peer, &format!("set k 0 0 60000\r\n{value}\r\n"), 8);
        let held = || working.server.counter(Counter::ResponseBufferBytes);
        peer.write_all(&b"get k\r\n".repeat(20)).unwrap();
        wait_until(|| held() > 0);
        answer(&mut peer, "", 20 * (60_000 + "VALUE k 0 60000\r\n\r\nEND\r\n".len()));
        wait_until(|| held() == 0);
    });
}

/// Two turns at the same time would reorder output that the socket accepts in parts.
#[test]
fn a_watcher_that_sends_input_has_one_turn_at_a_time() {
    let (server, inbox, mut worker) = idle();
    let mut events = Vec::new();
    let mut peer = connect(&inbox);
    peer.write_all(b"watch fetchers\r\n").unwrap();
    while worker.watching.is_empty() {
        worker.wait(&mut events);
        worker.give_turns(&mut events);
    }
    // More than one receive returns, so that each turn leaves input for another.
    peer.write_all(&[b'x'; 100_000]).unwrap();
    server.watchers.report(Topics::FETCHERS, |out| out.extend_from_slice(b"line\n"));
    // The collector delivers the line.
    let mut woken = [PollFd::new(inbox.waker(), PollFlags::IN)];
    assert_eq!(poll(&mut woken, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })), Ok(1));
    worker.wait(&mut events);
    assert_eq!(events.len(), 2);
    worker.give_turns(&mut events);
    assert_eq!(worker.ready.len(), 1);
}

/// One receive can contain thousands of them.
#[test]
fn a_lone_connection_gives_way_after_each_statistics_command() {
    let (_, inbox, mut worker) = idle();
    let mut events = Vec::new();
    let mut peer = connect(&inbox);
    worker.wait(&mut events);
    worker.give_turns(&mut events);
    peer.write_all(&b"stats cachedump 1 0\r\n".repeat(100)).unwrap();
    worker.wait(&mut events);
    for _ in 0..4 {
        worker.give_turns(&mut events);
        events.clear();
        assert_eq!(worker.ready.len(), 1);
        let mut answer = [0; 5];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"END\r\n");
        assert!(!has_more(&peer));
    }
}

/// Many such clients together must stay within the budget.
#[test]
fn little_input_is_held_of_a_client_that_sends_without_waiting() {
    with_each_loop(|io| {
        let (server, inbox, mut worker) = idle_with(io);
        let mut peers = [connect(&inbox), connect(&inbox)];
        let mut events = Vec::new();
        worker.wait(&mut events);
        worker.give_turns(&mut events);
        for peer in &mut peers {
            peer.write_all(&b"set k 0 0 1 noreply\r\n1\r\n".repeat(5000)).unwrap();
        }
        while server.counter(Counter::CmdSet) < 10_000 {
            worker.wait(&mut events);
            worker.give_turns(&mut events);
            assert!(server.counter(Counter::ReadBufferBytes) <= 2 * 64 * 1024);
        }
    });
}

/// A reset loses the responses, not the commands before it.
#[test]
fn commands_before_a_reset_are_executed() {
    with_each_loop(|io| {
        let working = RunningWorker::with(io, &[]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for number in 0..200 {
            let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (socket, _) = listener.accept().unwrap();
            socket.set_nonblocking(true).unwrap();
            put(&working.inbox, socket, Transport::Tcp);
            peer.write_all(format!("set {number} 0 0 1 noreply\r\n1\r\n").as_bytes()).unwrap();
            SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
        }
        wait_until(|| working.server.counter(Counter::CmdSet) == 200);
    });
}

#[test]
fn a_graceful_stop_answers_what_has_arrived() {
    with_each_loop(|io| {
        let working = RunningWorker::with(io, &[]);
        let mut peer = working.connect();
        let value = "x".repeat(1_000_000);
        answer(&mut peer, &format!("set k 0 0 1000000\r\n{value}\r\n"), 8);
        peer.write_all(b"get k\r\nget k\r\n").unwrap();
        let stopping = thread::spawn(|| working.stop(Manner::Graceful));
        let mut answers = String::new();
        peer.read_to_string(&mut answers).unwrap();
        assert!(answers == format!("VALUE k 0 1000000\r\n{value}\r\nEND\r\n").repeat(2));
        stopping.join().unwrap();
    });
}

/// A ring has buffers for fewer connections than this at a time.
#[test]
fn a_graceful_stop_answers_what_has_arrived_of_many() {
    with_each_loop(|io| {
        let (_, inbox, mut worker) = idle_with(io);
        let mut peers: Vec<UnixStream> = (0..200).map(|_| connect(&inbox)).collect();
        let mut events = Vec::new();
        worker.wait(&mut events);
        worker.give_turns(&mut events);
        for peer in &mut peers {
            peer.write_all(b"version\r\n").unwrap();
        }
        worker.is_drained();
        for peer in &mut peers {
            answer(peer, "", 16);
        }
    });
}

#[test]
fn a_graceful_stop_does_not_wait_for_a_client_that_does_not_read() {
    with_each_loop(|io| {
        let working = RunningWorker::with(io, &[]);
        let mut peer = working.connect();
        let value = "x".repeat(1_000_000);
        answer(&mut peer, &format!("set k 0 0 1000000\r\n{value}\r\n"), 8);
        peer.write_all(b"get k\r\n").unwrap();
        let mut first = [0; 7];
        peer.read_exact(&mut first).unwrap();
        working.stop(Manner::Graceful);
    });
}

/// A remaining operation would keep the socket open and take datagrams meant for the successor.
#[test]
fn a_worker_that_leaves_its_datagrams_has_no_operation_on_them() {
    let (_, _inbox, mut worker) = idle_with("auto");
    if !worker.has_ring() {
        return larder_testkit::skip("io_uring cannot be used here");
    }
    let mut events = Vec::new();
    let mut under_way = |worker: &mut Worker| {
        worker.poll(Some(Duration::from_millis(1)), &mut events);
        worker.give_turns(&mut events);
        worker.poller.ring().map(|ring| ring.under_way())
    };
    assert_eq!(under_way(&mut worker), Some(1));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(socket.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let address = socket.local_addr().unwrap();
    let terms = ListenerTerms::plain(Protocol::Auto);
    worker.share(Arc::from([Datagrams { socket: socket.into(), address, terms }]), None).unwrap();
    assert_eq!(under_way(&mut worker), Some(2));
    worker.leave_datagrams();
    // The datagram arrives before the kernel has taken the cancellation.
    client.send(b"\0\x01\0\0\0\x01\0\0mn\r\n").unwrap();
    while under_way(&mut worker) != Some(1) {}
    let mut answer = [0; 100];
    let bytes = client.recv(&mut answer).unwrap();
    assert_eq!(&answer[8..bytes], b"MN\r\n");
}
