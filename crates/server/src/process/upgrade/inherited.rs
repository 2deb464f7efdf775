//! Inherited sockets, opened either by systemd or by the server that this process replaces.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use larder_options::{ListenAt, Options, Security, UnixListenAt};
use socket2::{SockRef, Type};

use crate::failure::{EXIT_OS, Failure};
use crate::leftovers::Leftovers;
use crate::log;
use crate::net::datagrams::Datagrams;
use crate::net::inbox::Transport;
use crate::net::sockets::{self, Address, Socket};
use crate::net::terms::ListenerTerms;
use crate::net::unix_socket;
use crate::process::upgrade::listeners::{self, Changes};

/// An inherited socket, and its name in error messages.
#[derive(Debug)]
pub(crate) struct InheritedSocket {
    pub(crate) descriptor: OwnedFd,
    pub(crate) name: String,
    /// The terms of its listener at the predecessor, as a line; see `listeners.rs`. `None` if it
    /// comes from systemd, or from a version that does not pass them.
    pub(crate) words: Option<String>,
    /// True if systemd has opened it, or may have.
    pub(crate) is_given: bool,
}

/// The sockets of a process that inherits some.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    pub(crate) streams: Vec<Socket>,
    pub(crate) datagrams: Vec<Datagrams>,
    /// True if systemd has given the sockets.
    pub(crate) is_given: bool,
    /// The differences to the listeners of the predecessor.
    pub(crate) changes: Changes,
}

/// An address from the options that is not assigned to a socket yet.
struct WantedAddress {
    address: SocketAddr,
    /// The entry of the options that names the address, and its number.
    at: ListenAt,
    entry: usize,
}

/// Sorts inherited sockets by their types, and configures them. Their terms are those of the
/// options' entry for the socket's address or path or, without one, those for any address. With
/// TLS, if there is a `-l`, a socket that no `-l` names is an error, because the TLS requirements
/// for its clients would be unknown.
///
/// A unix socket of the predecessor is closed if its options named it, and those of this process do
/// not. Also returns the entries for TCP to which no socket belongs.
///
/// # Errors
/// Fails if larderd cannot listen on a socket, if no `-l` names it although TLS is enabled, or if a
/// name of `-l` cannot be resolved.
fn listen_on(
    inherited: Vec<InheritedSocket>,
    options: &Options,
) -> Result<(Inherited, Vec<ListenAt>), Failure> {
    let entries = options.tcp_addresses();
    let mut wanted = wanted(&entries)?;
    let mut of_datagrams = self::wanted(&options.udp_addresses())?;
    // systemd may give a UDP socket without -U. It has the terms of the same address.
    of_datagrams.extend(self::wanted(&entries)?);
    let (mut sorted, mut used) = (Inherited::default(), Vec::new());
    for InheritedSocket { descriptor, name, words, is_given } in inherited {
        let unusable = |error: io::Error| {
            Failure::new(EXIT_OS, format_args!("cannot listen on {name}: {error}"))
        };
        sorted.is_given |= is_given;
        let words = words.as_deref();
        match look_at(&descriptor).map_err(unusable)? {
            (Type::DGRAM, Address::Tcp(address)) => {
                let terms = match position(&of_datagrams, address) {
                    Some(at) => (&of_datagrams[at].at).into(),
                    None => check_unnamed(&address, options).map_err(unusable)?,
                };
                let terms = ListenerTerms { client_certificates: None, ..terms };
                sorted.add_datagrams(Datagrams { socket: descriptor, address, terms }, words);
            }
            (Type::STREAM, Address::Tcp(address)) => {
                let terms = match take_wanted(&mut wanted, address) {
                    Some((entry, at)) => {
                        used.push(entry);
                        (&at).into()
                    }
                    None => unnamed_tcp(address, options).map_err(unusable)?,
                };
                sorted.add(Socket::tcp(descriptor, address, terms), words);
            }
            (Type::STREAM, Address::Unix(path)) => {
                let socket = listening_unix(descriptor, path, options);
                if socket.mode.is_none() && words.is_some_and(listeners::named_path) && !is_given {
                    sorted.changes.note_gone(&socket.address);
                    continue;
                }
                if socket.mode.is_none() {
                    check_unnamed(&socket.address, options).map_err(unusable)?;
                }
                sorted.add(socket, words);
            }
            (_, Address::Unix(_)) => return Err(unusable(io::Error::other(NO_UNIX_DATAGRAMS))),
            _ => return Err(unusable(io::Error::other(NOT_LISTENED_ON))),
        }
    }
    let unused = entries.into_iter().enumerate().filter(|(entry, _)| !used.contains(entry));
    let unused = unused.map(|(_, at)| at).collect();
    Ok((sorted, unused))
}

