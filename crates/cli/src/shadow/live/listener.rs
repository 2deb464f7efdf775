//! The address at which clients connect.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use larder_loadgen::address::Address;
use socket2::{Domain, SockAddr, Socket, Type};

/// A listening socket. Dropping it removes the path of a Unix socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    path: Option<PathBuf>,
}

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    /// The address is in use, is not one of this machine, or the user lacks the permission.
    pub(crate) fn open(address: &Address) -> Result<Self> {
        let opened = match address {
            Address::Unix(path) => {
                Self::remove_stale(path);
                let bound = || {
                    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
                    socket.bind(&SockAddr::unix(path)?)?;
                    Ok(Self { socket, path: Some(path.clone()) })
                };
                bound()
            }
            Address::Tcp { host, port } => Self::open_tcp(host, *port),
        };
        let listener = opened.and_then(|listener: Self| {
            listener.socket.set_nonblocking(true)?;
            listener.socket.listen(BACKLOG)?;
            Ok(listener)
        });
        listener.map_err(|error| {
            anyhow!(
                "cannot listen at {address}: {error}; choose another address with --listen, or \
                 stop the program that uses this one"
            )
        })
    }

    fn open_tcp(host: &str, port: u16) -> io::Result<Self> {
        use std::net::ToSocketAddrs;
        let mut error = ErrorKind::AddrNotAvailable.into();
        for address in (host, port).to_socket_addrs()? {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            match socket.bind(&address.into()) {
                Ok(()) => return Ok(Self { socket, path: None }),
                Err(refused) => error = refused,
            }
        }
        Err(error)
    }

    /// Removes the socket of a process that has ended.
    fn remove_stale(path: &PathBuf) {
        let refused = UnixStream::connect(path)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        if refused {
            // If that fails, so does the bind, which reports the reason.
            let _ = fs::remove_file(path);
        }
    }

    /// Accepts a connection; `None` if none waits.
    ///
    /// # Errors
    /// The process has no more descriptors.
    pub(super) fn accept(&self) -> io::Result<Option<Socket>> {
        match self.socket.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(true)?;
                if self.path.is_none() {
                    socket.set_tcp_nodelay(true)?;
                }
                Ok(Some(socket))
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {
                    Ok(None)
                }
                _ => Err(error),
            },
        }
    }

    /// Returns the socket.
    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Another process may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Raises the limit of descriptors as far as the user may, and returns the number of clients for
/// which they suffice.
///
/// # Errors
/// The limit does not suffice for one client.
pub(crate) fn clients_max() -> Result<usize> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without the permission the current limit stays.
    let _ = setrlimit(Resource::Nofile, limit);
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTORS_MAX);
    let descriptors = usize::try_from(descriptors.min(DESCRIPTORS_MAX)).unwrap_or(usize::MAX);
    let clients = descriptors.saturating_sub(OTHER_DESCRIPTORS) / DESCRIPTORS_PER_CLIENT;
    (clients > 0)
        .then_some(clients)
        .context("the limit of descriptors is too low for one client: raise it with ulimit -n")
}

/// The length of the queue of connections that are not accepted yet.
const BACKLOG: i32 = 1024;

/// A client's connection, and one to each server.
const DESCRIPTORS_PER_CLIENT: usize = 3;

const OTHER_DESCRIPTORS: usize = 32;

const DESCRIPTORS_MAX: u64 = 1 << 20;
