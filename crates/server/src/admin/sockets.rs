//! The sockets of the admin listeners.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path;

use larder_options::{
    AdminAddress, AdminListen, ClientCertificates, ListenAt, Options, Role, Security,
};
use socket2::{Domain, Protocol, SockRef, Type};

use crate::failure::{EXIT_OS, Failure};
use crate::leftovers::Leftovers;
use crate::net::inbox::Transport;
use crate::net::sockets::{self, Address, Socket};
use crate::net::unix_socket::{self, UnixSocketError};

/// A listening socket of an admin listener.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    pub(crate) descriptor: OwnedFd,
    pub(crate) address: Address,
    /// The highest role that a request can have here.
    pub(crate) role: Role,
    /// Whether TLS requires client certificates; `None` without TLS.
    pub(crate) client_certificates: Option<ClientCertificates>,
}

impl AdminSocket {
    /// True if connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.client_certificates.is_some()
    }

    /// Returns the role of requests without a token. Over TCP they may do what everyone who can
    /// connect may do with the cache anyway. On a path, the file's permissions decide who can
    /// connect, so they may do everything.
    pub(crate) fn role_without_token(&self, on_wire: Role) -> Role {
        match &self.address {
            Address::Unix(_) => self.role,
            Address::Tcp(address) if address.ip().to_canonical().is_loopback() => {
                self.role.min(on_wire)
            }
            Address::Tcp(_) => Role::Probe,
        }
    }

    /// Describes the access that requests have here, without a token and with one if a token grants
    /// more.
    pub(crate) fn access(&self, on_wire: Role, has_tokens: bool) -> String {
        let (most, without) = (self.role, self.role_without_token(on_wire));
        match without < most && has_tokens {
            true => format!("{} without a token, up to {} with one", without.name(), most.name()),
            false => without.name().to_owned(),
        }
    }
}

/// Returns the role that every program of this machine already has through the cache's TCP sockets,
/// without a password and without a client certificate. If the options forbid both clearing and
/// dumping the cache, or if all these sockets are `readonly`, this role can only read: these
/// options keep a program from disturbing the service for others, and the admin listener must not
/// be a way around them.
pub(crate) fn role_on_wire(options: &Options, sockets: &[Socket]) -> Role {
    let asks_nothing = |socket: &&Socket| {
        socket.transport == Transport::Tcp
            && socket.terms.client_certificates != Some(ClientCertificates::Required)
    };
    let open: Vec<_> = sockets.iter().filter(asks_nothing).collect();
    if options.needs_login() || open.is_empty() {
        Role::Probe
    } else if !options.flush_all && !options.dump
        || open.iter().all(|socket| socket.terms.is_readonly)
    {
        Role::Read
    } else {
        Role::Full
    }
}

/// Opens the admin sockets that the options name. A socket inherited from the predecessor is reused
/// if the options name its address; the others are closed. Adds the files of new unix sockets to
/// the `leftovers`.
///
/// # Errors
/// Fails if an address is in use, or if listening on it fails for another reason.
pub(crate) fn open(
    options: &Options,
    handed: Vec<OwnedFd>,
    leftovers: &Leftovers,
) -> Result<Vec<AdminSocket>, Failure> {
    let mut handed: Vec<_> = handed.into_iter().filter_map(usable).collect();
    let mut opened = Vec::new();
    for AdminListen { address, role, security } in &options.admin_listen {
        let client_certificates = match security {
            Security::Plain => None,
            encrypted => options.tls.as_ref().and_then(|tls| tls.client_certificates(*encrypted)),
        };
        let mut add = |descriptor, address| {
            opened.push(AdminSocket { descriptor, address, role: *role, client_certificates });
        };
        match address {
            AdminAddress::Unix { path, mode } => {
                // A process in the background changes its working directory.
                let absolute = path::absolute(path);
                let path =
                    absolute.map_err(|error| cannot_listen(&path.display(), &error.into()))?;
                let address = Address::Unix(path.clone());
                let descriptor = match take(&mut handed, &address) {
                    Some((descriptor, _)) => descriptor,
                    None => {
                        let opened = unix_socket::listen(&path, *mode, BACKLOG);
                        let opened = opened.map_err(|error| cannot_listen(&address, &error))?;
                        leftovers.note(&path);
                        opened
                    }
                };
                add(descriptor, address);
            }
            AdminAddress::Tcp { host, port } => {
                for address in resolved(host.as_deref(), *port, options)? {
                    if let Some((descriptor, address)) = take(&mut handed, &Address::Tcp(address)) {
                        add(descriptor, address);
                        continue;
                    }
                    match open_tcp(address) {
                        Ok((descriptor, address)) => add(descriptor, Address::Tcp(address)),
                        // Accepts a machine without IPv6.
                        Err(error)
                            if host.is_none()
                                && address.is_ipv6()
                                && error.kind() != io::ErrorKind::AddrInUse => {}
                        Err(error) => return Err(cannot_listen(&address, &error.into())),
                    }
                }
            }
        }
    }
    Ok(opened)
}

