//! UDP: framing, dropped datagrams, long responses, and limits that prevent attackers from using
//! the server to flood other hosts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, command, free_address, run_to_end};
use larder_testkit::{Address, ServerUnderTest, Stopwatch, uninterrupted};

use crate::binary;

/// A server with TCP and UDP at one address.
struct Scene {
    server: ServerUnderTest,
    address: SocketAddr,
}

impl Scene {
    fn start(args: &[&str]) -> Result<Self> {
        let address = free_address()?;
        let port = address.port().to_string();
        let args: Vec<&str> = ["-U", &port].into_iter().chain(args.iter().copied()).collect();
        let server = ServerUnderTest::start_at(&binary(), Address::Tcp(address), &args)?;
        let scene = Self { server, address };
        scene.await_socket()?;
        Ok(scene)
    }

    /// Waits for the UDP socket, which the server opens after the TCP socket.
    fn await_socket(&self) -> Result<()> {
        let patience = Instant::now() + Duration::from_secs(30);
        let client = self.client()?;
        loop {
            // The system reports a closed port on the next call.
            let is_sent = client.send(&datagram(0, 0, 1, b"version\r\n")).is_ok();
            if is_sent && client.recv(&mut [0; 100]).is_ok() {
                return Ok(());
            }
            ensure!(Instant::now() < patience, "the server does not answer by UDP");
            sleep(Duration::from_millis(5));
        }
    }

    fn client(&self) -> Result<UdpSocket> {
        client_at(Ipv4Addr::LOCALHOST.into(), self.address)
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        let head = format!("set {key} 0 0 {}\r\n", value.len());
        let request = [head.as_bytes(), value, b"\r\n"].concat();
        self.server.connect()?.ask(&request, b"STORED\r\n")?;
        Ok(())
    }
}

