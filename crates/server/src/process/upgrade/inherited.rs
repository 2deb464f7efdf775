//! Inherited sockets, opened either by systemd or by the server that this process replaces.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use larder_options::{ListenAt, Options, Security};
use socket2::{SockRef, Type};

use crate::failure::{EXIT_OS, Failure};
use crate::log;
use crate::net::datagrams::Datagrams;
use crate::net::inbox::Transport;
use crate::net::sockets::{self, Address, Socket};

/// An inherited socket, and its name in error messages.
#[derive(Debug)]
pub(crate) struct InheritedSocket {
    pub(crate) descriptor: OwnedFd,
    pub(crate) name: String,
}

/// An address from the options that is not assigned to a socket yet.
struct WantedAddress {
    address: SocketAddr,
    /// The entry of the options that names the address.
    at: ListenAt,
}

/// Sorts inherited sockets by their types, and configures them. Protocol and TLS are those of the
/// options' entry for the socket's address or, without one, those for any address. With TLS, if
/// there is a `-l`, a socket that no `-l` names is an error, because the TLS requirements for its
/// clients would be unknown.
///
/// # Errors
/// Fails if larderd cannot listen on a socket, if no `-l` names it although TLS is enabled, or if a
/// name of `-l` cannot be resolved.
pub(crate) fn listen_on(
    inherited: Vec<InheritedSocket>,
    options: &Options,
) -> Result<(Vec<Socket>, Vec<Datagrams>), Failure> {
    let mut wanted = Vec::new();
    for at in options.tcp_addresses() {
        let addresses = sockets::addresses(&at)?;
        wanted
            .extend(addresses.into_iter().map(|address| WantedAddress { address, at: at.clone() }));
    }
    let (mut streams, mut datagrams) = (Vec::new(), Vec::new());
    for InheritedSocket { descriptor, name } in inherited {
        let unusable = |error: io::Error| {
            Failure::new(EXIT_OS, format_args!("cannot listen on {name}: {error}"))
        };
        let (kind, address) = look_at(&descriptor).map_err(unusable)?;
        match (kind, address) {
            (Type::DGRAM, Address::Tcp(address)) => {
                datagrams.push(Datagrams { socket: descriptor, address });
            }
            (Type::STREAM, address) => {
                streams
                    .push(listening(descriptor, address, &mut wanted, options).map_err(unusable)?);
            }
            (_, Address::Unix(_)) => return Err(unusable(io::Error::other(NO_UNIX_DATAGRAMS))),
            _ => return Err(unusable(io::Error::other(NOT_LISTENED_ON))),
        }
    }
    Ok((streams, datagrams))
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

fn listening(
    descriptor: OwnedFd,
    address: Address,
    wanted: &mut Vec<WantedAddress>,
    options: &Options,
) -> io::Result<Socket> {
    let (transport, client_certificates, protocol) = match &address {
        Address::Unix(_) => (Transport::Unix, None, options.protocol),
        Address::Tcp(address) => match take_wanted(wanted, *address) {
            Some(at) => (Transport::Tcp, at.client_certificates, at.protocol),
            None => {
                if options.tls.is_some() && !options.listen.is_empty() {
                    return Err(io::Error::other(format!(
                        "with TLS, -l must name every inherited TCP socket, and it does not name \
                         {address}: add mtls:{address}, btls:{address} or notls:{address} to it, \
                         or remove the socket (with systemd, from the socket unit)"
                    )));
                }
                if !options.listen.is_empty() {
                    log::warn(format_args!(
                        "larderd: option -l: it does not name the inherited socket {address}: the \
                         settings for any address apply"
                    ));
                }
                let certificates =
                    options.tls.as_ref().and_then(|tls| tls.client_certificates(Security::Default));
                (Transport::Tcp, certificates, options.protocol)
            }
        },
    };
    Ok(Socket { descriptor, transport, address, client_certificates, protocol })
}

/// Takes the options' entry for an address. An entry with any port applies to one socket, so such
/// entries are assigned in order.
fn take_wanted(wanted: &mut Vec<WantedAddress>, address: SocketAddr) -> Option<ListenAt> {
    let covers = |of: &WantedAddress| {
        let (ip, port) = (of.address.ip(), of.address.port());
        (ip == address.ip() || ip.is_unspecified()) && (port == address.port() || port == 0)
    };
    let exact = wanted.iter().position(|of| of.address == address);
    let at = exact.or_else(|| wanted.iter().position(covers))?;
    if wanted[at].address.port() == 0 {
        return Some(wanted.remove(at).at);
    }
    Some(wanted[at].at.clone())
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
        InheritedSocket { descriptor: descriptor.into(), name: "socket 3".to_owned() }
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
        let (streams, datagrams) = listen_on(given, &options(&[])).unwrap();
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
        let (streams, _) = listen_on(vec![inherited(tcp)], &options(&[])).unwrap();
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
        let (streams, _) = listen_on(given, &options).unwrap();
        let protocols: Vec<_> = streams.iter().map(|socket| socket.protocol).collect();
        assert_eq!(protocols, [Protocol::Ascii, Protocol::Binary, Protocol::Ascii]);
        let mut wanted: Vec<_> = ["0.0.0.0:5", "127.0.0.1:5"]
            .map(|text| WantedAddress {
                address: text.parse().unwrap(),
                at: options.tcp_addresses()[usize::from(text.starts_with('0')) * 2].clone(),
            })
            .into();
        let exact = take_wanted(&mut wanted, "127.0.0.1:5".parse().unwrap()).unwrap();
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
        let (streams, _) = listen_on(vec![inherited(named.try_clone().unwrap())], &mutual).unwrap();
        assert_eq!(streams[0].client_certificates, Some(ClientCertificates::Required));
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
            assert_eq!(taken.unwrap().0[0].client_certificates, demanded, "{listen}");
        }
        let plain = options(&[("listen", &address.to_string())]);
        assert!(listen_on(vec![inherited(other)], &plain).is_ok());
    }
}
