//! UDP: each datagram is a separate conversation.
//!
//! A request is one datagram: a header of eight bytes, then the same bytes as over TCP. The
//! response is one message of up to 65,535 datagrams, numbered from 0. An attacker can flood a
//! third party by sending small requests with a forged source address. To prevent that, the
//! response to another machine is limited to a multiple of the request's length. A request that
//! must wait for the disk continues in another thread.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use larder::{DiskRead, DurabilityTicket, TicketState, Wait};
use larder_stats::Counter;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};

use crate::buffers::output::Output;
use crate::clock::monotonic_ns;
use crate::net::scratch::Scratch;
use crate::net::terms::ListenerTerms;
use crate::observe::slow::{Client, TimedRequests};
use crate::session::execute::disk_threads::DiskThreads;
use crate::session::execute::{Executor, NO_CONNECTION};
use crate::session::{Allowance, Next, Session};

/// A UDP socket. All workers share it.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub(crate) socket: OwnedFd,
    pub(crate) address: SocketAddr,
    pub(crate) terms: ListenerTerms,
}

/// The header of a datagram: the request id, the number of this datagram, and the total number of
/// datagrams. The last two bytes are reserved and 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    request: [u8; 2],
    /// The number of the datagram within its message, counted from 0.
    sequence: u16,
    /// How many datagrams the message has.
    count: u16,
}

/// The parts of a worker that execute requests of datagrams.
pub(crate) struct Site<'a> {
    pub(crate) executor: &'a Executor,
    /// How the operations of a worker wait for the disk.
    pub(crate) wait: Wait<'a>,
    /// `None` without a disk tier.
    pub(crate) disk_threads: Option<&'a DiskThreads>,
    /// When the worker learned of the requests.
    pub(crate) arrived_ns: u64,
}

/// Serves waiting requests of one of the sockets, up to a limit.
pub(crate) fn serve(
    sockets: &Arc<[Datagrams]>,
    number: usize,
    site: &Site<'_>,
    scratch: &mut Scratch,
) {
    let Site { executor, wait, disk_threads, arrived_ns } = *site;
    let (mut received_bytes, mut turns) = (0, 0);
    while turns < TURNS_MAX && received_bytes <= BYTES_PER_TURN {
        turns += 1;
        let socket = &sockets[number];
        let (bytes, peer) = match recvfrom(&socket.socket, &mut *scratch.input, RecvFlags::empty())
        {
            Ok((bytes, _, Some(peer))) => (bytes, peer),
            Ok((_, _, None)) | Err(Errno::INTR | Errno::CONNREFUSED) => continue,
            Err(_) => return,
        };
        executor.counters().add(Counter::WireBytesRead, bytes as u64);
        if let Ok(peer) = SocketAddr::try_from(peer) {
            let received = Received {
                datagram: &scratch.input[..bytes],
                peer,
                arrived_ns,
                is_limited: socket.terms.is_readonly,
            };
            let out = &mut scratch.output;
            match begin(executor, wait, received, out) {
                Begun::NoRequest => {}
                Begun::Over { head, more_turns, timed } => {
                    turns += more_turns;
                    send(head, &out.bytes, |datagram| socket.send(executor, datagram, peer));
                    note(executor, timed, peer);
                }
                Begun::Waits(mut waiting) => {
                    let sockets = Arc::clone(sockets);
                    // The request is dropped if too many requests wait. UDP permits that.
                    let _ = disk_threads.map(|threads| {
                        threads.execute(move |executor| {
                            waiting.end(executor);
                            let socket = &sockets[number];
                            send(waiting.head, &waiting.out.bytes, |datagram| {
                                socket.send(executor, datagram, peer)
                            });
                            note(executor, waiting.session.take_timed(), peer);
                        })
                    });
                }
            }
        }
        scratch.clear_output();
        received_bytes += bytes;
    }
}

impl Datagrams {
    /// Sends a datagram. Returns false if the system drops it for lack of buffer space. UDP permits
    /// that.
    fn send(&self, executor: &Executor, datagram: &[u8], peer: SocketAddr) -> bool {
        let sent = sendto(&self.socket, datagram, SendFlags::NOSIGNAL, &peer);
        sent.inspect(|sent| executor.counters().add(Counter::WireBytesWritten, *sent as u64))
            .is_ok()
    }
}

