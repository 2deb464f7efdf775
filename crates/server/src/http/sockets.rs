//! The sockets of the admin listeners.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{self, Path};

use larder_options::{AdminAddress, AdminListen, ClientCertificates, ListenAt, Options, Role};
use rustix::fs::Mode;
use rustix::process::umask;
use socket2::{Domain, Protocol, SockAddr, SockRef, Type};

use crate::failure::{EXIT_OS, Failure};
use crate::net::inbox::Transport;
use crate::net::sockets::{self, Address, Socket};

/// A listening socket of an admin listener.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    pub(crate) descriptor: OwnedFd,
    pub(crate) address: Address,
    /// The most that a request may do here.
    pub(crate) role: Role,
    /// True if connections are encrypted.
    pub(crate) tls: bool,
}

impl AdminSocket {
    /// True if all who can connect may do everything on the wire anyway, or are admitted by the
    /// permissions of a path: their requests need no token.
    pub(crate) fn is_trusted(&self, wire_is_open: bool) -> bool {
        match &self.address {
            Address::Unix(_) => true,
            Address::Tcp(address) => wire_is_open && address.ip().to_canonical().is_loopback(),
        }
    }

    /// Returns what requests may do here: those without a token, and those with one where a token
    /// gives more.
    pub(crate) fn access(&self, wire_is_open: bool, has_tokens: bool) -> String {
        let most = self.role.name();
        let untrusted = Role::Probe.name();
        match (self.is_trusted(wire_is_open) || self.role == Role::Probe, has_tokens) {
            (true, _) => most.to_owned(),
            (false, true) => format!("{untrusted} without a token, up to {most} with one"),
            (false, false) => untrusted.to_owned(),
        }
    }
}

/// True if every program of this machine can use the cache by TCP: without a password and without a
/// client certificate.
pub(crate) fn wire_is_open(options: &Options, sockets: &[Socket]) -> bool {
    let asks_nothing = |socket: &Socket| {
        socket.transport == Transport::Tcp
            && socket.client_certificates != Some(ClientCertificates::Required)
    };
    !options.sasl && options.auth_file.is_none() && sockets.iter().any(asks_nothing)
}

/// Opens the admin sockets that the options name. A socket that the predecessor hands over is used
/// again where its address is named; the others are closed.
///
/// # Errors
/// An address is in use, or cannot be listened on for another reason.
pub(crate) fn open(options: &Options, handed: Vec<OwnedFd>) -> Result<Vec<AdminSocket>, Failure> {
    let mut handed: Vec<_> = handed.into_iter().filter_map(usable).collect();
    let mut opened = Vec::new();
    for AdminListen { address, role, tls } in &options.admin_listen {
        match address {
            AdminAddress::Unix { path, mode } => {
                let failure = |error| cannot_listen(&Address::Unix(path.clone()), &error);
                // A process in the background changes its folder.
                let path = path::absolute(path).map_err(failure)?;
                let address = Address::Unix(path.clone());
                let descriptor = match take(&mut handed, &address) {
                    Some((descriptor, _)) => descriptor,
                    None => open_unix(&path, *mode).map_err(failure)?,
                };
                opened.push(AdminSocket { descriptor, address, role: *role, tls: *tls });
            }
            AdminAddress::Tcp { host, port } => {
                for address in resolved(host.as_deref(), *port, options)? {
                    if let Some((descriptor, address)) = take(&mut handed, &Address::Tcp(address)) {
                        opened.push(AdminSocket { descriptor, address, role: *role, tls: *tls });
                        continue;
                    }
                    match open_tcp(address) {
                        Ok((descriptor, address)) => {
                            let address = Address::Tcp(address);
                            opened.push(AdminSocket {
                                descriptor,
                                address,
                                role: *role,
                                tls: *tls,
                            });
                        }
                        // A machine without IPv6 is fine.
                        Err(error)
                            if host.is_none()
                                && address.is_ipv6()
                                && error.kind() != io::ErrorKind::AddrInUse => {}
                        Err(error) => return Err(cannot_listen(&Address::Tcp(address), &error)),
                    }
                }
            }
        }
    }
    Ok(opened)
}

fn cannot_listen(address: &Address, error: &io::Error) -> Failure {
    let remedy = sockets::remedy(error);
    let message =
        format_args!("option --admin-listen: cannot listen on {address}: {error}{remedy}");
    Failure::new(EXIT_OS, message)
}

fn resolved(host: Option<&str>, port: u16, options: &Options) -> Result<Vec<SocketAddr>, Failure> {
    sockets::addresses(&ListenAt {
        host: host.map(str::to_owned),
        port,
        client_certificates: None,
        protocol: options.protocol,
    })
}

/// Returns a handed socket with its address; `None` if it is nothing to listen on.
fn usable(descriptor: OwnedFd) -> Option<(OwnedFd, Address)> {
    let socket = SockRef::from(&descriptor);
    let local = socket.local_addr().ok().filter(|_| socket.is_listener().unwrap_or(false))?;
    let address = match local.as_socket() {
        Some(address) => Address::Tcp(address),
        None => Address::Unix(local.as_pathname()?.to_owned()),
    };
    Some((descriptor, address))
}

