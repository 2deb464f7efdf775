//! Leases: one process at a time computes something, among the clients of a server.
//!
//! A lease is an item of its own, which the server adds if no other is there: its key is a hash of
//! the key that the lease belongs to, so that no reader of that key sees it, whatever its protocol.

use std::fmt::Write;
use std::time::Duration;

use larder_engine::Lease;
use larder_item::{StoreMode, check_key};

use super::Client;
use super::ask::Ask;
use super::error::ClientError;
use super::store::{ClientStore, ClientStored};
use crate::system::random::random;

/// What the keys of leases begin with.
const PREFIX: &str = "larder.lease.";

/// Returns the key of the item that is the lease of a key: its FNV-1a hash of 128 bits.
fn lease_key(key: &[u8]) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash = key.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    let mut name = String::from(PREFIX);
    write!(name, "{hash:032x}").expect("writing to a string never fails");
    name
}

impl Client {
    /// Takes the lease of a key for a time, so that one client of the server at a time computes
    /// what belongs to the key. Returns `None` if it is held: try again later, or go on without.
    ///
    /// The lease ends with [`Client::release`], after `time`, rounded up to whole seconds, or if
    /// the server evicts or clears its item, whose key begins with `larder.lease.`. The server does
    /// not notice that the process of a lease has died. It does not matter whether the key has an
    /// item.
    ///
    /// # Errors
    /// As [`Client::set`].
    pub fn lease(
        &self,
        key: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<Option<Lease>, ClientError> {
        check_key(key.as_ref())?;
        let (name, number) = (lease_key(key.as_ref()), random());
        let store =
            ClientStore { ttl: Some(time), ..ClientStore::new(name.as_bytes(), StoreMode::Add) };
        Ok(match self.store(&store, number.to_string().as_bytes())? {
            ClientStored::Stored { cas } => Some(Lease::of_words([cas, number, 0, 0])),
            _ => None,
        })
    }

    /// Ends a lease. Returns false if it had ended before, or is that of another client.
    ///
    /// # Errors
    /// As [`Client::set`]; the lease ends with its time.
    pub fn release(&self, key: impl AsRef<[u8]>, lease: Lease) -> Result<bool, ClientError> {
        let (name, [cas, number, ..]) = (lease_key(key.as_ref()), lease.words());
        if cas != 0 {
            let ask = Ask { cas: Some(cas), ..Ask::of(b"md", name.as_bytes()) };
            return self.inner().change(&ask);
        }
        // A server without cas tokens. Another client may take the lease between the two requests
        // if its time ends there: then that client has none, and a third computes as well.
        let is_ours = self.get(&name)?.is_some_and(|value| value == number.to_string().as_bytes());
        Ok(is_ours && self.delete(&name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_lease_is_the_published_hash() {
        // The test vectors of FNV-1a.
        assert_eq!(lease_key(b""), "larder.lease.6c62272e07bb014262b821756295c58d");
        assert_eq!(lease_key(b"a"), "larder.lease.d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(lease_key(b"foobar"), "larder.lease.343e1662793c64bf6f0d3597ba446f18");
    }
}
