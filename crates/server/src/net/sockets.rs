//! Opens the listening sockets.

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};

use larder_options::{ListenAt, Options, UnixListenAt};
use socket2::{Domain, SockAddr, SockRef, Type};

use crate::failure::{EXIT_OS, EXIT_USAGE, Failure};
use crate::leftovers::Leftovers;
use crate::net::datagrams::Datagrams;
use crate::net::inbox::Transport;
use crate::net::terms::ListenerTerms;
use crate::net::unix_socket::{self, UnixSocketError};

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) descriptor: OwnedFd,
    pub(crate) transport: Transport,
    pub(crate) address: Address,
    pub(crate) terms: ListenerTerms,
    /// The permissions that the options give to its path; `None` for TCP, and for an inherited unix
    /// socket that the options do not name.
    pub(crate) mode: Option<u32>,
}

impl Socket {
    /// Creates a TCP socket from its descriptor.
    pub(crate) fn tcp(descriptor: OwnedFd, address: SocketAddr, terms: ListenerTerms) -> Self {
        let address = Address::Tcp(address);
        Self { descriptor, transport: Transport::Tcp, address, terms, mode: None }
    }
}

/// The address on which a socket listens.
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

/// Opens every listening socket that the options name. Adds the file of a unix socket to the
/// `leftovers`.
pub(crate) fn open(options: &Options, leftovers: &Leftovers) -> Result<Vec<Socket>, Failure> {
    let (mut sockets, mut bound) = (Vec::new(), Bound::default());
    for at in options.tcp_addresses() {
        bind_each(&at, &mut bound, |address| {
            sockets.push(open_tcp(address, &at, options)?);
            Ok(())
        })?;
    }
    for at in options.unix_addresses() {
        sockets.push(open_unix(&at, options, leftovers)?);
    }
    Ok(sockets)
}

/// Opens every UDP socket that the options name.
pub(crate) fn open_udp(options: &Options) -> Result<Vec<Datagrams>, Failure> {
    let (mut sockets, mut bound) = (Vec::new(), Bound::default());
    for at in options.udp_addresses() {
        bind_each(&at, &mut bound, |address| {
            sockets.push(open_datagrams(address, &at)?);
            Ok(())
        })?;
    }
    Ok(sockets)
}

/// Returns the error of an address on which the server cannot listen.
pub(crate) fn cannot_listen(address: &dyn fmt::Display, error: &UnixSocketError) -> Failure {
    Failure::new(EXIT_OS, format_args!("cannot listen on {address}: {error}"))
}

/// Returns advice for the operator if listening on an address failed; empty for unknown errors.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; stop the process that listens there or remove the file, or choose another address"
        }
        io::ErrorKind::AddrNotAvailable => "; choose an address of this machine",
        io::ErrorKind::PermissionDenied => {
            "; choose a port from 1024 on, or a path whose directory this user may change"
        }
        io::ErrorKind::NotFound => "; create the directory of the path first",
        // The standard library returns this error before any system call.
        io::ErrorKind::InvalidInput => {
            "; the path of a unix socket has at most 107 bytes: choose a shorter one"
        }
        _ => "",
    }
}

/// The addresses that are bound so far, with their terms. If an option names an address twice, or
/// by two names, it is bound once.
type Bound = HashMap<SocketAddr, ListenerTerms>;

/// Binds all addresses to which an option's address resolves, except those that are already bound.
/// Accepts a machine without IPv6.
///
/// # Errors
/// Fails if an address cannot be bound, or is already bound with other terms.
fn bind_each(
    at: &ListenAt,
    bound: &mut Bound,
    mut bind: impl FnMut(SocketAddr) -> io::Result<()>,
) -> Result<(), Failure> {
    let terms = ListenerTerms::from(at);
    for address in addresses(at)? {
        // Port 0 is a different port each time.
        if address.port() != 0 {
            match bound.insert(address, terms) {
                None => {}
                Some(earlier) if earlier == terms => continue,
                Some(_) => return Err(contradicts(&address)),
            }
        }
        let is_optional = at.host.is_none() && address.is_ipv6();
        match bind(address) {
            Ok(()) => {}
            Err(error) if is_optional && error.kind() != io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(cannot_listen(&address, &error.into())),
        }
    }
    Ok(())
}

fn contradicts(address: &SocketAddr) -> Failure {
    let message = format_args!(
        "option -l: it names {address} twice, with different words: leave out one of them"
    );
    Failure::new(EXIT_USAGE, message)
}

/// Returns all addresses to which an option's address resolves. The wildcard resolves to one
/// address of IPv4 and one of IPv6.
///
/// # Errors
/// Fails if the name cannot be resolved.
pub(crate) fn addresses(at: &ListenAt) -> Result<Vec<SocketAddr>, Failure> {
    let Some(host) = &at.host else {
        let all = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        return Ok(all.map(|ip| SocketAddr::new(ip, at.port)).into());
    };
    let addresses = (host.as_str(), at.port).to_socket_addrs();
    Ok(addresses.map_err(|error| cannot_listen(host, &error.into()))?.collect())
}