/// Returns the terms of a socket that the options do not name.
///
/// # Errors
/// Fails if an address of `-l` is read-only, because this socket would not be.
fn check_unnamed(address: &dyn fmt::Display, options: &Options) -> io::Result<ListenerTerms> {
    if options.listen.iter().any(|at| at.is_readonly) && options.unix_socket.is_none() {
        return Err(io::Error::other(format!(
            "with readonly, -l must name every inherited socket, and it does not name {address}: \
             add it, or remove the socket (with systemd, from the socket unit)"
        )));
    }
    Ok(ListenerTerms::plain(options.protocol))
}

impl Inherited {
    /// Uses inherited sockets or, without any, opens those of the options. The successor of another
    /// server also opens the listeners that its predecessor did not have, unless systemd has given
    /// the sockets of the predecessor.
    ///
    /// # Errors
    /// The errors of [`listen_on`], and those of opening sockets.
    pub(crate) fn or_opened(
        handed: Option<Vec<InheritedSocket>>,
        options: &Options,
        leftovers: &Leftovers,
    ) -> Result<Self, Failure> {
        let Some(handed) = handed else {
            let streams = sockets::open(options, leftovers)?;
            let datagrams = sockets::open_udp(options)?;
            return Ok(Self { streams, datagrams, ..Self::default() });
        };
        let (mut inherited, unused) = listen_on(handed, options)?;
        if inherited.is_given {
            inherited.warn_of_missing(options);
        } else {
            inherited.open_new(&unused, options, leftovers)?;
        }
        Ok(inherited)
    }

    fn add(&mut self, socket: Socket, words: Option<&str>) {
        if let Some(words) = words {
            self.changes.compare(words, &socket);
        }
        self.streams.push(socket);
    }

    fn add_datagrams(&mut self, socket: Datagrams, words: Option<&str>) {
        if let Some(words) = words {
            self.changes.compare_datagrams(words, &socket);
        }
        self.datagrams.push(socket);
    }

    /// Opens the listeners of the options that the predecessor did not have: unix sockets, and
    /// these entries for TCP. An address of TCP that is in use stays closed, because a socket of
    /// the predecessor may be in its place until a restart.
    ///
    /// # Errors
    /// Fails if an address cannot be listened on for another reason.
    fn open_new(
        &mut self,
        tcp: &[ListenAt],
        options: &Options,
        leftovers: &Leftovers,
    ) -> Result<(), Failure> {
        let mut opened = Vec::new();
        for at in self.missing(options) {
            opened.push(sockets::open_unix(&at, options, leftovers)?);
        }
        for at in tcp {
            for address in sockets::addresses(at)? {
                match sockets::open_tcp(address, at, options) {
                    Ok(socket) => opened.push(socket),
                    Err(error) => self.changes.note_closed(&address, &error),
                }
            }
        }
        opened.iter().for_each(|socket| self.changes.note_new(&socket.address));
        self.streams.extend(opened);
        Ok(())
    }

    /// Logs the unix sockets of the options that were not inherited.
    fn warn_of_missing(&self, options: &Options) {
        for at in self.missing(options) {
            let path = at.path.display();
            log::warn(format_args!(
                "larderd: no inherited socket has the path {path}, so larderd does not listen \
                 there: restart it or, with systemd, add ListenStream={path} to the socket unit"
            ));
        }
    }

    /// Returns the unix sockets of the options that were not inherited.
    fn missing(&self, options: &Options) -> Vec<UnixListenAt> {
        let paths = self.streams.iter().filter_map(|socket| match &socket.address {
            Address::Unix(path) => Some(unix_socket::resolved(path)),
            Address::Tcp(_) => None,
        });
        let paths: Vec<_> = paths.collect();
        let is_missing = |at: &UnixListenAt| !paths.contains(&unix_socket::resolved(&at.path));
        options.unix_addresses().into_iter().filter(is_missing).collect()
    }
}

/// Resolves entries of the options.
fn wanted(entries: &[ListenAt]) -> Result<Vec<WantedAddress>, Failure> {
    let mut wanted = Vec::new();
    for (entry, at) in entries.iter().enumerate() {
        let addresses = sockets::addresses(at)?.into_iter();
        wanted.extend(addresses.map(|address| WantedAddress { address, at: at.clone(), entry }));
    }
    Ok(wanted)
}

