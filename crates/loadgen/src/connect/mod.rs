//! Connects to a server.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | connects a socket |
//! | `dialer.rs` | opens connections, with TLS and a login where they are asked for |
//! | `stream.rs` | a blocking connection: a socket, or TLS |
//! | `tls.rs` | the options and the configuration of TLS |
//! | `login.rs` | the options of a login, and the login |
//! | `refusal.rs` | the words for errors of TLS |
//! | `diagnosis.rs` | finds out what a server speaks |

mod diagnosis;
pub mod dialer;
pub(crate) mod login;
pub mod refusal;
pub mod stream;
pub mod tls;

use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::address::Address;

const CONNECT_SECS_MAX: u64 = 2;
/// The longest wait of a read or a write on the socket, in seconds.
pub const ANSWER_SECS_MAX: u64 = 5;

/// Connects, trying each of the host's addresses in turn.
///
/// # Errors
/// No address of the host accepts the connection.
pub fn connect(address: &Address) -> Result<Socket> {
    match address {
        Address::Unix(path) => connect_one(Domain::UNIX, &SockAddr::unix(path)?),
        Address::Tcp { host, port } => {
            let found = look_up(host, *port)?;
            let mut outcome = Err(UnknownHost("it has no address".to_owned()).into());
            for found in found {
                outcome = connect_one(Domain::for_address(found), &found.into());
                if let Ok(socket) = &outcome {
                    socket.set_tcp_nodelay(true)?;
                    break;
                }
            }
            outcome
        }
    }
}

/// Returns the addresses of a host.
///
/// # Errors
/// [`UnknownHost`]
pub(crate) fn look_up(host: &str, port: u16) -> Result<impl Iterator<Item = SocketAddr>> {
    let found = (host, port).to_socket_addrs().map_err(|error| {
        // The library begins each of these with the same words.
        let words = error.to_string();
        let reason = words.rsplit_once(": ").map_or(&*words, |(_, reason)| reason);
        UnknownHost(reason.to_owned())
    });
    Ok(found?)
}

/// Returns a remedy for the case that no connection to a server could be opened.
pub fn hint(address: &Address, error: &anyhow::Error) -> String {
    match error.downcast_ref::<UnknownHost>() {
        Some(_) => "check the name; the path of a Unix socket begins with / or ./".to_owned(),
        None => address.hint(),
    }
}

/// The error of a host name that leads to no address.
#[derive(Debug)]
pub struct UnknownHost(String);

impl fmt::Display for UnknownHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the host is not known ({})", self.0)
    }
}

impl std::error::Error for UnknownHost {}

fn connect_one(domain: Domain, address: &SockAddr) -> Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM, None)?;
    let deadline = Instant::now() + Duration::from_secs(CONNECT_SECS_MAX);
    let wait = Duration::from_secs(CONNECT_SECS_MAX);
    while let Err(error) = socket.connect_timeout(address, wait) {
        match error.kind() {
            // A full accept queue of a Unix socket is reported at once: as `WouldBlock`, or as
            // `Other` after a poll.
            ErrorKind::WouldBlock | ErrorKind::Other if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            ErrorKind::WouldBlock | ErrorKind::Other => {
                bail!("the server's queue of new connections is full")
            }
            ErrorKind::TimedOut => bail!("no answer within {CONNECT_SECS_MAX} s"),
            _ => return Err(error.into()),
        }
    }
    let answer_time = Some(Duration::from_secs(ANSWER_SECS_MAX));
    socket.set_read_timeout(answer_time)?;
    socket.set_write_timeout(answer_time)?;
    Ok(socket)
}
