//! A peer that disconnects in any state: its connection and all of its resources must be freed, and
//! other clients must notice nothing. Also peers that read little at a time, or connect in large
//! numbers.
//!
//! The table combines the state of a peer ([`STATES`]), how and how soon it disconnects
//! ([`Death`]), how it is connected ([`Route`]) and the server's poller ([`LOOPS`]).

use std::io::{Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::{Address, Stream};
use socket2::{Domain, Socket, Type};

use crate::peers::{Death, Peer, Route, Site};

/// The state of a peer when it disconnects.
struct State {
    name: &'static str,
    /// The bytes it has sent before.
    sent: fn() -> Vec<u8>,
    /// The response that it expects if it still reads.
    owed: Owed,
}

enum Owed {
    /// Exactly these bytes.
    Just(fn() -> Vec<u8>),
    /// A response with this prefix.
    Beginning(&'static [u8]),
    /// A line for each item, between lines with this prefix and this suffix.
    Items(&'static [u8], &'static [u8]),
}

const STATES: &[State] = &[
    State { name: "before the first byte", sent: Vec::new, owed: Owed::Just(Vec::new) },
    State {
        name: "within a line",
        sent: || b"mn\r\nget sma".to_vec(),
        owed: Owed::Just(|| b"MN\r\n".to_vec()),
    },
    State {
        name: "within a long line",
        sent: || [&b"mn\r\nget"[..], &b" absent".repeat(10_000)].concat(),
        owed: Owed::Just(|| b"MN\r\n".to_vec()),
    },
    State {
        name: "within a small value",
        sent: || b"mn\r\nset cut 0 0 100\r\nhalf of i".to_vec(),
        owed: Owed::Just(|| b"MN\r\n".to_vec()),
    },
    State {
        name: "before the end of a line behind a value",
        sent: || b"set cut 0 0 4\r\nhalf\r".to_vec(),
        owed: Owed::Just(Vec::new),
    },
    State {
        name: "within a value of 1 MB",
        sent: || [&b"mn\r\nset cut 0 0 1000000\r\n"[..], &[b'v'; 700_000]].concat(),
        owed: Owed::Just(|| b"MN\r\n".to_vec()),
    },
    State {
        name: "within a value that is refused",
        sent: || [&b"mn\r\nset cut 0 0 10000000\r\n"[..], &[b'v'; 3_000_000]].concat(),
        // The refusal follows the value.
        owed: Owed::Just(|| b"MN\r\n".to_vec()),
    },
    State {
        name: "within an answer of 8 MB of which it reads nothing",
        sent: || LARGE_GET.to_vec(),
        owed: Owed::Just(|| [&large_item().repeat(16)[..], b"END\r\n"].concat()),
    },
    State {
        name: "within a pipeline of 10,000 gets",
        sent: || b"get small\r\n".repeat(10_000),
        owed: Owed::Just(|| SMALL_ANSWER.repeat(10_000)),
    },
    State {
        name: "within a pipeline of 10,000 stores and gets, the last one cut",
        sent: || {
            [&b"set s 0 0 2\r\nab\r\nget s\r\n".repeat(10_000)[..], b"set cut 0 0 2\r\na"].concat()
        },
        owed: Owed::Just(|| b"STORED\r\nVALUE s 0 2\r\nab\r\nEND\r\n".repeat(10_000)),
    },
    State {
        name: "while it watches",
        sent: || b"watch fetchers mutations\r\n".to_vec(),
        owed: Owed::Beginning(b"OK\r\n"),
    },
    State {
        name: "within a dump",
        sent: || b"lru_crawler metadump all\r\n".to_vec(),
        owed: Owed::Items(b"OK\r\n", b"END\r\n"),
    },
    State {
        name: "within the word quit",
        sent: || b"mn\r\nqui".to_vec(),
        owed: Owed::Just(|| b"MN\r\n".to_vec()),
    },
    State { name: "behind quit", sent: || b"quit\r\n".to_vec(), owed: Owed::Just(Vec::new) },
    State {
        name: "behind quit, with 8 MB still to come",
        sent: || [LARGE_GET, b"quit\r\n", &b"get small\r\n".repeat(5000)].concat(),
        owed: Owed::Just(|| [&large_item().repeat(16)[..], b"END\r\n"].concat()),
    },
];

const LARGE_BYTES: usize = 500_000;
const LARGE_GET: &[u8] =
    b"get large large large large large large large large large large large large \
    large large large large\r\n";
const SMALL_ANSWER: &[u8] =
    b"VALUE small 0 100\r\n0123456789012345678901234567890123456789012345678901234\
    567890123456789012345678901234567890123456789\r\nEND\r\n";
/// The number of other items: too many for their list to fit any socket buffer.
const ITEMS: usize = 30_000;
const KEY_BYTES: usize = 240;

fn large_value() -> Vec<u8> {
    (0..LARGE_BYTES).map(|at| b'a' + (at % 23) as u8).collect()
}

fn large_item() -> Vec<u8> {
    [&b"VALUE large 0 500000\r\n"[..], &large_value(), b"\r\n"].concat()
}

const LOOPS: [&str; 2] = ["uring", "epoll"];

/// How soon after its request the peer disconnects: while the server still executes the request, or
/// after that, while the response waits in the socket.
const DELAYS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(20)];

/// Resources held by the connections of a server, and its items.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    stats: [u64; KEPT.len()],
    descriptors: usize,
}