/// Responds to a datagram that came from `peer`, for a server without a disk tier. Passes the
/// datagrams of the response to `pass_on`, until `pass_on` returns false. Passes none if the
/// datagram is not a request. `out` must be empty; it holds the response during the call. Returns
/// the number of turns the request took beyond the first.
pub fn reply(
    executor: &Executor,
    datagram: &[u8],
    peer: SocketAddr,
    out: &mut Output,
    pass_on: impl FnMut(&[u8]) -> bool,
) -> usize {
    let received = Received { datagram, peer, arrived_ns: monotonic_ns(), is_limited: false };
    match begin(executor, Wait::Block, received, out) {
        Begun::NoRequest | Begun::Waits(_) => 0,
        Begun::Over { head, more_turns, .. } => {
            send(head, &out.bytes, pass_on);
            more_turns
        }
    }
}

/// The outcome of the first attempt at a request.
enum Begun {
    /// The datagram is not a request.
    NoRequest,
    /// The response is complete, or it is a refusal.
    Over { head: Head, more_turns: usize, timed: Option<TimedRequests> },
    /// The request waits for the disk.
    Waits(Box<WaitingRequest>),
}

/// A request that waits for the disk.
struct WaitingRequest {
    head: Head,
    /// The complete request, and how many of its bytes have been executed.
    request: Vec<u8>,
    consumed: usize,
    session: Session,
    /// The response so far, and its maximum length.
    out: Output,
    bytes_max: usize,
    /// The disk writes that the response so far waits for.
    awaited: Option<DurabilityTicket>,
}

/// A datagram that was received.
#[derive(Clone, Copy)]
struct Received<'a> {
    datagram: &'a [u8],
    peer: SocketAddr,
    /// When the worker learned of it.
    arrived_ns: u64,
    /// True if the socket accepts only commands that change nothing.
    is_limited: bool,
}

/// Executes a request, as far as the worker can without waiting for the disk.
fn begin(executor: &Executor, wait: Wait<'_>, received: Received<'_>, out: &mut Output) -> Begun {
    let Received { datagram, peer, arrived_ns, is_limited } = received;
    let Some((head, request)) = Head::read(datagram) else { return Begun::NoRequest };
    let bytes_max = answer_bytes_max(executor, datagram.len(), peer);
    executor.turn_to(NO_CONNECTION);
    let mut session = Session::brief(executor.server());
    if is_limited {
        session.limit_to_reading();
    }
    session.note_arrival(arrived_ns);
    let (cache, limits) = (executor.cache(), Limits { turns_max: TURNS_MAX, bytes_max });
    let RequestProgress { consumed, turns, next } =
        converse(&mut session, executor, wait, request, limits, out);
    let awaited = wait.take_awaited();
    let durability = awaited.map_or(TicketState::Durable, |awaited| cache.durability(awaited));
    let is_within = out.len() <= bytes_max;
    let is_answered = matches!(next, Next::Input | Next::Lines | Next::Close) && is_within;
    let needs_disk = next == Next::Disk || wait.asks() && turns == TURNS_MAX;
    if needs_disk || is_answered && durability == TicketState::Pending {
        let (request, out) = (request.to_vec(), std::mem::take(out));
        let waiting = WaitingRequest { head, request, consumed, session, out, bytes_max, awaited };
        return Begun::Waits(Box::new(waiting));
    }
    if !is_answered || durability != TicketState::Durable {
        refuse(request, &mut out.bytes);
    }
    Begun::Over { head, more_turns: turns - 1, timed: session.take_timed() }
}

/// Logs and lists a request that is answered, if it was slow.
fn note(executor: &Executor, timed: Option<TimedRequests>, peer: SocketAddr) {
    if let Some(timed) = timed {
        executor.note_timed(timed, || Client::Datagram(peer));
    }
}

