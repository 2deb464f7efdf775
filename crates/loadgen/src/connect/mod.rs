//! Connects to a server.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | connects a socket |
//! | `dialer.rs` | opens connections, with TLS and a login if the options request them |
//! | `stream.rs` | a blocking connection: a socket, or TLS |
//! | `tls.rs` | the options and the configuration of TLS |
//! | `login.rs` | the options of a login, and the login |
//! | `refusal.rs` | the messages for TLS errors |
//! | `diagnosis.rs` | finds out which protocol a server speaks |

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
        // The library begins all of these messages with the same text.
        let words = error.to_string();
        let reason = words.rsplit_once(": ").map_or(&*words, |(_, reason)| reason);
        UnknownHost(reason.to_owned())
    });
    Ok(found?)
}

/// Returns a remedy if no connection to a server could be opened.
pub fn hint(address: &Address, error: &anyhow::Error) -> String {
    match error.downcast_ref::<UnknownHost>() {
        Some(_) => "check the name; the path of a Unix socket begins with / or ./".to_owned(),
        None => address.hint(),
    }
}

/// The error of a host name without an address.
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
            // The kernel reports a full accept queue of a Unix socket immediately: as `WouldBlock`,
            // or as `Other` after a poll.
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::fixtures::{nobody, serve};

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn a_connection_sends_at_once_and_waits_for_a_bounded_time() {
        let socket = connect(&serve(|_, _| {})).unwrap();
        let answer_time = Some(Duration::from_secs(ANSWER_SECS_MAX));
        assert!(socket.tcp_nodelay().unwrap());
        let times = (socket.read_timeout().unwrap(), socket.write_timeout().unwrap());
        assert_eq!(times, (answer_time, answer_time));
    }

    #[test]
    fn a_unix_socket_is_connected_to_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = Address::Unix(path.clone());
        let missing = connect(&address).unwrap_err();
        assert!(hint(&address, &missing).contains("larderd -s "), "{}", hint(&address, &missing));
        let _listener = UnixListener::bind(&path).unwrap();
        connect(&address).unwrap();
    }

    #[test]
    fn a_port_without_a_server_has_the_hint_of_its_address() {
        let address = nobody();
        let refused = connect(&address).unwrap_err();
        assert!(refused.to_string().contains("refused"), "{refused:#}");
        assert_eq!(hint(&address, &refused), address.hint());
    }

    #[test]
    fn a_host_that_nobody_knows_has_the_hint_to_check_its_name() {
        let address = tcp("no-such-host.invalid", 11211);
        let unknown = connect(&address).unwrap_err();
        let words = unknown.to_string();
        assert!(words.starts_with("the host is not known ("), "{words}");
        assert!(hint(&address, &unknown).starts_with("check the name"), "{words}");
    }

    #[test]
    fn a_host_is_looked_up_with_its_port() {
        let found: Vec<_> = look_up("127.0.0.1", 7).unwrap().collect();
        assert_eq!(found, ["127.0.0.1:7".parse().unwrap()]);
    }

    /// The kernel reports a full queue immediately, and the client retries for a while.
    #[test]
    fn a_full_queue_of_connections_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap();
        let address = Address::Unix(path);
        let _first = connect(&address).unwrap();
        let begun = Instant::now();
        let accepting = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            // The listener is returned to keep the queue.
            (listener.accept().unwrap(), listener)
        });
        connect(&address).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(100), "{:?}", begun.elapsed());
        accepting.join().unwrap();
    }
}