const KEPT: [&str; 10] = [
    "curr_connections",
    "connection_structures",
    "read_buf_count",
    "read_buf_bytes",
    "response_obj_count",
    "response_obj_bytes",
    "lru_crawler_running",
    "log_watchers",
    "curr_items",
    "bytes",
];

impl Account {
    fn of(site: &Site, stream: &mut Stream) -> Result<Self> {
        let answer = String::from_utf8(stream.ask(b"stats\r\n", b"END\r\n")?)?;
        let mut stats = [0; KEPT.len()];
        for (stat, name) in stats.iter_mut().zip(KEPT) {
            let head = format!("STAT {name} ");
            let value = answer.lines().find_map(|line| line.strip_prefix(&head));
            *stat = value.with_context(|| format!("no {name} in {answer}"))?.parse()?;
        }
        Ok(Self { stats, descriptors: site.scene.server.descriptor_count()? })
    }

    /// Waits until all counts are as before.
    fn is_back(&self, site: &Site, stream: &mut Stream) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let now = Self::of(site, stream)?;
            if now == *self {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{KEPT:?} were {self:?} and stay {now:?}");
            sleep(Duration::from_millis(1));
        }
    }
}

/// Stores a large value, and returns the response.
fn store_large(stream: &mut Stream) -> Result<Vec<u8>> {
    let set = [&b"set large 0 0 500000\r\n"[..], &large_value(), b"\r\n"].concat();
    stream.ask(&set, b"STORED\r\n")?;
    Ok(large_item())
}

/// Stores the items that the states need.
fn fill(stream: &mut Stream) -> Result<()> {
    let small = &SMALL_ANSWER[b"VALUE small 0 100\r\n".len()..][..100];
    stream.ask(&[b"set small 0 0 100\r\n", small, b"\r\n"].concat(), b"STORED\r\n")?;
    stream.ask(b"set s 0 0 2\r\nab\r\n", b"STORED\r\n")?;
    store_large(stream)?;
    for first in (0..ITEMS).step_by(1000) {
        let keys = first..first + 1000;
        let sets: String =
            keys.map(|key| format!("set {key:0KEY_BYTES$} 0 0 0 noreply\r\n\r\n")).collect();
        stream.write_all(sets.as_bytes())?;
    }
    stream.ask(b"mn\r\n", b"MN\r\n")?;
    Ok(())
}

/// Reads to the end, and compares with the expected response.
fn expect(owed: &Owed, peer: &mut Peer) -> Result<()> {
    let mut answer = Vec::new();
    let shown = |answer: &[u8]| {
        let (front, back) =
            (&answer[..answer.len().min(60)], &answer[answer.len().saturating_sub(60)..]);
        format!("{} bytes: {} ... {}", answer.len(), front.escape_ascii(), back.escape_ascii())
    };
    peer.read_to_end(&mut answer).with_context(|| shown(&answer))?;
    let is_paid = match owed {
        Owed::Just(owed) => answer == owed(),
        Owed::Beginning(beginning) => answer.starts_with(beginning),
        Owed::Items(beginning, end) => {
            let keys =
                answer.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"key=0"));
            answer.starts_with(beginning) && answer.ends_with(end) && keys.count() == ITEMS
        }
    };
    ensure!(is_paid, "what it is owed is not {}", shown(&answer));
    Ok(())
}

