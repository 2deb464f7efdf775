//! The addresses on which a server would listen.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use larder_options::{AdminAddress, ClientCertificates, ListenAt, Options, Security};

use super::findings::Findings;
use super::in_use::{InUse, Kind};
use super::permissions;
use crate::admin;
use crate::failure::Failure;
use crate::net::sockets::{self, Address};
use crate::net::terms::ListenerTerms;
use crate::net::unix_socket::{self, UnixSocketError};

/// An address, and what clients find there.
#[derive(Debug)]
pub(super) struct Listener {
    address: Address,
    kind: Kind,
    /// True for an address of the admin listener.
    is_admin: bool,
    /// True if a machine without IPv6 need not have the address.
    is_optional: bool,
    /// True for the socket of `-s`, which replaces one in use.
    takes_over: bool,
    /// The properties, such as `TLS`.
    words: Vec<String>,
}

/// Returns all addresses of a server with these options, in the order in which it opens them. An
/// address that cannot be resolved is an error in the list.
pub(super) fn listeners(options: &Options) -> Vec<Result<Listener, Failure>> {
    let mut listeners = Vec::new();
    for at in options.unix_addresses() {
        let mut words = vec![format!("mode {:o}", at.mode)];
        words.extend(ListenerTerms::from(&at).named_words().into_iter().map(str::to_owned));
        let takes_over = at.takes_over;
        listeners.push(Ok(Listener { takes_over, ..Listener::at_path(&at.path, words) }));
    }
    let mut seen = HashSet::new();
    for (kind, at) in options
        .tcp_addresses()
        .iter()
        .map(|at| (Kind::Tcp, at))
        .chain(options.udp_addresses().iter().map(|at| (Kind::Udp, at)))
    {
        match sockets::addresses(at) {
            Ok(addresses) => {
                let is_new =
                    |address: &SocketAddr| address.port() == 0 || seen.insert((kind, *address));
                let new = addresses.into_iter().filter(is_new);
                listeners.extend(new.map(|address| Ok(Listener::of_clients(address, kind, at))));
            }
            Err(failure) => listeners.push(Err(failure)),
        }
    }
    listeners.extend(admin_listeners(options));
    listeners
}

fn admin_listeners(options: &Options) -> Vec<Result<Listener, Failure>> {
    let mut listeners = Vec::new();
    for listen in &options.admin_listen {
        let mut words = vec![format!("admin, at most {}", listen.role.name())];
        match &listen.address {
            AdminAddress::Unix { path, mode } => {
                words.push(format!("mode {mode:o}"));
                listeners.push(Ok(Listener { is_admin: true, ..Listener::at_path(path, words) }));
            }
            AdminAddress::Tcp { host, port } => {
                words.extend((listen.security != Security::Plain).then(|| "TLS".to_owned()));
                let resolved = admin::sockets::resolved(host.as_deref(), *port, options);
                let listener = |address: SocketAddr| Listener {
                    address: Address::Tcp(address),
                    kind: Kind::Tcp,
                    is_admin: true,
                    is_optional: host.is_none() && address.is_ipv6(),
                    takes_over: false,
                    words: words.clone(),
                };
                match resolved {
                    Ok(addresses) => listeners.extend(addresses.into_iter().map(listener).map(Ok)),
                    Err(failure) => listeners.push(Err(failure)),
                }
            }
        }
    }
    listeners
}

impl Listener {
    fn at_path(path: &Path, words: Vec<String>) -> Self {
        let address = Address::Unix(path.to_owned());
        Self {
            address,
            kind: Kind::Unix,
            is_admin: false,
            is_optional: false,
            takes_over: false,
            words,
        }
    }

    fn of_clients(address: SocketAddr, kind: Kind, at: &ListenAt) -> Self {
        let mut words = match (kind, at.client_certificates) {
            (Kind::Udp, _) => vec!["UDP".to_owned()],
            (_, None) => Vec::new(),
            (_, Some(asked)) => vec![match asked {
                ClientCertificates::None => "TLS".to_owned(),
                ClientCertificates::Requested => "TLS, client certificates optional".to_owned(),
                ClientCertificates::Required => "TLS, client certificates required".to_owned(),
            }],
        };
        words.extend(at.is_readonly.then(|| "readonly".to_owned()));
        let is_optional = at.host.is_none() && address.is_ipv6();
        let address = Address::Tcp(address);
        Self { address, kind, is_admin: false, is_optional, takes_over: false, words }
    }

    /// Notes that another process uses the address. Called while the process may still look up
    /// which one.
    pub(super) fn note_use(&self, in_use: &InUse, findings: &mut Findings) {
        let holder = match &self.address {
            Address::Tcp(address) => in_use.of_address(self.kind, *address),
            Address::Unix(path) => in_use.of_path(path),
        };
        let Some(holder) = holder else { return };
        let effect = match self.takes_over {
            true => ", which gets no new connections after a start",
            false => {
                ": an upgrade by SIGUSR2 takes it over from larderd, any other start fails until it \
                 is free"
            }
        };
        findings.note(format_args!("{} is in use by {holder}{effect}", self.address));
    }

    /// Checks that the process may listen here.
    pub(super) fn check(&self, findings: &mut Findings) {
        let listens = match &self.address {
            Address::Tcp(address) => check_tcp(*address),
            Address::Unix(path) => check_path(path, self.takes_over),
        };
        match listens {
            Ok(()) => findings.uses("listen", self),
            Err(_) if self.is_optional => {}
            Err(error) => findings.problem(match self.is_admin {
                true => admin::sockets::cannot_listen(&self.address, &error),
                false => sockets::cannot_listen(&self.address, &error),
            }),
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if !self.words.is_empty() {
            write!(f, " ({})", self.words.join(", "))?;
        }
        Ok(())
    }
}

/// Checks that an address belongs to this machine, and that the process may use the port. Binds a
/// free port of the address for a moment, because the kernel itself decides what belongs to the
/// machine.
fn check_tcp(address: SocketAddr) -> Result<(), UnixSocketError> {
    let mut any_port = address;
    any_port.set_port(0);
    UdpSocket::bind(any_port)?;
    match permissions::may_bind(address.port()) {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::PermissionDenied).into()),
    }
}

/// Checks that a socket can be created at a path.
fn check_path(path: &Path, takes_over: bool) -> Result<(), UnixSocketError> {
    let checked = match takes_over {
        true => unix_socket::check_take_over(path),
        false => unix_socket::check(path),
    };
    match checked {
        // Another finding names the process.
        Ok(()) | Err(UnixSocketError::Live) => {}
        Err(error) => return Err(error),
    }
    Ok(permissions::check_writable(path.parent().unwrap_or(Path::new("/")))?)
}