fn client_at(ip: IpAddr, server: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::new(ip, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok(socket)
}

fn datagram(id: u16, sequence: u16, count: u16, request: &[u8]) -> Vec<u8> {
    let numbers = [id, sequence, count, 0].map(u16::to_be_bytes).concat();
    [&numbers, request].concat()
}

/// Sends a request, checks every datagram of its response, and assembles it.
fn ask(socket: &UdpSocket, id: u16, request: &[u8]) -> Result<Vec<u8>> {
    socket.send(&datagram(id, 0, 1, request))?;
    let (mut answer, mut expected) = (Vec::new(), None);
    let mut sequence = 0_u16;
    while expected != Some(sequence) {
        let mut bytes = [0; 2000];
        let length = uninterrupted(|| socket.recv(&mut bytes)).context("no answer")?;
        ensure!(length <= 1400, "a datagram of {length} bytes");
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        ensure!(number(0) == id, "{:?}", &bytes[..8]);
        ensure!(number(2) == sequence, "{:?}", &bytes[..8]);
        ensure!(number(6) == 0, "{:?}", &bytes[..8]);
        ensure!(expected.is_none_or(|count| count == number(4)), "the count changed");
        expected = Some(number(4));
        answer.extend_from_slice(&bytes[8..length]);
        sequence += 1;
    }
    Ok(answer)
}

#[test]
fn an_answer_is_one_message_however_many_commands_and_keys_a_request_has() -> Result<()> {
    let scene = Scene::start(&[])?;
    let socket = scene.client()?;
    assert_eq!(ask(&socket, 7, b"set a 5 0 3\r\nabc\r\n")?, b"STORED\r\n");
    assert_eq!(ask(&socket, 0xfffe, b"get a\r\n")?, b"VALUE a 5 3\r\nabc\r\nEND\r\n");
    let answer = ask(&socket, 8, b"get absent a a\r\nincr absent 1\r\nversion\r\n")?;
    let expected =
        "VALUE a 5 3\r\nabc\r\nVALUE a 5 3\r\nabc\r\nEND\r\nNOT_FOUND\r\nVERSION 1.6.45\r\n";
    assert_eq!(String::from_utf8(answer)?, expected);
    let commands = b"get absent\r\n".repeat(500);
    assert_eq!(ask(&socket, 9, &commands)?, b"END\r\n".repeat(500));
    Ok(())
}

#[test]
fn malformed_datagrams_are_dropped_without_harm() -> Result<()> {
    let scene = Scene::start(&["-t", "1"])?;
    let socket = scene.client()?;
    scene.set("a", b"abc")?;
    for dropped in [
        vec![],
        vec![1],
        datagram(1, 0, 1, b"")[..7].to_vec(),
        datagram(1, 0, 1, b""),
        datagram(1, 1, 1, b"get a\r\n"),
        datagram(1, 0, 2, b"get a\r\n"),
        datagram(1, 0, 0, b"get a\r\n"),
        datagram(1, 0xffff, 0xffff, b"get a\r\n"),
        // The rest of these requests is unknown.
        datagram(1, 0, 1, b"get a"),
        datagram(1, 0, 1, b"set a 0 0 100\r\nhalf"),
        datagram(1, 0, 1, b"set a 0 0 1000000\r\nhalf"),
        // These requests suppress their responses.
        datagram(1, 0, 1, b"set b 0 0 1 noreply\r\nx\r\n"),
        datagram(1, 0, 1, b"quit\r\n"),
    ] {
        socket.send(&dropped)?;
        assert_eq!(ask(&socket, 2, b"get a\r\n")?, b"VALUE a 0 3\r\nabc\r\nEND\r\n");
    }
    assert_eq!(ask(&socket, 3, b"get b\r\n")?, b"VALUE b 0 1\r\nx\r\nEND\r\n");
    Ok(())
}

#[test]
fn long_answers_come_in_numbered_datagrams() -> Result<()> {
    let scene = Scene::start(&[])?;
    let socket = scene.client()?;
    for bytes in [1300, 1360, 1361, 1362, 1363, 1364, 1365, 1366, 1367, 1368, 1400, 20_000, 60_000]
    {
        let value: Vec<u8> = (0..bytes).map(|at: u32| (at % 251) as u8).collect();
        scene.set("k", &value)?;
        let head = format!("VALUE k 0 {bytes}\r\n");
        let expected = [head.as_bytes(), &value, b"\r\nEND\r\n"].concat();
        assert!(ask(&socket, 5, b"get k\r\n")? == expected, "{bytes}");
    }
    Ok(())
}

#[test]
fn an_answer_beyond_every_bound_is_refused() -> Result<()> {
    let scene = Scene::start(&["-I", "8m"])?;
    let socket = scene.client()?;
    scene.set("large", &vec![b'v'; 5 << 20])?;
    assert!(ask(&socket, 5, b"get large\r\n")?.starts_with(b"SERVER_ERROR "));
    Ok(())
}

/// Returns an address of this machine outside loopback, if there is one.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing: the system only selects the local address of the route.
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

#[test]
fn a_response_to_another_machine_is_a_small_multiple_of_its_request() -> Result<()> {
    let Some(ip) = outer_address() else {
        larder_testkit::skip("this machine has only its loopback addresses");
        return Ok(());
    };
    let start = |args: &[&str]| -> Result<_> {
        let address = SocketAddr::new(ip, free_address()?.port());
        let port = address.port().to_string();
        let args: Vec<&str> = ["-U", &port].into_iter().chain(args.iter().copied()).collect();
        let server = ServerUnderTest::start_at(&binary(), Address::Tcp(address), &args)?;
        Ok((Scene { server, address }, client_at(ip, address)?))
    };
    let request = b"get k\r\n";
    let request_bytes = request.len() + 8;
    // The bytes of a response of one datagram without the value.
    let frame_bytes = 8 + b"VALUE k 0 100\r\n\r\nEND\r\n".len();
    for (args, factor) in [(&[][..], 16), (&["--udp-reply-factor=200"], 200)] {
        let (scene, socket) = start(args)?;
        let most = request_bytes * factor;
        if factor == 16 {
            scene.set("k", &vec![b'v'; most - frame_bytes])?;
            let answer = ask(&socket, 1, request)?;
            assert_eq!(answer.len() + 8, most);
            scene.set("k", &vec![b'v'; most - frame_bytes + 1])?;
        } else {
            scene.set("k", &vec![b'v'; most - 100])?;
            assert!(ask(&socket, 1, request)?.starts_with(b"VALUE "));
            scene.set("k", &vec![b'v'; most])?;
        }
        let refusal = ask(&socket, 1, request)?;
        assert!(refusal.starts_with(b"SERVER_ERROR "), "{}", refusal.escape_ascii());
        assert!(ask(&socket, 1, b"stats\r\n")?.len() < 16 * 15 * factor);
    }
    let (scene, socket) = start(&["--udp-reply-factor=0"])?;
    scene.set("k", &vec![b'v'; 50_000])?;
    assert_eq!(ask(&socket, 1, request)?.len(), 50_000 + b"VALUE k 0 50000\r\n\r\nEND\r\n".len());
    Ok(())
}

#[test]
fn a_flood_of_datagrams_does_not_keep_connections_from_their_turn() -> Result<()> {
    let scene = Scene::start(&["-t", "1"])?;
    scene.set("k", &vec![b'v'; 10_000])?;
    let flooder = scene.client()?;
    let request = datagram(1, 0, 1, &b"get k\r\n".repeat(100));
    let flood = thread::spawn(move || {
        for _ in 0..20_000 {
            // The send may fail if the socket is full.
            let _ = flooder.send(&request);
        }
    });
    let mut stream = scene.server.connect()?;
    while !flood.is_finished() {
        let stopwatch = Stopwatch::start(scene.server.process_id());
        stream.ask(b"version\r\n", b"\r\n")?;
        let waited = stopwatch.elapsed();
        ensure!(waited < Duration::from_secs(1), "a connection had to wait for {waited:?}");
    }
    flood.join().expect("the flood does not panic");
    Ok(())
}

/// A small datagram occupies 768 bytes of the socket's buffer. The default buffer has space for 277
/// of them; a buffer of the largest size that Linux allows by default has space for 554.
#[test]
fn datagrams_that_arrive_at_once_wait_for_a_busy_server() -> Result<()> {
    const SETS: u16 = 500;
    let scene = Scene::start(&["-t", "1"])?;
    let socket = scene.client()?;
    scene.server.signal(Signal::STOP)?;
    for n in 0..SETS {
        let request = format!("set k{n} 0 0 1 noreply\r\nv\r\n");
        socket.send(&datagram(n, 0, 1, request.as_bytes()))?;
    }
    scene.server.signal(Signal::CONT)?;
    let mut stream = scene.server.connect()?;
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        let stored = stat(&mut stream, "curr_items")?;
        if stored == u64::from(SETS) {
            return Ok(());
        }
        ensure!(Instant::now() < patience, "{stored} of {SETS} sets arrived");
        sleep(Duration::from_millis(10));
    }
}

