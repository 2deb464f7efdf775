//! Requests from a packet capture. The captures are made here: frames of a real conversation with a
//! server, or the packets of the loopback interface if the user may capture them.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use etherparse::PacketBuilder;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport, skip};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with};

use super::{larderd, run, shown};
use crate::binary;

/// Writes a pcap file.
#[derive(Default)]
struct Pcap {
    bytes: Vec<u8>,
    packets: u32,
}

impl Pcap {
    fn new() -> Self {
        let mut bytes = Vec::new();
        // Magic, version 2.4, time zone, accuracy, snap length, Ethernet.
        for word in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        Self { bytes, packets: 0 }
    }

    fn push(&mut self, frame: &[u8]) {
        self.packets += 1;
        let length = frame.len() as u32;
        for word in [1_700_000_000, self.packets * 1000, length, length] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.extend_from_slice(frame);
    }
}

/// A TCP connection whose frames are written by the test.
struct Conversation {
    client_port: u16,
    /// The next sequence numbers of client and server.
    next: [u32; 2],
}

impl Conversation {
    /// Begins a connection. The numbers wrap around soon.
    fn open(client_port: u16, pcap: &mut Pcap) -> Self {
        let mut conversation = Self { client_port, next: [u32::MAX - 20, 77] };
        pcap.push(&conversation.frame(true, b"", true));
        pcap.push(&conversation.frame(false, b"", true));
        conversation.next = conversation.next.map(|next| next.wrapping_add(1));
        conversation
    }

    fn frame(&self, is_request: bool, payload: &[u8], is_syn: bool) -> Vec<u8> {
        let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let (from, to, ports) = match is_request {
            true => (client, server, (self.client_port, 11211)),
            false => (server, client, (11211, self.client_port)),
        };
        let sequence = self.next[usize::from(!is_request)];
        let builder = PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv4(from, to, 64)
            .tcp(ports.0, ports.1, sequence, 65_000)
            .ack(self.next[usize::from(is_request)]);
        let builder = if is_syn { builder.syn() } else { builder };
        let mut frame = Vec::new();
        builder.write(&mut frame, payload).unwrap();
        frame
    }

    /// Returns the frames of these bytes, at most `size` bytes in each.
    fn send(&mut self, is_request: bool, bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for piece in bytes.chunks(size) {
            frames.push(self.frame(is_request, piece, false));
            let next = &mut self.next[usize::from(!is_request)];
            *next = next.wrapping_add(piece.len() as u32);
        }
        frames
    }
}