/// Returns the error of an address on which the admin listener cannot listen.
pub(crate) fn cannot_listen(address: &dyn fmt::Display, error: &UnixSocketError) -> Failure {
    let message = format_args!("option --admin-listen: cannot listen on {address}: {error}");
    Failure::new(EXIT_OS, message)
}

pub(crate) fn resolved(
    host: Option<&str>,
    port: u16,
    options: &Options,
) -> Result<Vec<SocketAddr>, Failure> {
    sockets::addresses(&ListenAt {
        host: host.map(str::to_owned),
        port,
        client_certificates: None,
        protocol: options.protocol,
        is_readonly: false,
    })
}

/// Returns an inherited socket with its address; `None` if it is not a listening socket.
fn usable(descriptor: OwnedFd) -> Option<(OwnedFd, Address)> {
    let socket = SockRef::from(&descriptor);
    let local = socket.local_addr().ok().filter(|_| socket.is_listener().unwrap_or(false))?;
    let address = match local.as_socket() {
        Some(address) => Address::Tcp(address),
        None => Address::Unix(local.as_pathname()?.to_owned()),
    };
    Some((descriptor, address))
}

/// Takes the inherited socket for an address. Port 0 matches any socket.
fn take(handed: &mut Vec<(OwnedFd, Address)>, wanted: &Address) -> Option<(OwnedFd, Address)> {
    let fits = |address: &Address| match (address, wanted) {
        (Address::Unix(path), Address::Unix(wanted)) => path == wanted,
        (Address::Tcp(address), Address::Tcp(wanted)) => {
            address.ip() == wanted.ip() && [address.port(), 0].contains(&wanted.port())
        }
        _ => false,
    };
    let at = handed.iter().position(|(_, address)| fits(address))?;
    Some(handed.swap_remove(at))
}