impl WaitingRequest {
    /// Executes the rest of the request, on a thread that may wait for the disk. Afterwards the
    /// response is complete, or it is a refusal.
    fn end(&mut self, executor: &Executor) {
        let Self { request, consumed, session, out, bytes_max, .. } = self;
        let limits = Limits { turns_max: 1, bytes_max: *bytes_max };
        let is_answered = loop {
            let rest = &request[*consumed..];
            let conversed = converse(session, executor, Wait::Block, rest, limits, out);
            *consumed += conversed.consumed;
            match conversed.next {
                Next::Turn | Next::GiveWay => {}
                Next::Disk => {
                    let reads = session.reads_to_list().into_iter();
                    session.give_read(reads.map(DiskRead::perform).collect());
                }
                Next::Drain | Next::Region | Next::Changes | Next::Wake | Next::Origin => {
                    break false;
                }
                Next::Input | Next::Lines | Next::Close => break out.len() <= *bytes_max,
            }
        };
        let cache = executor.cache();
        let durability = self.awaited.map_or(TicketState::Durable, |at| cache.wait_durable(at));
        if !is_answered || durability != TicketState::Durable {
            refuse(&self.request, &mut self.out.bytes);
        }
    }
}

/// The limits on the execution of a request.
#[derive(Clone, Copy)]
struct Limits {
    turns_max: usize,
    /// The maximum length of the response.
    bytes_max: usize,
}

/// The progress of a request.
struct RequestProgress {
    /// How many bytes of the request have been executed.
    consumed: usize,
    turns: usize,
    next: Next,
}

/// Executes the commands of a request. Stops after `turns_max` turns, or once the response is
/// longer than `bytes_max`.
fn converse(
    session: &mut Session,
    executor: &Executor,
    wait: Wait<'_>,
    request: &[u8],
    limits: Limits,
    out: &mut Output,
) -> RequestProgress {
    let Limits { turns_max, bytes_max } = limits;
    let allowance = Allowance {
        commands_max: COMMANDS_MAX,
        keys_max: usize::MAX,
        out_bytes_max: bytes_max + 1,
        is_tight: false,
    };
    let (mut consumed, mut turns) = (0, 0);
    // The output has no pieces, because a brief session also copies large values.
    loop {
        let progress = session.receive(executor, wait, &request[consumed..], allowance, out);
        consumed += progress.consumed;
        turns += 1;
        let next = progress.next;
        if !matches!(next, Next::Turn | Next::GiveWay) || turns == turns_max {
            return RequestProgress { consumed, turns, next };
        }
    }
}