/// Asks a real server and records the conversation; each frame has at most 7 bytes. `shuffle`
/// changes the frames of each exchange; it gets the number of the frames of requests.
fn record(server: &ServerUnderTest, shuffle: impl Fn(usize, usize, &mut Vec<Vec<u8>>)) -> Pcap {
    let mut pcap = Pcap::new();
    let mut conversation = Conversation::open(4000, &mut pcap);
    let mut client: Stream = server.connect().unwrap();
    for (place, (request, end)) in [
        ("set k 5 0 40\r\n0123456789012345678901234567890123456789\r\n", "STORED\r\n"),
        ("get k none\r\n", "END\r\n"),
        ("mg k v f\r\n", "9\r\n"),
        ("set n 0 0 1\r\n1\r\nincr n 4\r\n", "5\r\n"),
        ("get n\r\n", "END\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = client.ask(request.as_bytes(), end.as_bytes()).unwrap();
        let mut frames = conversation.send(true, request.as_bytes(), 7);
        let requests = frames.len();
        frames.extend(conversation.send(false, &answer, 7));
        shuffle(place, requests, &mut frames);
        frames.iter().for_each(|frame| pcap.push(frame));
    }
    pcap
}

/// Replays a capture at a candidate.
fn replayed(pcap: &[u8], candidate: &Address, args: &[&str]) -> (super::Ended, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("traffic.pcap");
    fs::write(&path, pcap).unwrap();
    let args = [&["--pcap", path.to_str().unwrap(), "--candidate", &shown(candidate)], args];
    run(&args.concat())
}

#[test]
fn a_capture_is_replayed_and_agrees() {
    let (live, candidate) = (larderd(&[]), larderd(&[]));
    let (ended, stderr) = replayed(&record(&live, |_, _, _| {}).bytes, candidate.address(), &[]);
    assert_eq!(stderr, "");
    ended.agrees(7, &[]);
    assert_eq!(ended.count("streams_with_missing_segments"), 0);
    let mut direct = candidate.connect().unwrap();
    assert_eq!(direct.ask(b"get n\r\n", b"END\r\n").unwrap(), b"VALUE n 0 1\r\n5\r\nEND\r\n");
}

#[test]
fn repeated_and_swapped_segments_do_not_matter() {
    let (live, candidate) = (larderd(&[]), larderd(&[]));
    let pcap = record(&live, |_, requests, frames| {
        let again = frames[0].clone();
        frames.push(again);
        frames[..requests].reverse();
    });
    let (ended, _) = replayed(&pcap.bytes, candidate.address(), &["--speed", "10"]);
    ended.agrees(7, &[]);
}

#[test]
fn a_connection_with_a_missing_segment_is_not_compared_further() {
    let (live, candidate) = (larderd(&[]), larderd(&[]));
    let pcap = record(&live, |place, _, frames| {
        if place == 2 {
            frames.remove(0);
        }
    });
    let (ended, _) = replayed(&pcap.bytes, candidate.address(), &[]);
    ended.is_complete();
    assert_eq!(ended.count("streams_with_missing_segments"), 1, "{}", ended.report);
    assert_eq!(ended.count("identical"), 3, "{}", ended.report);
    assert_eq!((ended.count("differences/total"), ended.exit_code), (0, 0), "{}", ended.report);
}

#[test]
fn a_candidate_with_another_limit_differs_from_the_capture() {
    let (live, candidate) = (larderd(&[]), larderd(&["-I", "1k"]));
    let mut pcap = Pcap::new();
    let mut conversation = Conversation::open(4000, &mut pcap);
    let request = format!("set k 0 0 1500\r\n{}\r\n", "x".repeat(1500));
    let answer = live.connect().unwrap().ask(request.as_bytes(), b"\r\n").unwrap();
    for frame in conversation.send(true, request.as_bytes(), 1000) {
        pcap.push(&frame);
    }
    conversation.send(false, &answer, 1000).iter().for_each(|frame| pcap.push(frame));
    let (ended, _) = replayed(&pcap.bytes, candidate.address(), &[]);
    ended.differs("error_at_candidate");
}

#[test]
fn files_that_are_no_captures_are_refused_and_cut_ones_are_read_up_to_the_cut() {
    let (live, candidate) = (larderd(&[]), larderd(&[]));
    let (ended, stderr) = replayed(b"get k\r\n", candidate.address(), &[]);
    assert_eq!(ended.exit_code, 2);
    assert!(stderr.contains("is not a packet capture"), "{stderr}");
    let whole = record(&live, |_, _, _| {}).bytes;
    let (ended, stderr) = replayed(&whole[..whole.len() - 9], candidate.address(), &[]);
    assert!(stderr.contains("cut off"), "{stderr}");
    ended.is_complete();
    assert_eq!(ended.exit_code, 0, "{}", ended.report);
    let (ended, stderr) = replayed(&whole, candidate.address(), &["--live", "10.0.0.3:11211"]);
    assert_eq!(ended.exit_code, 2);
    assert!(stderr.contains("has no connection to a server at port 11211"), "{stderr}");
    // No damage of the bytes makes the tool panic.
    for place in (24..whole.len()).step_by(37) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0xff;
        let (ended, stderr) = replayed(&damaged, candidate.address(), &[]);
        assert!((0..=2).contains(&ended.exit_code), "{place}: {}: {stderr}", ended.exit_code);
        assert!(!stderr.contains("panicked"), "{place}: {stderr}");
    }
}

