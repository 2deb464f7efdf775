//! A non-blocking connection to the server: a plain socket, TLS, or datagrams.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Result;
use rustls::ClientConnection;
use socket2::Socket;

use crate::address::Address;
use crate::connect::stream::Stream;
use crate::wire::datagrams::Datagrams;

/// A non-blocking socket.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Socket,
    layer: Layer,
}

/// The layer between the socket and the bytes of the protocol.
#[derive(Debug)]
enum Layer {
    Plain,
    Tls(Box<ClientConnection>),
    Datagrams(Box<Datagrams>),
}

impl Channel {
    /// Takes ownership of a connection and makes it non-blocking.
    pub(crate) fn of_stream(stream: Stream) -> Result<Self> {
        let (socket, tls) = stream.into_parts();
        socket.set_nonblocking(true)?;
        let layer = tls.map_or(Layer::Plain, |state| Layer::Tls(Box::new(state)));
        Ok(Self { socket, layer })
    }

    /// Opens a socket for datagrams. Succeeds even if no server listens.
    ///
    /// # Errors
    /// The address cannot be resolved.
    pub(crate) fn of_datagrams(address: &Address) -> Result<Self> {
        let socket = Datagrams::connect(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, layer: Layer::Datagrams(Box::default()) })
    }

    /// True if the network may lose requests and responses.
    pub(crate) fn is_lossy(&self) -> bool {
        matches!(self.layer, Layer::Datagrams(_))
    }

    /// Sends as many bytes as it can without blocking. Returns their number, 0 if the socket is
    /// full.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let tls = match &mut self.layer {
            Layer::Plain => return not_now(self.socket.write(bytes)),
            Layer::Datagrams(layer) => return not_now(layer.send(&mut self.socket, bytes)),
            Layer::Tls(tls) => tls,
        };
        // Encrypts more bytes only when all earlier records are sent, so that the TLS library
        // buffers little. The caller keeps the rest.
        if flush(tls, &mut self.socket)? && !bytes.is_empty() {
            let taken = tls.writer().write(bytes)?;
            flush(tls, &mut self.socket)?;
            return Ok(taken);
        }
        Ok(0)
    }

    /// True if encrypted bytes are not sent yet.
    pub(crate) fn has_unsent(&self) -> bool {
        matches!(&self.layer, Layer::Tls(tls) if tls.wants_write())
    }

    /// Receives the available bytes. Returns `None` if no bytes are available.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let tls = match &mut self.layer {
            Layer::Plain => return some_now(self.socket.read(buffer)),
            Layer::Datagrams(layer) => return some_now(layer.receive(&mut self.socket, buffer)),
            Layer::Tls(tls) => tls,
        };
        loop {
            match some_now(tls.reader().read(buffer))? {
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(received) => return Ok(Some(received)),
                None => {}
            }
            match some_now(tls.read_tls(&mut self.socket))? {
                None => return Ok(None),
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(_) => {
                    tls.process_new_packets().map_err(io::Error::other)?;
                }
            }
        }
    }

    /// True if more bytes may be available after a receive of `received` bytes into this buffer.
    pub(crate) fn may_have_more(&self, received: usize, buffer_bytes: usize) -> bool {
        !matches!(self.layer, Layer::Plain) || received == buffer_bytes
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends the encrypted records. Returns true if all are sent.
fn flush(tls: &mut ClientConnection, socket: &mut Socket) -> io::Result<bool> {
    while tls.wants_write() {
        if not_now(tls.write_tls(socket))? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn not_now(sent: io::Result<usize>) -> io::Result<usize> {
    some_now(sent).map(Option::unwrap_or_default)
}

fn some_now(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    match moved {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::connect::dialer::Dialer;
    use crate::fixtures::serve;

    /// Waits until bytes or the end of the stream can be received, and receives.
    fn received(channel: &mut Channel, buffer: &mut [u8]) -> io::Result<usize> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(received) = channel.receive(buffer)? {
                return Ok(received);
            }
            assert!(Instant::now() < deadline, "nothing was received");
            sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_plain_connection_does_not_wait() {
        let server = serve(|_, mut stream| {
            let mut request = [0; 4];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(b"pong").unwrap();
        });
        let stream = Dialer::new(server, None, None).open().unwrap();
        let mut channel = Channel::of_stream(stream).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(channel.receive(&mut buffer).unwrap(), None, "there is nothing yet");
        assert_eq!(channel.send(b"ping").unwrap(), 4);
        assert_eq!(received(&mut channel, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"pong");
        assert_eq!(received(&mut channel, &mut buffer).unwrap(), 0, "the server has closed");
        assert_eq!((channel.is_lossy(), channel.has_unsent()), (false, false));
        assert!(channel.may_have_more(8, 8), "a full buffer may not be all");
        assert!(!channel.may_have_more(7, 8));
    }

    #[test]
    fn datagrams_carry_a_request_and_an_answer_in_parts() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
        let mut channel = Channel::of_datagrams(&address).unwrap();
        assert!(channel.is_lossy());
        assert_eq!(channel.send(b"get a\r\n").unwrap(), 7);
        let mut request = [0; 100];
        let (length, client) = server.recv_from(&mut request).unwrap();
        assert_eq!(&request[..length], b"\0\x01\0\0\0\x01\0\0get a\r\n");
        for (part, text) in [(1, b"D\r\n"), (0, b"EN ")] {
            let datagram = [&[0, 1, 0, part, 0, 2, 0, 0], &text[..]].concat();
            server.send_to(&datagram, client).unwrap();
        }
        // The response is longer than the buffer, so that it is received in two pieces.
        let mut buffer = [0; 4];
        assert_eq!(received(&mut channel, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer, b"EN D");
        assert_eq!(received(&mut channel, &mut buffer).unwrap(), 2);
        assert_eq!(&buffer[..2], b"\r\n");
    }

    #[test]
    fn a_unix_socket_has_no_datagrams() {
        let refused = Channel::of_datagrams(&Address::Unix("./s".into())).unwrap_err();
        assert_eq!(refused.to_string(), "a Unix socket has no UDP");
    }
}