/// A small datagram must not keep a worker busy for as long as its sender likes.
#[test]
fn slow_commands_are_refused_over_udp() -> Result<()> {
    let scene = Scene::start(&[])?;
    scene.set("a", b"value")?;
    let socket = scene.client()?;
    let refused = [
        ("lru_crawler metadump all\r\n", "ERROR metadump not allowed\r\n"),
        ("lru_crawler mgdump hash\r\n", "ERROR key dump not allowed\r\n"),
        ("watch\r\n", "WATCHER_FAILED failed to add log watcher\r\n"),
    ];
    for (id, (request, answer)) in (1..).zip(refused) {
        assert_eq!(String::from_utf8(ask(&socket, id, request.as_bytes())?)?, answer);
    }
    let few = ask(&socket, 4, &b"stats cachedump 9 0\r\n".repeat(10))?;
    assert_eq!(few, b"END\r\n".repeat(10));
    let many = ask(&socket, 5, &b"stats cachedump 9 0\r\n".repeat(1000))?;
    assert!(many.starts_with(b"SERVER_ERROR request "), "{}", many.escape_ascii());
    Ok(())
}

#[test]
fn all_workers_answer_and_a_graceful_stop_ends_them() -> Result<()> {
    let scene = Scene::start(&["-t", "4"])?;
    scene.set("k", b"v")?;
    let clients: Vec<_> = (0..50).map(|_| scene.client()).collect::<Result<_>>()?;
    for round in 0..20 {
        for client in &clients {
            assert_eq!(ask(client, round, b"get k\r\n")?, b"VALUE k 0 1\r\nv\r\nEND\r\n");
        }
    }
    assert!(scene.server.stop(Signal::USR1)?.success());
    Ok(())
}

#[test]
fn ports_are_written_and_a_port_that_is_taken_ends_the_start() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ports");
    let mut child = command(&binary())
        .args(["-l", "127.0.0.1,[::1]", "-p", "-1", "-U", "-1"])
        .env("MEMCACHED_PORT_FILENAME", &path)
        .spawn()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !path.exists() && Instant::now() < deadline {
        sleep(Duration::from_millis(5));
    }
    let ports = std::fs::read_to_string(&path);
    child.kill()?;
    child.wait()?;
    let ports = ports?;
    let kinds: Vec<_> = ports.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(kinds, ["TCP INET", "TCP INET6", "UDP INET", "UDP INET6"], "{ports}");

    let taken = UdpSocket::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?.port().to_string();
    let output = run_to_end(command(&binary()).args(["-l", "127.0.0.1", "-p", "-1", "-U", &port]))?;
    assert_eq!(output.status.code(), Some(71));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&port), "{output:?}");
    Ok(())
}

/// Returns the bytes that a server has received so far, over a connection used for nothing else.
fn stat(stream: &mut larder_testkit::Stream, name: &str) -> Result<u64> {
    let stats = String::from_utf8(stream.ask(b"stats\r\n", b"END\r\n")?)?;
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    Ok(line.context("no statistic")?.parse()?)
}