/// Passes the datagrams of a response to `pass_on`, until `pass_on` returns false.
fn send(head: Head, response: &[u8], mut pass_on: impl FnMut(&[u8]) -> bool) {
    let pieces = response.chunks(PAYLOAD_BYTES_MAX);
    let count = u16::try_from(pieces.len()).unwrap_or(u16::MAX);
    let mut datagram = Vec::with_capacity(DATAGRAM_BYTES_MAX);
    for (piece, sequence) in pieces.zip(0..count) {
        datagram.clear();
        Head { sequence, count, ..head }.write(&mut datagram);
        datagram.extend_from_slice(piece);
        if !pass_on(&datagram) {
            break;
        }
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Head {
    /// Splits a request into header and body. Returns `None` if it is incomplete.
    fn read(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (head, request) = datagram.split_first_chunk::<HEAD_BYTES>()?;
        let [r0, r1, s0, s1, c0, c1, _, _] = *head;
        let head = Self {
            request: [r0, r1],
            sequence: u16::from_be_bytes([s0, s1]),
            count: u16::from_be_bytes([c0, c1]),
        };
        (!request.is_empty() && head.sequence == 0 && head.count == 1).then_some((head, request))
    }

    fn write(self, datagram: &mut Vec<u8>) {
        datagram.extend_from_slice(&self.request);
        datagram.extend_from_slice(&self.sequence.to_be_bytes());
        datagram.extend_from_slice(&self.count.to_be_bytes());
        datagram.extend_from_slice(&[0, 0]);
    }
}

/// Returns the maximum length of the response without headers, so that all datagrams together stay
/// within the limit. A response to a loopback address of this machine cannot flood a third party,
/// so the request's length does not limit it.
fn answer_bytes_max(executor: &Executor, datagram_bytes: usize, peer: SocketAddr) -> usize {
    let factor = executor.server().options.udp_reply_factor;
    if factor == 0 || peer.ip().is_loopback() {
        return ANSWER_BYTES_MAX;
    }
    let wire_bytes = datagram_bytes.saturating_mul(factor);
    let (full, rest) = (wire_bytes / DATAGRAM_BYTES_MAX, wire_bytes % DATAGRAM_BYTES_MAX);
    (full * PAYLOAD_BYTES_MAX + rest.saturating_sub(HEAD_BYTES)).min(ANSWER_BYTES_MAX)
}

/// Replaces the response with an error, in the dialect of the request.
fn refuse(request: &[u8], out: &mut Vec<u8>) {
    out.clear();
    const WORDS: &[u8] = b"Too large.";
    match request {
        [0x80, opcode, _, _, _, _, _, _, _, _, _, _, o0, o1, o2, o3, ..] => {
            out.extend_from_slice(&[0x81, *opcode, 0, 0, 0, 0, 0, 3, 0, 0, 0, WORDS.len() as u8]);
            out.extend_from_slice(&[*o0, *o1, *o2, *o3]);
            out.extend_from_slice(&[0; 8]);
            out.extend_from_slice(WORDS);
        }
        _ => out.extend_from_slice(b"SERVER_ERROR request or answer too large for UDP\r\n"),
    }
}

const HEAD_BYTES: usize = 8;

/// Length of a response datagram with its header, which fits any Ethernet frame.
const DATAGRAM_BYTES_MAX: usize = 1400;
const PAYLOAD_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - HEAD_BYTES;

/// Maximum length of a response to any peer.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The limit of commands in a turn, which no request reaches: the shortest command has four bytes,
/// and a datagram at most 64 KiB. So a request needs a second turn only after a command that ends
/// its turn early, for example statistics.
const COMMANDS_MAX: usize = 16 * 1024;

/// How many single-turn requests are answered before connections take their turns again. A request
/// that needs more turns is refused, because connections would have to wait for it.
const TURNS_MAX: usize = 16;
const BYTES_PER_TURN: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_datagram_with_something_behind_its_head() {
        let read = |datagram: &'static [u8]| Head::read(datagram);
        let (head, request) = read(b"\x12\x34\0\0\0\x01\0\0get k\r\n").unwrap();
        assert_eq!(head, Head { request: [0x12, 0x34], sequence: 0, count: 1 });
        assert_eq!(request, b"get k\r\n");
        for dropped in [
            &b""[..],
            b"\x12\x34\0\0\0\x01\0",
            b"\x12\x34\0\0\0\x01\0\0",
            b"\x12\x34\0\x01\0\x01\0\0get k\r\n",
            b"\x12\x34\0\0\0\x02\0\0get k\r\n",
            b"\x12\x34\0\0\0\0\0\0get k\r\n",
        ] {
            assert_eq!(Head::read(dropped), None, "{dropped:?}");
        }
    }

    #[test]
    fn a_head_that_is_written_can_be_read() {
        let head = Head { request: [0xab, 0xcd], sequence: 0, count: 1 };
        let mut datagram = Vec::new();
        head.write(&mut datagram);
        datagram.push(b'x');
        assert_eq!(Head::read(&datagram), Some((head, &b"x"[..])));
    }

    #[test]
    fn a_refusal_speaks_the_dialect_of_the_request() {
        let mut out = Vec::new();
        refuse(b"get k\r\n", &mut out);
        assert!(out.starts_with(b"SERVER_ERROR "));
        assert!(out.ends_with(b"\r\n"));
        let request = [&[0x80, 0x0c][..], &[0; 10], b"opaq", &[0; 8]].concat();
        refuse(&request, &mut out);
        assert_eq!(out.len(), 24 + 10);
        assert_eq!((&out[..2], out[7], &out[12..16]), (&[0x81, 0x0c][..], 3, &b"opaq"[..]));
    }
}
