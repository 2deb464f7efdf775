//! A connection to a server.

use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_protocol::local::{ANSWER_BYTES_MAX, REQUEST, Region};
use larder_protocol::meta::client::{ParsedReply, Reply, read_reply};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, recvmsg, send, socket_with,
};

use super::hints::Hints;

/// The memory that a server has passed to the client, and its description.
pub(super) type Passed = (Region, File);

/// A connection, with the received bytes that are not parsed yet.
#[derive(Debug)]
pub(super) struct Connection {
    socket: UnixStream,
    received: Vec<u8>,
    /// Length of the parsed part of `received`.
    read_bytes: usize,
    /// Hints that the socket has not accepted yet; they are sent before the next request.
    unsent: Vec<u8>,
    /// True if the server wants hints about reads in its memory.
    hears_hints: bool,
}

impl Connection {
    /// Connects, and requests the server's memory. The connection also works if the server does not
    /// support this request or refuses it.
    pub(super) fn open(path: &Path, timeout: Duration) -> io::Result<(Self, Option<Passed>)> {
        let socket = UnixStream::from(connected(path, timeout)?);
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        let mut connection = Self {
            socket,
            received: Vec::new(),
            read_bytes: 0,
            unsent: Vec::new(),
            hears_hints: false,
        };
        connection.send(&[REQUEST, b"\r\n"])?;
        let passed = connection.receive_region()?;
        connection.hears_hints = passed.is_some();
        Ok((connection, passed))
    }

    /// True unless the server has closed the connection or has sent unsolicited bytes. After
    /// unsolicited bytes, replies cannot be matched to requests.
    pub(super) fn is_alive(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = recv(&self.socket, &mut [0; 1], flags);
        matches!(peeked, Err(Errno::AGAIN)) && self.read_bytes == self.received.len()
    }

    /// Sends all parts.
    pub(super) fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        for mut rest in std::iter::once(&unsent[..]).chain(parts.iter().copied()) {
            while !rest.is_empty() {
                let sent = retry_on_intr(|| send(&self.socket, rest, SendFlags::NOSIGNAL));
                rest = &rest[sent.map_err(timed_out)?..];
            }
        }
        Ok(())
    }

    /// Queues hints to be sent with the next request.
    pub(super) fn take_along(&mut self, hints: &mut Hints) {
        if self.hears_hints && self.unsent.len() < UNSENT_BYTES_MAX {
            hints.move_to(&mut self.unsent);
        }
    }

    /// Sends as many hints as the socket accepts without waiting. Returns false if the server is
    /// gone.
    pub(super) fn send_aside(&mut self, hints: &mut Hints) -> bool {
        self.take_along(hints);
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match send(&self.socket, &self.unsent, flags) {
            Ok(sent) => {
                self.unsent.drain(..sent);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// Waits for the next reply.
    pub(super) fn reply(&mut self) -> Result<Reply<'_>, Unanswered> {
        if self.read_bytes == self.received.len() {
            self.received.clear();
            self.received.shrink_to(KEPT_BYTES_MAX);
            self.read_bytes = 0;
        }
        let start = self.read_bytes;
        loop {
            match read_reply(&self.received[start..]) {
                ParsedReply::Reply { consumed, .. } => {
                    self.read_bytes = start + consumed;
                    break;
                }
                ParsedReply::NeedMore { bytes_min } if bytes_min <= REPLY_BYTES_MAX => {}
                ParsedReply::NeedMore { .. } | ParsedReply::Bad => {
                    let shown = self.received[start..].iter().take(80);
                    let shown = shown.copied().collect::<Vec<_>>().escape_ascii().to_string();
                    return Err(Unanswered::Protocol(shown));
                }
            }
            self.receive()?;
        }
        match read_reply(&self.received[start..]) {
            ParsedReply::Reply { reply, .. } => Ok(reply),
            ParsedReply::NeedMore { .. } | ParsedReply::Bad => {
                unreachable!("the loop above has parsed this reply")
            }
        }
    }

    /// Receives more bytes. The buffer grows with the bytes that arrive, not with the announced
    /// length.
    fn receive(&mut self) -> io::Result<()> {
        self.received.reserve(RECEIVED_BYTES_MIN);
        let received = retry_on_intr(|| {
            recv(
                &self.socket,
                rustix::buffer::spare_capacity(&mut self.received),
                RecvFlags::empty(),
            )
        });
        match received.map_err(timed_out)?.0 {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Receives the reply to [`REQUEST`], and the descriptor attached to it.
    fn receive_region(&mut self) -> io::Result<Option<Passed>> {
        let (mut line, mut file) = (Vec::new(), None);
        while !line.ends_with(b"\n") {
            let mut bytes = [0; ANSWER_BYTES_MAX];
            let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut room);
            let received = retry_on_intr(|| {
                let parts = &mut [IoSliceMut::new(&mut bytes)];
                recvmsg(&self.socket, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
            });
            let received = received.map_err(timed_out)?.bytes;
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(passed) = message {
                    // Keeps the first descriptor and closes the others.
                    file = passed.into_iter().next().or(file);
                }
            }
            if received == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            line.extend_from_slice(&bytes[..received]);
            if line.len() > ANSWER_BYTES_MAX {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "the server does not use memcached's protocol",
                ));
            }
        }
        let line = line.strip_suffix(b"\r\n").unwrap_or(&line);
        Ok(Region::read(line).zip(file.map(File::from)))
    }
}

/// The reason why there is no reply.
pub(super) enum Unanswered {
    Io(io::Error),
    Protocol(String),
}

impl From<io::Error> for Unanswered {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Turns the error of an expired socket timeout, `EAGAIN`, into `TimedOut`.
fn timed_out(errno: Errno) -> io::Error {
    if errno == Errno::AGAIN { ErrorKind::TimedOut.into() } else { errno.into() }
}

/// Connects to a socket. If the server's queue of new connections is full, `connect` fails
/// immediately with `EAGAIN`, so it is repeated until the timeout.
fn connected(path: &Path, timeout: Duration) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let (address, since) = (SocketAddrUnix::new(path)?, Instant::now());
    loop {
        match connect(&socket, &address) {
            Ok(()) => return Ok(socket),
            Err(Errno::AGAIN | Errno::INTR) if since.elapsed() < timeout => {
                sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(timed_out(error)),
        }
    }
}

/// Longest reply, in bytes: the largest value that a server can be configured to accept, plus the
/// reply line.
const REPLY_BYTES_MAX: u64 = (1 << 30) + 512;
const RECEIVED_BYTES_MIN: usize = 16 << 10;
/// Largest receive buffer, in bytes, that is kept between replies.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Largest number of bytes of hints kept for a stopped server.
const UNSENT_BYTES_MAX: usize = 64 << 10;