/// Packets as the kernel delivers them to tcpdump.
#[test]
fn packets_of_the_loopback_interface_are_replayed() {
    let opened = socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        SocketFlags::NONBLOCK,
        // All protocols.
        Some(rustix::net::Protocol::from_raw(0x0300.try_into().unwrap())),
    );
    let capture = match opened {
        Ok(capture) => capture,
        Err(error) => return skip(format!("this user may not capture packets: {error}")),
    };
    let args = ["-m", "64"];
    let live = ServerUnderTest::start(&binary(), Transport::Tcp, &args).unwrap();
    let candidate = larderd(&[]);
    let Address::Tcp(address) = *live.address() else { panic!("a port") };
    let is_over = Arc::new(AtomicBool::new(false));
    let capturing = std::thread::spawn({
        let is_over = is_over.clone();
        move || {
            let (mut pcap, mut frame) = (Pcap::new(), vec![0; 1 << 17]);
            while !is_over.load(Relaxed) {
                match recv(&capture, &mut frame[..], RecvFlags::empty()) {
                    Ok((bytes, _)) if is_of(&frame[..bytes], address) => pcap.push(&frame[..bytes]),
                    Ok(_) => {}
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
            pcap
        }
    });
    let mut client = live.connect().unwrap();
    let value = "v".repeat(10_000);
    let set = format!("set large 0 0 {}\r\n{value}\r\n", value.len());
    client.ask(set.as_bytes(), b"STORED\r\n").unwrap();
    client.ask(b"get large\r\n", b"END\r\n").unwrap();
    client.write_all(b"get a\r\nget b\r\n").unwrap();
    client.ask(b"get c\r\n", b"END\r\nEND\r\nEND\r\n").unwrap();
    drop(client);
    std::thread::sleep(Duration::from_millis(100));
    is_over.store(true, Relaxed);
    let pcap = capturing.join().unwrap();
    let (ended, stderr) =
        replayed(&pcap.bytes, candidate.address(), &["--live", &address.to_string()]);
    ended.is_complete();
    assert_eq!(stderr, "");
    assert_eq!((ended.count("requests"), ended.exit_code), (5, 0), "{}", ended.report);
    assert_eq!(ended.count("identical"), 5, "{}", ended.report);
}

/// True if a frame of the loopback interface belongs to this server. It is delivered twice, when
/// it is sent and when it arrives.
fn is_of(frame: &[u8], address: SocketAddr) -> bool {
    let port = address.port().to_be_bytes();
    let is_ipv4 = frame.get(12..14) == Some(&[8, 0]);
    is_ipv4 && (frame.get(34..36) == Some(&port[..]) || frame.get(36..38) == Some(&port[..]))
}

/// The format of the other tools, pcapng, is read by the same library. A minimal file shows that
/// the tool accepts it.
#[test]
fn pcapng_is_read() {
    let (live, candidate) = (larderd(&[]), larderd(&[]));
    let pcap = record(&live, |_, _, _| {}).bytes;
    let block = |kind: u32, body: &[u8]| {
        let padded = body.len().next_multiple_of(4);
        let length = (padded + 12) as u32;
        let mut block = [kind.to_le_bytes(), length.to_le_bytes()].concat();
        block.extend_from_slice(body);
        block.resize(8 + padded, 0);
        block.extend_from_slice(&length.to_le_bytes());
        block
    };
    let word = |number: u32| number.to_le_bytes();
    let section = [&word(0x1a2b_3c4d)[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let mut file = block(0x0a0d_0d0a, &section);
    file.extend(block(1, &[&[1, 0, 0, 0][..], &word(0)].concat()));
    let mut rest = &pcap[24..];
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap());
        let (frame, after) = rest[16..].split_at(length as usize);
        let head = [word(0), word(0), word(0), word(length), word(length)].concat();
        file.extend(block(6, &[&head[..], frame].concat()));
        rest = after;
    }
    let (ended, stderr) = replayed(&file, candidate.address(), &[]);
    assert_eq!(stderr, "");
    ended.agrees(7, &[]);
}
