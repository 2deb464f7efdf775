//! The way to the server on which nobody waits: a socket, plain, with TLS or for datagrams.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use socket2::Socket;

use crate::address::Address;
use crate::connect::connect;
use crate::wire::datagrams::Datagrams;
use crate::wire::login::Login;

/// How TLS is spoken to the server.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

/// A socket that is not waited for.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Socket,
    layer: Layer,
}

/// What lies between the socket and the bytes.
#[derive(Debug)]
enum Layer {
    Plain,
    Tls(Box<ClientConnection>),
    Datagrams(Box<Datagrams>),
}

impl Channel {
    /// Connects, and waits for that; from then on nothing waits.
    ///
    /// # Errors
    /// Nobody accepts the connection, the two do not agree on TLS, or the login is refused.
    pub(crate) fn open(
        address: &Address,
        tls: Option<&Tls>,
        login: Option<&Login>,
    ) -> Result<Self> {
        let mut socket = connect(address).map_err(|error| {
            anyhow!("cannot connect to {address}: {error:#}; {}", address.hint())
        })?;
        let layer = match tls {
            Some(tls) => {
                let mut state = ClientConnection::new(tls.config.clone(), tls.name.clone())?;
                while state.is_handshaking() {
                    state.complete_io(&mut socket).context("TLS")?;
                }
                if let Some(login) = login {
                    login.log_in(&mut rustls::Stream::new(&mut state, &mut socket))?;
                }
                Layer::Tls(Box::new(state))
            }
            None => {
                login.map_or(Ok(()), |login| login.log_in(&mut socket))?;
                Layer::Plain
            }
        };
        socket.set_nonblocking(true)?;
        Ok(Self { socket, layer })
    }

    /// A socket for datagrams; nobody has to accept it.
    ///
    /// # Errors
    /// There is no such address.
    pub(crate) fn of_datagrams(address: &Address) -> Result<Self> {
        let socket = Datagrams::connect(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, layer: Layer::Datagrams(Box::default()) })
    }

    /// May requests and answers be lost on the way?
    pub(crate) fn is_lossy(&self) -> bool {
        matches!(self.layer, Layer::Datagrams(_))
    }

    /// Sends what it can; how much that was.
    ///
    /// # Errors
    /// The connection has ended. Never that it would have to wait: then it takes nothing.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let tls = match &mut self.layer {
            Layer::Plain => return not_now(self.socket.write(bytes)),
            Layer::Datagrams(layer) => return not_now(layer.send(&mut self.socket, bytes)),
            Layer::Tls(tls) => tls,
        };
        // One record buffer is held here at most: what follows waits with the caller.
        if flush(tls, &mut self.socket)? && !bytes.is_empty() {
            let taken = tls.writer().write(bytes)?;
            flush(tls, &mut self.socket)?;
            return Ok(taken);
        }
        Ok(0)
    }

    /// Is something encrypted and not sent?
    pub(crate) fn has_unsent(&self) -> bool {
        matches!(&self.layer, Layer::Tls(tls) if tls.wants_write())
    }

    /// Receives what is there: `None` where there is nothing now.
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

    /// May there be more, after a receive of so many bytes into a buffer of that size?
    pub(crate) fn may_have_more(&self, received: usize, buffer_bytes: usize) -> bool {
        !matches!(self.layer, Layer::Plain) || received == buffer_bytes
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends records; has all been sent?
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
