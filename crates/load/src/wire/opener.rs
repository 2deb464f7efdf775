//! What it takes to open a connection: all of them at the start, and anew each that is lost.

use std::sync::Arc;

use anyhow::Result;

use crate::address::Address;
use crate::options::LoadArguments;
use crate::wire::channel::{Channel, Tls};
use crate::wire::login::Login;

/// Opens connections, and waits for each.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    address: Address,
    tls: Option<Tls>,
    login: Option<Arc<Login>>,
    is_udp: bool,
}

impl Opener {
    /// # Errors
    /// A file cannot be read, or what is in it is not what it should be.
    pub(crate) fn new(arguments: &LoadArguments) -> Result<Self> {
        Ok(Self {
            address: arguments.server.server.clone(),
            tls: Tls::new(arguments)?,
            login: Login::new(arguments)?.map(Arc::new),
            is_udp: arguments.udp,
        })
    }

    /// Opens what requests are measured on.
    ///
    /// # Errors
    /// The server is not there, or does not want us; what to do about it.
    pub(crate) fn open(&self) -> Result<Channel> {
        match self.is_udp {
            true => Channel::of_datagrams(&self.address),
            false => self.open_stream(),
        }
    }

    /// The same, but never for datagrams.
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
