//! Opening the sockets that connections come in on.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use larder_options::Options;
use rustix::fs::Mode;
use rustix::process::umask;
use socket2::{Domain, Protocol, SockAddr, Type};

use crate::failure::{EXIT_OS, Failure};
use crate::inbox::Transport;

/// A socket that is listened on.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) descriptor: OwnedFd,
    pub(crate) transport: Transport,
    pub(crate) address: Address,
}

/// Where a socket listens.
#[derive(Debug)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Opens every socket that the options name.
pub(crate) fn open(options: &Options) -> Result<Vec<Socket>, Failure> {
    if let Some(path) = &options.unix_socket {
        let opened = open_unix(path, options);
        return match opened {
            Ok(socket) => Ok(vec![socket]),
            Err(error) => Err(cannot_listen(&path.display(), &error)),
        };
    }
    let mut sockets = Vec::new();
    for (host, port) in options.tcp_addresses() {
        match host {
            Some(host) => open_host(host, port, options, &mut sockets)?,
            None => open_all(port, options, &mut sockets)?,
        }
    }
    Ok(sockets)
}

fn cannot_listen(address: &dyn fmt::Display, error: &io::Error) -> Failure {
    Failure::new(EXIT_OS, format_args!("cannot listen on {address}: {error}"))
}

fn open_host(
    host: &str,
    port: u16,
    options: &Options,
    sockets: &mut Vec<Socket>,
) -> Result<(), Failure> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| cannot_listen(&host, &error))?;
    for address in addresses {
        let opened = open_tcp(address, options);
        sockets.push(opened.map_err(|error| cannot_listen(&address, &error))?);
    }
    Ok(())
}

/// Listens on every address of the machine. A machine may do without IPv6.
fn open_all(port: u16, options: &Options, sockets: &mut Vec<Socket>) -> Result<(), Failure> {
    let ipv4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
    sockets.push(open_tcp(ipv4, options).map_err(|error| cannot_listen(&ipv4, &error))?);
    let ipv6 = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
    match open_tcp(ipv6, options) {
        Ok(socket) => sockets.push(socket),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            return Err(cannot_listen(&ipv6, &error));
        }
        Err(_) => {}
    }
    Ok(())
}

fn open_tcp(address: SocketAddr, options: &Options) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = socket2::Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit these two.
    socket.set_keepalive(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog(options))?;
    let address = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok(Socket {
        descriptor: socket.into(),
        transport: Transport::Tcp,
        address: Address::Tcp(address),
    })
}

/// Listens on a path. A socket that is left there from an earlier run is removed; anything else stays and
/// is an error.
fn open_unix(path: &Path, options: &Options) -> io::Result<Socket> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        fs::remove_file(path)?;
    }
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = socket2::Socket::new(Domain::UNIX, kind, None)?;
    // The permissions must be right from the moment the path exists.
    let before = umask(Mode::from_raw_mode(!options.unix_mask & 0o777));
    let bound = socket.bind(&SockAddr::unix(path)?);
    umask(before);
    bound?;
    socket.listen(backlog(options))?;
    Ok(Socket {
        descriptor: socket.into(),
        transport: Transport::Unix,
        address: Address::Unix(path.to_owned()),
    })
}

fn backlog(options: &Options) -> i32 {
    i32::try_from(options.backlog).unwrap_or(i32::MAX)
}

/// Writes the ports to the file that the environment names, if it does: for tests that let the system
/// choose a port. The file appears whole.
pub(crate) fn write_ports(sockets: &[Socket]) -> Result<(), Failure> {
    let Some(path) = env::var_os("MEMCACHED_PORT_FILENAME").map(PathBuf::from) else {
        return Ok(());
    };
    let lines: String = sockets
        .iter()
        .filter_map(|socket| match socket.address {
            Address::Tcp(SocketAddr::V4(address)) => {
                Some(format!("TCP INET: {}\n", address.port()))
            }
            Address::Tcp(SocketAddr::V6(address)) => {
                Some(format!("TCP INET6: {}\n", address.port()))
            }
            Address::Unix(_) => None,
        })
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    write_whole(&path, ".lck", &lines).map_err(|error| {
        let path = path.display();
        Failure::new(EXIT_OS, format_args!("cannot write the ports to {path}: {error}"))
    })
}

/// Writes a file under a name of its own first, so that nobody reads half of it.
pub(crate) fn write_whole(path: &Path, suffix: &str, text: &str) -> io::Result<()> {
    let mut unfinished = OsString::from(path);
    unfinished.push(suffix);
    fs::write(&unfinished, text)?;
    fs::rename(&unfinished, path)
}