fn open_tcp(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let domain = Domain::for_address(address);
    let socket = socket2::Socket::new(domain, kind, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let address = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok((socket.into(), address))
}

/// Maximum number of connections that wait to be accepted. More than this is a flood, which the
/// kernel drops.
const BACKLOG: i32 = 1024;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::net::terms::ListenerTerms;

    fn options(listen: &str, more: &[(&str, &str)]) -> Options {
        let map = [("admin_listen", listen)].into_iter().chain(more.iter().copied());
        Options::from_map(map).unwrap().0
    }

    #[test]
    fn sockets_that_are_handed_over_are_used_again_and_others_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let list = format!("127.0.0.1:0,role=probe;{},mode=620", path.display());
        let leftovers = Leftovers::default();
        let open = |list: &str, handed| open(&options(list, &[]), handed, &leftovers);
        let first = open(&list, Vec::new()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o620);
        let addresses = |of: &[AdminSocket]| -> Vec<_> {
            of.iter().map(|socket| socket.address.to_string()).collect()
        };
        let refused = open(&list, Vec::new()).unwrap_err().to_string();
        assert!(refused.contains("admin.sock: a process listens there"), "{refused}");
        let handed = first.iter().map(|of| of.descriptor.try_clone().unwrap()).collect();
        let again = open(&format!("{list};127.0.0.1:0"), handed).unwrap();
        assert_eq!(addresses(&first), addresses(&again[..2]));
        assert_ne!(again[0].address.to_string(), again[2].address.to_string());
        assert_eq!((again[0].role, again[2].role), (Role::Probe, Role::Full));
        drop((first, again));
        open(&list, Vec::new()).expect("a stale socket is removed");
        leftovers.remove();
        assert!(!path.exists(), "a start that fails leaves no socket behind");
    }

    fn socket(address: &str) -> AdminSocket {
        AdminSocket {
            descriptor: fs::File::open("/dev/null").unwrap().into(),
            address: match address.parse() {
                Ok(address) => Address::Tcp(address),
                Err(_) => Address::Unix(address.into()),
            },
            role: Role::Full,
            client_certificates: None,
        }
    }

    #[test]
    fn without_a_token_a_request_may_do_what_its_sender_may_do_on_the_wire() {
        use Role::{Full, Probe, Read};
        for (address, expected) in [
            ("127.0.0.1:1", [Full, Read, Probe]),
            ("127.9.9.9:1", [Full, Read, Probe]),
            ("[::1]:1", [Full, Read, Probe]),
            ("0.0.0.0:1", [Probe, Probe, Probe]),
            ("[::]:1", [Probe, Probe, Probe]),
            ("10.0.0.1:1", [Probe, Probe, Probe]),
            ("/run/s", [Full, Full, Full]),
        ] {
            let given = [Full, Read, Probe].map(|role| socket(address).role_without_token(role));
            assert_eq!(given, expected, "{address}");
        }
    }

    #[test]
    fn the_start_names_the_role_without_a_token_and_with_one() {
        use Role::{Full, Probe, Read};
        let mut guarded = socket("127.0.0.1:1");
        assert_eq!(guarded.access(Full, true), "full");
        assert_eq!(guarded.access(Full, false), "full");
        assert_eq!(guarded.access(Read, true), "read without a token, up to full with one");
        assert_eq!(guarded.access(Read, false), "read");
        assert_eq!(guarded.access(Probe, true), "probe without a token, up to full with one");
        assert_eq!(guarded.access(Probe, false), "probe");
        assert_eq!(socket("/run/s").access(Probe, true), "full");
        guarded.role = Read;
        assert_eq!(guarded.access(Probe, true), "probe without a token, up to read with one");
        guarded.role = Probe;
        assert_eq!(guarded.access(Probe, true), "probe");
    }

    #[test]
    fn a_wire_with_passwords_or_certificates_is_not_open() {
        let of = |transport, client_certificates| Socket {
            descriptor: fs::File::open("/dev/null").unwrap().into(),
            transport,
            address: Address::Tcp("127.0.0.1:1".parse().unwrap()),
            terms: ListenerTerms {
                client_certificates,
                ..ListenerTerms::plain(larder_options::Protocol::Auto)
            },
            mode: None,
        };
        let tcp = |certificates| vec![of(Transport::Tcp, certificates)];
        let plain = options("/s", &[]);
        let role = role_on_wire;
        assert_eq!(role(&plain, &tcp(None)), Role::Full);
        assert_eq!(role(&plain, &tcp(Some(ClientCertificates::Requested))), Role::Full);
        assert_eq!(role(&plain, &tcp(Some(ClientCertificates::Required))), Role::Probe);
        let mut readonly = tcp(None);
        readonly[0].terms.is_readonly = true;
        assert_eq!(role(&plain, &readonly), Role::Read, "clients may read");
        readonly.extend(tcp(None));
        assert_eq!(role(&plain, &readonly), Role::Full, "another socket lets them change all");
        assert_eq!(role(&plain, &[]), Role::Probe, "no wire at all");
        let path = [of(Transport::Unix, None)];
        assert_eq!(role(&plain, &path), Role::Probe, "a path has permissions");
        for (name, value, expected) in [
            ("enable_sasl", "yes", Role::Probe),
            ("auth_file", "/users", Role::Probe),
            ("users", "/users.toml", Role::Probe),
            ("disable_flush_all", "yes", Role::Full),
            ("disable_dumping", "yes", Role::Full),
        ] {
            let options = options("/s", &[(name, value)]);
            assert_eq!(role(&options, &tcp(None)), expected, "{name}");
        }
        let both = options("/s", &[("disable_flush_all", "yes"), ("disable_dumping", "yes")]);
        assert_eq!(role(&both, &tcp(None)), Role::Read, "all that ends the use by others");
    }
}
