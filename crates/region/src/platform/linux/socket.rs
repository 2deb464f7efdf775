//! Unix sockets, over which a server passes its memory.

use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, recvmsg, send, socket_with,
};

use crate::platform::Received;

/// A connection to a server. Each call waits at most for the timeout, and then returns
/// [`ErrorKind::TimedOut`].
#[derive(Debug)]
pub struct Socket(UnixStream);

impl Socket {
    /// Connects.
    ///
    /// # Errors
    /// The system's error.
    pub fn connect(path: &Path, timeout: Duration) -> io::Result<Self> {
        let socket = UnixStream::from(connected(path, timeout)?);
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        Ok(Self(socket))
    }

    /// True if the connection is open and no bytes have arrived.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(recv(&self.0, &mut [0; 1], flags), Err(Errno::AGAIN))
    }

    /// Sends a part of the bytes, and returns its length.
    ///
    /// # Errors
    /// The system's error.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        retry_on_intr(|| send(&self.0, bytes, SendFlags::NOSIGNAL)).map_err(timed_out)
    }

    /// Sends as many of the bytes as the socket accepts without waiting, and returns their number.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        match send(&self.0, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            sent => Ok(sent?),
        }
    }

    /// Appends bytes that arrive, as many as `bytes` has capacity for. Returns their number; 0 if
    /// the connection is closed.
    ///
    /// # Errors
    /// The system's error.
    pub fn receive(&self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let received = retry_on_intr(|| {
            recv(&self.0, rustix::buffer::spare_capacity(bytes), RecvFlags::empty())
        });
        Ok(received.map_err(timed_out)?.0)
    }

    /// Receives bytes, and a file that is attached to them.
    ///
    /// # Errors
    /// The system's error.
    pub fn receive_file(&self, bytes: &mut [u8]) -> io::Result<Received> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut room);
        let received = retry_on_intr(|| {
            let parts = &mut [IoSliceMut::new(bytes)];
            recvmsg(&self.0, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        });
        let bytes = received.map_err(timed_out)?.bytes;
        let mut file = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                // Keeps the first descriptor and closes the others.
                file = file.or(passed.into_iter().next());
            }
        }
        Ok(Received { bytes, file: file.map(File::from) })
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
