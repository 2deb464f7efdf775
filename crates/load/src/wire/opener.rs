//! Opens connections, at the start and after each loss.

use std::sync::Arc;

use anyhow::Result;

use crate::address::Address;
use crate::options::LoadArguments;
use crate::wire::channel::{Channel, Tls};
use crate::wire::login::Login;

/// Opens connections and waits for each.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    address: Address,
    tls: Option<Tls>,
    login: Option<Arc<Login>>,
    is_udp: bool,
}

impl Opener {
    /// Reads the certificates and the password of the options.
    ///
    /// # Errors
    /// A file cannot be read, or its content is invalid.
    pub(crate) fn new(arguments: &LoadArguments) -> Result<Self> {
        Ok(Self {
            address: arguments.server.server.clone(),
            tls: Tls::new(arguments)?,
            login: Login::new(arguments)?.map(Arc::new),
            is_udp: arguments.udp,
        })
    }

    /// Opens a connection for the measured requests.
    ///
    /// # Errors
    /// The server is not reachable or refuses the connection. The message names a remedy.
    pub(crate) fn open(&self) -> Result<Channel> {
        match self.is_udp {
            true => Channel::of_datagrams(&self.address),
            false => self.open_stream(),
        }
    }

    /// Opens a stream connection, even if the measured requests go by datagrams.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub(crate) fn open_stream(&self) -> Result<Channel> {
        Channel::open(&self.address, self.tls.as_ref(), self.login.as_deref())
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }
}
