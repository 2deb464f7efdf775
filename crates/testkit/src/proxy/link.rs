//! A connection through the proxy. A thread for each direction moves its bytes.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Flow, Flows, lock};

/// A connection of a client, and the one to the server that belongs to it.
#[derive(Clone, Debug)]
pub struct Link(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: TcpStream,
    server: TcpStream,
    flows: Mutex<Flows>,
    is_cut: AtomicBool,
    /// True if bytes of a direction are missing. Written under the lock of `flows`.
    has_lost: AtomicBool,
    /// The number of directions whose sender has closed them.
    closed: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Clone, Copy)]
enum Direction {
    ToServer,
    ToClient,
}

impl Link {
    pub(super) fn start(client: TcpStream, server: TcpStream, flows: Flows) -> io::Result<Self> {
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
        }
        let flows = Mutex::new(flows);
        let (is_cut, has_lost, closed, bytes) = Default::default();
        let shared = Shared { client, server, flows, is_cut, has_lost, closed, bytes };
        let link = Self(Arc::new(shared));
        for direction in [Direction::ToServer, Direction::ToClient] {
            let link = link.clone();
            thread::spawn(move || {
                if link.carry(direction).is_err() {
                    link.cut();
                }
            });
        }
        Ok(link)
    }

    /// Sets what happens to the next bytes. Cuts the link if bytes are missing and other flows
    /// follow: a peer would take the next response for that of an earlier request.
    pub fn set(&self, flows: &Flows) {
        let mut current = lock(&self.0.flows);
        if self.0.has_lost.load(Relaxed) && *current != *flows {
            self.cut();
        }
        *current = flows.clone();
    }

    /// Closes both connections. Bytes that are delayed disappear.
    pub fn cut(&self) {
        self.0.is_cut.store(true, Relaxed);
        for stream in [&self.0.client, &self.0.server] {
            // Fails if the peer has closed it.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// True once the link was cut, or a peer has closed its connection.
    pub fn is_cut(&self) -> bool {
        self.0.is_cut.load(Relaxed)
    }

    /// Returns the number of bytes that arrived from both sides.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Relaxed)
    }

    /// Moves the bytes of a direction until its sender closes it, or the link is cut.
    fn carry(&self, direction: Direction) -> io::Result<()> {
        let (mut from, to) = match direction {
            Direction::ToServer => (&self.0.client, &self.0.server),
            Direction::ToClient => (&self.0.server, &self.0.client),
        };
        let mut queue = Queue::default();
        let mut is_open = true;
        while !self.is_cut() && (is_open || !queue.pieces.is_empty()) {
            let can_read = is_open && queue.bytes < QUEUED_MAX;
            let (readable, writable) = wait(from, to, can_read, queue.wait())?;
            if readable {
                let mut piece = vec![0; PIECE_BYTES];
                match from.read(&mut piece) {
                    Ok(0) => is_open = false,
                    Ok(count) => {
                        piece.truncate(count);
                        self.0.bytes.fetch_add(count as u64, Relaxed);
                        queue.push(piece, &self.next_flow(direction));
                    }
                    Err(error) if is_transient(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            if writable {
                queue.send(to)?;
            }
        }
        // Fails if the peer has closed the connection.
        let _ = to.shutdown(Shutdown::Write);
        if self.0.closed.fetch_add(1, Relaxed) > 0 {
            self.cut();
        }
        Ok(())
    }

    /// Returns the flow of bytes that have arrived.
    fn next_flow(&self, direction: Direction) -> Flow {
        let flows = lock(&self.0.flows);
        let flow = match direction {
            Direction::ToServer => flows.to_server.clone(),
            Direction::ToClient => flows.to_client.clone(),
        };
        if matches!(flow, Flow::Swallow | Flow::Garbage(_)) {
            self.0.has_lost.store(true, Relaxed);
        }
        flow
    }
}

/// Bytes on their way, with the moments at which they are due.
#[derive(Default)]
struct Queue {
    pieces: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
}

impl Queue {
    fn push(&mut self, piece: Vec<u8>, flow: &Flow) {
        let now = Instant::now();
        // Bytes never overtake others.
        let last = self.pieces.back().map_or(now, |(due, _)| now.max(*due));
        match flow {
            Flow::Pass => self.add(last, piece),
            Flow::Delay(delay) => self.add(last.max(now + *delay), piece),
            Flow::Swallow => {}
            Flow::Garbage(bytes) => self.add(last, bytes.clone()),
            Flow::Slow(rate) => {
                let part_bytes = rate.div_ceil(SLOW_PIECES).max(1) as usize;
                let period = Duration::from_secs(1) / SLOW_PIECES as u32;
                for (number, part) in piece.chunks(part_bytes).enumerate() {
                    self.add(last + period * (number as u32 + 1), part.to_vec());
                }
            }
        }
    }

    fn add(&mut self, due: Instant, piece: Vec<u8>) {
        self.bytes += piece.len();
        self.pieces.push_back((due, piece));
    }

    /// Returns the time until the first bytes are due; `None` without bytes.
    fn wait(&self) -> Option<Duration> {
        self.pieces.front().map(|(due, _)| due.saturating_duration_since(Instant::now()))
    }

    /// Sends the bytes that are due, as far as the peer receives them.
    fn send(&mut self, mut to: &TcpStream) -> io::Result<()> {
        while let Some((due, piece)) = self.pieces.front_mut()
            && *due <= Instant::now()
        {
            match to.write(piece) {
                Ok(count) => {
                    self.bytes -= count;
                    piece.drain(..count);
                    if piece.is_empty() {
                        self.pieces.pop_front();
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_transient(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Waits until `from` can be read, or bytes are due (`due`) and `to` can be written, at most for
/// [`POLL`]. A closed connection counts as ready: the call that follows returns the error.
fn wait(
    from: &TcpStream,
    to: &TcpStream,
    can_read: bool,
    due: Option<Duration>,
) -> io::Result<(bool, bool)> {
    let is_due = due.is_some_and(|wait| wait.is_zero());
    let timeout = due.filter(|_| !is_due).map_or(POLL, |due| due.min(POLL));
    let timeout =
        Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    let mut polled = Vec::with_capacity(2);
    polled.extend(can_read.then(|| PollFd::new(from, PollFlags::IN)));
    polled.extend(is_due.then(|| PollFd::new(to, PollFlags::OUT)));
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut is_ready = polled.iter().map(|polled| !polled.revents().is_empty());
    let readable = can_read && is_ready.next().unwrap_or_default();
    Ok((readable, is_due && is_ready.next().unwrap_or_default()))
}

/// The longest time until a thread notices that its link is cut.
const POLL: Duration = Duration::from_millis(100);
const PIECE_BYTES: usize = 64 << 10;
const QUEUED_MAX: usize = 4 << 20;
const SLOW_PIECES: u64 = 100;
