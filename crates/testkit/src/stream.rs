//! A connection to a server under test.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};

use crate::server::Address;

/// A connection that waits up to 30 seconds for a response, unless `set_timeout` changes that.
#[derive(Debug)]
pub enum Stream {
    /// A Unix socket.
    Unix(UnixStream),
    /// TCP with TCP_NODELAY.
    Tcp(TcpStream),
}

impl Stream {
    /// Opens a connection.
    ///
    /// # Errors
    /// The server does not accept it.
    pub fn connect(address: &Address) -> io::Result<Self> {
        let stream = match address {
            Address::Unix(path) => Self::Unix(UnixStream::connect(path)?),
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, ANSWER_TIMEOUT)?;
                stream.set_nodelay(true)?;
                Self::Tcp(stream)
            }
        };
        stream.set_timeout(ANSWER_TIMEOUT)?;
        Ok(stream)
    }

    /// Sets the longest wait of a read or a write.
    ///
    /// # Errors
    /// The duration is zero.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
        }
    }

    /// Limits the size of the socket's buffers. The memory for all sockets of the machine is
    /// limited. Beyond this limit the kernel drops packets, including packets of other tests.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn limit_buffers(&self, bytes: usize) -> io::Result<()> {
        let socket = match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        };
        set_socket_send_buffer_size(socket, bytes)?;
        Ok(set_socket_recv_buffer_size(socket, bytes)?)
    }

    /// Returns a second handle of the same connection.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    /// Shuts down one direction or both.
    ///
    /// # Errors
    /// The server has already closed the connection.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        }
    }

    /// Waits until at most `bytes_max` bytes are still waiting to be written to the disk of
    /// `--tier-path`. A test that stores items faster than the disk accepts them would lose some in
    /// the mode `cache`.
    ///
    /// # Errors
    /// More bytes are still waiting after 20 seconds. Also the errors of [`Stream::ask`].
    pub fn wait_for_disk(&mut self, bytes_max: u64) -> io::Result<()> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let stats = self.ask(b"stats larder\r\n", b"END\r\n")?;
            let stats = String::from_utf8_lossy(&stats);
            let row = stats.lines().find_map(|row| row.strip_prefix("STAT tier_dirty_bytes "));
            match row.and_then(|bytes| bytes.parse().ok()) {
                Some(bytes) if bytes_max >= bytes => return Ok(()),
                Some(bytes) if Instant::now() > until => {
                    let message = format!("{bytes} bytes are not written after 20 seconds");
                    return Err(io::Error::new(ErrorKind::TimedOut, message));
                }
                Some::<u64>(_) => std::thread::sleep(Duration::from_millis(5)),
                None => return Err(io::Error::other("the server has no disk tier")),
            }
        }
    }

    /// Sends a request and reads until the response ends with `end`.
    ///
    /// # Errors
    /// The connection fails, or the response does not end in time. The error shows the response.
    pub fn ask(&mut self, request: &[u8], end: &[u8]) -> io::Result<Vec<u8>> {
        self.write_all(request)?;
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let mut answer = Vec::new();
        let mut piece = [0; 64 << 10];
        while !answer.ends_with(end) {
            let kind = match self.read(&mut piece) {
                Ok(0) => ErrorKind::UnexpectedEof,
                Ok(count) if Instant::now() <= deadline => {
                    answer.extend_from_slice(&piece[..count]);
                    continue;
                }
                Ok(_) => ErrorKind::TimedOut,
                // The time limit of a read is the time limit of the response.
                Err(error) if error.kind() == ErrorKind::WouldBlock => ErrorKind::TimedOut,
                Err(error) => return Err(error),
            };
            let shown = answer[answer.len().saturating_sub(200)..].escape_ascii();
            let end = end.escape_ascii();
            let message = format!("expected an answer that ends with \"{end}\", got \"{shown}\"");
            return Err(io::Error::new(kind, message));
        }
        Ok(answer)
    }
}

/// Repeats a blocking call that was interrupted. A machine that resumes from sleep interrupts reads
/// that have a time limit.
///
/// # Errors
/// The errors of the call.
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| match self {
            Self::Unix(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
        })
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
