//! Stores with flags, conditions and cas tokens.

use std::time::Duration;

use larder_item::StoreMode;

use super::Client;
use super::ask::Ask;
use super::error::ClientError;
use super::exchange::ExchangeOutcome;

/// A request of [`Client::store`].
#[derive(Clone, Copy, Debug)]
pub struct ClientStore<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// The condition of the store.
    pub mode: StoreMode,
    /// The time to live; `None` for no expiry. Appending and prepending ignore it.
    pub ttl: Option<Duration>,
    /// The client flags. Appending and prepending keep the flags of the item.
    pub flags: u32,
    /// The cas token that the existing item must have, if any.
    pub cas: Option<u64>,
}

/// The outcome of [`Client::store`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientStored {
    /// The item is stored with this cas token; 0 if the server does not use cas tokens.
    Stored {
        /// The token.
        cas: u64,
    },
    /// The condition of the mode did not hold.
    NotStored,
    /// The existing item has another cas token.
    Exists,
    /// The key is absent, and the request has a cas token.
    NotFound,
}

impl<'a> ClientStore<'a> {
    /// Returns a request without a cas token, flags and time to live.
    pub const fn new(key: &'a [u8], mode: StoreMode) -> Self {
        Self { key, mode, ttl: None, flags: 0, cas: None }
    }
}

impl Client {
    /// Stores an item with flags, a condition, or a cas token.
    ///
    /// ```no_run
    /// use larder::{Client, ClientStore, ClientStored, StoreMode};
    ///
    /// let client = Client::connect("/run/larder.sock")?;
    /// let add = ClientStore { flags: 7, ..ClientStore::new(b"k", StoreMode::Add) };
    /// assert!(matches!(client.store(&add, b"v")?, ClientStored::Stored { .. }));
    /// assert_eq!(client.store(&add, b"v")?, ClientStored::NotStored);
    /// # Ok::<(), larder::ClientError>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`Client::set`].
    pub fn store(
        &self,
        store: &ClientStore<'_>,
        value: &[u8],
    ) -> Result<ClientStored, ClientError> {
        let ClientStore { key, mode, flags, cas, .. } = *store;
        let keeps_attributes = matches!(mode, StoreMode::Append | StoreMode::Prepend);
        let ask = Ask {
            mode: Some(mode),
            ttl: (!keeps_attributes).then_some(store.ttl),
            flags: if keeps_attributes { 0 } else { flags },
            cas,
            ..Ask::of(b"ms", key)
        };
        Ok(match self.inner().store(&ask, value)? {
            ExchangeOutcome::Done { cas } => ClientStored::Stored { cas },
            ExchangeOutcome::NotDone => ClientStored::NotStored,
            ExchangeOutcome::Changed => ClientStored::Exists,
            ExchangeOutcome::Missing => ClientStored::NotFound,
        })
    }
}