fn die_everywhere(route: Route) -> Result<()> {
    for io in LOOPS {
        let Some(site) = Site::start(route, io, &["-t", "2", "-m", "128"])? else { continue };
        let mut control = site.control()?;
        fill(&mut control)?;
        let before = Account::of(&site, &mut control)?;
        for (state, (death, delay)) in pairs(STATES, &deaths(route)) {
            let row = || format!("{route:?}, {io}: {death:?} {} after {delay:?}", state.name);
            die(&site, state, *death, *delay).with_context(row)?;
            before.is_back(&site, &mut control).with_context(row)?;
            let cut = control.ask(b"get cut\r\n", b"END\r\n").with_context(row)?;
            ensure!(cut == b"END\r\n", "{}: what was cut is stored", row());
        }
        drop(control);
        site.scene.end()?;
    }
    Ok(())
}

/// Returns all pairs.
fn pairs<'a, A, B>(these: &'a [A], those: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    these.iter().flat_map(move |this| those.iter().map(move |that| (this, that)))
}

/// Returns the ways to disconnect, each of them immediate and delayed.
fn deaths(route: Route) -> Vec<(Death, Duration)> {
    pairs(route.deaths(), &DELAYS).map(|(death, delay)| (*death, *delay)).collect()
}

fn die(site: &Site, state: &State, death: Death, delay: Duration) -> Result<()> {
    let mut peer = site.connect()?;
    peer.send(&(state.sent)())?;
    sleep(delay);
    match peer.die(death)? {
        Some(mut peer) => expect(&state.owed, &mut peer),
        None => Ok(()),
    }
}

#[test]
fn a_peer_on_tcp_goes_away() -> Result<()> {
    die_everywhere(Route::Tcp)
}

#[test]
fn a_peer_on_a_unix_socket_goes_away() -> Result<()> {
    die_everywhere(Route::Unix)
}

#[test]
fn a_peer_with_tls_goes_away() -> Result<()> {
    die_everywhere(Route::Tls)
}

#[test]
fn a_peer_goes_away_before_its_handshake_is_done() -> Result<()> {
    for io in LOOPS {
        let Some(site) = Site::start(Route::Tls, io, &["-t", "2"])? else { continue };
        let mut control = site.control()?;
        let before = Account::of(&site, &mut control)?;
        let hello = site.hello()?;
        for (name, bytes) in [
            ("before the first byte", 0),
            ("within the head of a record", 3),
            ("within its hello", hello.len() / 2),
            ("before the last byte of its hello", hello.len() - 1),
            ("behind its hello", hello.len()),
        ] {
            for (death, delay) in deaths(Route::Tls) {
                let row = || format!("{io}: {death:?} {name} after {delay:?}");
                let mut peer = Peer::Plain(Stream::connect(&site.address())?);
                peer.send(&hello[..bytes])?;
                sleep(delay);
                if let Some(mut peer) = peer.die(death)? {
                    let mut rest = Vec::new();
                    peer.read_to_end(&mut rest).with_context(row)?;
                    ensure!(rest.is_empty() == (bytes < hello.len()), "{}: {rest:02x?}", row());
                }
                before.is_back(&site, &mut control).with_context(row)?;
            }
        }
        drop(control);
        site.scene.end()?;
    }
    Ok(())
}

/// Connects over TCP with a very small receive buffer.
fn connect_with_little_room(address: &Address) -> Result<Stream> {
    let Address::Tcp(address) = address else { return Ok(Stream::connect(address)?) };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_recv_buffer_size(1)?;
    socket.set_send_buffer_size(1)?;
    socket.connect(&(*address).into())?;
    let stream = Stream::Tcp(socket.into());
    stream.set_timeout(Duration::from_secs(10))?;
    Ok(stream)
}