/// Takes the handed socket of an address. The port 0 is that of any socket.
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

/// Listens on a path. A stale socket from an earlier run is removed; a socket on which a process
/// listens, and any other file, stays and is an error.
fn open_unix(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let address = SockAddr::unix(path)?;
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        // A process that listens may also let the connection wait.
        let probe = socket2::Socket::new(Domain::UNIX, kind, None)?.connect(&address);
        if !probe.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        fs::remove_file(path)?;
    }
    let socket = socket2::Socket::new(Domain::UNIX, kind, None)?;
    // The permissions must be right from the moment the path exists.
    let before = umask(Mode::from_raw_mode(!mode & 0o777));
    let listens = socket.bind(&address).and_then(|()| socket.listen(BACKLOG));
    umask(before);
    listens?;
    Ok(socket.into())
}

/// Connections that wait to be accepted. More are a flood, and the kernel drops it.
const BACKLOG: i32 = 1024;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn options(listen: &str, more: &[(&str, &str)]) -> Options {
        let map = [("admin_listen", listen)].into_iter().chain(more.iter().copied());
        Options::from_map(map).unwrap().0
    }

    #[test]
    fn sockets_that_are_handed_over_are_used_again_and_others_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let list = format!("127.0.0.1:0,role=probe;{},mode=620", path.display());
        let first = open(&options(&list, &[]), Vec::new()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o620);
        let addresses = |of: &[AdminSocket]| -> Vec<_> {
            of.iter().map(|socket| socket.address.to_string()).collect()
        };
        let refused = open(&options(&list, &[]), Vec::new()).unwrap_err().to_string();
        assert!(refused.contains("admin.sock: address in use"), "{refused}");
        let handed = first.iter().map(|of| of.descriptor.try_clone().unwrap()).collect();
        let again = open(&options(&format!("{list};127.0.0.1:0"), &[]), handed).unwrap();
        assert_eq!(addresses(&first), addresses(&again[..2]));
        assert_ne!(again[0].address.to_string(), again[2].address.to_string());
        assert_eq!((again[0].role, again[2].role), (Role::Probe, Role::Full));
        drop((first, again));
        open(&options(&list, &[]), Vec::new()).expect("a stale socket is removed");
    }

    fn socket(address: &str) -> AdminSocket {
        AdminSocket {
            descriptor: fs::File::open("/dev/null").unwrap().into(),
            address: match address.parse() {
                Ok(address) => Address::Tcp(address),
                Err(_) => Address::Unix(address.into()),
            },
            role: Role::Full,
            tls: false,
        }
    }

    #[test]
    fn only_loopback_beside_an_open_wire_and_paths_are_trusted() {
        for (address, beside_open, beside_closed) in [
            ("127.0.0.1:1", true, false),
            ("127.9.9.9:1", true, false),
            ("[::1]:1", true, false),
            ("0.0.0.0:1", false, false),
            ("[::]:1", false, false),
            ("10.0.0.1:1", false, false),
            ("/run/s", true, true),
        ] {
            assert_eq!(socket(address).is_trusted(true), beside_open, "{address}");
            assert_eq!(socket(address).is_trusted(false), beside_closed, "{address}");
        }
    }

    #[test]
    fn the_start_names_the_role_without_a_token_and_with_one() {
        let mut guarded = socket("127.0.0.1:1");
        assert_eq!(guarded.access(true, true), "full");
        assert_eq!(guarded.access(true, false), "full");
        assert_eq!(guarded.access(false, true), "probe without a token, up to full with one");
        assert_eq!(guarded.access(false, false), "probe");
        assert_eq!(socket("/run/s").access(false, true), "full");
        guarded.role = Role::Read;
        assert_eq!(guarded.access(false, true), "probe without a token, up to read with one");
        guarded.role = Role::Probe;
        assert_eq!(guarded.access(false, true), "probe");
    }

    #[test]
    fn a_wire_with_passwords_or_certificates_is_not_open() {
        let of = |transport, client_certificates| Socket {
            descriptor: fs::File::open("/dev/null").unwrap().into(),
            transport,
            address: Address::Tcp("127.0.0.1:1".parse().unwrap()),
            client_certificates,
            protocol: larder_options::Protocol::Auto,
        };
        let tcp = |certificates| vec![of(Transport::Tcp, certificates)];
        let plain = options("/s", &[]);
        assert!(wire_is_open(&plain, &tcp(None)));
        assert!(wire_is_open(&plain, &tcp(Some(ClientCertificates::Requested))));
        assert!(!wire_is_open(&plain, &tcp(Some(ClientCertificates::Required))));
        assert!(!wire_is_open(&plain, &[]), "no wire at all");
        assert!(!wire_is_open(&plain, &[of(Transport::Unix, None)]), "a path has permissions");
        assert!(!wire_is_open(&options("/s", &[("enable_sasl", "yes")]), &tcp(None)));
        assert!(!wire_is_open(&options("/s", &[("auth_file", "/users")]), &tcp(None)));
    }
}