/// One server sends a response to the other, as it does for a request with the other's address as
/// its sender.
#[test]
fn two_servers_do_not_answer_each_other() -> Result<()> {
    let one = Scene::start(&["-t", "1"])?;
    one.set("k", b"get k\r\nflush_all\r\n")?;
    let address = free_address()?;
    // Before the other server starts, its address belongs to the sender.
    one.server.signal(Signal::STOP)?;
    let sender = UdpSocket::bind(address)?;
    let binary = |opcode: u8, key: &[u8]| {
        let mut request = vec![0x80, opcode, 0, key.len() as u8, 0, 0, 0, 0, 0, 0, 0];
        request.push(key.len() as u8);
        request.extend([0; 12]);
        [&request, key].concat()
    };
    let requests = [
        b"get absent\r\n".to_vec(),
        b"get k\r\n".to_vec(),
        b"no command\r\n".to_vec(),
        b"mg k v\r\n".to_vec(),
        b"get\r\n".to_vec(),
        b"stats\r\n".to_vec(),
        b"set n 0 0 1\r\n5\r\n".to_vec(),
        b"incr n 1\r\n".to_vec(),
        binary(0x0a, b""),
        binary(0x00, b"k"),
        binary(0x00, b"absent"),
        binary(0x77, b""),
    ];
    for request in &requests {
        sender.send_to(&datagram(1, 0, 1, request), one.address)?;
    }
    drop(sender);
    let port = address.port().to_string();
    let args = ["-U", &port, "-t", "1"];
    let server = ServerUnderTest::start_at(&self::binary(), Address::Tcp(address), &args)?;
    let other = Scene { server, address };
    other.set("k", b"kept")?;
    one.server.signal(Signal::CONT)?;

    let clients = [one.client()?, other.client()?];
    let version = b"VERSION 1.6.45\r\n";
    // A response to this means that earlier requests have been answered; the other server then has
    // the responses.
    assert_eq!(ask(&clients[0], 1, b"version\r\n")?, version);
    assert_eq!(ask(&clients[1], 1, b"version\r\n")?, version);
    let mut streams = [one.server.connect()?, other.server.connect()?];
    let mut before = [0; 2];
    for (stream, before) in streams.iter_mut().zip(&mut before) {
        *before = stat(stream, "bytes_read")?;
    }
    for _ in 0..20 {
        for client in &clients {
            assert_eq!(ask(client, 2, b"version\r\n")?, version);
        }
    }
    let expected = 20 * datagram(2, 0, 1, b"version\r\n").len() + b"stats\r\n".len();
    for (stream, before) in streams.iter_mut().zip(before) {
        assert_eq!(stat(stream, "bytes_read")? - before, expected as u64);
    }
    // The value in the response must not be taken for commands either.
    assert_eq!(ask(&clients[1], 3, b"get k\r\n")?, b"VALUE k 0 4\r\nkept\r\nEND\r\n");
    Ok(())
}

#[test]
fn a_datagram_without_a_command_is_dropped() -> Result<()> {
    let scene = Scene::start(&[])?;
    scene.set("a", b"abc")?;
    let socket = scene.client()?;
    for dropped in [&b"no command\r\n"[..], b"5\r\n", b"END\r\n", b"\x81\0get a\r\n", b" get a\r\n"]
    {
        socket.send(&datagram(1, 0, 1, dropped))?;
        socket.send(&datagram(1, 0, 1, &[dropped, b"set a 0 0 1\r\nx\r\n"].concat()))?;
        assert_eq!(ask(&socket, 2, b"get a\r\n")?, b"VALUE a 0 3\r\nabc\r\nEND\r\n");
    }
    let answer = ask(&socket, 3, b"get a\r\nno command\r\nset a 0 0 1\r\nx\r\n")?;
    assert_eq!(answer, b"VALUE a 0 3\r\nabc\r\nEND\r\n");
    // An error in a known command is reported.
    assert_eq!(ask(&socket, 4, b"get\r\n")?, b"CLIENT_ERROR bad command line format\r\n");
    assert_eq!(ask(&socket, 5, b"slabs\r\n")?, b"ERROR\r\n");
    Ok(())
}

/// All workers wait for datagrams, and one takes each.
#[test]
fn a_datagram_wakes_one_worker() -> Result<()> {
    const WORKERS: u64 = 8;
    const DATAGRAMS: u64 = 200;
    for io in ["--io=epoll", "--io=auto"] {
        let scene = Scene::start(&["-t", &WORKERS.to_string(), io])?;
        // A response to this means that the workers have started.
        scene.set("other", b"v")?;
        let client = scene.client()?;
        let before = scene.server.waits_of_threads("worker")?;
        let mut waits = before;
        for id in 0..DATAGRAMS {
            assert_eq!(ask(&client, id as u16, b"get k\r\n")?, b"END\r\n");
            waits = scene.server.waits_of_threads("worker")?;
        }
        let waits = waits - before;
        println!("{io}: {waits} wake-ups for {DATAGRAMS} datagrams and {WORKERS} workers");
        // Each datagram wakes at most one worker; the rest covers other reasons to wait, such as
        // memory.
        ensure!(waits <= DATAGRAMS * 2, "{io}: {waits} wake-ups for {DATAGRAMS} datagrams");
    }
    Ok(())
}
