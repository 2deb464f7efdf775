//! Arbitrary bytes of clients and of both servers.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use larder_testkit::Random;

use super::*;

const REQUESTS: &[&[u8]] = &[
    b"get k\r\n",
    b"gets a k b\r\n",
    b"set k 0 0 3\r\nabc\r\n",
    b"set k 0 0 3 noreply\r\nabc\r\n",
    b"cas k 0 0 1 7\r\nx\r\n",
    b"mg k v c t q\r\n",
    b"ms k 2 C7 q\r\nab\r\n",
    b"md k q\r\nmn\r\n",
    b"incr k 1\r\n",
    b"stats\r\n",
    b"lru_crawler metadump all\r\n",
    b"watch\r\n",
    b"quit\r\n",
    b"flush_all\r\n",
    b"set k 0 0 99999999\r\n",
    b"\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00k",
    b"\x80\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    b"\x16\x03\x01",
    b"\r\n",
];

const ANSWERS: &[&[u8]] = &[
    b"END\r\n",
    b"VALUE k 0 3 7\r\nabc\r\nEND\r\n",
    b"VALUE k 0 99999999999\r\n",
    b"STORED\r\n",
    b"NOT_FOUND\r\n",
    b"VA 3 c7 t-1\r\nabc\r\n",
    b"HD c7\r\n",
    b"EN\r\n",
    b"MN\r\n",
    b"OK\r\n",
    b"STAT a b\r\n",
    b"SERVER_ERROR no\r\n",
    b"5\r\n",
    b"\x81\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00k",
    b"\x81\xff\xff\xff\xff\xff",
    b"VALUE",
    b"\0",
];

/// Returns some of the pieces, sometimes damaged or cut off.
fn drawn(pieces: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(4) {
        let piece = random.one_of(pieces);
        let length = match random.below(8) {
            0 => random.below(piece.len() as u64) as usize,
            _ => piece.len(),
        };
        bytes.extend_from_slice(&piece[..length]);
        if random.below(20) == 0 {
            bytes.push(random.below(256) as u8);
        }
    }
    bytes
}

#[test]
fn arbitrary_bytes_neither_panic_nor_lose_requests() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("candidate");
    let listener = UnixListener::bind(&path).expect("a socket can be bound");
    std::thread::spawn(move || {
        let mut random = Random::with_seed(5);
        for stream in listener.incoming() {
            let (Ok(mut stream), mut buffer) = (stream, [0; 4096]) else { return };
            // Some connections end after a few responses.
            for _ in 0..random.below(30) {
                if !stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {
                    break;
                }
                if stream.write_all(&drawn(ANSWERS, &mut random)).is_err() {
                    break;
                }
            }
        }
    });
    let limits = Limits {
        total_bytes: 1 << 20,
        connection_bytes: 64 << 10,
        patience: Duration::from_millis(200),
    };
    let settings = Settings {
        candidate: Target::Unix(path),
        limits,
        ttl_tolerance_secs: 0,
        shows_keys: true,
        capture: None,
    };
    let mut comparer = Comparer::new(settings).expect("there are descriptors");
    let mut random = Random::with_seed(1);
    let mut open = [0; 6];
    for step in 0..30_000 {
        let slot = random.below(6) as usize;
        let (kind, bytes) = match random.below(40) {
            0 => (Kind::Closed, Vec::new()),
            1 => (Kind::Opened, Vec::new()),
            2 => (Kind::Gap, Vec::new()),
            3..=20 => (Kind::Request, drawn(REQUESTS, &mut random)),
            _ => (Kind::Answer, drawn(ANSWERS, &mut random)),
        };
        if kind == Kind::Opened {
            comparer.take(open[slot], Kind::Closed, b"");
            open[slot] = step + 1;
        }
        comparer.take(open[slot], kind, &bytes);
        if step % 10 == 0 {
            comparer.exchange(Duration::ZERO).expect("epoll works");
        }
        assert!(comparer.held_bytes() <= 2 * limits.total_bytes, "step {step}");
    }
    let tally = comparer.finish(Duration::from_secs(1)).expect("epoll works");
    assert!(tally.requests > 1000, "{tally:?}");
    assert_eq!(tally.requests, tally.compared_count() + tally.uncompared_count(), "{tally:?}");
}