/// Determines the type and the address of a socket. Configures it like the sockets that larderd
/// opens.
fn look_at(descriptor: &OwnedFd) -> io::Result<(Type, Address)> {
    let socket = SockRef::from(descriptor);
    let (kind, local) = (socket.r#type()?, socket.local_addr()?);
    socket.set_cloexec(true)?;
    socket.set_nonblocking(true)?;
    if kind == Type::STREAM && !socket.is_listener()? {
        return Err(io::Error::other(A_CONNECTION));
    }
    if let Some(address) = local.as_socket() {
        if kind == Type::STREAM {
            sockets::configure_tcp(&socket)?;
        } else {
            sockets::widen_buffers(&socket)?;
        }
        return Ok((kind, Address::Tcp(address)));
    }
    if local.is_unix() {
        return Ok((kind, Address::Unix(sockets::path_of(&local))));
    }
    Err(io::Error::other(NOT_LISTENED_ON))
}

/// Returns the terms of a TCP socket that the options do not name.
///
/// # Errors
/// Fails if the requirements for its clients are unknown.
fn unnamed_tcp(address: SocketAddr, options: &Options) -> io::Result<ListenerTerms> {
    let terms = check_unnamed(&address, options)?;
    if options.tls.is_some() && !options.listen.is_empty() {
        return Err(io::Error::other(format!(
            "with TLS, -l must name every inherited TCP socket, and it does not name {address}: \
             add mtls:{address}, btls:{address} or notls:{address} to it, or remove the socket \
             (with systemd, from the socket unit)"
        )));
    }
    if !options.listen.is_empty() {
        log::warn(format_args!(
            "larderd: option -l: it does not name the inherited socket {address}: the settings for \
             any address apply"
        ));
    }
    let client_certificates =
        options.tls.as_ref().and_then(|tls| tls.client_certificates(Security::Default));
    Ok(ListenerTerms { client_certificates, ..terms })
}

/// Returns an inherited unix socket with the terms of the options' entry for its path. The entry of
/// `-s` applies to any path.
fn listening_unix(descriptor: OwnedFd, path: PathBuf, options: &Options) -> Socket {
    let place = unix_socket::resolved(&path);
    let entries = options.unix_addresses();
    let exact = entries.iter().find(|at| unix_socket::resolved(&at.path) == place);
    let entry = exact.or(entries.first().filter(|_| options.unix_socket.is_some()));
    Socket {
        descriptor,
        transport: Transport::Unix,
        address: Address::Unix(path),
        terms: entry.map_or(ListenerTerms::plain(options.protocol), Into::into),
        mode: exact.map(|at| at.mode),
    }
}

/// Takes the options' entry for an address. An entry with any port applies to one socket, so such
/// entries are assigned in order.
fn take_wanted(wanted: &mut Vec<WantedAddress>, address: SocketAddr) -> Option<(usize, ListenAt)> {
    let at = position(wanted, address)?;
    let WantedAddress { at: found, entry, .. } = &wanted[at];
    let found = (*entry, found.clone());
    if wanted[at].address.port() == 0 {
        wanted.remove(at);
    }
    Some(found)
}

fn position(wanted: &[WantedAddress], address: SocketAddr) -> Option<usize> {
    let covers = |of: &WantedAddress| {
        let (ip, port) = (of.address.ip(), of.address.port());
        (ip == address.ip() || ip.is_unspecified()) && (port == address.port() || port == 0)
    };
    let exact = wanted.iter().position(|of| of.address == address);
    exact.or_else(|| wanted.iter().position(covers))
}

const A_CONNECTION: &str = "it does not listen; with systemd, a socket unit needs Accept=no";
const NO_UNIX_DATAGRAMS: &str = "a unix socket must be a stream (with systemd, ListenStream=)";
const NOT_LISTENED_ON: &str = "it is not a TCP, UDP or unix stream socket";

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use larder_options::{ClientCertificates, Protocol};

    use super::*;

    fn inherited(descriptor: impl Into<OwnedFd>) -> InheritedSocket {
        let (descriptor, name) = (descriptor.into(), "socket 3".to_owned());
        InheritedSocket { descriptor, name, words: None, is_given: true }
    }

    fn options(map: &[(&str, &str)]) -> Options {
        Options::from_map(map.iter().copied()).unwrap().0
    }

    #[test]
    fn sockets_are_sorted_by_their_type() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("[::1]:0").unwrap();
        let (tcp_address, udp_address) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
        let unix = UnixListener::bind(&path).unwrap();
        let given = vec![inherited(tcp), inherited(udp), inherited(unix)];
        let (Inherited { streams, datagrams, .. }, _) = listen_on(given, &options(&[])).unwrap();
        let shown: Vec<_> = streams.iter().map(|socket| socket.address.to_string()).collect();
        assert_eq!(shown, [tcp_address.to_string(), path.display().to_string()]);
        assert_eq!(
            streams.iter().map(|of| of.transport).collect::<Vec<_>>(),
            [Transport::Tcp, Transport::Unix]
        );
        assert_eq!(datagrams[0].address, udp_address);
    }

    #[test]
    fn a_tcp_socket_gets_the_options_of_those_that_larderd_opens() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let (Inherited { streams, .. }, _) =
            listen_on(vec![inherited(tcp)], &options(&[])).unwrap();
        let socket = SockRef::from(&streams[0].descriptor);
        assert!(socket.keepalive().unwrap());
        assert!(socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), sockets::UNSENT_BYTES);
    }

    #[test]
    fn a_socket_that_cannot_listen_is_refused_with_name_and_reason() {
        let (connected, _peer) = UnixStream::pair().unwrap();
        let (datagram, _other) = UnixDatagram::pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let (sequence, _end) =
            socket2::Socket::pair(socket2::Domain::UNIX, Type::SEQPACKET, None).unwrap();
        for (given, words) in [
            (inherited(connected), "Accept=no"),
            (inherited(datagram), "must be a stream"),
            (inherited(sequence), "must be a stream"),
            (inherited(file), "non-socket"),
        ] {
            let failure = listen_on(vec![given], &options(&[])).unwrap_err().to_string();
            assert!(failure.starts_with("cannot listen on socket 3: "), "{failure}");
            assert!(failure.to_lowercase().contains(&words.to_lowercase()), "{failure}");
        }
    }

    #[test]
    fn addresses_take_the_entries_of_the_options_in_order() {
        let list = "proto[ascii]:127.0.0.1:0,proto[binary]:127.0.0.1:0,*:5";
        let options = options(&[("listen", list), ("protocol", "ascii")]);
        let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
        let given = vec![inherited(listener()), inherited(listener()), inherited(listener())];
        let (Inherited { streams, .. }, _) = listen_on(given, &options).unwrap();
        let protocols: Vec<_> = streams.iter().map(|socket| socket.terms.protocol).collect();
        assert_eq!(protocols, [Protocol::Ascii, Protocol::Binary, Protocol::Ascii]);
        let mut wanted: Vec<_> = ["0.0.0.0:5", "127.0.0.1:5"]
            .map(|text| WantedAddress {
                address: text.parse().unwrap(),
                at: options.tcp_addresses()[usize::from(text.starts_with('0')) * 2].clone(),
                entry: 0,
            })
            .into();
        let (_, exact) = take_wanted(&mut wanted, "127.0.0.1:5".parse().unwrap()).unwrap();
        assert_eq!(exact.protocol, Protocol::Ascii);
        assert!(take_wanted(&mut wanted, "10.0.0.1:6".parse().unwrap()).is_none());
        // An address with a port applies to any number of sockets.
        assert!(take_wanted(&mut wanted, "10.0.0.1:5".parse().unwrap()).is_some());
        assert!(take_wanted(&mut wanted, "10.0.0.2:5".parse().unwrap()).is_some());
    }

    #[test]
    fn with_tls_a_socket_that_no_address_names_is_refused() {
        let tls = |listen: &str| {
            let mut map = vec![
                ("enable_ssl", "true"),
                ("ssl_chain_cert", "chain"),
                ("ssl_key", "key"),
                ("ssl_ca_cert", "ca"),
            ];
            if !listen.is_empty() {
                map.push(("listen", listen));
            }
            options(&map)
        };
        let one = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (named, other) = (one(), one());
        let [address, unnamed] = [&named, &other].map(|socket| socket.local_addr().unwrap());
        let mutual = tls(&format!("mtls:{address}"));
        let (Inherited { streams, .. }, _) =
            listen_on(vec![inherited(named.try_clone().unwrap())], &mutual).unwrap();
        assert_eq!(streams[0].terms.client_certificates, Some(ClientCertificates::Required));
        let given = vec![inherited(named), inherited(other.try_clone().unwrap())];
        let failure = listen_on(given, &mutual).unwrap_err().to_string();
        assert!(failure.starts_with("cannot listen on socket 3: "), "{failure}");
        assert!(failure.contains(&format!("add mtls:{unnamed},")), "{failure}");
        // If the options name no address, or all addresses, their entry applies to this one.
        for (listen, demanded) in [
            ("", Some(ClientCertificates::None)),
            (&*format!("mtls:*:{}", unnamed.port()), Some(ClientCertificates::Required)),
        ] {
            let taken = listen_on(vec![inherited(other.try_clone().unwrap())], &tls(listen));
            assert_eq!(taken.unwrap().0.streams[0].terms.client_certificates, demanded, "{listen}");
        }
        let plain = options(&[("listen", &address.to_string())]);
        assert!(listen_on(vec![inherited(other.try_clone().unwrap())], &plain).is_ok());
        let readonly = options(&[("listen", &format!("readonly:{address}"))]);
        let failure = listen_on(vec![inherited(other)], &readonly).unwrap_err().to_string();
        assert!(
            failure.contains("with readonly, -l must name every inherited socket"),
            "{failure}"
        );
    }
}
