//! A blocking connection to a server: a plain socket, or TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use rustls::ClientConnection;
use socket2::Socket;

use super::refusal;
use super::tls::Tls;

/// A connection. Its reads and writes block up to [`ANSWER_SECS_MAX`](super::ANSWER_SECS_MAX).
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    tls: Option<Box<Layer>>,
}

#[derive(Debug)]
struct Layer {
    state: ClientConnection,
    /// True if the client has a certificate.
    has_certificate: bool,
}

impl Stream {
    /// Wraps a socket without TLS.
    pub(super) fn plain(socket: Socket) -> Self {
        Self { socket, tls: None }
    }

    /// Performs the TLS handshake. A server that demands a client certificate may refuse it only
    /// later, with the first bytes that it sends.
    pub(super) fn with_tls(socket: Socket, tls: &Tls) -> io::Result<Self> {
        let state = ClientConnection::new(tls.config.clone(), tls.name.clone());
        let state = state.map_err(io::Error::other)?;
        let layer = Layer { state, has_certificate: tls.has_certificate };
        let mut stream = Self { socket, tls: Some(Box::new(layer)) };
        let Self { socket, tls: Some(tls) } = &mut stream else { return Ok(stream) };
        while tls.state.is_handshaking() {
            tls.state.complete_io(socket).map_err(|error| tls.explained(error))?;
        }
        Ok(stream)
    }

    /// Returns the socket and the state of TLS.
    pub(crate) fn into_parts(self) -> (Socket, Option<ClientConnection>) {
        (self.socket, self.tls.map(|layer| layer.state))
    }

    /// Sets the time limit of reads.
    pub(super) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(timeout))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.read(buffer) };
        let read = rustls::Stream::new(&mut tls.state, &mut self.socket).read(buffer);
        match read {
            // The server has closed the connection without the end message of TLS. That is not an
            // error here: memcached's protocol itself distinguishes a complete response from a
            // truncated one.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            read => read.map_err(|error| tls.explained(error)),
        }
    }
}

impl Write for Stream {
    /// Accepts bytes. With TLS some may not be sent before [`Self::flush`].
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.write(bytes) };
        let written = rustls::Stream::new(&mut tls.state, &mut self.socket).write(bytes);
        written.map_err(|error| tls.reason_of_end(error, &mut self.socket))
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let flushed = rustls::Stream::new(&mut tls.state, &mut self.socket).flush();
        flushed.map_err(|error| tls.reason_of_end(error, &mut self.socket))
    }
}

impl Layer {
    /// Replaces a TLS error with an error that has a message for the user.
    fn explained(&self, error: io::Error) -> io::Error {
        match refusal::words(&error, self.has_certificate) {
            Some(words) => io::Error::new(error.kind(), words),
            None => error,
        }
    }

    /// Returns the error of a failed write. The server may have sent a TLS alert with the reason
    /// before it closed the connection. The alert is then still unread in the socket.
    fn reason_of_end(&mut self, error: io::Error, socket: &mut Socket) -> io::Error {
        let has_ended = matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
        if has_ended
            && self.state.read_tls(socket).is_ok_and(|received| received > 0)
            && let Err(reason) = self.state.process_new_packets()
        {
            return self.explained(io::Error::new(ErrorKind::InvalidData, reason));
        }
        self.explained(error)
    }
}
