//! Logins that need an argon2 verification. One thread verifies them, so a flood of logins takes
//! one processor at most, and the memory of one verification.
//!
//! A verification takes tens of milliseconds. A session that waits for one is suspended, and its
//! worker serves other connections until the thread wakes it.

mod queue;
mod verifier;

use std::net::IpAddr;
use std::sync::Arc;

pub(super) use verifier::Verifier;

use super::mac::Mac;
use super::user::User;
use crate::waker::Promise;

/// The outcome of a login that waits for its verification: the user, or `None` if the login failed.
pub(crate) type PendingLogin = Arc<Promise<Option<Arc<User>>>>;

/// A login to verify.
#[derive(Debug)]
pub(super) struct Login {
    /// The user with this name. Without one the password is verified all the same, because the time
    /// of the response must not reveal which users exist.
    pub(super) user: Option<Arc<User>>,
    pub(super) mac: Mac,
    pub(super) password: Box<[u8]>,
    pub(super) origin: Origin,
}

/// Where a login comes from. Logins of different origins wait in different queues, so that a flood
/// from one delays the others little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The peer's network: an IPv4 address, or the first 64 bits of an IPv6 address; `None` for a
    /// unix socket.
    network: Option<u64>,
    /// True if an earlier login on the same connection has failed.
    pub(crate) has_failed: bool,
}

impl Origin {
    /// Returns the origin of a new connection.
    pub(crate) fn of(peer: Option<IpAddr>) -> Self {
        let network = peer.map(|peer| match peer {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(address) => u64::from(address.to_bits()),
                // The second half of an address is the host's own choice.
                None => (address.to_bits() >> 64) as u64,
            },
        });
        Self { network, has_failed: false }
    }
}