/// Creates a socket for an address. A socket for IPv6 does not also accept IPv4.
fn new_socket(
    address: SocketAddr,
    kind: Type,
    protocol: socket2::Protocol,
) -> io::Result<socket2::Socket> {
    let kind = kind.nonblocking().cloexec();
    let socket = socket2::Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

fn open_datagrams(address: SocketAddr, at: &ListenAt) -> io::Result<Datagrams> {
    let socket = new_socket(address, Type::DGRAM, socket2::Protocol::UDP)?;
    widen_buffers(&SockRef::from(&socket))?;
    socket.bind(&address.into())?;
    let address = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok(Datagrams { socket: socket.into(), address, terms: at.into() })
}

/// Sets the buffers of a UDP socket to the largest size that the system allows. A long response
/// consists of many datagrams in a burst, and so do requests that do not wait for responses. The
/// system drops datagrams that do not fit.
pub(crate) fn widen_buffers(datagrams: &SockRef<'_>) -> io::Result<()> {
    const WANTED_BYTES: usize = 16 * 1024 * 1024;
    datagrams.set_send_buffer_size(WANTED_BYTES)?;
    datagrams.set_recv_buffer_size(WANTED_BYTES)
}

/// Sets the options of a listening TCP socket. Connections inherit them.
pub(crate) fn configure_tcp(listening: &SockRef<'_>) -> io::Result<()> {
    listening.set_keepalive(true)?;
    listening.set_tcp_nodelay(true)?;
    listening.set_tcp_notsent_lowat(UNSENT_BYTES)
}

/// How much of a connection's output the kernel buffers beyond what the peer can receive.
///
/// Without this limit the kernel buffers up to 4 MiB for each connection. A thousand peers that do
/// not read would then exhaust the memory that it has for the connections of the whole machine, and
/// in that state it delays the end of a connection by up to 200 ms.
pub(crate) const UNSENT_BYTES: u32 = 128 << 10;

/// Opens a TCP socket.
pub(crate) fn open_tcp(
    address: SocketAddr,
    at: &ListenAt,
    options: &Options,
) -> io::Result<Socket> {
    let socket = new_socket(address, Type::STREAM, socket2::Protocol::TCP)?;
    socket.set_reuse_address(true)?;
    configure_tcp(&SockRef::from(&socket))?;
    socket.bind(&address.into())?;
    socket.listen(backlog(options))?;
    let address = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok(Socket::tcp(socket.into(), address, at.into()))
}

/// Opens a unix socket, and adds its file to the `leftovers`.
///
/// # Errors
/// Fails if a process listens there, unless the address takes over, or if the path cannot be
/// listened on for another reason.
pub(crate) fn open_unix(
    at: &UnixListenAt,
    options: &Options,
    leftovers: &Leftovers,
) -> Result<Socket, Failure> {
    let opened = match at.takes_over {
        true => unix_socket::take_over(&at.path, at.mode, backlog(options)),
        false => unix_socket::listen(&at.path, at.mode, backlog(options)),
    };
    let descriptor = opened.map_err(|error| cannot_listen(&at.path.display(), &error))?;
    leftovers.note(&at.path);
    Ok(Socket {
        descriptor,
        transport: Transport::Unix,
        address: Address::Unix(at.path.clone()),
        terms: at.into(),
        mode: Some(at.mode),
    })
}

/// Returns the local path of a unix connection.
pub(crate) fn local_path(connection: &OwnedFd) -> PathBuf {
    SockRef::from(connection).local_addr().map_or_else(|_| PathBuf::new(), |local| path_of(&local))
}

/// Returns the path of a unix socket. For an abstract socket, returns its name after `@`, as
/// systemd writes it.
pub(crate) fn path_of(address: &SockAddr) -> PathBuf {
    let named = |name: &[u8]| [b"@", name].concat();
    match (address.as_pathname(), address.as_abstract_namespace()) {
        (Some(path), _) => path.to_owned(),
        (None, Some(name)) => OsStr::from_bytes(&named(name)).into(),
        (None, None) => PathBuf::new(),
    }
}

fn backlog(options: &Options) -> i32 {
    i32::try_from(options.backlog).unwrap_or(i32::MAX)
}

/// Returns the file that the environment names for [`write_ports`]. Called before the working
/// directory changes, because a relative path refers to the old one.
pub(crate) fn ports_file() -> Option<PathBuf> {
    let path = env::var_os("MEMCACHED_PORT_FILENAME").map(PathBuf::from)?;
    Some(path::absolute(&path).unwrap_or(path))
}

/// Writes the ports to this file, if it is given. For tests that let the system choose a port. The
/// file is replaced as a whole. As in memcached, it is also written, without a line, if there are
/// no sockets at all, but not with unix sockets only.
pub(crate) fn write_ports(
    path: Option<PathBuf>,
    sockets: &[Socket],
    datagrams: &[Datagrams],
) -> Result<(), Failure> {
    let is_unix = |socket: &Socket| socket.transport == Transport::Unix;
    if !sockets.is_empty() && sockets.iter().all(is_unix) && datagrams.is_empty() {
        return Ok(());
    }
    let Some(path) = path else { return Ok(()) };
    let line = |protocol: &str, address: &SocketAddr| {
        let family = if address.is_ipv4() { "INET" } else { "INET6" };
        format!("{protocol} {family}: {}\n", address.port())
    };
    let tcp = sockets.iter().filter_map(|socket| match &socket.address {
        Address::Tcp(address) => Some(line("TCP", address)),
        Address::Unix(_) => None,
    });
    let udp = datagrams.iter().map(|socket| line("UDP", &socket.address));
    let lines: String = tcp.chain(udp).collect();
    write_whole(&path, ".lck", &lines).map_err(|error| {
        let path = path.display();
        Failure::new(EXIT_OS, format_args!("cannot write the ports to {path}: {error}"))
    })
}

/// Writes a file under a temporary name first, so that readers never find half of it.
fn write_whole(path: &Path, suffix: &str, text: &str) -> io::Result<()> {
    let mut unfinished = OsString::from(path);
    unfinished.push(suffix);
    fs::write(&unfinished, text)?;
    fs::rename(&unfinished, path)
}