#[test]
fn an_answer_of_4_megabytes_is_taken_a_little_at_a_time() -> Result<()> {
    for (route, io) in pairs(&[Route::Tcp, Route::Unix], &LOOPS) {
        let Some(site) = Site::start(*route, io, &["-t", "1"])? else { continue };
        let mut control = site.scene.connect()?;
        let item = store_large(&mut control)?;
        let mut peer = connect_with_little_room(&site.address())?;
        peer.write_all(&[b"get", &b" large".repeat(8)[..], b"\r\n"].concat())?;
        let expected = [&item.repeat(8)[..], b"END\r\n"].concat();
        let (mut taken, mut piece) = (0, [0; 1000]);
        while taken < expected.len() {
            // Byte by byte, then faster, then byte by byte again.
            let is_slow = taken < 20_000 || expected.len() - taken < 20_000;
            let bytes = peer.read(&mut piece[..if is_slow { 1 } else { 1000 }])?;
            ensure!(bytes > 0, "{route:?}, {io}: it ends after {taken} bytes");
            let is_right = piece[..bytes] == expected[taken..][..bytes];
            ensure!(is_right, "{route:?}, {io}: other bytes at {taken}");
            taken += bytes;
        }
        peer.ask(b"mn\r\n", b"MN\r\n")?;
        drop((peer, control));
        site.scene.end()?;
    }
    Ok(())
}

#[test]
fn two_thousand_connections_come_and_go_at_once() -> Result<()> {
    for (route, io) in pairs(&[Route::Tcp, Route::Unix], &LOOPS) {
        let Some(site) = Site::start(*route, io, &["-t", "2", "-b", "4096"])? else { continue };
        let mut control = site.control()?;
        let before = Account::of(&site, &mut control)?;
        for burst in 0..10 {
            let mut peers = (0..200).map(|_| site.connect()).collect::<Result<Vec<_>>>()?;
            for (number, mut peer) in peers.drain(..).enumerate() {
                let words = [&b""[..], b"get nothing\r\n", b"set cut 0 0 10\r\n12", b"get"];
                peer.send(words[(burst + number) % words.len()])?;
                let deaths = route.deaths();
                peer.die(deaths[number % deaths.len()])?;
            }
        }
        before.is_back(&site, &mut control).with_context(|| format!("{route:?}, {io}"))?;
        drop(control);
        site.scene.end()?;
    }
    Ok(())
}

/// A ring lends 128 buffers.
#[test]
fn parts_of_240_values_arrive_at_the_same_moment() -> Result<()> {
    const PEERS: usize = 240;
    let value =
        |number: usize| -> Vec<u8> { (0..60_000).map(|at| (at * 7 + number) as u8).collect() };
    for io in LOOPS {
        let Some(site) = Site::start(Route::Tcp, io, &["-t", "1", "-m", "256"])? else { continue };
        let mut peers = (0..PEERS).map(|_| site.connect()).collect::<Result<Vec<_>>>()?;
        for range in [0..20_000, 20_000..40_000, 40_000..60_000] {
            site.scene.while_stopped(|| {
                for (number, peer) in peers.iter_mut().enumerate() {
                    if range.start == 0 {
                        peer.send(format!("set key{number} 0 0 60000\r\n").as_bytes())?;
                    }
                    peer.send(&value(number)[range.clone()])?;
                }
                Ok(())
            })?;
        }
        for peer in &mut peers {
            peer.send(b"\r\n")?;
        }
        for (number, peer) in peers.iter_mut().enumerate() {
            let Peer::Plain(stream) = peer else { unreachable!("the route has no TLS") };
            stream.ask(b"", b"STORED\r\n").with_context(|| format!("{io}: {number}"))?;
        }
        let mut control = site.scene.connect()?;
        for number in 0..PEERS {
            let get = format!("get key{number}\r\n");
            let answer = control.ask(get.as_bytes(), b"\r\nEND\r\n")?;
            let head = format!("VALUE key{number} 0 60000\r\n");
            let expected = [head.as_bytes(), &value(number), b"\r\nEND\r\n"].concat();
            ensure!(answer == expected, "{io}: another value under key{number}");
        }
        drop((peers, control));
        site.scene.end()?;
    }
    Ok(())
}
