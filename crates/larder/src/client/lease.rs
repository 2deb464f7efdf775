//! Leases: only one client of a server at a time performs an expensive computation.
//!
//! A lease is a separate item, which the client stores with an add. Its key is a hash of the key
//! that the lease belongs to, so readers of that key never read the lease, regardless of their
//! protocol.

use std::fmt::Write;
use std::time::Duration;

use larder_engine::Lease;
use larder_item::{StoreMode, check_key};

use super::Client;
use super::ask::Ask;
use super::error::ClientError;
use super::store::{ClientStore, ClientStored};
use crate::system::random::random;

/// Prefix of the keys of leases.
const PREFIX: &str = "larder.lease.";

/// Returns the key of the item that represents the lease of a key: the 128-bit FNV-1a hash of the
/// key, after the prefix.
fn lease_key(key: &[u8]) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash = key.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    let mut name = String::from(PREFIX);
    write!(name, "{hash:032x}").expect("writing to a string never fails");
    name
}

impl Client {
    /// Takes the lease of a key for a time, so that only one client of the server at a time
    /// computes the value of the key. Returns `None` if another caller holds the lease: try again
    /// later, or continue without it.
    ///
    /// The lease ends with [`Client::release`], or after `time`, rounded up to whole seconds. It
    /// also ends if the server evicts or clears its item, whose key begins with `larder.lease.`.
    /// The server does not notice if the process that holds a lease dies. The key may have an item
    /// or not.
    ///
    /// # Errors
    /// Same as [`Client::set`].
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

    /// Ends a lease. Returns false if it had already ended, or belongs to another client.
    ///
    /// # Errors
    /// Same as [`Client::set`]; then the lease ends when its time is over.
    pub fn release(&self, key: impl AsRef<[u8]>, lease: Lease) -> Result<bool, ClientError> {
        let (name, [cas, number, ..]) = (lease_key(key.as_ref()), lease.words());
        if cas != 0 {
            let ask = Ask { cas: Some(cas), ..Ask::of(b"md", name.as_bytes()) };
            return self.inner().change(&ask);
        }
        // The server does not use cas tokens, so this takes two requests. If the lease expires
        // between them and another client takes it, the delete ends the lease of that client, and a
        // third client may compute as well.
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
