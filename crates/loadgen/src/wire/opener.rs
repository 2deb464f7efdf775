//! Opens connections, at the start and after each loss.

use anyhow::Result;

use crate::connect::dialer::Dialer;
use crate::connect::login::{Login, Mechanism};
use crate::options::{Dialect, LoadArguments};
use crate::wire::channel::Channel;

/// Opens connections one at a time.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    dialer: Dialer,
    is_udp: bool,
}

impl Opener {
    /// Reads the certificates and the password of the options.
    ///
    /// # Errors
    /// A file cannot be read, or its content is invalid.
    pub(crate) fn new(arguments: &LoadArguments) -> Result<Self> {
        let address = &arguments.server.server;
        let tls = match arguments.insecure {
            true => arguments.tls.open_insecure(address)?,
            false => arguments.tls.open(address)?,
        };
        // The meta protocol uses the login of the text protocol.
        let mechanism = match arguments.dialect {
            Dialect::Text | Dialect::Meta => Mechanism::Text,
            Dialect::Binary => Mechanism::Sasl,
        };
        let login = Login::new(&arguments.login, mechanism)?;
        Ok(Self { dialer: Dialer::new(address.clone(), tls, login), is_udp: arguments.udp })
    }

    /// Opens a connection for the measured requests.
    ///
    /// # Errors
    /// The server is not reachable or refuses the connection. The message names a remedy.
    pub(crate) fn open(&self) -> Result<Channel> {
        match self.is_udp {
            true => Channel::of_datagrams(self.dialer.address()),
            false => self.open_stream(),
        }
    }

    /// Opens a stream connection, even if the measured requests use datagrams.
    ///
    /// # Errors
    /// Same as [`Self::open`].
    pub(crate) fn open_stream(&self) -> Result<Channel> {
        Channel::of_stream(self.dialer.open()?)
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.dialer.has_tls()
    }
}
